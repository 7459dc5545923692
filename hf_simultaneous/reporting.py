"""What the command line evaluates: text files and a set in, `scores.json` and `log.jsonl` out.

Knows files and options; decoding is `evaluation`'s business and numbers are `scores`'.
"""

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from .alignments import anticipation, read_alignments
from .evaluation import Decoding, Evaluation, evaluate, is_main_process
from .generation import AdaptiveWaitKGenerator
from .logs import write_instances, write_text
from .members import choose_members
from .scores import Scoring
from .translation import check_latency_alone, choose_policy


@dataclass(frozen=True)
class Request:
    """What `hf-simultaneous evaluate` was asked for. `rho=None` takes the set's own thresholds."""

    source: Path
    references: Sequence[Path]
    model: str
    output: Path
    _: KW_ONLY
    policy: str = "adaptive"
    k: int | None = None
    rho: tuple[float, float] | None = None
    latency: str | None = None
    ensembles: str | None = None
    beams: int = 1
    limit: int | None = None
    start: int = 4
    delta: int = 2
    alignments: Path | None = None
    batch_size: int = 128

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be 1 or more, or be left out; got {self.limit}")
        if not self.references:
            raise ValueError("at least one file of references is needed; got none")
        check_latency_alone(self.latency, self.policy, k=self.k, rho=self.rho)


def run(request: Request) -> dict[str, Any]:
    """Evaluate, write the output folder, and return what `scores.json` holds."""
    source = read_sentences(request.source, request.limit)
    references = [read_sentences(path, request.limit) for path in request.references]
    generator = AdaptiveWaitKGenerator.from_pretrained(request.model, latency=request.latency)
    if request.ensembles is not None:
        generator = with_ensembles(generator, request.ensembles)
    policy = choose_policy(
        generator, request.policy, k=request.k, rho=request.rho, start=request.start, delta=request.delta
    )
    decoding = Decoding(batch_size=request.batch_size, beams=request.beams)
    log = request.output / "log.jsonl"
    result = evaluate(generator, source, references, policy, decoding=decoding, scoring=Scoring(), log=log)
    facts = {**result.scores.as_dict(), "policy": result.policy, "encoder": result.encoder, "model": request.model}
    if request.alignments is not None:
        found = anticipation(result.lines, read_alignments(request.alignments)[: request.limit])
        facts["anticipation"] = found.rate
        facts["signatures"]["anticipation"] = found.signature
    _write(request.output, result, facts)
    return facts


def _write(output: Path, result: Evaluation, facts: dict[str, Any]) -> None:
    if not is_main_process():
        return
    if all(line.word_delays is not None for line in result.lines):
        write_instances(output / "instances.log", result.lines)
    write_text(output / "scores.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


def with_ensembles(generator: AdaptiveWaitKGenerator, ensembles: str) -> AdaptiveWaitKGenerator:
    """The same set with other models averaged at each k; `top-3` needs to know which are best on dev data."""
    if ensembles == "top-3" and generator.dev_scores is None and len([k for k in generator.models if k]) > 1:
        raise ValueError(
            "top-3 takes the three best models on dev data, but this set has no dev grid. Make it with "
            "python -m training.choose_ensembles, or use single or all"
        )
    return AdaptiveWaitKGenerator(
        generator.models,
        generator.tokenizer,
        generator.thresholds,
        choose_members(ensembles, list(generator.models), list(generator.thresholds), generator.dev_scores),
        dev_scores=generator.dev_scores,
        latencies=generator.latencies,
        early_stop=generator.early_stop,
        history=generator.history,
    )


def read_sentences(path: str | Path, limit: int | None = None) -> list[str]:
    """A sentence a line; lines end at `\\n` alone, because text may hold other characters that look like line ends."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}; give a text file with a sentence on each line") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 (byte {error.start}); convert it, for example with iconv") from None
    lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    return lines[:limit]


def summary(facts: dict[str, Any]) -> str:
    """The scores that are looked at first, each on a line with its signature."""
    names = [name for name in ("bleu", "chrf", "al", "laal", "ap", "dal", "time_per_token", "al_ca") if name in facts]
    lines = [f"{name:15}{facts[name]:9.4f}{_bounds(facts, name)}  {facts['signatures'][name]}" for name in names]
    counts = f"{facts['sentences']} sentences, {facts['early_stops']} early stops, encoder {facts['encoder']}"
    return "\n".join([f"{facts['policy']}: {counts}", *lines])


def _bounds(facts: dict[str, Any], name: str) -> str:
    low_high = facts["intervals"].get(name)
    return " [{:.2f}, {:.2f}]".format(*low_high) if low_high else ""
