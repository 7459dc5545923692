"""The task `simultaneous-translation` for transformers' `pipeline`: whole texts as usual, and
streams of words.

Knows transformers' pipelines and the set its model came from; the translating is done elsewhere.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from transformers.pipelines.base import Pipeline

from .text import whole_sentences
from .text_session import TextEvent, TextSession, choose_policy, source_text


if TYPE_CHECKING:
    # transformers brings along what is named in an import; a set that is saved again needs this.
    from .custom_generation import generate as generate
    from .generation import AdaptiveWaitKGenerator


TASK = "simultaneous-translation"
CHOICES = ("policy", "k", "rho")
AT_ONCE = 32  # sentences that are decoded together

_Sentence: TypeAlias = tuple[list[int], list[int]]
"""Its tokens, and after how many of them there is nothing to decide."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A text's sentences. No list itself: lists are what transformers makes of several texts."""

    sentences: list[_Sentence]


class SimultaneousTranslationPipeline(Pipeline):
    """German words in, English words out, before the sentence is over.

        pipe = pipeline("simultaneous-translation", model="a set of wait-k models, or a single
        checkpoint") pipe("ein Satz")["translation_text"] for event in pipe.stream(words): ...

    `source_language` and `target_language` name the languages of a model that has many.
    Options, here or in a call: `policy` (a name such as "wait-k", or a policy), `k`, `rho` (first
    threshold and last), and what `AdaptiveWaitKGenerator.generate` takes, on top of `for_text()`:
    early stops are off unless `early_stop=True`, the tail is the set's own."""

    _load_tokenizer = True
    _load_processor = _load_image_processor = _load_video_processor = _load_feature_extractor = (
        False
    )

    def __init__(
        self,
        model: Any,
        *args: Any,
        latency: str | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(model, *args, **kwargs)
        languages = {"source_language": source_language, "target_language": target_language}
        given = {name: code for name, code in languages.items() if code is not None}
        self.generator = _generator(model, self.tokenizer, latency, given)
        self.model = self.generator.model  # the one that was loaded to get here is in the set too

    def __call__(self, inputs: Any, *args: Any, **options: Any) -> Any:
        """A text, or texts of any number: none are answered with none, where transformers looks at
        the first."""
        if isinstance(inputs, list) and not inputs:
            return []
        return super().__call__(inputs, *args, **options)

    def _sanitize_parameters(
        self, **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if options.get("return_dict_in_generate"):
            raise ValueError(
                f"the pipeline gives text; got return_dict_in_generate="
                f"{options['return_dict_in_generate']!r}. Leave it out, and take stream() for "
                "events or pipe.generator.generate() for tokens"
            )
        return {}, options, {}

    def preprocess(self, text: str) -> dict[str, Any]:
        """A text to its sentences, each tokens, and after how many of them nothing is decided."""
        if not isinstance(text, str):
            raise TypeError(
                f"the pipeline takes a text or a list of texts, and stream() words; got {text!r}"
            )
        source = source_text(self.generator)
        pieces = [*source.push_text(text), *source.flush()]
        parts = (part for whole in whole_sentences(pieces) for part in self._parts(*whole))
        return {"text": _Text(list(parts))}

    def _parts(self, tokens: list[int], undecided: list[int]) -> Iterator[_Sentence]:
        """A sentence; one with a word too long for the models in parts, as `TextEvents.parts`."""
        *tokens, end = tokens
        room = self.generator.position_limit - 1
        for start in range(0, len(tokens), room):
            places = [place - start for place in undecided if start < place <= start + room]
            yield [*tokens[start : start + room], end], places

    def _forward(self, inputs: dict[str, Any], **options: Any) -> dict[str, Any]:
        given: _Text | list[_Text] = inputs["text"]
        texts = given if isinstance(given, list) else [given]
        written = self._written([row for text in texts for row in text.sentences], options)
        rows = [list(islice(written, len(text.sentences))) for text in texts]
        return {"sequences": rows if isinstance(given, list) else rows[0]}

    def _written(self, sentences: list[_Sentence], options: dict[str, Any]) -> Iterator[list[int]]:
        """Translations, some sentences at a time: memory must not grow with the text."""
        options = self.generator.for_text(**self._settled(options))
        for start in range(0, len(sentences), AT_ONCE):
            sources, undecided = zip(*sentences[start : start + AT_ONCE], strict=True)
            rows: Any = self.generator.generate(sources, undecided=undecided, **options)
            yield from rows.tolist()

    def postprocess(self, outputs: dict[str, Any]) -> dict[str, str]:
        """The translation, under the name that transformers' translation pipelines had for it."""
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        texts = [self.tokenizer.decode(row, **options) for row in outputs["sequences"]]
        return {"translation_text": " ".join(" ".join(texts).split())}

    def stream(
        self, source: str | Iterable[str], *, fragments: bool = False, **options: Any
    ) -> Iterator[TextEvent]:
        """Translate words as they arrive; yields READ, WRITE and END events the moment they
        happen."""
        return self.session(**options).stream(source, fragments=fragments)

    def astream(
        self,
        source: str | Iterable[str] | AsyncIterable[str],
        *,
        fragments: bool = False,
        **options: Any,
    ) -> AsyncIterator[TextEvent]:
        """The same for asynchronous code."""
        return self.session(**options).astream(source, fragments=fragments)

    def session(self, **options: Any) -> TextSession:
        """A live translation to push words into."""
        return TextSession(self.generator, **self._settled({**self._forward_params, **options}))

    def save_pretrained(self, save_directory: Any, **kwargs: Any) -> None:
        """Save the whole set, this pipeline's code included."""
        self.generator.save_pretrained(save_directory, **kwargs)

    def _settled(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options with a policy in place of the plain values that name one."""
        choice = {name: options[name] for name in CHOICES if options.get(name) is not None}
        rest = {name: value for name, value in options.items() if name not in CHOICES}
        if callable(choice.get("policy")):
            return {"policy": choice["policy"], **rest}
        named = {"name": choice.pop("policy", None), **choice}
        return {"policy": choose_policy(self.generator, **named), **rest}


def _generator(
    model: Any, tokenizer: Any, latency: str | None, languages: dict[str, Any]
) -> "AdaptiveWaitKGenerator":
    """The set that `model` was loaded from, with the model in it; a model that came from no set
    serves every k alone."""
    from .generation import AdaptiveWaitKGenerator
    from .loading import load_origin, share_encoders

    generator = load_origin(AdaptiveWaitKGenerator, model, latency=latency, **languages)
    if generator is not None:
        share_encoders([generator.model, *generator.models.values()])
    elif latency is not None:
        raise ValueError(
            f"latency names an operating point of a set, and {model.name_or_path or 'this model'!r}"
            " is not a set"
        )
    else:
        generator = AdaptiveWaitKGenerator(model, tokenizer, **languages)
    generator.tokenizer = tokenizer
    return generator
