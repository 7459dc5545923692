"""Sends a set, a checkpoint, its Space or a metric to the hub: which files go where, one commit for
each repository.

Knows folders and huggingface_hub, not models; it loads none. What a card says is `cards`' business.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    OfflineModeIsEnabled,
)
from huggingface_hub.utils import validate_repo_id

from ..places import CONFIG_NAME, check_links, check_place, place_below
from ..sets import read_set_config, save_set, saved_config, set_config_text
from ..travelling import PIPELINE_CODE
from .cards import NAME, card_of, space_files


if TYPE_CHECKING:
    from ..generation import AdaptiveWaitKGenerator


KINDS = ("set", "checkpoint", "metric")
# What is ever uploaded. Not training.json: it names files of the machine where the model was
# trained. The card has its other facts.
CODE = tuple(f"{module}.py" for module in PIPELINE_CODE)
CHECKPOINT = (
    *("config.json", "generation_config.json", "model.safetensors"),
    *("model-*-of-*.safetensors", "model.safetensors.index.json", *CODE),
)
TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "target_vocab.json", "merges.txt", "source.spm", "target.spm"),
    *("sentencepiece.bpe.model", "spiece.model"),
)
CARD = ("README.md", "LICENSE", "LICENSE.txt", "NOTICE", "NOTICE.txt")
UNKNOWN_COMMIT = "0" * 40
Files = dict[str, Path | bytes]


@dataclass(frozen=True)
class Upload:
    """One commit: what goes into a repository, by its path there."""

    repo: str
    files: Mapping[str, Path | bytes]
    repo_type: str = "model"
    sdk: str | None = None
    set_config: Mapping[str, Any] | None = None
    """Of a set: what its `CONFIG_NAME` among the files says."""

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes, by path."""
        return {
            path: len(content) if isinstance(content, bytes) else content.stat().st_size
            for path, content in sorted(self.files.items())
        }

    def __str__(self) -> str:
        total = f"{len(self.files)} files, {sum(self.sizes.values()):,} bytes"
        lines = [f"{size:>12,}  {path}" for path, size in self.sizes.items()]
        return "\n".join([f"{self.repo} ({self.repo_type}): {total}", *lines])


@dataclass(frozen=True, kw_only=True)
class PushRequest:
    """What is to be shared, and how; `kind=None` looks at the folder."""

    folder: Path
    repo: str
    kind: str | None = None
    private: bool | None = None
    separate: bool = False
    space: bool = False
    token: str | None = None
    dry_run: bool = False
    """Nothing is to be sent, so the hub need not be there."""

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise FileNotFoundError(
                f"no folder {str(self.folder)!r}; give that of a set, a checkpoint or a metric"
            )
        if self.kind is not None and self.kind not in KINDS:
            raise ValueError(f"a kind is one of {', '.join(KINDS)}; got {self.kind!r}")
        check_name(self.repo)
        if self.separate and self.found != "set":
            raise ValueError(
                f"--separate is for the members of a set, and {self.folder} is a {self.found}"
            )
        if self.space and self.found == "metric":
            raise ValueError(f"--space shows a set or a checkpoint, and {self.folder} is a metric")

    @property
    def found(self) -> str:
        """What lies in the folder."""
        if self.kind is not None:
            return self.kind
        marks = (CONFIG_NAME, "config.json", f"{self.folder.resolve().name}.py")
        for kind, mark in zip(KINDS, marks, strict=True):
            if (self.folder / mark).exists():
                return kind
        raise ValueError(
            f"{self.folder} holds no set ({marks[0]}), no checkpoint ({marks[1]}) and no metric "
            f"({marks[2]}); "
            "give the folder that save_pretrained or training has written"
        )


def check_name(repo: str) -> None:
    """Refuse a repository's name that is not in full, user/name."""
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise ValueError(f"a repository is user/name; got {repo!r}: {error}") from None
    if repo.count("/") != 1:
        raise ValueError(f"a repository is user/name, with your own name on the hub; got {repo!r}")


def plan(request: PushRequest) -> list[Upload]:
    """Every commit in the order in which they are sent; a set comes after the members it names."""
    if request.found == "metric":
        return [_metric(request)]
    uploads = _set(request) if request.found == "set" else [_checkpoint(request)]
    if request.space:
        uploads.append(Upload(request.repo, space_files(request.repo), "space", "gradio"))
    return uploads


def push(request: PushRequest) -> list[str]:
    """Send everything; returns the address of each repository."""
    api, commits, places = HfApi(token=request.token), dict[str, str](), []
    for upload in plan(request):
        with _plain_errors(upload.repo):
            commits[upload.repo] = _send(api, _pinned(upload, commits), request.private)
        places.append(
            f"{api.endpoint}/{'spaces/' if upload.repo_type == 'space' else ''}{upload.repo}"
        )
    return places


def push_generator(
    generator: "AdaptiveWaitKGenerator", repo_id: str, *, space: bool = False, **options: Any
) -> str:
    """Share a set that is in memory, with the options of a `PushRequest`; returns its address."""
    with tempfile.TemporaryDirectory() as folder:
        save_set(generator, folder)
        places = push(PushRequest(folder=Path(folder), repo=repo_id, space=space, **options))
    return places[-2] if space else places[-1]


