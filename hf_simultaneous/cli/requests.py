"""What the command line may ask for: a frozen request a command, each field an option of it.

Knows names, help and which options go together; the work is done elsewhere, and nothing slow is
imported."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..policies import NAMES, make_policy, meant
from ..schedule import check_at_least_one
from ..text_session import check_latency_alone, choose_policy
from .options import (
    BatchSize,
    EarlyStop,
    Limit,
    Model,
    Quantize,
    Reads,
    References,
    SetOfModels,
    Source,
    SourceLanguage,
    Tail,
    TailBeams,
    TargetLanguage,
    Timed,
)
from .own_policy import check_name, file_of, is_own, load_policy


if TYPE_CHECKING:
    from ..actions import Policy
    from ..evaluation.decoding import Decoding
    from ..generation import AdaptiveWaitKGenerator


POLICIES = (
    "adaptive (the default), wait-k, test-time-wait-k, wait-if-diff, wait-if-worse, "
    "local-agreement, hold-n, align-att, ps-future, full, or one of your own as FILE.py:NAME; see "
    "docs/policies.md."
)


ENSEMBLES = ("single", "top-3", "all")


@dataclass(frozen=True, kw_only=True)
class PolicyChoice:
    """Which policy, in the words of the command line. Which of them takes which option, and what is
    usual, is `make_policy`'s business."""

    policy: Annotated[str | None, typer.Option(help=POLICIES)] = None
    k: Annotated[
        int | None, typer.Option(help="Tokens that wait-k waits for; alone it means wait-k.")
    ] = None
    rho: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="FIRST LAST",
            help="Two thresholds of the adaptive policy, at its smallest and its largest k, as in "
            "--rho 0.9 0.1; by default the set's own.",
        ),
    ] = None
    latency: Annotated[
        str | None, typer.Option(help="An operating point of the set: low, medium, high, ...")
    ] = None
    start: Annotated[int | None, typer.Option(help="Tokens read first by wait-if-*.")] = None
    delta: Annotated[int | None, typer.Option(help="How much further wait-if-* look.")] = None
    n: Annotated[
        int | None, typer.Option(help="Contexts of local-agreement; tokens that hold-n holds back.")
    ] = None
    step: Annotated[
        int | None, typer.Option(help="Tokens between contexts of local-agreement.")
    ] = None
    border: Annotated[int | None, typer.Option(help="Last source tokens that align-att minds.")] = (
        None
    )
    layer: Annotated[
        int | None, typer.Option(help="Decoder layer of align-att; -1 is the last.")
    ] = None
    threshold: Annotated[float | None, typer.Option(help="Distance of ps-future, 0 to 1.")] = None
    close: Annotated[
        bool,
        typer.Option(
            "--close",
            help="Show local-agreement, hold-n, align-att, ps-future an end mark after each "
            "prefix.",
        ),
    ] = False

    def __post_init__(self) -> None:
        check_latency_alone(self.latency, self.policy, k=self.k, rho=self.rho)
        given = [f"--{name}" for name, value in self.options.items() if value is not None]
        if is_own(self.policy) and given:
            raise ValueError(
                f"a policy of your own takes no options; leave out {', '.join(given)}, and set it "
                f"in the file: {self.policy}"
            )
        named = self.policy or ("adaptive" if self.k is None else "wait-k")
        check_name(named, NAMES)
        if not is_own(self.policy) and (given or named != "adaptive"):
            make_policy(named, **self.options)  # says what is wrong; the set's comes later

    @property
    def options(self) -> Mapping[str, Any]:
        """What `make_policy` is given besides a name; a flag that is not set was not given."""
        values = {name: None if value is False else value for name, value in asdict(self).items()}
        del values["policy"], values["latency"]
        return values

    def maker(self) -> "Callable[[AdaptiveWaitKGenerator], Policy]":
        """Makes the policy for a set. One of the user's own is loaded at once, before any model."""
        if self.policy is not None and is_own(self.policy):
            own = load_policy(self.policy)
            return lambda generator: own
        return lambda generator: choose_policy(generator, self.policy, **self.options)

    @property
    def settings(self) -> dict[str, Any]:
        """As results keep them; a policy of one's own is known by what its file holds."""
        settings = asdict(self)
        if self.policy is not None and is_own(self.policy):
            settings["file"] = sha256(file_of(self.policy).read_bytes()).hexdigest()
        return settings


