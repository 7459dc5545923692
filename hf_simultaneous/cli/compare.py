"""What `hf-simultaneous compare` does: names of policies and text files in, an experiment out.

Knows names and files; experiments are `evaluation`'s business."""

from collections.abc import Callable
from dataclasses import asdict

from ..evaluation.corpus import read_sentences
from ..evaluation.experiment import METHODS, Setting, Trial, settings_of
from ..evaluation.experiment import run as run_trial
from ..evaluation.report import fingerprint
from ..generation import AdaptiveWaitKGenerator
from ..places import set_folder
from ..schedule import FULL
from ..sets import set_or_builtin
from .own_policy import file_of, is_own, load_policy
from .requests import CompareRequest


def run(request: CompareRequest, tell: Callable[[str], None], *, quiet: bool = False) -> str:
    """Decode what is missing, write the report, and return what it says first."""
    source = read_sentences(request.source, request.limit)
    references = [read_sentences(path, request.limit) for path in request.references]
    place = set_folder(set_or_builtin(request.model), None, {})
    generator = AdaptiveWaitKGenerator.from_pretrained(str(place), **asdict(request.languages))
    decoding = request.decoding.of(generator, progress=not quiet)
    policies = {_title(name): name for name in request.policies or usual(generator)}
    if len(policies) < len({*(request.policies or ())}):
        raise ValueError(f"two policies are both called as in {', '.join(policies)}; rename a file")
    points = {name: dict(rhos) for name, rhos in generator.latencies.items()}
    inputs = [source, references, decoding.signature(generator), points, dict(generator.ensembles)]
    trial = Trial(
        output=request.output,
        generator=generator,
        methods={
            title: _settings(name, generator, request.beams) for title, name in policies.items()
        },
        source=source,
        references=references,
        decoding=decoding,
        names=(place.name, request.source.stem),
        fingerprint=fingerprint(place, inputs),
        anew=tuple(title for title in policies if is_own(policies[title])),  # the file may differ
    )
    return run_trial(trial, tell)


def usual(generator: AdaptiveWaitKGenerator) -> list[str]:
    """What is compared if nothing is named."""
    return ["adaptive", "wait-k", *(["full"] if FULL in generator.models else [])]


def _title(name: str) -> str:
    """A method's name in tables and folders."""
    return f"{file_of(name).stem}.{name.rpartition(':')[2]}" if is_own(name) else name


def _settings(name: str, generator: AdaptiveWaitKGenerator, beams: int) -> list[Setting]:
    if is_own(name):
        return [Setting("own", load_policy(name), in_time_table=True)]
    if name not in (*METHODS, "adaptive"):
        raise ValueError(
            f"--policy is adaptive, {', '.join(METHODS)}, or FILE.py:NAME; got {name!r}"
        )
    return settings_of(name, generator, beams)
