"""The page of hf_simultaneous; `SIMULTANEOUS_SET` names the set of models that it shows."""

import os

from hf_simultaneous import AdaptiveWaitKGenerator
from hf_simultaneous.app import launch


generator = AdaptiveWaitKGenerator.from_pretrained(os.environ.get("SIMULTANEOUS_SET", "{{ set }}"))
launch(generator, host="0.0.0.0", port=7860)
