"""T5 and its relatives as the engine uses them.

Runs the model's own blocks, like `adapters`; knows how they tell positions apart."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .adapters import ALREADY_PROJECTED, Adapter, KeysAndValues
from .masks import for_attention


if TYPE_CHECKING:
    from .caches import Windows


T5_POSITIONS = 1024


class T5Like(Adapter):
    """T5 and its relatives: where a position looks is biased by how far away it is."""

    def __init__(self, model: Any):
        super().__init__(model)
        self._encoder = model.encoder
        self._decoder = model.decoder
        self._head = model.lm_head
        config = self.config
        tied = config.model_type == "umt5" and config.tie_word_embeddings
        scaled = getattr(config, "scale_decoder_outputs", tied)
        self._scale = config.d_model**-0.5 if scaled else 1.0
        self.layers = len(self._decoder.block)
        self.heads = config.num_heads
        self.head_dim = config.d_kv
        # There is no table to run out of: the length they were trained with, or the usual one.
        self.limit = getattr(config, "n_positions", None) or T5_POSITIONS

    def encode(self, sources: Sequence[Sequence[int]]) -> torch.Tensor:
        states: torch.Tensor = self._encoder(**self._padded(sources)).last_hidden_state
        return states

    def project(self, states: torch.Tensor) -> Iterator[KeysAndValues]:
        for layer in range(self.layers):
            attention: Any = self.cross_attention(layer)
            yield attention.k(states), attention.v(states)

    def decode(
        self, tokens: torch.Tensor, positions: torch.Tensor, windows: "Windows"
    ) -> torch.Tensor:
        own = windows.own.mask
        seen = for_attention(windows.source.mask, self.config, self.dtype)
        hidden = self._decoder.embed_tokens(tokens)  # (queries, 1, width)
        distance = torch.arange(own.shape[-1], device=self.device) - positions
        biased = own
        for block in self._decoder.block:
            attention = block.layer[0].SelfAttention
            if attention.has_relative_attention_bias:  # T5 has one for all blocks
                biased = self._bias(attention, distance).masked_fill(
                    ~own, torch.finfo(self.dtype).min
                )
            hidden = block(
                hidden,
                attention_mask=biased,
                encoder_hidden_states=ALREADY_PROJECTED,
                encoder_attention_mask=seen,
                past_key_values=windows,
            )
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        hidden = self._decoder.final_layer_norm(hidden)
        return hidden[:, 0]

    def _bias(self, attention: Any, distance: torch.Tensor) -> torch.Tensor:
        """The module's own bias for distances (queries, places): (queries, heads, 1, places)."""
        options = (
            {}
            if self.config.model_type == "umt5"
            else {
                "bidirectional": False,
                "num_buckets": attention.relative_attention_num_buckets,
                "max_distance": attention.relative_attention_max_distance,
            }
        )
        buckets = attention._relative_position_bucket(distance, **options)
        bias: torch.Tensor = attention.relative_attention_bias(buckets)
        return bias.transpose(1, 2)[:, :, None]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._head(hidden * self._scale)
        return logits

    def cross_attention(self, layer: int) -> nn.Module:
        module: nn.Module = self._decoder.block[layer].layer[1].EncDecAttention
        return module

    def cross_query(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        attention: Any = self.cross_attention(layer)
        query: torch.Tensor = attention.q(hidden) * attention.scaling
        return query
