"""`model.generate(custom_generate=<set>)`: transformers' own door to a set's policy.

Knows how a loaded model leads to the set it came from; decoding is `generation`'s business.
"""

from typing import Any

from .generation import AdaptiveWaitKGenerator
from .loading import load_origin


def generate(
    *positional: Any,
    model: Any,
    input_ids: Any = None,
    inputs: Any = None,
    adaptive_set: str | None = None,
    custom_generate: str | None = None,
    trust_remote_code: bool | None = None,
    **kwargs: Any,
) -> Any:
    """`model.generate(custom_generate=<set>)`: decode with the set `adaptive_set`, or the one
    `model` came from.

    The set is loaded once and stays on the model, which speaks in it as it is now; a model that
    came from no set serves every k alone. `custom_generate` and `trust_remote_code` are not used:
    transformers passes them on when it calls the copy of this function that lies in a set."""
    source = next((given for given in (*positional, input_ids, inputs) if given is not None), None)
    if source is None:
        raise ValueError("give the source sentence as input_ids")
    sets = model.__dict__.setdefault("_adaptive_sets", {})
    if adaptive_set not in sets:
        sets[adaptive_set] = _set_of(model, adaptive_set)
    generator = sets[adaptive_set]
    kinds = {(member.device, member.dtype) for member in generator.models.values()}
    if kinds != {(model.device, model.dtype)}:
        generator.to(model.device, model.dtype)
    return generator.generate(
        source, **{name: value for name, value in kwargs.items() if value is not None}
    )


def _set_of(model: Any, named: str | None) -> AdaptiveWaitKGenerator:
    if named:
        return AdaptiveWaitKGenerator.from_pretrained(named)
    return load_origin(AdaptiveWaitKGenerator, model) or AdaptiveWaitKGenerator(model)
