"""Two aligned files, a sentence a line, as they are read and as the commands that make pairs write
them.

Knows files; what the sentences are is the commands' business."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from .checked import InputError
from .command import exit_code
from .mixing import Pair


SUFFIXES = (".de", ".en")


def make_pairs(
    parser: ArgumentParser,
    pairs: Callable[[Namespace], Iterable[Pair]],
    usual: int,
    arguments: Sequence[str] | None,
) -> int:
    """The command of a module that makes as many pairs as it is asked for; returns its exit
    code."""
    add_output(parser)
    parser.add_argument("--count", type=int, default=usual, help=f"of pairs; by default {usual}")
    add_seed(parser)
    given = parser.parse_args(arguments)

    def work() -> None:
        if given.count < 1:
            raise InputError(f"--count must be at least 1; got {given.count}")
        write_aligned(given.output, pairs(given), force=given.force)

    return exit_code(work)


def keep_pairs(
    parser: ArgumentParser,
    kept: Callable[[Namespace, list[Pair]], Iterable[Pair]],
    wanted: str,
    arguments: Sequence[str] | None,
) -> int:
    """The command of a module that keeps some of the pairs it is given, and says how many; returns
    its exit code."""
    add_files(parser)
    add_output(parser)
    given = parser.parse_args(arguments)

    def work() -> None:
        pairs = read_pairs(given)
        found = list(kept(given, pairs))
        if not found:
            raise InputError(f"no sentence of {given.source} {wanted}")
        write_aligned(given.output, found, force=given.force)
        print(f"{len(found)} of {len(pairs)} pairs kept")

    return exit_code(work)


def add_files(parser: ArgumentParser) -> None:
    """The options of every command that reads such files."""
    parser.add_argument("--source", required=True, type=Path, help="German, a sentence a line")
    parser.add_argument("--reference", required=True, type=Path, help="its translations")


def read_pairs(given: Namespace) -> list[Pair]:
    """Those of the files that `add_files` asks for."""
    pairs = list(zip(*read_aligned(given.source, given.reference), strict=True))
    if not pairs:
        raise InputError(f"{given.source} and {given.reference} are empty; give a sentence a line")
    return pairs


def read_aligned(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """Both sides of two files that belong together line by line."""
    sides = list(read_lines(source)), list(read_lines(target))
    if len(sides[0]) != len(sides[1]):
        shorter, longer = sorted((source, target), key=lambda file: len(sides[file is target]))
        raise InputError(
            f"{source} has {len(sides[0])} lines and {target} has {len(sides[1])}: line "
            f"{min(map(len, sides)) + 1} of "
            f"{longer} has no partner in {shorter}. Aligned files have the same number of lines"
        )
    return sides


def read_lines(file: Path) -> Iterator[str]:
    """Lines end at \\n alone: text may hold other characters that Python's readers take for line
    ends."""
    with open(file, "rb") as content:
        for number, line in enumerate(content, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{file} line {number} is not UTF-8 (byte 0x{line[error.start]:02x} at place "
                    f"{error.start + 1}); "
                    "convert the file, for example with iconv -f latin1 -t utf-8"
                ) from None
            yield text.rstrip("\r\n")


def add_seed(parser: ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1, help="another one draws other pairs")


def add_output(parser: ArgumentParser) -> None:
    """The options of every command that writes such files."""
    parser.add_argument("--output", required=True, type=Path, help="writes OUTPUT.de and OUTPUT.en")
    add_force(parser)


def add_force(parser: ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="write over files that say other")


def write_aligned(output: Path, pairs: Iterable[Pair], *, force: bool = False) -> None:
    """`output` with `.de` and `.en` after it. Files that say the same already are no obstacle, so
    the same command can be run again; any others might be somebody's, and are refused."""
    made = list(pairs)
    texts = {
        Path(f"{output}{suffix}"): "".join(f"{pair[side]}\n" for pair in made).encode()
        for side, suffix in enumerate(SUFFIXES)
    }
    for path, text in texts.items():
        if not force and path.exists() and not (path.is_file() and path.read_bytes() == text):
            raise InputError(
                f"{path} is there and would be lost; give another --output, or --force to write "
                f"over it"
            )
    output.parent.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_bytes(text)
