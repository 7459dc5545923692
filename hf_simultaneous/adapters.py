"""A model as the engine uses it: a few numbers and calls, whatever its family.

Runs a model's own layers, at positions and with keys and values that the engine chooses; no layer
is copied. Knows transformers' models; not which of them a name means (`families`), nor what is
decoded."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from .caches import Store, Window, Windows
from .masks import for_attention


KeysAndValues = tuple[torch.Tensor, torch.Tensor]


class Adapter(ABC):
    """What lanes, sources and caches know of a model. They reach it through nothing else."""

    causal = False
    """Does what follows a source token leave its state alone, so that `extend` can go on?"""
    positions_per_call = 16384
    """Bounds the memory of encoding prefixes: no call takes more positions, padding included."""
    layers: int
    heads: int
    head_dim: int
    limit: int
    """Positions there are, for a source and for a target."""

    def __init__(self, model: Any):
        config = model.config
        self.config = config
        # Asking the model for these walks all its parameters.
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.start: int = config.decoder_start_token_id
        self.pad: int = config.pad_token_id
        ends = config.eos_token_id
        self.end: int = ends[0] if isinstance(ends, (list, tuple)) else ends

    @abstractmethod
    def encode(self, sources: Sequence[Sequence[int]]) -> torch.Tensor:
        """The encoder's states of whole token sequences, padded on the right: (sources, longest,
        width)."""

    def extend(self, tokens: torch.Tensor, positions: torch.Tensor, past: Window) -> torch.Tensor:
        """Run more source tokens of any sources through a causal encoder, each of them a query as
        in `decode`: (queries, width). `past` holds what came before."""
        raise NotImplementedError

    @abstractmethod
    def project(self, states: torch.Tensor) -> Iterator[KeysAndValues]:
        """Each decoder layer's keys and values of encoder states (positions, width): (positions,
        heads * head_dim) both."""

    def projected(self, states: torch.Tensor) -> torch.Tensor:
        """The same as one tensor: (positions, layers, 2, heads * head_dim)."""
        return torch.stack([torch.stack(pair, 1) for pair in self.project(states)], 1)

    def store(self) -> Store:
        """Room for keys and values of the decoder's layers, of targets or sources."""
        return Store(self.layers, self.heads, self.head_dim, self.dtype, self.device)

    def past(self) -> Store:
        """Room for those of a causal encoder's layers."""
        raise NotImplementedError

    @abstractmethod
    def decode(
        self, tokens: torch.Tensor, positions: torch.Tensor, windows: Windows
    ) -> torch.Tensor:
        """Run one target position for each query, tokens and positions (queries, 1): what `logits`
        takes, (queries, width). The windows know where each query looks."""

    @abstractmethod
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(queries, width) -> (queries, vocabulary)"""

    @abstractmethod
    def cross_attention(self, layer: int) -> nn.Module:
        """The module with which a decoder layer looks at the source. It is called with the hidden
        states, first or as `hidden_states`, and with `past_key_values`."""

    @abstractmethod
    def cross_query(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        """What that module, given `hidden`, compares with its keys: (queries, 1, heads *
        head_dim), scaled."""

    def _padded(self, sources: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
        longest = max(map(len, sources))
        padded = torch.full((len(sources), longest), self.pad)
        mask = torch.zeros_like(padded)
        for index, source in enumerate(sources):
            padded[index, : len(source)] = torch.tensor(source)
            mask[index, : len(source)] = 1
        return {"input_ids": padded.to(self.device), "attention_mask": mask.to(self.device)}


# Decoder layers ask for the encoder's states to know that there is a source at all; our keys and
# values are ready.
ALREADY_PROJECTED = torch.empty(0)


class BartLike(Adapter):
    """Models laid out as BART is: Marian, M2M100 and NLLB, mBART, Pegasus."""

    def __init__(self, model: Any):
        super().__init__(model)
        self._encoder = model.model.encoder
        self._decoder = model.model.decoder
        self._head = model.lm_head
        self._bias: torch.Tensor | None = getattr(model, "final_logits_bias", None)
        self.layers = len(self._decoder.layers)
        self.heads = self.config.decoder_attention_heads
        self.head_dim = self.config.d_model // self.heads
        places, first = _position_table(self._decoder.embed_positions)
        self.limit = min(self.config.max_position_embeddings, len(places) - first)

    def encode(self, sources: Sequence[Sequence[int]]) -> torch.Tensor:
        states: torch.Tensor = self._encoder(**self._padded(sources)).last_hidden_state
        return states

    def project(self, states: torch.Tensor) -> Iterator[KeysAndValues]:
        for layer in self._decoder.layers:
            attention = layer.encoder_attn
            yield attention.k_proj(states), attention.v_proj(states)

    def decode(
        self, tokens: torch.Tensor, positions: torch.Tensor, windows: Windows
    ) -> torch.Tensor:
        own = for_attention(windows.own.mask, self.config, self.dtype)
        seen = for_attention(windows.source.mask, self.config, self.dtype)
        hidden = embedded(self._decoder, tokens, positions)  # (queries, 1, width)
        for layer in self._decoder.layers:
            hidden = layer(
                hidden,
                own,
                ALREADY_PROJECTED,
                encoder_attention_mask=seen,
                past_key_values=windows,
                use_cache=True,
            )
        norm = getattr(self._decoder, "layer_norm", None)  # where layers begin with theirs
        return (norm(hidden) if norm is not None else hidden)[:, 0]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._head(hidden)
        return logits if self._bias is None else logits + self._bias

    def cross_attention(self, layer: int) -> nn.Module:
        module: nn.Module = self._decoder.layers[layer].encoder_attn
        return module

    def cross_query(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        attention = self._decoder.layers[layer].encoder_attn
        query: torch.Tensor = attention.q_proj(hidden) * attention.scaling
        return query


class Ours(BartLike):
    """`SimultaneousMTModel`: Marian's layers, and an encoder that can be causal."""

    def __init__(self, model: Any):
        self.causal = model.config.encoder_attention == "causal"
        super().__init__(model)
        self.positions_per_call = self._encoder.prefix_positions_per_call

    def encode(self, sources: Sequence[Sequence[int]]) -> torch.Tensor:
        encoded = self._encoder(**self._padded(sources), wait_k="full")
        states: torch.Tensor = encoded.last_hidden_state
        return states

    def past(self) -> Store:
        heads = self.config.encoder_attention_heads
        head_dim = self.config.d_model // heads
        return Store(self.config.encoder_layers, heads, head_dim, self.dtype, self.device)

    def extend(self, tokens: torch.Tensor, positions: torch.Tensor, past: Window) -> torch.Tensor:
        states: torch.Tensor = self._encoder(
            input_ids=tokens,
            attention_mask=for_attention(past.mask, self.config, self.dtype),
            position_ids=positions,
            past_key_values=past,
        ).last_hidden_state
        return states[:, 0]


def embedded(stack: Any, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """What an encoder's or a decoder's first layer takes, for tokens at positions."""
    # The others scale inside `embed_tokens`.
    words = stack.embed_tokens(tokens) * getattr(stack, "embed_scale", 1.0)
    places, first = _position_table(stack.embed_positions)
    hidden: torch.Tensor = words + places[positions + first]
    norm = getattr(stack, "layernorm_embedding", None)
    return hidden if norm is None else norm(hidden)


def _position_table(module: Any) -> tuple[torch.Tensor, int]:
    """A row for each position, and the row of the first."""
    if hasattr(module, "weights"):  # M2M100: rows follow the one of padding
        return module.weights, module.padding_idx + 1
    return module.weight, getattr(module, "offset", 0)
