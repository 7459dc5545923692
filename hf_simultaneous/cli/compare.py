"""What `hf-simultaneous compare` does: names of policies and text files in, an experiment out.

Knows names and files; experiments are `evaluation`'s business."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ..evaluation.fingerprints import fingerprint
from ..evaluation.report import METHODS
from ..evaluation.texts import read_corpus
from ..places import set_folder
from ..schedule import FULL
from .ahead import check_output, found_set, waiting_for
from .own_policy import check_name, file_of, is_own, load_policy
from .requests import CompareRequest


if TYPE_CHECKING:
    from ..generation import AdaptiveWaitKGenerator


def run(request: CompareRequest, tell: Callable[[str], None], *, quiet: bool = False) -> str:
    """Decode what is missing, write the report, and return what it says first."""
    own = {name: load_policy(name) for name in request.policies or () if is_own(name)}
    _check_names(request.policies or ())
    check_output(request.output)
    languages = asdict(request.languages)
    place = set_folder(found_set(request.model, **languages), None, {})
    source, references = read_corpus(request.source, request.references, request.limit)
    with waiting_for():
        from ..evaluation.experiment import Setting, Trial, settings_of
        from ..evaluation.experiment import run as run_trial
        from ..generation import AdaptiveWaitKGenerator

        generator = AdaptiveWaitKGenerator.from_pretrained(str(place), **languages)
    decoding = request.decoding.of(generator, progress=not quiet)
    policies = {_title(name): name for name in request.policies or usual(generator)}
    points = {name: dict(rhos) for name, rhos in generator.latencies.items()}
    told = [generator.source_language, generator.target_language, generator.history]
    how = [decoding.signature(generator), points, dict(generator.ensembles), *told]
    trial = Trial(
        output=request.output,
        generator=generator,
        methods={
            title: [Setting("own", own[name], in_time_table=True)]
            if name in own
            else settings_of(name, generator, request.beams)
            for title, name in policies.items()
        },
        source=source,
        references=references,
        decoding=decoding,
        names=(place.name, request.source.stem),
        fingerprint=fingerprint(place, [source, references, *how]),
        anew=tuple(title for title in policies if policies[title] in own),  # the file may differ
    )
    return run_trial(trial, tell)


def usual(generator: "AdaptiveWaitKGenerator") -> list[str]:
    """What is compared if nothing is named."""
    return ["adaptive", "wait-k", *(["full"] if FULL in generator.models else [])]


def _title(name: str) -> str:
    """A method's name in tables and folders."""
    return f"{file_of(name).stem}.{name.rpartition(':')[2]}" if is_own(name) else name


def _check_names(policies: Sequence[str]) -> None:
    """Before any model is loaded."""
    for name in policies:
        check_name(name, ("adaptive", *METHODS))
    titles = {_title(name) for name in policies}
    if len(titles) < len({*policies}):
        raise ValueError(
            f"two policies are both called as in {', '.join(sorted(titles))}; rename a file"
        )
