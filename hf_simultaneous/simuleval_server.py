"""Live translation for another process: a request in JSON on each line in, the events it gave rise
to on a line out.

For programs that cannot import this package, such as SimulEval's agents. Requests: `open` (a set
and a policy, once), `word`, `flush`, `reset` (a new sentence). Punctuation ends no sentence here:
the other side says where one ends."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .sentences import WholeLines
from .text_session import TextEvent, TextSession, check_latency_alone, choose_policy


REQUESTS = ("open", "word", "flush", "reset")


class Server:
    """One generator, one session at a time."""

    def __init__(self) -> None:
        self._generator: Any = None
        self._policy: Any = None
        self._session: TextSession | None = None

    def answer(self, request: str, **values: Any) -> list[TextEvent]:
        """What happened because of a request."""
        if request not in REQUESTS:
            raise ValueError(f"request must be one of {', '.join(REQUESTS)}; got {request!r}")
        if request == "open":
            return self._open(**values)
        if self._generator is None:
            raise ValueError(f"the first request is open, with a model; got {request!r}")
        if request == "reset" or self._session is None:
            rules = WholeLines(max_tokens=self._generator.position_limit)
            self._session = TextSession(self._generator, policy=self._policy, sentences=rules)
        if request == "word":
            return list(self._session.push_word(values["text"]))
        return list(self._session.flush()) if request == "flush" else []

    def _open(
        self,
        model: str,
        policy: str | None = None,
        k: int | None = None,
        rho: Any = None,
        latency: str | None = None,
    ) -> list[TextEvent]:
        from transformers.utils import logging

        from .generation import AdaptiveWaitKGenerator

        check_latency_alone(latency, policy, k=k, rho=rho)
        logging.disable_progress_bar()
        self._generator = AdaptiveWaitKGenerator.from_pretrained(model, latency=latency)
        self._policy = choose_policy(self._generator, policy, k=k, rho=rho)
        return []


def serve(lines: Iterable[str]) -> Iterator[str]:
    """An answer for every line; an error is an answer too."""
    server = Server()
    for line in lines:
        try:
            answer: dict[str, Any] = {
                "events": [event.to_dict() for event in server.answer(**json.loads(line))]
            }
        except (ValueError, OSError, TypeError, KeyError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        yield json.dumps(answer)


def main() -> None:
    """Standard input to standard output."""
    for answer in serve(sys.stdin):
        print(answer, flush=True)


if __name__ == "__main__":
    main()
