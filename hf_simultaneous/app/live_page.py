"""The page that talks to a server itself: files for a browser, which asks the server word by word.

Knows HTTP and where the files lie; needs nothing but Python."""

from functools import partial
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files


FILES = {
    "/": ("live/index.html", "text/html"),
    "/live.js": ("live/live.js", "text/javascript"),
    "/simultaneous.js": ("live/simultaneous.js", "text/javascript"),
    "/live.css": ("live/live.css", "text/css"),
    "/desk.css": ("desk.css", "text/css"),
}
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src ws: wss:"
"""What the browser lets the page do: its own files, and sockets."""


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, server_url: str, *rest: object):
        self._server_url = server_url
        super().__init__(*rest)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        name, kind = FILES.get(self.path.partition("?")[0], ("", ""))
        if not name:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        text = files(__package__).joinpath(name).read_text(encoding="utf-8")
        body = text.replace('data-server=""', f'data-server="{escape(self._server_url)}"').encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: nobody asked for a line for each request."""


def live_page(server_url: str, host: str = "127.0.0.1", port: int = 7860) -> ThreadingHTTPServer:
    """The page, for the server at ws://...; `serve_forever()` serves it."""
    if not all(url.startswith(("ws://", "wss://")) for url in server_url.split(",")):
        raise ValueError(f"a server is ws://host:port or wss://host; got {server_url!r}")
    return ThreadingHTTPServer((host, port), partial(_Handler, server_url))
