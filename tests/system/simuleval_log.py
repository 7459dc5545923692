"""Scores an `instances.log` with SimulEval's own reader and scorers; run by the interpreter of
`.venv-simuleval`.

It knows nothing of hf_simultaneous. First argument: the log. stdout: `{"AL": ..., "LAAL": ...,
...}`."""

import json
import sys
from pathlib import Path

from simuleval.evaluator.instance import LogInstance
from simuleval.evaluator.scorers.latency_scorer import LATENCY_SCORERS_DICT
from simuleval.evaluator.scorers.quality_scorer import QUALITY_SCORERS_DICT


def main() -> None:
    instances = {
        index: LogInstance(line)
        for index, line in enumerate(Path(sys.argv[1]).read_text().splitlines())
    }
    scores = {name: LATENCY_SCORERS_DICT[name]()(instances) for name in ("AL", "LAAL", "AP", "DAL")}
    scores["BLEU"] = QUALITY_SCORERS_DICT["BLEU"]()(instances)
    json.dump(scores, sys.stdout)


if __name__ == "__main__":
    main()
