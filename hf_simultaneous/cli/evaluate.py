"""What the command line evaluates: text files and a set in, `scores.json` and `log.jsonl` out.

Knows files and options; decoding is `evaluation`'s business and numbers are `scores`'.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import sets
from ..evaluation.anticipation import anticipation, check_alignments, read_alignments
from ..evaluation.logs import write_instances, write_log, write_text
from ..evaluation.processes import is_main_process
from ..evaluation.report import FACTS
from ..evaluation.significance import doubts
from ..evaluation.texts import read_corpus
from ..places import is_set, set_folder
from ..schedule import check_at_least_one
from .ahead import check_output, found_set, waiting_for
from .requests import DEFAULT_LANGUAGES, EvaluateRequest, Languages


TIMES = ("time_per_token", "al_ca")


if TYPE_CHECKING:
    from ..evaluation.calibration import Calibration
    from ..evaluation.corpus import Evaluation
    from ..generation import AdaptiveWaitKGenerator


def run(request: EvaluateRequest, *, quiet: bool = False, force: bool = False) -> dict[str, Any]:
    """Evaluate, write the output folder, and return what `scores.json` holds."""
    policy_for = request.choice.maker()
    check_output(request.output)
    _check_result(request, force=force)
    latency = request.choice.latency
    languages = asdict(request.languages)
    place = found_set(request.model, latency=latency, quantize=request.quantize, **languages)
    source, references = read_corpus(request.source, request.references, request.limit)
    alignments = None
    if request.alignments:
        alignments = read_alignments(request.alignments)[: request.limit]
        check_alignments(len(source), alignments)
    with waiting_for():
        from ..evaluation.corpus import evaluate
        from ..generation import AdaptiveWaitKGenerator

        generator = AdaptiveWaitKGenerator.from_pretrained(
            place,
            latency=latency,
            quantize=request.quantize,
            **languages,
        )
    if request.ensembles is not None:
        generator = generator.with_ensembles(request.ensembles)
    decoding = request.decoding.of(generator, beams=request.beams, progress=not quiet)
    policy = policy_for(generator)
    result = evaluate(generator, source, references, policy, decoding=decoding)
    facts = {
        **result.scores.as_dict(),
        "policy": result.policy,
        "encoder": result.encoder,
        "decoding": result.decoding,
        "model": place,
        "settings": request.settings,
    }
    if alignments is not None:
        found = anticipation(result.lines, alignments)
        facts["anticipation"] = found.rate
        facts["signatures"]["anticipation"] = found.signature
    _write(request.output, result, facts)
    return facts


def _check_result(request: EvaluateRequest, *, force: bool) -> None:
    """The same may be measured again; a result of other settings took time, and is not lost."""
    if (request.output / FACTS).exists():
        raise ValueError(
            f"{request.output} holds a comparison, which compare goes on with; give another "
            f"--output, or compare --policy to add to it"
        )
    path = request.output / "scores.json"
    if force or not path.exists():
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


def _write(output: Path, result: "Evaluation", facts: dict[str, Any]) -> None:
    """All at the very end: a run that fails leaves the result that was there as it was."""
    if not is_main_process():
        return
    if all(line.word_delays is not None for line in result.lines):
        write_instances(output / "instances.log", result.lines)
    else:
        (output / "instances.log").unlink(missing_ok=True)  # that of another result
    write_log(output / "log.jsonl", result.lines)
    write_text(output / "scores.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


def summary(facts: dict[str, Any]) -> str:
    """The scores that are looked at first, each on a line with its signature."""
    names = [
        name
        for name in ("bleu", "chrf", "al", "al_words", "laal", "ap", "dal", *TIMES)
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
    return "\n".join([f"{facts['policy']}: {counts}", *lines, *doubts(facts["sentences"])])


def _bounds(facts: dict[str, Any], name: str) -> str:
    low_high = facts["intervals"].get(name)
    return " [{:.2f}, {:.2f}]".format(*low_high) if low_high else ""


def calibrate_files(
    model: str | None,
    source: Path,
    references: Sequence[Path],
    target_al: float,
    name: str | None = None,
    limit: int | None = None,
    *,
    budget: int,
    lines: int,
    output: Path | None = None,
    languages: Languages = DEFAULT_LANGUAGES,
    tell: Callable[[str], None] | None = None,
) -> "Calibration":
    """`hf-simultaneous calibrate`: thresholds for the set in a folder, kept there; or for any
    model, kept in a new set, `output`, as its default."""
    if limit is not None:
        check_at_least_one("limit", limit)
    place = found_set(model, **asdict(languages))
    if output is None:
        _check_ours(place)
    else:
        _check_new(output)
    dev, streams = read_corpus(source, references, limit)
    with waiting_for():
        from ..evaluation.calibration import Search, calibrate
        from ..evaluation.decoding import text_decoding
        from ..generation import AdaptiveWaitKGenerator

        search = Search(budget=budget, lines=lines)
        generator = AdaptiveWaitKGenerator.from_pretrained(place, **asdict(languages))
    decoding = text_decoding(generator, progress=tell is not None)
    found = calibrate(
        generator, dev, streams, target_al, name=name, search=search, decoding=decoding, tell=tell
    )
    if is_main_process():
        if output is not None:
            _new_set(generator, set_folder(place, None, {}), output)
        _keep(found, output or Path(place), as_default=output is not None)
    return found


def _check_new(output: Path) -> None:
    check_output(output)
    if is_set(output):
        raise ValueError(f"{output} is a set already; give it as --model, or another --output")
    if output.exists() and any(output.iterdir()):
        raise ValueError(f"{output} is not empty; give a new folder as --output")


def _new_set(generator: "AdaptiveWaitKGenerator", origin: Path, output: Path) -> None:
    """A set is copied as it is, with its card: saved anew, half precision would double in size."""
    from ..sharing.copies import copy_set

    if not is_set(origin):
        generator.save_pretrained(output)
        return
    copy_set(origin, output)
    codes = {name: getattr(generator, name) for name in ("source_language", "target_language")}
    sets.update_set_config(output, **{name: code for name, code in codes.items() if code})


def _keep(found: "Calibration", folder: Path, *, as_default: bool) -> None:
    """The point under its name, and the card in step with it."""
    from ..evaluation.calibration import save_latency
    from ..sharing.cards import renew_card

    before = sets.read_set_config(folder)
    save_latency(folder, found.name, found.point.thresholds)
    if as_default:
        latencies = sets.read_set_config(folder)["latencies"]
        sets.update_set_config(folder, thresholds=latencies[found.name])
    renew_card(folder, before)


def _check_ours(place: str) -> None:
    """Before the search, not after it: can the set in this folder keep what is found?"""
    if Path(place) == sets.BUILTIN:
        raise ValueError(
            "the set in the package stays as it is; give --output FOLDER for a copy of it that "
            "keeps what is found"
        )
    sets.read_set_config(place)
