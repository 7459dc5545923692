"""Tiny models of every family of transformers, and what they say when asked alone.

Like `reference`, from scratch: every prediction encodes what was read, prefix by prefix, and forces
the whole target through the stock model."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    MT5Config,
    MT5ForConditionalGeneration,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PLBartConfig,
    PLBartForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
    UMT5Config,
    UMT5ForConditionalGeneration,
)

from hf_simultaneous.framing import Framing
from hf_simultaneous.schedule import K, visible
from tests.reference import Oracle, padded


PAD, EOS, VOCABULARY = 1, 2, 24
NOT_SEEN = -1e30
BART_LIKE = {
    "marian": (MarianConfig, MarianMTModel),
    "m2m_100": (M2M100Config, M2M100ForConditionalGeneration),
    "mbart": (MBartConfig, MBartForConditionalGeneration),
    "bart": (BartConfig, BartForConditionalGeneration),
    "pegasus": (PegasusConfig, PegasusForConditionalGeneration),
    "plbart": (PLBartConfig, PLBartForConditionalGeneration),
}
T5_LIKE = {
    "t5": (T5Config, T5ForConditionalGeneration),
    "mt5": (MT5Config, MT5ForConditionalGeneration),
    "umt5": (UMT5Config, UMT5ForConditionalGeneration),
}
FAMILIES = {**BART_LIKE, **T5_LIKE}
TOKENS = {
    "vocab_size": VOCABULARY,
    "pad_token_id": PAD,
    "bos_token_id": 0,
    "eos_token_id": EOS,
    "forced_eos_token_id": None,
}


def stock_model(
    family: str, seed: int = 0, dtype: torch.dtype = torch.float64, **options: Any
) -> Any:
    """In eval mode, with weights so large that what is not seen would be missed."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    make_config, make_model = FAMILIES[family]
    layers, heads = rng.choice((1, 2)), rng.choice((1, 2, 4))
    if family in T5_LIKE:
        sizes = {
            "d_model": 16,
            "d_kv": rng.choice((4, 8)),  # need not be d_model / heads
            "d_ff": 16,
            "num_layers": 1,
            "num_decoder_layers": layers,
            "num_heads": heads,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 12,
            "dropout_rate": 0.0,
            "decoder_start_token_id": PAD,
        }
    else:
        sizes = {
            "d_model": 16,
            "encoder_layers": 1,
            "decoder_layers": layers,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": heads,
            "encoder_ffn_dim": 16,
            "decoder_ffn_dim": 16,
            "max_position_embeddings": 40,
            "init_std": 0.5,
            "scale_embedding": rng.random() < 0.5,
            "decoder_start_token_id": EOS,
            "decoder_vocab_size": options.get("vocab_size", VOCABULARY),
            "tie_word_embeddings": False,
        }
    model = make_model(make_config(**{**TOKENS, **sizes, **options}))
    _make_talkative(model, rng)
    return model.to(dtype).eval()


def _make_talkative(model: Any, rng: random.Random) -> None:
    """As they come, such models say one word again and again, and never end."""
    words, pad, eos = model.config.vocab_size, model.config.pad_token_id, model.config.eos_token_id
    model.lm_head = nn.Linear(model.config.d_model, words, bias=False)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "SelfAttention" in name or "EncDecAttention" in name:
                weight.normal_(std=0.5)
            if "EncDecAttention.q" in name or "encoder_attn.q_proj.weight" in name:
                weight *= 3
        model.lm_head.weight.normal_(std=0.5)
        model.lm_head.weight[eos] *= rng.choice((1.2, 1.8))
        model.lm_head.weight[pad] = 0  # M2M100 does not count it as a position


class Stock(Oracle):
    """The distributions of `reference.translate`, made by the stock models alone."""

    def __init__(
        self,
        models: Mapping[K, Any],
        members: Callable[[int | None], tuple[K, ...]],
        framing: Framing,
        catchup: int | None,
    ):
        super().__init__(models, members)
        self.framing, self.catchup = framing, catchup
        self._encoded: dict[tuple[Any, ...], torch.Tensor] = {}

    def _question(self, source, target, k, context, floors) -> tuple[Any, ...]:
        if k is None:
            shown = [len(source) if context is None else context] * (len(target) + 1)
        else:
            shown = [
                max(visible(step, k, len(source), self.catchup), floor)
                for step, floor in enumerate(floors, start=1)
            ]
        return tuple(source), tuple(target), tuple(shown)

    @torch.inference_mode()
    def _answer(self, key: K, questions: list[tuple[Any, ...]]) -> None:
        """Every position is shown its own encoding: all of them side by side, and a mask."""
        prompt, model = self.framing.prompt, self.models[key]
        targets = [[*prompt, *target] for _, _, target, _ in questions]
        views = [self._view(key, source, shown) for _, source, _, shown in questions]
        masks = torch.full(
            (len(views), 1, max(map(len, targets)), max(len(states) for states, _ in views)),
            NOT_SEEN,
            dtype=model.dtype,
        )
        for row, (_, mask) in enumerate(views):
            masks[row, 0, : mask.shape[0], : mask.shape[1]] = mask
        logits = model(
            encoder_outputs=(pad_sequence([states for states, _ in views], batch_first=True),),
            attention_mask=masks,
            decoder_input_ids=padded(targets),
            use_cache=False,
        ).logits
        for row, (question, target) in enumerate(zip(questions, targets, strict=True)):
            self.known[question] = logits[row, len(target) - 1].softmax(-1)

    def _view(
        self, key: K, source: Sequence[int], shown: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The states of every prefix that a position is shown, and who is shown which."""
        # What comes before the first target token sees what that sees.
        shown = torch.tensor([*shown[:1] * (len(self.framing.prompt) - 1), *shown])
        sizes = shown.unique().tolist()
        states = self._encode(key, [source[:size] for size in sizes])
        columns = torch.tensor(sizes).repeat_interleave(torch.tensor(list(map(len, states))))
        return torch.cat(states), torch.where(shown[:, None] == columns, 0.0, NOT_SEEN)

    def _encode(self, key: K, sources: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        new = [source for source in map(tuple, sources) if (key, source) not in self._encoded]
        if new:
            before, after = self.framing.before, self.framing.after
            rows = [[*before, *one, *(after if one[-1] == EOS else ())] for one in new]
            mask = padded([[1] * len(row) for row in rows])
            states = self.models[key].get_encoder()(padded(rows), attention_mask=mask)
            for one, row, state in zip(new, rows, states.last_hidden_state, strict=True):
                self._encoded[key, one] = state[: len(row)]
        return [self._encoded[key, tuple(source)] for source in sources]
