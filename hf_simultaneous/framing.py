"""What a family puts around a source and before a target: tokens that name languages, mostly.

Knows token ids, a model's settings and a tokenizer it is given; runs nothing. What stands here is
encoded or forced, and counts in no lag and no delay."""

from dataclasses import dataclass, replace
from typing import Any

from .languages import (
    check_language,
    check_tokenizer,
    named_in_source,
    some_of,
    spoken_by_decoder,
)


@dataclass(frozen=True)
class Framing:
    """`before` and `after` stand around the source, `after` behind its end mark; `prompt` begins
    every target, the decoder's start token first."""

    prompt: tuple[int, ...]
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError("a target begins with the decoder's start token; got an empty prompt")

    @property
    def room(self) -> int:
        """Positions that are lost to the source or to the target, whichever loses more."""
        return max(len(self.before) + len(self.after), len(self.prompt) - 1)

    def put_on(self, source: list[int], ended: bool = True) -> list[int]:
        """What is encoded for a source, or for the beginning of one that has not ended."""
        return [*self.before, *source, *(self.after if ended else ())]

    def taken_off(self, source: list[int]) -> list[int]:
        """A source as a tokenizer gives it, without the frame if it has one."""
        if self.before and tuple(source[: len(self.before)]) == self.before:
            source = source[len(self.before) :]
        if self.after and tuple(source[-len(self.after) :]) == self.after:
            source = source[: -len(self.after)]
        return source


def framing_for(
    model: Any,
    tokenizer: Any = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Framing:
    """The frame that follows from a model's settings, its tokenizer and the languages asked for.

    A tokenizer that marks its source's language is set to `source_language`."""
    check_tokenizer(tokenizer)
    framing = Framing(_prompt(model))
    asked = source_language is not None or target_language is not None
    if tokenizer is None:
        if asked:
            raise ValueError(
                "languages are named by tokens of a tokenizer, and there is none; give one, or "
                "leave out source_language and target_language"
            )
        return framing
    decoder = spoken_by_decoder(tokenizer)
    if decoder and hasattr(tokenizer, "src_lang"):
        if source_language is not None:
            check_language("source_language", source_language, list(decoder))
            tokenizer.src_lang = source_language
        framing = _around(framing, tokenizer)
        return _spoken(framing, model, decoder, target_language)
    if model.config.model_type != "simultaneous-mt":
        framing = _around(framing, tokenizer)
        asked = asked or bool(named_in_source(tokenizer))  # it must be asked for one
    if not asked:
        return framing
    return replace(framing, before=_request(model, tokenizer, source_language, target_language))


def tells_languages(model: Any, tokenizer: Any, source: str, target: str) -> bool:
    """Must this model be told which languages it translates, or can it be told this pair?"""
    spoken = spoken_by_decoder(tokenizer) and hasattr(tokenizer, "src_lang")
    return bool(spoken or named_in_source(tokenizer)) or f"{source}-{target}" in _pairs(model)


def _prompt(model: Any) -> tuple[int, ...]:
    start = model.config.decoder_start_token_id
    if start is None:
        start = getattr(model.generation_config, "decoder_start_token_id", None)
    if start is None:
        raise ValueError(
            "the model has no decoder_start_token_id, so no target can begin; set it in its config"
        )
    forced = getattr(model.generation_config, "forced_bos_token_id", None)
    return (start,) if forced is None else (start, forced)


def _around(framing: Framing, tokenizer: Any) -> Framing:
    """The same with what the tokenizer puts around a text, found by tokenising one."""
    whole = tokenizer("a")["input_ids"]
    text = tokenizer("a", add_special_tokens=False)["input_ids"]
    places = [at for at in range(len(whole)) if whole[at : at + len(text)] == text]
    if not text or not places:
        return framing
    before, behind = whole[: places[0]], whole[places[0] + len(text) :]
    return replace(framing, before=tuple(before), after=tuple(behind[1:]))


def _spoken(
    framing: Framing, model: Any, languages: dict[str, int], target_language: str | None
) -> Framing:
    """The same with the target language's token where the decoder begins."""
    named = framing.prompt[-1] in languages.values()
    if target_language is None:
        if named:
            return framing
        raise ValueError(
            f"this model speaks {len(languages)} languages: say which with target_language= (and "
            f"source_language=); they are {some_of(list(languages))}"
        )
    check_language("target_language", target_language, list(languages))
    language = languages[target_language]
    if framing.after and model.config.model_type != "m2m_100":  # as mBART was before mBART-50
        return replace(framing, prompt=(language,))
    return replace(framing, prompt=(framing.prompt[0], language))


def _request(
    model: Any, tokenizer: Any, source_language: str | None, target_language: str | None
) -> tuple[int, ...]:
    """What asks for a language at the beginning of the source: a token of its own, or a text that
    the model's settings hold for that pair (T5)."""
    languages = named_in_source(tokenizer)
    if languages:
        if source_language is not None:  # such models need not be told
            check_language("source_language", source_language, list(languages))
        check_language("target_language", target_language, list(languages))
        return _tokens_of(tokenizer, languages, str(target_language))
    pairs = _pairs(model)
    pair = f"{source_language}-{target_language}"
    if not pairs:
        argument = "source_language" if target_language is None else "target_language"
        check_language(argument, target_language or source_language, [])
    check_language("the pair of languages", pair, list(pairs))
    return tuple(tokenizer(pairs[pair], add_special_tokens=False)["input_ids"])


def _tokens_of(tokenizer: Any, languages: dict[str, int], language: str) -> tuple[int, ...]:
    """The language's token, and whatever the tokenizer puts before it."""
    token = languages[language]
    written = str(tokenizer.convert_ids_to_tokens(token))
    ids = tokenizer(f"{written} a", add_special_tokens=False)["input_ids"]
    return tuple(ids[: ids.index(token) + 1]) if token in ids else (token,)


def _pairs(model: Any) -> dict[str, str]:
    """T5's tasks: `translation_en_to_de` and the text that asks for it."""
    tasks = getattr(model.config, "task_specific_params", None) or {}
    return {
        name.removeprefix("translation_").replace("_to_", "-"): str(settings["prefix"])
        for name, settings in tasks.items()
        if name.startswith("translation_") and "prefix" in (settings or {})
    }
