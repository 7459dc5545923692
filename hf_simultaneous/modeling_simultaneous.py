"""`SimultaneousMTModel`: Marian with cross-attention that shows target step t the first g(t) source
tokens only.

Knows losses, `generate` and Marian's checkpoints; how a source is encoded and masked is
`encoder_decoder`'s, and policies are unknown. Ships inside checkpoints, so it imports its siblings
only."""

import copy
from typing import Any

import torch
from torch import nn
from transformers import GenerationConfig, MarianConfig, MarianModel, MarianMTModel
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils import can_return_tuple

from .configuration_simultaneous import SimultaneousConfig
from .encoder_decoder import SimultaneousDecoder, SimultaneousEncoder
from .inputs import WaitKArgument
from .output_loss import IGNORED, output_loss


class SimultaneousModel(MarianModel):
    """Encoder and decoder without the language-modelling head."""

    config: SimultaneousConfig
    _auto_class = "AutoModel"
    # Neither takes a mask of any shape.
    _supports_flash_attn = False
    _supports_flex_attn = False

    def __init__(self, config: SimultaneousConfig):
        super(MarianModel, self).__init__(
            config
        )  # not Marian's own: it would build its encoder and decoder first
        if config.share_encoder_decoder_embeddings:
            self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
            tied = ("decoder.embed_tokens", "encoder.embed_tokens")
            self._tied_weights_keys = {f"{name}.weight": "shared.weight" for name in tied}
        self.encoder = SimultaneousEncoder(config)
        self.decoder = SimultaneousDecoder(config)
        self.post_init()


class SimultaneousMTModel(MarianMTModel):
    """Marian for simultaneous translation: `forward(..., wait_k=3)`, `generate(..., wait_k=3)`.

    `wait_k` is a number, a tensor with one for each sentence (a k as large as the source is the
    full sentence) or, in training, for each of its steps (a path), `"full"`, or `None` for what the
    model was trained with (`config.wait_k`)."""

    config: SimultaneousConfig
    _auto_class = "AutoModelForSeq2SeqLM"
    _supports_flash_attn = SimultaneousModel._supports_flash_attn
    _supports_flex_attn = SimultaneousModel._supports_flex_attn

    def __init__(self, config: SimultaneousConfig):
        super(MarianMTModel, self).__init__(config)
        self.model = SimultaneousModel(config)
        if config.share_encoder_decoder_embeddings:
            tied = ("lm_head", "model.decoder.embed_tokens", "model.encoder.embed_tokens")
            self._tied_weights_keys = {f"{name}.weight": "model.shared.weight" for name in tied}
        vocab_size = (
            config.vocab_size
            if config.share_encoder_decoder_embeddings
            else config.decoder_vocab_size
        )
        self.final_logits_bias = nn.Buffer(torch.zeros((1, vocab_size)))
        self.lm_head = nn.Linear(config.d_model, vocab_size, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: tuple[torch.Tensor] | BaseModelOutput | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        decoder_inputs_embeds: torch.FloatTensor | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        wait_k: WaitKArgument = None,
        num_items_in_batch: int | torch.Tensor | None = None,
        loss_only: bool = False,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Marian's forward under wait-k; with `labels`, the label-smoothed loss over those that are
        not -100. `loss_only` returns no logits, which makes a step of training on a CPU cheaper."""
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        arguments: dict[str, Any] = {
            **kwargs,
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "decoder_input_ids": decoder_input_ids,
            "decoder_attention_mask": decoder_attention_mask,
            "encoder_outputs": encoder_outputs,
            "past_key_values": past_key_values,
            "inputs_embeds": inputs_embeds,
            "decoder_inputs_embeds": decoder_inputs_embeds,
            "use_cache": use_cache,
            "wait_k": wait_k,
            "return_dict": True,
        }
        if loss_only and labels is not None:
            states = self.model(**arguments).last_hidden_state
            return Seq2SeqLMOutput(loss=self._loss_of(states, labels, num_items_in_batch))
        outputs = super().forward(**arguments)
        if labels is None:
            return outputs
        # Made anew, because the loss must come first where the caller wants a tuple.
        return Seq2SeqLMOutput(
            loss=self._loss(outputs.logits, labels, num_items_in_batch), **outputs
        )

    def _loss(
        self,
        logits: torch.Tensor,
        labels: torch.Tensor,
        num_items_in_batch: int | torch.Tensor | None,
    ) -> torch.Tensor:
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1),
            labels.flatten().to(logits.device),
            label_smoothing=self.config.label_smoothing,
            reduction="mean" if num_items_in_batch is None else "sum",
        )
        return loss if num_items_in_batch is None else loss / num_items_in_batch

    def _loss_of(
        self,
        states: torch.Tensor,
        labels: torch.Tensor,
        num_items_in_batch: int | torch.Tensor | None,
    ) -> torch.Tensor:
        """`_loss` of the logits these states have."""
        if states.device.type != "cpu":
            logits = self.lm_head(states) + self.final_logits_bias
            return self._loss(logits, labels, num_items_in_batch)
        smoothing = self.config.label_smoothing
        loss = output_loss(states, self.lm_head.weight, self.final_logits_bias, labels, smoothing)
        count = (labels != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch
        return loss / count

    def _prepare_generation_config(
        self, generation_config: GenerationConfig | None, **kwargs: Any
    ) -> tuple[GenerationConfig, dict[str, Any]]:
        # A generation config that has `wait_k` also takes the keyword of that name; either way
        # forward needs it.
        generation_config, model_kwargs = super()._prepare_generation_config(
            generation_config, **kwargs
        )
        wait_k = model_kwargs.get("wait_k", getattr(generation_config, "wait_k", None))
        if isinstance(wait_k, torch.Tensor) and wait_k.ndim == 0:
            wait_k = wait_k.item()  # tensors are repeated for each beam, which this one cannot be
        if wait_k is not None:
            model_kwargs["wait_k"] = wait_k
        return generation_config, model_kwargs

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """As in transformers; a `wait_k` in `generation_config` is kept even where that was made
        from the config."""
        self.generation_config._from_model_config = (
            False  # it would be rebuilt on loading, without our entry
        )
        super().save_pretrained(*args, **kwargs)

    @classmethod
    def from_marian(cls, marian: MarianMTModel) -> "SimultaneousMTModel":
        """A Marian model as ours, with the `prefix` encoder; the two share their weights."""
        with torch.device("meta"):
            model = cls(SimultaneousConfig(**marian_fields(marian.config)))
        model.load_state_dict(marian.state_dict(), assign=True)
        model.tie_weights()
        model.set_attn_implementation(marian.config._attn_implementation)
        model.generation_config = copy.deepcopy(marian.generation_config)
        return model.train(marian.training)

    def to_marian(self) -> MarianMTModel:
        """The same full-sentence model as a plain `MarianMTModel`, which needs nothing of this
        package."""
        if self.config.encoder_attention != "prefix":
            raise ValueError(
                "Marian's encoder is bidirectional; this model has encoder_attention='causal' and "
                "would translate "
                "differently. Train with encoder_attention='prefix' to save as Marian"
            )
        marian = MarianMTModel(MarianConfig(**marian_fields(self.config))).to(
            device=self.device, dtype=self.dtype
        )
        marian.load_state_dict(self.state_dict())
        marian.generation_config = copy.deepcopy(self.generation_config)
        return marian.train(self.training)


def marian_fields(config: MarianConfig) -> dict[str, Any]:
    """What a configuration of Marian's or ours says about a Marian model."""
    fields = set(MarianConfig.__dataclass_fields__) - {"model_type"}
    return {name: value for name, value in config.to_dict().items() if name in fields}
