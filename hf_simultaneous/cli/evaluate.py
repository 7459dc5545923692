"""What the command line evaluates: text files and a set in, `scores.json` and `log.jsonl` out.

Knows files and options; decoding is `evaluation`'s business and numbers are `scores`'.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..evaluation.anticipation import anticipation, read_alignments
from ..evaluation.calibration import DEFAULT_SEARCH, Calibration, Search, calibrate, save_latency
from ..evaluation.corpus import Evaluation, evaluate, read_sentences
from ..evaluation.decoding import text_decoding
from ..evaluation.logs import write_instances, write_text
from ..evaluation.processes import is_main_process
from ..evaluation.scores import Scoring
from ..generation import AdaptiveWaitKGenerator
from ..places import is_set
from ..sets import read_set_config, set_or_builtin
from .requests import DEFAULT_LANGUAGES, EvaluateRequest, Languages


def run(request: EvaluateRequest, *, quiet: bool = False, force: bool = False) -> dict[str, Any]:
    """Evaluate, write the output folder, and return what `scores.json` holds."""
    place = set_or_builtin(request.model)
    if not force:
        _check_no_other_result(request)
    source = read_sentences(request.source, request.limit)
    references = [read_sentences(path, request.limit) for path in request.references]
    generator = AdaptiveWaitKGenerator.from_pretrained(
        place,
        latency=request.choice.latency,
        quantize=request.quantize,
        **asdict(request.languages),
    )
    if request.ensembles is not None:
        generator = generator.with_ensembles(request.ensembles)
    policy = request.choice.of(generator)
    decoding = request.decoding.of(generator, beams=request.beams, progress=not quiet)
    log = request.output / "log.jsonl"
    result = evaluate(
        generator, source, references, policy, decoding=decoding, scoring=Scoring(), log=log
    )
    facts = {
        **result.scores.as_dict(),
        "policy": result.policy,
        "encoder": result.encoder,
        "decoding": result.decoding,
        "model": place,
        "settings": request.settings,
    }
    if request.alignments is not None:
        found = anticipation(result.lines, read_alignments(request.alignments)[: request.limit])
        facts["anticipation"] = found.rate
        facts["signatures"]["anticipation"] = found.signature
    _write(request.output, result, facts)
    return facts


def _check_no_other_result(request: EvaluateRequest) -> None:
    """The same may be measured again; a result of other settings took time, and is not lost."""
    path = request.output / "scores.json"
    if not path.exists():
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))["settings"]
    except (ValueError, KeyError, TypeError):
        before = None
    if before != request.settings:
        raise ValueError(
            f"{path} holds a result of other settings. Give another --output, or --force to write "
            "over it"
        )


def _write(output: Path, result: Evaluation, facts: dict[str, Any]) -> None:
    if not is_main_process():
        return
    if all(line.word_delays is not None for line in result.lines):
        write_instances(output / "instances.log", result.lines)
    write_text(output / "scores.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


def summary(facts: dict[str, Any]) -> str:
    """The scores that are looked at first, each on a line with its signature."""
    names = [
        name
        for name in ("bleu", "chrf", "al", "laal", "ap", "dal", "time_per_token", "al_ca")
        if name in facts
    ]
    lines = [
        f"{name:15}{facts[name]:9.4f}{_bounds(facts, name)}  {facts['signatures'][name]}"
        for name in names
    ]
    counts = (
        f"{facts['sentences']} sentences, {facts['early_stops']} early stops, "
        f"encoder {facts['encoder']}, {facts['decoding']}"
    )
    return "\n".join([f"{facts['policy']}: {counts}", *lines])


def _bounds(facts: dict[str, Any], name: str) -> str:
    low_high = facts["intervals"].get(name)
    return " [{:.2f}, {:.2f}]".format(*low_high) if low_high else ""


def calibrate_files(
    model: str,
    source: Path,
    references: Sequence[Path],
    target_al: float,
    name: str | None = None,
    limit: int | None = None,
    search: Search = DEFAULT_SEARCH,
    *,
    output: Path | None = None,
    languages: Languages = DEFAULT_LANGUAGES,
    quiet: bool = False,
) -> Calibration:
    """`hf-simultaneous calibrate`: thresholds for the set in a folder, kept there; or for any
    model, kept in a new set, `output`."""
    if output is None:
        read_set_config(model)  # before the search, not after it
    elif is_set(output):
        raise ValueError(f"{output} is a set already; give it as --model, or another --output")
    generator = AdaptiveWaitKGenerator.from_pretrained(model, **asdict(languages))
    streams = [read_sentences(path, limit) for path in references]
    found = calibrate(
        generator,
        read_sentences(source, limit),
        streams,
        target_al,
        name=name,
        search=search,
        decoding=text_decoding(generator, progress=not quiet),
    )
    if is_main_process():
        if output is not None:
            tuned = generator.with_thresholds(found.point.thresholds)
            tuned.save_pretrained(output)
        save_latency(output or model, found.name, found.point.thresholds)
    return found
