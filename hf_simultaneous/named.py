"""A set that only names its model, as transformers' `pipeline` opens it: by a config that says so.

Knows transformers' Auto classes; the set itself is loaded as any other."""

from typing import Any

from transformers import AutoTokenizer, PretrainedConfig

from .places import set_folder
from .sets import NAMED, saved_config


HUB = ("revision", "token", "cache_dir", "local_files_only")


class NamedSetConfig(PretrainedConfig):
    """Stands in the folder of the set; the models have configs of their own, elsewhere."""

    model_type = NAMED


class NamedSet:
    """Loads the member that speaks for the set."""

    config_class = NamedSetConfig

    @classmethod
    def from_pretrained(cls, name: str, *_: Any, config: NamedSetConfig, **options: Any) -> Any:
        """The model that the set names. It says that it came from the set, at this commit."""
        from .generation import AdaptiveWaitKGenerator

        given = {one: options[one] for one in (*HUB, "dtype") if options.get(one) is not None}
        model = AdaptiveWaitKGenerator.from_pretrained(name, **given).model
        model.name_or_path = name
        model.config._commit_hash = getattr(config, "_commit_hash", None)
        return model


class NamedSetTokenizer:
    """Loads the tokenizer of that member."""

    @classmethod
    def from_pretrained(cls, name: str, *_: Any, **options: Any) -> Any:
        """The tokenizer that the set's models share."""
        hub = {one: options.get(one) for one in HUB}
        revision = hub.pop("revision")
        members = saved_config(set_folder(name, revision, hub))["members"]
        place = next(one for one in members.values() if "repo" in one)
        return AutoTokenizer.from_pretrained(place["repo"], revision=place.get("revision"), **hub)