DEFAULT_POLICY = PolicyChoice()


@dataclass(frozen=True, kw_only=True)
class Languages:
    """For models of many languages; others need not be told."""

    source_language: SourceLanguage = None
    target_language: TargetLanguage = None

    def __bool__(self) -> bool:
        return self.source_language is not None or self.target_language is not None


DEFAULT_LANGUAGES = Languages()


@dataclass(frozen=True, kw_only=True)
class TranslateRequest:
    """What is to be translated, with what, and how it is to be shown."""

    text: Annotated[
        list[str] | None,
        typer.Argument(help="What to translate; without it, standard input, while it arrives."),
    ] = None
    file: Annotated[Path | None, typer.Option(help="Translate this text file instead.")] = None
    model: Model = None
    languages: Languages = DEFAULT_LANGUAGES
    quantize: Quantize = None
    choice: PolicyChoice = DEFAULT_POLICY
    tail_beams: TailBeams = None
    show: Annotated[
        bool,
        typer.Option(
            "--show",
            help="Watch both lines, READ and WRITE, grow; at a keyboard that is what happens.",
        ),
    ] = False
    jsonl: Annotated[bool, typer.Option("--jsonl", help="A line of JSON for every event.")] = False
    pieces: Annotated[
        bool, typer.Option("--pieces", help="With --jsonl: parts of words as they are written too.")
    ] = False
    lines: Annotated[
        bool,
        typer.Option(
            "--lines", help="Every line is a sentence; without it an empty line ends one."
        ),
    ] = False
    silence: Annotated[
        float | None, typer.Option(help="Seconds without input after which a sentence is over.")
    ] = None
    server: Annotated[
        str | None,
        typer.Option(metavar="ws://HOST:PORT", help="Let a server translate, not this machine."),
    ] = None

    def __post_init__(self) -> None:
        if self.text and self.file:
            raise ValueError(
                f"give a text or --file, not both; got {' '.join(self.text)!r} and {self.file}"
            )
        if self.show and self.jsonl:
            raise ValueError("--show is for people and --jsonl for programs; choose one")
        if self.pieces and not self.jsonl:
            raise ValueError("--pieces adds events to --jsonl; give both, or leave it out")
        if self.silence is not None and not self.silence > 0:
            raise ValueError(
                f"--silence is a number of seconds above 0; got {self.silence:g}. Leave it out, "
                f"and no pause ends a sentence"
            )
        if self.server:
            self._check_server(self.server)

    def _check_server(self, server: str) -> None:
        for address in server.split(","):
            if not address.startswith(("ws://", "wss://")):
                raise ValueError(
                    f"--server is ws://HOST:PORT or wss://HOST, or several with commas between "
                    f"them; got {address!r}. Did you mean ws://{address.rpartition('//')[2]}?"
                )
        if self.model or self.quantize or self.languages or self.tail_beams is not None:
            raise ValueError(
                f"--server {server} has its own models and settings; leave out --model, --from, "
                f"--to, --quantize and --tail-beams"
            )
        if is_own(self.choice.policy):
            raise ValueError(
                f"--server {server} takes policies by name, and none that is in a file here; "
                f"leave out {self.choice.policy}"
            )


