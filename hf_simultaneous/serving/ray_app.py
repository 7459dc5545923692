"""The same streams on Ray Serve: replicas of our application, placed, restarted and scaled by Ray.

Knows Ray; what happens inside a replica is `server.application`, as in a server of one process.
Admission stays ours: what Ray would queue without bound, a replica refuses."""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import serve as ray_serve
from ray.serve.schema import LoggingConfig
from starlette.applications import Starlette

from .access import Access, read_tokens
from .hub import Hub
from .limits import Limits
from .loading import loader
from .ray_metrics import RayTelemetry
from .server import ServeRequest, addresses_of, application
from .telemetry import log_to_stderr


if TYPE_CHECKING:
    from ..generation import AdaptiveWaitKGenerator


NAME = "simultaneous"
FULL_AT = 0.7
"""The share of a replica's streams at which Ray starts another."""
SPARE = 16
"""Requests above the streams that reach a replica: to be refused by us, and for /healthz."""


@dataclass(frozen=True, kw_only=True)
class RayRequest:
    """How many replicas, and where."""

    replicas: int = 1
    max_replicas: int | None = None
    """More than `replicas` lets Ray add some as streams come, and take them away as they go."""
    address: str | None = None
    """Of a cluster that runs; by default one is started here, for as long as this process lives."""
    cpus: float = 1.0
    """That each replica asks for."""

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= (self.max_replicas or self.replicas):
            raise ValueError(
                f"--replicas is 1 or more, and --max-replicas not below it; got {self.replicas} "
                f"and {self.max_replicas}"
            )


def deployment(
    load: "Callable[[], AdaptiveWaitKGenerator]",
    request: ServeRequest,
    wanted: RayRequest,
    log_format: str = "json",
) -> Any:
    """The application, bound: to be given to `ray.serve.run`, or named in a Ray Serve config."""
    limits = replace(request.limits, buffered=True)

    def build() -> Starlette:
        log_to_stderr(log_format)
        hub = Hub(
            load,
            limits,
            request.access,
            request.name,
            telemetry=RayTelemetry(),
            log_text=request.log_text,
        )
        return application(hub, wait=True)

    class Replica:
        """What Ray asks now and then: is the engine alive? If not, it starts another replica."""

        def check_health(self) -> None:
            if not self.app.state.hub.healthy:  # type: ignore[attr-defined]
                raise RuntimeError("the engine is silent")

    scaled: dict[str, Any] = {"num_replicas": wanted.replicas}
    if wanted.max_replicas and wanted.max_replicas > wanted.replicas:
        scaled = {
            "autoscaling_config": {
                "min_replicas": wanted.replicas,
                "max_replicas": wanted.max_replicas,
                "target_ongoing_requests": max(1, int(FULL_AT * limits.max_streams)),
            }
        }
    options = ray_serve.deployment(
        name=NAME,
        logging_config=LoggingConfig(enable_access_log=False),
        max_ongoing_requests=limits.max_streams + SPARE,
        graceful_shutdown_timeout_s=limits.drain,
        health_check_period_s=5,
        ray_actor_options={"num_cpus": wanted.cpus},
        **scaled,
    )
    return options(ray_serve.ingress(build)(Replica)).bind()


def build(
    arguments: dict[str, Any],
) -> Any:
    """For Ray's own config files, `import_path: hf_simultaneous.serving.ray_app:build`.

    `args` may be `model`, `latency`, `threads`, `quantize`, `source_language` and
    `target_language`, `replicas` and `max_replicas`, and the fields of `Limits`; tokens come from
    the environment."""
    given = dict(arguments)
    model, threads = given.get("model"), given.get("threads")
    names = ("model", "latency", "threads", "quantize", "source_language", "target_language")
    load = loader(**{name: given.pop(name) for name in names if name in given})
    counts = {name: given.pop(name) for name in ("replicas", "max_replicas") if name in given}
    request = ServeRequest(
        limits=Limits(**given),
        access=Access(read_tokens(None)),
        name=Path(model).name if model else "builtin",
    )
    return deployment(load, request, RayRequest(**counts, cpus=threads or 1))


def serve(
    load: "Callable[[], AdaptiveWaitKGenerator]",
    request: ServeRequest,
    wanted: RayRequest,
    *,
    log_format: str = "json",
    announce: Callable[[str], None] = print,
) -> None:
    """Serve until a signal says stop."""
    over = threading.Event()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    here = {} if wanted.address else {"include_dashboard": False}
    ray.init(address=wanted.address or "local", log_to_driver=True, **here)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    try:
        quiet = LoggingConfig(enable_access_log=False)
        address = {"host": request.host, "port": request.port}
        ray_serve.start(http_options=address, logging_config=quiet)
        ray_serve.run(deployment(load, request, wanted, log_format), name=NAME, route_prefix="/")
        announce(addresses_of(request, request.port)["ws"])
        over.wait()
    finally:
        ray_serve.delete(NAME)
        ray.shutdown()
