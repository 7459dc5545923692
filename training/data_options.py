"""Says where sentence pairs come from, and which of them are used: the section `data` of a config.

Knows names and limits; `corpora` reads, `data` cleans and `mixing` draws.
"""

from dataclasses import dataclass, replace

from .checked import at_least


TOY = "toy"

Files = str | list[str]


def check_share(share: float | None) -> None:
    if share is not None and not 0 <= share <= 1:
        raise ValueError(f"plain_share must lie between 0 and 1; got {share}")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One corpus of several that are mixed for training."""

    files: Files
    """As `train` of one corpus."""
    weight: float = 1.0
    """How often each of its pairs is given: 2 gives each twice, 0.3 three of ten, drawn by
    `data.seed`."""
    max_words: int | None = None
    """Instead of that of `data`; so is the next."""
    plain_share: float | None = None

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise ValueError(f"weight must be above 0; got {self.weight}")
        at_least("max_words", self.max_words, 1)
        check_share(self.plain_share)


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Where the sentence pairs come from, and which of them are used."""

    train: Files | list[Part] | None = None
    """Two aligned text files `[source, target]`; or one .jsonl, .json, .csv, .tsv or .parquet file;
    or, with `dataset`, the name of a split; or a list of corpora with weights, see `Part`. Paths
    are relative to where the command is run."""
    dev: Files | None = None
    test: Files | None = None
    dataset: str | None = None
    """A dataset on the hub, or a folder `datasets` can load; `toy` generates one."""
    subset: str | None = None
    source_column: str = "source"
    """A dot reaches into a nested column: `translation.de`."""
    target_column: str = "target"
    source_language: str = "de"
    target_language: str = "en"
    max_tokens: int = 128
    """Pairs with more tokens than this on either side, `</s>` included, are dropped."""
    max_ratio: float | None = None
    """Pairs one side of which has this many times the tokens of the other are dropped."""
    max_words: int | None = None
    """Training pairs with more source words than this are dropped; words are what spaces part. The
    target has no such limit: it would keep the short translations of long sentences, and a model
    learns to be as short."""
    plain_share: float = 0.0
    """This share of the training pairs, drawn by `seed`, is given a second time with the source in
    lower case and without punctuation, as recognisers of speech send it."""
    seed: int = 1
    """Of what is drawn from the training pairs."""
    drop_duplicates: bool = True
    drop_dev_overlap: bool = False
    """Drop the training pairs whose source is one of the dev or test set's, instead of refusing to
    start where a whole pair is."""
    description: str | None = None
    """What the model's card calls the data."""
    licence: str | None = None
    """The licence of the data, for the card."""
    attribution: str | None = None
    """Whom that licence asks to be named, for the card."""
    cache: str | None = None
    """Where tokenised data is kept; by default the cache folder of `datasets`."""

    def __post_init__(self) -> None:
        for split in ("train", "dev"):
            if getattr(self, split) is None and self.dataset != TOY:
                raise ValueError(
                    f"{split} is missing: give two text files [source, target], a data file, or a "
                    f"split"
                )
        for part in self.parts:
            self._check_files("train", part.files)
        for split in ("dev", "test"):
            self._check_files(split, getattr(self, split))
        at_least("max_tokens", self.max_tokens, 2)
        at_least("max_words", self.max_words, 1)
        at_least("max_ratio", self.max_ratio, 1)
        check_share(self.plain_share)

    def _check_files(self, split: str, files: Files | None) -> None:
        if isinstance(files, list) and len(files) != 2:
            raise ValueError(
                f"{split} as a list is [source file, target file]; got {len(files)} entries"
            )
        if isinstance(files, list) and self.dataset is not None:
            raise ValueError(
                f"with dataset {self.dataset!r}, {split} is the name of a split; got a list of "
                f"files"
            )

    @property
    def parts(self) -> list[Part]:
        """The corpora of the training set, each with what holds for it."""
        if self.train is None:
            return [Part(files=TOY)] if self.dataset == TOY else []
        if isinstance(self.train, str):
            given = [Part(files=self.train)]
        else:
            files = [entry for entry in self.train if isinstance(entry, str)]
            given = [entry for entry in self.train if isinstance(entry, Part)]
            given = given or [Part(files=files)]
        return [
            replace(
                part,
                max_words=self.max_words if part.max_words is None else part.max_words,
                plain_share=self.plain_share if part.plain_share is None else part.plain_share,
            )
            for part in given
        ]
