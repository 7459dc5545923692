"""Make transformers' Auto classes and `pipeline` know ours, without importing transformers before
anyone asks for it.

Knows the names of our classes and the tables in which transformers keeps its own, nothing else. The
tables take names, not classes: transformers fills them in the middle of circular imports, where
importing a model of ours would fail."""

import logging
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


_MODEL_TYPE, _CONFIG = "simultaneous-mt", "SimultaneousConfig"
_CLASSES = {
    _CONFIG: "configuration_simultaneous",
    "SimultaneousModel": "modeling_simultaneous",
    "SimultaneousMTModel": "modeling_simultaneous",
}


class _Ours:
    """Stands where transformers keeps the module of a model type; imports a class when it is asked
    for."""

    def __getattr__(self, name: str) -> Any:
        if name not in _CLASSES:
            raise AttributeError(f"the Auto classes know {', '.join(_CLASSES)}; got {name!r}")
        return getattr(import_module(f".{_CLASSES[name]}", __package__), name)


class _NotHere:
    """Hides the `custom_pipelines` of a config from `pipeline`, which would run that code instead
    of the one here.

    A saved set names its own copy of the pipeline for where this package is not installed; using it
    takes `trust_remote_code=True`, which nobody should need for code that is here already."""

    def __get__(self, config: Any, kind: Any = None) -> Any:
        raise AttributeError("custom_pipelines")

    def __set__(self, config: Any, value: Any) -> None:
        pass


def register_config(auto: ModuleType) -> None:
    """`AutoConfig` (and so `AutoTokenizer`) recognises the model type."""
    auto.CONFIG_MAPPING_NAMES[_MODEL_TYPE] = _CONFIG
    auto.CONFIG_MAPPING._modules[auto.model_type_to_module_name(_MODEL_TYPE)] = _Ours()


def register_models(auto: ModuleType) -> None:
    """`AutoModel` and `AutoModelForSeq2SeqLM` load it."""
    for table, name in (
        (auto.MODEL_MAPPING, "SimultaneousModel"),
        (auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, "SimultaneousMTModel"),
    ):
        table._model_mapping[_MODEL_TYPE] = name
        table._reverse_config_mapping[_CONFIG] = _MODEL_TYPE
        table._modules[_MODEL_TYPE.replace("-", "_")] = _Ours()


def hide_custom_pipelines(configuration: ModuleType) -> None:
    """`pipeline` takes the code that is installed."""
    configuration.SimultaneousConfig.custom_pipelines = _NotHere()


def load_pipeline(pipelines: ModuleType) -> None:
    """Import our pipeline right after transformers' own; where ours was imported first, it is
    already on its way, and nothing happens."""
    import_module(".pipelines", __package__)


class Quietly:
    """transformers' Auto class as `pipeline` calls it, without a bar for one of a set's models."""

    @staticmethod
    def from_pretrained(*args: Any, **options: Any) -> Any:
        from transformers import AutoModelForSeq2SeqLM

        from .quiet import without_bars

        with without_bars():
            return AutoModelForSeq2SeqLM.from_pretrained(*args, **options)


def register_pipeline(ours: ModuleType) -> None:
    """`pipeline("simultaneous-translation", model=...)` makes one; without a model, of the set in
    the package."""
    from transformers import AutoConfig, AutoModelForSeq2SeqLM
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING
    from transformers.pipelines import PIPELINE_REGISTRY

    from .named import NamedSet, NamedSetConfig, NamedSetTokenizer
    from .quiet import unless_defaulted_to
    from .sets import BUILTIN

    AutoConfig.register(NamedSetConfig.model_type, NamedSetConfig, exist_ok=True)
    AutoModelForSeq2SeqLM.register(NamedSetConfig, NamedSet, exist_ok=True)
    TOKENIZER_MAPPING.register(NamedSetConfig, NamedSetTokenizer, exist_ok=True)

    PIPELINE_REGISTRY.register_pipeline(
        ours.TASK,
        ours.SimultaneousTranslationPipeline,
        pt_model=Quietly,
        default={"model": (str(BUILTIN), "main")},
        type="text",
    )
    logging.getLogger("transformers.pipelines").addFilter(unless_defaulted_to(str(BUILTIN)))


_REGISTRATIONS: dict[str, Callable[[ModuleType], None]] = {
    "transformers.models.auto.configuration_auto": register_config,
    "transformers.models.auto.modeling_auto": register_models,
    "transformers.pipelines": load_pipeline,
    f"{__package__}.pipelines": register_pipeline,
    f"{__package__}.configuration_simultaneous": hide_custom_pipelines,
}


class _RegisterWhenImported(MetaPathFinder):
    """Runs a registration right after the module it belongs to; so `import hf_simultaneous` itself
    stays light."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        register = _REGISTRATIONS.get(fullname)
        spec = PathFinder.find_spec(fullname, path, target) if register else None
        if register is None or spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_register(module: ModuleType) -> None:
            load(module)
            register(module)

        spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Register now what transformers has already loaded, and the rest at the moment it does."""
    for name, register in _REGISTRATIONS.items():
        if name in sys.modules:
            register(sys.modules[name])
    sys.meta_path.insert(0, _RegisterWhenImported())
