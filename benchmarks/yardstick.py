"""CTranslate2 on the same Marian, where it is installed: how fast a dedicated engine is at full
sentences."""

import tempfile
from importlib.util import find_spec
from typing import Any

import torch

from benchmarks.jobs import Job, make_source, plain_marian


def ctranslate2_job(
    models: dict[int | None, Any], length: int, precision: str = "float32"
) -> Job | None:
    """Greedy translation of one sentence of `length` tokens; None where CTranslate2 is not
    installed."""
    if find_spec("ctranslate2") is None:
        return None
    import ctranslate2
    from ctranslate2.converters.transformers import MarianMTLoader

    marian = plain_marian(models[1])
    spec = MarianMTLoader().get_model_spec(marian)
    # Its loader drops the row of the padding token, the last one of a real Marian vocabulary.
    tokens = [
        "<pad>",
        "<s>",
        "</s>",
        *(f"t{index}" for index in range(3, marian.config.vocab_size - 1)),
    ]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.decoder_start_token = "<pad>"
    with tempfile.TemporaryDirectory() as folder:
        spec.validate()
        spec.optimize()
        spec.save(folder)
        threads = torch.get_num_threads()
        translator = ctranslate2.Translator(
            folder, device="cpu", compute_type=precision, intra_threads=threads
        )
    source = [[tokens[token % len(tokens)] for token in make_source(length)]]

    def run() -> None:
        translator.translate_batch(
            source, beam_size=1, min_decoding_length=length, max_decoding_length=length
        )

    return Job(f"CTranslate2 {precision}, full sentence", run, length, length)
