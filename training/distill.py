"""Translates a file with a set or a model, for another model to learn from.

    python -m training.distill --set runs/set --source german.de --output runs/german.en
    python -m training.distill --set runs/set --source train.de --output runs/wait-3.en \
        --policy wait-k --k 3

Under `python -m torch.distributed.run --standalone --nproc-per-node=2` two processes share the
work. What is written stays: the same command goes on after it. Knows which lines are done and what
they were made with (`OUTPUT.json`); the decoding is `evaluation`'s.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from hf_simultaneous import AdaptiveWaitKGenerator, FullSentence, WaitK
from hf_simultaneous.actions import Policy
from hf_simultaneous.evaluation import Decoding, decode_corpus
from hf_simultaneous.evaluation.processes import this_process
from hf_simultaneous.version import __version__

from .aligned import read_lines
from .checked import InputError
from .command import command_line, exit_code
from .starting import keep_freed_memory


BATCHES_AT_ONCE = 16
"""Batches that are sorted by length together, and written together."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for."""

    set: str
    source: Path
    output: Path
    policy: Literal["full", "wait-k"] = "full"
    k: int | None = None
    beams: int = 1
    batch_size: int = 128

    def __post_init__(self) -> None:
        if not self.source.is_file():
            raise InputError(f"--source {self.source} is not a file")
        if (self.policy == "wait-k") != (self.k is not None):
            raise InputError("--k is the k of --policy wait-k; give both or neither")
        if self.k is not None and self.k < 1:
            raise InputError(f"--k must be at least 1; got {self.k}")
        if self.k is not None and self.beams > 1:
            raise InputError(f"--beams {self.beams} is for full sentences: wait-k has no beams")
        for name in ("beams", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"--{name.replace('_', '-')} must be at least 1; got {getattr(self, name)}"
                )

    @property
    def settings_file(self) -> Path:
        return Path(f"{self.output}.json")

    @property
    def chunk(self) -> int:
        return BATCHES_AT_ONCE * self.batch_size

    def settings(self) -> dict[str, Any]:
        """All that the translations hang on; files by what they hold."""
        return {
            "set": _digest(Path(self.set)) or self.set,
            "source": sha256(self.source.read_bytes()).hexdigest(),
            "policy": self.policy,
            "k": self.k,
            "beams": self.beams,
            "batch_size": self.batch_size,
            "version": __version__,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    keep_freed_memory()
    return exit_code(
        lambda: distill(parse(arguments)), interrupted="the same command goes on after what is done"
    )


def parse(arguments: Sequence[str] | None) -> Request:
    parser = command_line("distill", __doc__)
    parser.add_argument("--set", required=True, help="a set or a model, folder or name on the hub")
    parser.add_argument("--source", required=True, type=Path, help="one sentence a line")
    parser.add_argument("--output", required=True, type=Path, help="one translation a line")
    parser.add_argument("--policy", choices=("full", "wait-k"), default="full")
    parser.add_argument("--k", type=int, help="of wait-k")
    parser.add_argument("--beams", type=int, help="for full sentences; 5 unless given")
    parser.add_argument("--batch-size", type=int, default=128)
    given = parser.parse_args(arguments)
    usual = 5 if given.policy == "full" else 1
    beams = usual if given.beams is None else given.beams
    return Request(**{**vars(given), "beams": beams})


def distill(request: Request) -> None:
    """Write the translations that are still missing."""
    rank, _ = this_process()
    sources = [" ".join(line.split()) for line in read_lines(request.source)]
    done = _begin(request, first=rank == 0)
    generator = AdaptiveWaitKGenerator.from_pretrained(request.set)
    policy = FullSentence() if request.k is None else WaitK(request.k)
    with tqdm(total=len(sources), initial=done, unit="sentence", disable=rank > 0) as bar:
        for start in range(done, len(sources), request.chunk):
            chunk = sources[start : start + request.chunk]
            translations = _translate(generator, chunk, policy, request)
            if rank == 0:
                with open(request.output, "a", encoding="utf-8", newline="\n") as output:
                    output.writelines(f"{line}\n" for line in translations)
            bar.update(len(chunk))
    if rank == 0:
        print(f"{len(sources)} translations: {request.output}")


def _translate(
    generator: AdaptiveWaitKGenerator, chunk: list[str], policy: Policy, request: Request
) -> list[str]:
    """A translation for every sentence; nothing for one that is empty or longer than the models
    read, which cleaning drops later."""
    if generator.tokenizer is None:
        raise InputError(f"{request.set} has no tokenizer; give a set that was saved with one")
    tokens = generator.tokenizer(chunk, verbose=False).input_ids if chunk else []
    usable = [
        index
        for index, sentence in enumerate(chunk)
        if sentence and len(tokens[index]) <= generator.position_limit
    ]
    texts = [chunk[index] for index in usable]
    decoding = Decoding(
        batch_size=request.batch_size * request.beams,
        beams=request.beams,
        timed=0,
        progress=False,
        tail_beams=1,
        tail=None,
    )
    lines = decode_corpus(generator, texts, texts, policy, decoding) if texts else []
    found = dict(zip(usable, (line.hypothesis for line in lines), strict=True))
    return [" ".join(found.get(index, "").split()) for index in range(len(chunk))]


def _begin(request: Request, first: bool) -> int:
    """Check that what is there was made with the same settings; returns how many lines of it stay.

    Whole chunks: then every sentence has the neighbours, and the rounding, of an uninterrupted
    run."""
    settings = request.settings()
    if not request.output.exists():
        if first:
            request.output.parent.mkdir(parents=True, exist_ok=True)
            request.settings_file.write_text(json.dumps(settings, indent=2))
        return 0
    before = _recorded(request)
    different = sorted(key for key in {*before, *settings} if before.get(key) != settings.get(key))
    if different:
        raise InputError(
            f"--output {request.output} was made with another {different[0]}; give another file, "
            f"or remove it and {request.settings_file}"
        )
    content = request.output.read_bytes()
    lines = content.splitlines(keepends=True)
    whole = sum(line.endswith(b"\n") for line in lines)
    total = sum(1 for _ in read_lines(request.source))
    kept = whole if whole == total else whole - whole % request.chunk
    if first:
        os.truncate(request.output, sum(map(len, lines[:kept])))
    return kept


def _recorded(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(request.settings_file.read_text())
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise InputError(
            f"--output {request.output} is there, but {request.settings_file} does not say what "
            f"it was made with; give another file"
        )
    return found


def _digest(folder: Path) -> str | None:
    """Names what a folder's models are; None where it is not a folder."""
    if not folder.is_dir():
        return None
    digest = sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".json", ".safetensors") and "checkpoints" not in file.parts:
            digest.update(str(file.relative_to(folder)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
