"""What `hf-simultaneous serve` does: options of the command line, made into a server.

Knows names of options; serving itself is done in the room `serving`."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Model, Quantize
from .requests import DEFAULT_LANGUAGES, Languages


if TYPE_CHECKING:
    from ..generation import AdaptiveWaitKGenerator
    from ..serving.limits import Limits
    from ..serving.server import ServeRequest


UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of `serve`; bounds are checked by those who keep them."""

    model: Model = None
    languages: Languages = DEFAULT_LANGUAGES
    quantize: Quantize = None
    latency: Annotated[
        str | None, typer.Option(help="The operating point of streams that name none.")
    ] = None
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other machines in.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="0 takes any that is free.")] = 8765
    threads: Annotated[int | None, typer.Option(help="Threads that torch computes with.")] = None
    max_streams: Annotated[int, typer.Option(help="Streams at a time.")] = 64
    max_memory: Annotated[str, typer.Option(help="Of all open sentences together.")] = "2GiB"
    max_backlog: Annotated[int, typer.Option(help="Words of a stream that may wait.")] = 512
    max_rate: Annotated[float, typer.Option(help="Words a second, of one stream.")] = 50.0
    idle: Annotated[float, typer.Option(help="Seconds without a message.")] = 300.0
    start_timeout: Annotated[float, typer.Option(help="Seconds until a start must come.")] = 10.0
    max_session: Annotated[float, typer.Option(help="Seconds that a stream may last.")] = 14400.0
    drain: Annotated[float, typer.Option(help="Seconds for open sentences at the end.")] = 10.0
    token_file: Annotated[
        Path | None,
        typer.Option(help="File of tokens, one on each line; a client must send one of them."),
    ] = None
    origin: Annotated[
        list[str] | None, typer.Option(help="A page that may connect, https://example.org.")
    ] = None
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text"
    log_text: Annotated[
        bool, typer.Option("--log-text", help="Also log what was said and written, by sentence.")
    ] = False
    ssl_certfile: Annotated[Path | None, typer.Option(help="For TLS.")] = None
    ssl_keyfile: Annotated[Path | None, typer.Option(help="For TLS.")] = None
    forwarded_allow_ips: Annotated[
        str | None, typer.Option(help="Proxies that are believed when they name the client.")
    ] = None

    engine: Annotated[str, typer.Option(help="embedded, or ray: replicas on Ray Serve.")] = (
        "embedded"
    )
    replicas: Annotated[int, typer.Option(help="With ray: how many to begin with.")] = 1
    max_replicas: Annotated[
        int | None, typer.Option(help="With ray: how many there may be as streams come.")
    ] = None
    ray_address: Annotated[
        str | None, typer.Option(help="A Ray cluster that runs; by default one is started here.")
    ] = None

    def __post_init__(self) -> None:
        if self.log_format not in ("text", "json"):
            raise ValueError(f"--log-format is text or json; got {self.log_format!r}")
        if self.engine not in ("embedded", "ray"):
            raise ValueError(f"--engine is embedded or ray; got {self.engine!r}")
        if self.engine == "ray" and self.ssl_certfile:
            raise ValueError("--engine ray serves no TLS; put nginx in front of it")
        scaled = self.replicas != 1 or self.max_replicas or self.ray_address
        if self.engine == "embedded" and scaled:
            raise ValueError(
                "--replicas, --max-replicas and --ray-address are for --engine ray; the embedded "
                "engine is one process"
            )

    def limits(self) -> "Limits":
        from ..serving.limits import Limits

        return Limits(
            max_streams=self.max_streams,
            max_memory=in_bytes(self.max_memory),
            max_backlog=self.max_backlog,
            max_rate=self.max_rate,
            idle=self.idle,
            start=self.start_timeout,
            max_session=self.max_session,
            drain=self.drain,
        )

    def request(self) -> "ServeRequest":
        from ..serving.access import Access, read_tokens
        from ..serving.server import ServeRequest

        return ServeRequest(
            host=self.host,
            port=self.port,
            limits=self.limits(),
            access=Access(read_tokens(self.token_file), tuple(self.origin or ())),
            name=Path(self.model).name if self.model else "builtin",
            ssl_certfile=str(self.ssl_certfile) if self.ssl_certfile else None,
            ssl_keyfile=str(self.ssl_keyfile) if self.ssl_keyfile else None,
            forwarded_allow_ips=self.forwarded_allow_ips,
            log_text=self.log_text,
        )


def serve(options: ServeOptions) -> None:
    """Serve many live streams: WebSocket /v1/stream, POST /v1/translate, /healthz, /metrics."""
    from ..app import check_port
    from .ahead import found_set, waiting_for
    from .doctor import require

    require("serve", "uvicorn")
    if options.port != 0:
        check_port(options.host, options.port)
    languages = asdict(options.languages)
    found_set(options.model, latency=options.latency, quantize=options.quantize, **languages)
    with waiting_for("loading the server"):
        from ..serving.access import LOOPBACK
        from ..serving.loading import loader
        from ..serving.server import serve as run
        from ..serving.telemetry import log_to_stderr

        request = options.request()
    if options.host not in LOOPBACK and not request.access.tokens:
        typer.echo(f"warning: {options.host} is open to everybody; set --token-file", err=True)
    load = loader(
        options.model,
        latency=options.latency,
        threads=options.threads,
        quantize=options.quantize,
        **languages,
    )
    if options.engine == "ray":
        _serve_on_ray(load, request, options)
        return
    log_to_stderr(options.log_format)
    run(load, request, typer.echo)


def _serve_on_ray(
    load: "Callable[[], AdaptiveWaitKGenerator]", request: "ServeRequest", options: ServeOptions
) -> None:
    from .doctor import require

    require("ray", "ray")
    from ..serving.ray_front import prefer_haproxy

    if options.ray_address is None:  # a cluster that runs has made its choice
        prefer_haproxy()
    from ..serving.ray_app import RayRequest
    from ..serving.ray_app import serve as run

    wanted = RayRequest(
        replicas=options.replicas,
        max_replicas=options.max_replicas,
        address=options.ray_address,
        cpus=options.threads or 1,
    )
    run(load, request, wanted, log_format=options.log_format, announce=typer.echo)


def in_bytes(size: str) -> int:
    """`2GiB`, `500 MiB`, or a number of bytes."""
    given = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(\w*)\s*", size)
    if given is None or given[2] not in UNITS:
        raise ValueError(
            f"a size is a number of bytes, or of KiB, MiB or GiB, such as 2GiB; got {size!r}"
        )
    return int(float(given[1]) * UNITS[given[2]])
