"""A hub of our own on loopback: `python tests/hub_server.py` prints its address and serves until
its input ends.

Speaks as much of the hub's language as huggingface_hub uses to create, upload, list and download.
Repositories are kept in memory, every commit whole. Under `/test/` it tells a test what it was
sent, and cuts the next commit short."""

import base64
import hashlib
import json
import re
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


TOKEN = "hf_test"
Files = dict[str, bytes]


@dataclass
class Repo:
    private: bool
    sdk: str | None
    commits: list[tuple[str, Files]] = field(default_factory=lambda: [("0" * 40, {})])
    sent: list[dict[str, int]] = field(default_factory=list)

    def at(self, revision: str) -> tuple[str, Files] | None:
        if revision == "main":
            return self.commits[-1]
        return next((commit for commit in self.commits if commit[0] == revision), None)

    def commit(self, files: Files) -> str:
        self.sent.append({path: len(content) for path, content in files.items()})
        whole = {**self.commits[-1][1], **files}
        sha = hashlib.sha1(
            json.dumps([len(self.commits), *sorted((p, oid(c)) for p, c in whole.items())]).encode()
        )
        self.commits.append((sha.hexdigest(), whole))
        return sha.hexdigest()


def oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    repos: dict[str, Repo] = {}
    cut = False

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path == "/test/cut":
            Hub.cut = True
            return self.answer({})
        length = int(self.headers["Content-Length"])
        if Hub.cut and "/commit/" in path:
            Hub.cut = False
            self.rfile.read(length // 2)
            self.close_connection = True
            return self.connection.close()
        body = self.rfile.read(length)
        if path == "/api/validate-yaml":
            return self.validate(json.loads(body)["content"])
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.fail(401, None)
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        kind, name, verb = re.fullmatch(
            r"/api/(\w+)/([^/]+/[^/]+)/(preupload|commit)/main", path
        ).groups()
        repo = self.repos.get(f"{kind}/{name}")
        if repo is None:
            return self.fail(404, "RepoNotFound")
        return (
            self.preupload(repo, json.loads(body))
            if verb == "preupload"
            else self.commit(repo, name, body)
        )

    def validate(self, card: str) -> None:
        """As much as can be told without YAML: there is metadata, and no value that the hub is
        known to refuse."""
        metadata = re.match(r"---\n(.*?)\n---\n", card, re.DOTALL)
        bad = [] if metadata else ["metadata is missing"]
        licence = re.search(r"^license: *(.*)$", metadata[1], re.MULTILINE) if metadata else None
        if licence and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", licence[1]):
            bad.append(f'"license" must be an identifier of the hub; got {licence[1]}')
        errors = [{"message": message} for message in bad]
        self.answer({"errors": errors, "warnings": []}, status=400 if errors else 200)

    def create(self, wanted: dict[str, Any]) -> None:
        name, kind = f"{wanted['organization']}/{wanted['name']}", wanted.get("type") or "model"
        if wanted["organization"] != "me" or wanted["name"] == "api":
            return self.fail(400 if wanted["name"] == "api" else 403, None)
        prefix = "" if kind == "model" else f"{kind}s/"
        exists = f"{kind}s/{name}" in self.repos
        if not exists:
            private = bool(wanted.get("private") or wanted.get("visibility") == "private")
            self.repos[f"{kind}s/{name}"] = Repo(private, wanted.get("sdk"))
        return self.answer(
            {"url": f"http://{self.headers['Host']}/{prefix}{name}"}, status=409 if exists else 200
        )

    def preupload(self, repo: Repo, wanted: dict[str, Any]) -> None:
        have = repo.commits[-1][1]
        answers = [
            {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False}
            for f in wanted["files"]
        ]
        for answer in answers:
            answer["oid"] = oid(have[answer["path"]]) if answer["path"] in have else None
        self.answer({"files": answers})

    def commit(self, repo: Repo, name: str, body: bytes) -> None:
        files = {}
        for line in body.splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
        sha = repo.commit(files)
        self.answer(
            {"commitUrl": f"http://{self.headers['Host']}/{name}/commit/{sha}", "commitOid": sha}
        )

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path == "/test/repos":
            return self.answer(
                {
                    name: vars(r) | {"commits": [c[0] for c in r.commits]}
                    for name, r in self.repos.items()
                }
            )
        asked = re.fullmatch(
            r"/api/(\w+)/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+)(?:/(.*))?)?", path
        )
        if asked:
            kind, name, verb, revision, below = asked.groups()
            return self.describe(f"{kind}/{name}", verb, revision or "main", below)
        asked = re.fullmatch(r"/(?:(spaces)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.*)", path)
        if asked:
            return self.resolve(f"{asked[1] or 'models'}/{asked[2]}", asked[3], asked[4])
        return self.fail(404, "EntryNotFound")

    def describe(self, name: str, verb: str | None, revision: str, below: str | None) -> None:
        found = self.find(name, revision)
        if found is None:
            return None
        sha, files = found
        if verb != "tree":
            siblings = [{"rfilename": path} for path in files]
            private = self.repos[name].private
            about = {
                "id": name.split("/", 1)[1],
                "sha": sha,
                "siblings": siblings,
                "tags": [],
                "private": private,
            }
            return self.answer(about)
        inside = {path: files[path] for path in files if not below or path.startswith(f"{below}/")}
        if not inside:
            return self.fail(404, "EntryNotFound")
        rows = [
            {"type": "file", "path": p, "size": len(c), "oid": oid(c)} for p, c in inside.items()
        ]
        return self.answer(rows)

    def resolve(self, name: str, revision: str, path: str) -> None:
        found = self.find(name, revision)
        if found is None:
            return None
        sha, files = found
        if path not in files:
            return self.fail(404, "EntryNotFound", sha)
        return self.answer(
            files[path], headers={"ETag": f'"{oid(files[path])}"', "X-Repo-Commit": sha}
        )

    def find(self, name: str, revision: str) -> tuple[str, Files] | None:
        repo = self.repos.get(name)
        hidden = repo is None or (
            repo.private and self.headers.get("Authorization") != f"Bearer {TOKEN}"
        )
        found = None if hidden else repo.at(revision)
        if found is None:
            self.fail(401 if hidden else 404, "RepoNotFound" if hidden else "RevisionNotFound")
        return found

    def fail(self, status: int, code: str | None, sha: str = "") -> None:
        self.answer(
            {"error": code or "no"},
            status,
            {"X-Error-Code": code, "X-Repo-Commit": sha} if code else {},
        )

    def answer(
        self, content: Any, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()  # whoever started it closes this, also by dying
