"""A SimulEval agent for any set: `simuleval --agent simuleval_agent.py --model SET --engine-python
PYTHON --operating-point low ...`.

SimulEval and this package need different environments, so the agent holds no model: it starts
`PYTHON -m hf_simultaneous.simuleval_server` and exchanges lines of JSON with it. It imports nothing
but SimulEval and the standard library.

The set's operating points (low, medium, high, ...) are chosen with `--operating-point`; what our
own commands call `--latency` SimulEval takes for the beginning of its `--latency-metrics`."""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from simuleval.agents import TextToTextAgent
from simuleval.agents.actions import Action, ReadAction, WriteAction
from simuleval.utils import entrypoint


ENGINE = "hf_simultaneous.simuleval_server"


class Engine:
    """The other process: one line out, one line back."""

    def __init__(self, python: str, **options: Any):
        home = str(Path(__file__).resolve().parents[1])
        path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [python, "-m", ENGINE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": path},
        )
        self.ask("open", **options)

    def ask(self, request: str, **values: Any) -> list[dict[str, Any]]:
        """The events that a request gave rise to."""
        line = self._exchange(json.dumps({"request": request, **values}))
        answer: dict[str, Any] = (
            json.loads(line) if line else {"error": "it has stopped; its own message is above"}
        )
        if "error" in answer:
            raise RuntimeError(f"the engine, {ENGINE}, says: {answer['error']}")
        return list(answer["events"])

    def _exchange(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(line, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return ""
        return self._process.stdout.readline()


@entrypoint
class SimultaneousAgent(TextToTextAgent):
    """One action per source word, as SimulEval asks: all words finished by then, in a single WRITE.

    One word per action would put the second of two words, written at the same moment, one source
    word too late."""

    def __init__(self, args: Namespace):
        names = ("model", "policy", "k", "rho")
        options = {name: getattr(args, name) for name in names}
        self.engine = Engine(args.engine_python, latency=args.operating_point, **options)
        self._sent = 0
        super().__init__(args)

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        parser.add_argument(
            "--model",
            required=True,
            help="A set of models or a checkpoint: a folder, or user/name.",
        )
        parser.add_argument(
            "--policy", help="adaptive (the default), wait-k, test-time-wait-k or full."
        )
        parser.add_argument(
            "--k", type=int, help="Tokens that wait-k waits for; alone it means wait-k."
        )
        parser.add_argument(
            "--rho", type=float, nargs=2, help="First and last threshold of the adaptive policy."
        )
        parser.add_argument(
            "--operating-point", help="Of the set: low, medium, high, ...; instead of a policy."
        )
        parser.add_argument(
            "--engine-python", default=sys.executable, help="A Python that has hf_simultaneous."
        )

    def reset(self) -> None:
        """A new sentence."""
        super().reset()
        self._sent = 0
        self.engine.ask("reset")

    def policy(self, states: Any = None) -> Action:
        """Send the word that has arrived; give back what was written because of it."""
        states = states or self.states
        events = []
        for word in states.source[self._sent :]:
            events += self.engine.ask("word", text=word)
        self._sent = len(states.source)
        if states.source_finished:
            events += self.engine.ask("flush")
        written = "".join(
            " " * event["spaced"] + event["text"] for event in events if event["action"] == "WRITE"
        )
        if written or states.source_finished:
            return WriteAction(written, finished=states.source_finished)
        return ReadAction()