@dataclass(frozen=True, kw_only=True)
class DecodingChoice:
    """How a corpus is decoded; what is not given is the set's own."""

    tail_beams: TailBeams = None
    tail: Tail = None
    early_stop: EarlyStop = None
    reads: Reads = "token"
    batch_size: BatchSize = 128
    timed: Timed = 20

    def of(self, generator: "AdaptiveWaitKGenerator", **options: Any) -> "Decoding":
        """For this set, whose members a tail may name."""
        from ..evaluation.decoding import Decoding, tail_named

        return Decoding(
            batch_size=self.batch_size,
            timed=self.timed,
            tail_beams=self.tail_beams,
            tail="own" if self.tail is None else tail_named(self.tail, generator),
            early_stop=self.early_stop,
            reads=self.reads,
            **options,
        )


DEFAULT_DECODING = DecodingChoice()


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest:
    """A corpus, and how it is to be decoded. What is not given is the set's own."""

    source: Source
    references: References
    output: Annotated[
        Path, typer.Option(help="Folder for scores.json, log.jsonl and instances.log.")
    ]
    model: SetOfModels = None
    languages: Languages = DEFAULT_LANGUAGES
    quantize: Quantize = None
    choice: PolicyChoice = DEFAULT_POLICY
    ensembles: Annotated[
        str | None, typer.Option(help="single, top-3 or all; by default the set's own.")
    ] = None
    beams: Annotated[int, typer.Option(help="Beam search, for --policy full.")] = 1
    limit: Limit = None
    decoding: DecodingChoice = DEFAULT_DECODING
    alignments: Annotated[
        Path | None, typer.Option(help="Word alignments (0-0 2-1), for anticipation.")
    ] = None

    def __post_init__(self) -> None:
        _check_corpus(self.references, self.limit)
        check_at_least_one("beams", self.beams)
        if self.ensembles not in (None, *ENSEMBLES):
            raise ValueError(
                f"--ensembles is {', '.join(ENSEMBLES[:-1])} or {ENSEMBLES[-1]}; got "
                f"{self.ensembles!r}{meant(self.ensembles, ENSEMBLES)}"
            )
        if self.beams > 1 and self.choice.policy != "full":
            raise ValueError(
                f"--beams {self.beams} is for --policy full: what another policy writes stays; "
                f"--tail-beams searches what is left once the source has ended"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """As `scores.json` keeps them; how many sentences go together, and how many are timed,
        changes no score."""
        asked = {**asdict(self), **self.choice.settings, **asdict(self.decoding)}
        for name in ("output", "choice", "decoding", "batch_size", "timed"):
            del asked[name]
        # Results from before there was a choice stay comparable.
        if self.quantize is None:
            del asked["quantize"]
        if not self.languages:
            del asked["languages"]
        if self.decoding.reads == DecodingChoice.reads:
            del asked["reads"]
        settings: dict[str, Any] = json.loads(json.dumps(asked, default=str))
        return settings


@dataclass(frozen=True, kw_only=True)
class CompareRequest:
    """A corpus, and the policies that are to be compared on it."""

    source: Source
    references: References
    output: Annotated[Path, typer.Option(help="Folder for the logs and for report/.")]
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            help="Repeat it for more; by default adaptive, wait-k and full. adaptive is the "
            "set at its operating points; wait-k, test-time-wait-k, wait-if-diff, wait-if-worse, "
            "local-agreement, hold-n, align-att, ps-future, and single, top-3 or all (adaptive, "
            "members averaged so) run over their settings; FILE.py:NAME is one of your own.",
        ),
    ] = None
    model: SetOfModels = None
    languages: Languages = DEFAULT_LANGUAGES
    beams: Annotated[int, typer.Option(help="Of full-sentence beam search.")] = 5
    limit: Limit = None
    decoding: DecodingChoice = DEFAULT_DECODING

    def __post_init__(self) -> None:
        _check_corpus(self.references, self.limit)
        check_at_least_one("beams", self.beams)


def _check_corpus(references: Sequence[Path], limit: int | None) -> None:
    if limit is not None:
        check_at_least_one("limit", limit)
    if not references:
        raise ValueError("at least one file of references is needed; got none")
