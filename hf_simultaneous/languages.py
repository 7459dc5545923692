"""Which languages a tokenizer has tokens for, and by what names.

Knows how families write such tokens; not what is done with them."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from os.path import commonprefix
from typing import Any


# In the source, before the text: MADLAD's <2en>, Marian's >>eng<<.
_IN_SOURCE = re.compile(r"<2(\w+)>|>>([\w-]+)<<")
# Of the decoder and of the source: M2M100's __en__, NLLB's eng_Latn, mBART's en_XX.
_SPECIAL = re.compile(r"__(\w+?)__|([a-z]{2,3}_[A-Z][A-Za-z]{1,3})")
_SHOWN = 8


def spoken_by_decoder(tokenizer: Any) -> dict[str, int]:
    """Languages whose token the decoder begins with, and their ids."""
    own = getattr(tokenizer, "lang_code_to_token", None)  # M2M100's are in no vocabulary
    tokens = own.values() if own else _special_tokens(tokenizer)
    found = {_code(_SPECIAL, token): token for token in map(str, tokens)}
    return {
        code: tokenizer.convert_tokens_to_ids(token)
        for code, token in sorted(found.items())
        if code
    }


def named_in_source(tokenizer: Any) -> dict[str, int]:
    """Languages that are asked for by a token before the source, and its id."""
    vocabulary = tokenizer.get_vocab()
    found = {_code(_IN_SOURCE, token): token for token in vocabulary if token[:1] in "<>"}
    return {code: vocabulary[token] for code, token in sorted(found.items()) if code}


def _special_tokens(tokenizer: Any) -> list[str]:
    added = [str(token) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()]
    return [*tokenizer.all_special_tokens, *added]


def _code(pattern: re.Pattern[str], token: str) -> str:
    match = pattern.fullmatch(token)
    return next(filter(None, match.groups()), "") if match else ""


def check_tokenizer(tokenizer: Any) -> None:
    """Refuse what is not one tokenizer of transformers; none at all is fine."""
    if tokenizer is None or callable(getattr(tokenizer, "get_vocab", None)):
        return
    raise ValueError(
        f"tokenizer is one tokenizer of transformers, for source and target alike; got "
        f"{type(tokenizer).__name__}. Two vocabularies fit into one where it knows both sides, as "
        f"MarianTokenizer(..., separate_vocabs=True) does; a pair of tokenizers is not supported"
    )


def check_language(argument: str, given: Any, known: Sequence[str]) -> None:
    """Refuse a code that is not known, and name those that are near."""
    if given in known:
        return
    if not known:
        raise ValueError(
            f"this tokenizer has no tokens for languages, so {argument} says nothing to the model; "
            f"got {given!r}. Leave it out"
        )
    if not isinstance(given, str):
        raise ValueError(f"{argument} is a code such as {some_of(known)}; got {given!r}")
    raise ValueError(
        f"{argument} must be one of the model's {len(known)} languages; got {given!r}. "
        f"Did you mean: {', '.join(close_to(given, known))}"
    )


def close_to(given: str, known: Sequence[str]) -> list[str]:
    """The codes that may have been meant, the likeliest first: those that begin alike."""

    def unlike(code: str) -> tuple[int, float]:
        pair = given.lower(), code.lower()
        return -len(commonprefix(pair)), -SequenceMatcher(None, *pair).ratio()

    return sorted(known, key=unlike)[:_SHOWN]


def some_of(known: Sequence[str]) -> str:
    """A few of many."""
    return ", ".join([*known[:_SHOWN], *["..."] * (len(known) > _SHOWN)])