def _send(api: HfApi, upload: Upload, private: bool | None) -> str:
    """One commit, so that an upload cut in the middle leaves the old revision as it was; returns
    its hash."""
    to = {"repo_id": upload.repo, "repo_type": upload.repo_type}
    api.create_repo(**to, private=private, exist_ok=True, space_sdk=upload.sdk)
    if private and not api.repo_info(**to).private:
        raise ValueError(
            f"{upload.repo} is there already and public; make it private in its settings, then "
            f"push again"
        )
    contents = {
        path: content if isinstance(content, bytes) else str(content)
        for path, content in upload.files.items()
    }
    operations = [CommitOperationAdd(path, content) for path, content in contents.items()]
    return str(
        api.create_commit(
            **to, operations=operations, commit_message="Upload with hf_simultaneous"
        ).oid
    )


def _set_upload(repo: str, files: Mapping[str, Path | bytes], config: Mapping[str, Any]) -> Upload:
    text = set_config_text(config).encode()
    return Upload(repo, {**files, CONFIG_NAME: text}, set_config=config)


def _pinned(upload: Upload, commits: Mapping[str, str]) -> Upload:
    """A set names its members as they were when it was shared."""
    if upload.set_config is None:
        return upload
    members = {
        name: {**place, "revision": commits[place["repo"]]}
        if place.get("repo") in commits
        else place
        for name, place in upload.set_config["members"].items()
    }
    return _set_upload(upload.repo, upload.files, {**upload.set_config, "members": members})


def _set(request: PushRequest) -> list[Upload]:
    root, uploads = request.folder, list[Upload]()
    saved_config(root)
    saved = read_set_config(root)
    named = all("repo" in place for place in saved["members"].values())
    files = _pick(root, ("config.json", *TOKENIZER, *CARD), root) if named else _root(root)
    files = _with_card(files, root, request)
    files |= _pick(root / "custom_generate", ("generate.py", *CODE), root, "custom_generate/")
    for name, place in saved["members"].items():
        check_place(root, place)
        folder = place.get("folder", ".")
        if folder == ".":
            continue
        member = place_below(root, folder)
        if request.separate:
            there = replace(
                request, repo=f"{request.repo}-{folder.replace('/', '-')}", separate=False
            )
            alone = {**_pick(root, TOKENIZER, root), **_root(member)}
            uploads.append(Upload(there.repo, _with_card(alone, member, there)))
            saved["members"][name] = {"repo": there.repo, "revision": UNKNOWN_COMMIT}
        else:
            files |= _checked(member, _pick(member, CHECKPOINT, root, f"{folder}/"), f"{folder}/")
    return [*uploads, _set_upload(request.repo, files, saved)]


def _checkpoint(request: PushRequest) -> Upload:
    return Upload(request.repo, _with_card(_root(request.folder), request.folder, request))


def _root(folder: Path) -> Files:
    """A checkpoint that stands by itself."""
    return _checked(folder, _pick(folder, (*CHECKPOINT, *TOKENIZER, *CARD), folder))


def _checked(folder: Path, files: Files, into: str = "") -> Files:
    if f"{into}config.json" not in files or not any(
        path.endswith(".safetensors") for path in files
    ):
        raise FileNotFoundError(
            f"{folder} is not a checkpoint: it needs config.json and model.safetensors, nothing "
            f"else is shared"
        )
    return files


def _metric(request: PushRequest) -> Upload:
    module = f"{request.folder.resolve().name}.py"
    if f"{request.repo.split('/')[1]}.py" != module:
        raise ValueError(
            f"evaluate finds a metric's code by the name of its repository: --repo must be "
            f"user/{module[:-3]}; "
            f"got {request.repo!r}"
        )
    files = _pick(request.folder, (module, "requirements.txt", *CARD), request.folder)
    if module not in files:
        raise FileNotFoundError(f"{request.folder} is not a metric: it needs {module}")
    return Upload(request.repo, files, "space", "static")


def _pick(folder: Path, patterns: tuple[str, ...], root: Path, into: str = "") -> Files:
    found = sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    check_links(found, root)
    return {f"{into}{path.name}": path for path in found}


def _with_card(files: Files, folder: Path, request: PushRequest) -> Files:
    """The folder's own card under the name it gets, or one of the facts where neither folder nor
    hub has one."""
    if "README.md" in files:
        card = (folder / "README.md").read_text(encoding="utf-8")
    elif _has_card(request):
        return files
    else:
        card = str(card_of(folder))
    return {**files, "README.md": card.replace(f'"{NAME}"', f'"{request.repo}"').encode()}


def _has_card(request: PushRequest) -> bool:
    """Is there one on the hub? Out of reach, a dry run takes it for new."""
    try:
        with _plain_errors(request.repo):
            return HfApi(token=request.token).file_exists(request.repo, "README.md")
    except ConnectionError:
        if request.dry_run:
            return False
        raise


@contextmanager
def _plain_errors(repo: str) -> Iterator[None]:
    """What the hub or the network says, with what to do about it."""
    try:
        yield
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise PermissionError(
                f"the hub does not let you write to {repo} ({status}): log in with `hf auth "
                f"login`, or set HF_TOKEN "
                "to a token that may write there"
            ) from error
        raise OSError(
            f"the hub refused {repo} ({status}): {error.server_message or error}"
        ) from error
    except OfflineModeIsEnabled as error:
        raise ConnectionError("HF_HUB_OFFLINE is set, so nothing can be sent; unset it") from error
    except HTTPError as error:
        raise ConnectionError(
            f"the connection to the hub failed ({error}); what {repo} held is unchanged. Try again"
        ) from error
