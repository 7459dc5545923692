"""A set of tiny models with random weights and a tokenizer of words and parts of words: it takes
text and gives text.

What it says means nothing, but it says it word by word, at once, and always the same.
"""

from functools import cache
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase

from hf_simultaneous import AdaptiveWaitKGenerator, linear_thresholds
from tests.tiny import TALKATIVE, tiny_model
from training.tokenizer import SMALLEST_VOCABULARY, TokenizerOptions, train_tokenizer


TEXT = (
    "Das Haus am 3. Mai ist alt. Wir haben das kleine Boot heute nicht verkauft! "
    "Und die Katze läuft"
)
"""Three sentences; the last has no full stop."""
SENTENCES = [
    "Das Haus am 3. Mai ist alt.",
    "Wir haben das kleine Boot heute nicht verkauft!",
    "Und die Katze läuft",
]


@cache
def babble_tokenizer() -> PreTrainedTokenizerBase:
    return train_tokenizer([TEXT] * 3, TokenizerOptions(vocab_size=SMALLEST_VOCABULARY + 60))


def babbler(
    ks: tuple[int, ...] = (1, 3), dtype: torch.dtype = torch.float32
) -> AdaptiveWaitKGenerator:
    """Reads more than it writes at times, and at times not: its thresholds lie among its
    probabilities."""
    tokenizer = babble_tokenizer()
    ids = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "decoder_start_token_id": tokenizer.pad_token_id,
    }
    models = {k: tiny_model(seed=k, dtype=dtype, wait_k=k, **ids, **TALKATIVE) for k in ks}
    for model in models.values():
        for token, entry in enumerate(tokenizer.convert_ids_to_tokens(range(len(tokenizer)))):
            if not entry.startswith("▁"):  # some parts of words, no bytes
                model.final_logits_bias[:, token] = -100.0 if entry.startswith("<") else 0.0
        model.final_logits_bias[:, tokenizer.eos_token_id] = 6.0
    return AdaptiveWaitKGenerator(models, tokenizer, linear_thresholds(0.6, 0.2, 1, 4))


def save_babbler(folder: Path) -> str:
    babbler().save_pretrained(str(folder))
    return str(folder)
