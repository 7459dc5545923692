"""The two halves of the model: an encoder that can be extended or can encode every prefix, and a
decoder that looks at the first g(t) source tokens only.

Knows Marian's layers, which it uses as they are, and the masks; nothing of losses, generation or
policies. Ships inside checkpoints, so it imports its siblings only."""

from typing import Any

import torch
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import Cache
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
)
from transformers.models.marian.modeling_marian import (
    MarianDecoder,
    MarianEncoder,
    MarianPreTrainedModel,
)
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .configuration_simultaneous import SimultaneousConfig
from .inputs import WaitKArgument, check_source, resolve_wait_k, source_len_of, source_lengths
from .masks import for_attention, packed_cross_mask, packed_width, plain_cross_mask, visible_counts


class SimultaneousEncoder(MarianEncoder):
    """Marian's encoder, causal or not, that can go on where it stopped and can encode every prefix
    of a source."""

    # Bounds the memory of encoding all prefixes: no call takes more source positions than this,
    # padding included.
    prefix_positions_per_call = 16384

    def __init__(self, config: SimultaneousConfig):
        super().__init__(config)
        for index, layer in enumerate(self.layers):
            layer.self_attn.layer_idx = (
                index  # Marian's encoder is never cached, so its layers have none
            )

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        wait_k: WaitKArgument = None,
        position_ids: torch.LongTensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Encode a source; under wait-k with a bidirectional encoder, every prefix of it (`masks`,
        packed layout).

        With `past_key_values` and `position_ids` a causal encoder is extended; the mask is then the
        caller's, 4-D. `output_hidden_states` and `output_attentions` record every call: for
        prefixes those are as many as they took."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError(
                "give either input_ids or inputs_embeds; got "
                + ("both" if input_ids is not None else "none")
            )
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids) * self.embed_scale
        # (batch, source_len, width)
        batch, source_len = inputs_embeds.shape[:2]
        if past_key_values is not None:
            kwargs.update(position_ids=position_ids, past_key_values=past_key_values)
        else:
            check_source(batch, source_len, attention_mask, self.max_source_positions)
        k = resolve_wait_k(wait_k, self.config, batch)
        if k is not None and self.config.encoder_attention == "prefix":
            states = self._encode_prefixes(inputs_embeds, attention_mask, k, **kwargs)
        else:
            states = self._encode(inputs_embeds, attention_mask, **kwargs)
        return BaseModelOutput(last_hidden_state=states)

    def _encode(
        self,
        inputs_embeds: torch.Tensor,
        attention_mask: torch.Tensor | None,
        position_ids: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        positions = self.embed_positions(inputs_embeds.shape[:-1], position_ids=position_ids)
        hidden_states = nn.functional.dropout(
            inputs_embeds + positions, p=self.dropout, training=self.training
        )
        arguments = {
            "config": self.config,
            "inputs_embeds": inputs_embeds,
            "attention_mask": attention_mask,
        }
        causal = self.config.encoder_attention == "causal"
        if causal:
            attention_mask = create_causal_mask(**arguments, past_key_values=None)
        else:
            attention_mask = create_bidirectional_mask(**arguments)
        for layer in kept_layers(self):
            # transformers leaves a mask out where the attention can do without: then it goes by
            # this flag
            hidden_states = layer(hidden_states, attention_mask, is_causal=causal, **kwargs)
        return hidden_states

    def _encode_prefixes(
        self,
        inputs_embeds: torch.Tensor,
        attention_mask: torch.Tensor | None,
        k: int | torch.Tensor,
        **kwargs: Any,
    ) -> torch.Tensor:
        """The states of every prefix that some step can see, in the packed layout; zeros for the
        others."""
        batch, source_len, width = inputs_embeds.shape
        device = inputs_embeds.device
        lengths = source_lengths(attention_mask, batch, source_len, device)
        sizes = torch.arange(1, source_len + 1, device=device)
        steps = k.shape[1] if isinstance(k, torch.Tensor) and k.ndim == 2 else 1
        seen = visible_counts(torch.arange(1, steps + 1, device=device), k, lengths)
        shortest = seen.amin(1, keepdim=True)  # g(1), unless a path turns back
        needed = (sizes >= shortest) & (sizes <= lengths[:, None])  # (batch, source_len)
        rows, prefixes = needed.nonzero(as_tuple=True)
        order = prefixes.argsort()  # short prefixes share a call
        rows = rows[order]
        prefixes = prefixes[order] + 1
        states, places = [], []
        for chunk in chunks(prefixes.tolist(), self.prefix_positions_per_call):
            row = rows[chunk]
            prefix = prefixes[chunk]
            longest = int(prefix[-1])
            inside = sizes[:longest] <= prefix[:, None]  # (prefixes, longest)
            encoded = self._encode(inputs_embeds[row, :longest], inside.long(), **kwargs)
            start = row * packed_width(source_len) + prefix * (prefix - 1) // 2
            states.append(encoded[inside])  # (prefixes, longest, width) -> (states, width)
            places.append((start[:, None] + sizes[:longest] - 1)[inside])
        packed = inputs_embeds.new_zeros(batch * packed_width(source_len), width)
        packed.index_copy_(0, torch.cat(places), torch.cat(states))
        return packed.view(batch, -1, width)  # (batch, packed_width, width)


class SimultaneousDecoder(MarianDecoder):
    """Marian's decoder under wait-k, with positions that may differ from row to row."""

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.FloatTensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        use_cache: bool | None = None,
        wait_k: WaitKArgument = None,
        position_ids: torch.LongTensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Decode `input_ids`, the first of them at the position the cache has reached, or at
        `position_ids`.

        Masks of four dimensions are taken as they are; others are made here, the cross-attention's
        from `wait_k`."""
        if (input_ids is None) == (inputs_embeds is None):
            given = "both" if input_ids is not None else "none"
            raise ValueError(f"give either decoder_input_ids or decoder_inputs_embeds; got {given}")
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        inputs_embeds = inputs_embeds * self.embed_scale  # (batch, new, width)
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(
                DynamicCache(config=self.config), DynamicCache(config=self.config)
            )
        if position_ids is None:
            past_len = past_key_values.get_seq_length() if past_key_values is not None else 0
            position_ids = self._positions(past_len, inputs_embeds.shape[1])
        self_mask = create_causal_mask(
            config=self.config,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            past_key_values=getattr(past_key_values, "self_attention_cache", past_key_values),
        )
        cross_mask = self._cross_mask(
            inputs_embeds, encoder_hidden_states, encoder_attention_mask, position_ids, wait_k
        )
        hidden_states = inputs_embeds + self.embed_positions(
            inputs_embeds.shape[:-1], position_ids=position_ids
        )
        hidden_states = nn.functional.dropout(hidden_states, p=self.dropout, training=self.training)
        for layer in kept_layers(self):
            hidden_states = layer(
                hidden_states,
                self_mask,
                encoder_hidden_states,  # positional, or gradient checkpointing would not see it
                encoder_attention_mask=cross_mask,
                past_key_values=past_key_values,
                use_cache=use_cache,
                **kwargs,
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=hidden_states, past_key_values=past_key_values
        )

    def _positions(self, past_len: int | torch.Tensor, new: int) -> torch.Tensor:
        # A static cache counts in a tensor, which a compiled graph cannot look at.
        if not torch.compiler.is_compiling() and past_len + new > self.max_target_positions:
            raise ValueError(
                f"the target has {int(past_len + new)} tokens, but this model has positions for "
                f"{self.max_target_positions} (max_position_embeddings). Set a lower max_new_tokens"
            )
        return torch.arange(new, device=self.embed_positions.weight.device) + past_len

    def _cross_mask(
        self,
        inputs_embeds: torch.Tensor,
        states: torch.Tensor | None,
        source_mask: torch.Tensor | None,
        position_ids: torch.Tensor,
        wait_k: WaitKArgument,
    ) -> torch.Tensor | None:
        if states is None or (source_mask is not None and source_mask.ndim == 4):
            return source_mask
        k = resolve_wait_k(wait_k, self.config, *inputs_embeds.shape[:2])
        packed = k is not None and self.config.encoder_attention == "prefix"
        source_len = source_len_of(states.shape[1], packed, source_mask)
        if k is None:
            return create_bidirectional_mask(
                config=self.config,
                inputs_embeds=inputs_embeds,
                attention_mask=source_mask,
                encoder_hidden_states=states,
            )
        lengths = source_lengths(source_mask, states.shape[0], source_len, states.device)
        visible = visible_counts(position_ids + 1, k, lengths, self.config.catchup)  # (batch, new)
        make_mask = packed_cross_mask if packed else plain_cross_mask
        allowed = make_mask(visible, states.shape[1])  # (batch, 1, new, states)
        return for_attention(allowed, self.config, inputs_embeds.dtype)


def kept_layers(module: MarianPreTrainedModel) -> list[nn.Module]:
    """The layers of an encoder or decoder, less those LayerDrop leaves out of this training
    step."""
    if not module.training or not module.layerdrop:
        return list(module.layers)
    return [layer for layer in module.layers if torch.rand([]) >= module.layerdrop]


def chunks(sizes: list[int], limit: int) -> list[slice]:
    """Cut an ascending list into slices whose padded area, count times longest, stays within
    `limit`."""
    cuts, start = [], 0
    for index, size in enumerate(sizes):
        if index > start and (index - start + 1) * size > limit:
            cuts.append(slice(start, index))
            start = index
    return [*cuts, slice(start, len(sizes))]
