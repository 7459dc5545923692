"""`SimultaneousConfig`: Marian's configuration, and what makes a Marian model simultaneous.

Ships inside checkpoints, so it imports its siblings only.
"""

from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import MarianConfig

from .schedule import check_catchup, check_k


@strict
class SimultaneousConfig(MarianConfig):
    """Configuration of a [`SimultaneousMTModel`].

    Every field of `MarianConfig`, and:

    Args:
        wait_k: the k this model was trained with; `None` if it was not trained for one k: full
            sentences, or all k.
        catchup: one extra READ after every so many WRITEs; `None` is off.
        encoder_attention: `"causal"`, a source token sees those before it, so that a growing source
            is encoded token by token; or `"prefix"`, bidirectional, every prefix encoded anew. The
            default is `"prefix"`, because that is what a Marian checkpoint is.
        label_smoothing: of the training loss.
    """

    model_type = "simultaneous-mt"
    _auto_class: ClassVar[str | None] = (
        "AutoConfig"  # saved checkpoints carry this code, for those without us
    )

    # Marian's default forces token 0 when the length limit is reached, whatever token 0 is.
    forced_eos_token_id: int | list[int] | None = None
    wait_k: int | None = None
    catchup: int | None = None
    encoder_attention: str = "prefix"
    label_smoothing: float | int = 0.0

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # Sized for a few CPU cores.
        "tiny": {
            "d_model": 128,
            "encoder_layers": 4,
            "decoder_layers": 4,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 512,
            "decoder_ffn_dim": 512,
            "init_std": 0.08,
        },
        # The paper's Transformer-base.
        "base": {
            "d_model": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_attention_heads": 8,
            "decoder_attention_heads": 8,
            "encoder_ffn_dim": 2048,
            "decoder_ffn_dim": 2048,
            "init_std": 0.04,
        },
    }

    @classmethod
    def get_config_dict(cls, *name: Any, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a folder holds. Marian's is ours too, and transformers need not warn that it is of
        another type."""
        found, others = super().get_config_dict(*name, **options)
        ours = {"model_type": cls.model_type} if found.get("model_type") == "marian" else {}
        return {**found, **ours}, others

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> "SimultaneousConfig":
        """A configuration by name, `"tiny"` or `"base"`, with the causal encoder; keywords change
        single fields."""
        if name not in cls.presets:
            raise ValueError(f"presets are {', '.join(sorted(cls.presets))}; got {name!r}")
        common = {
            "encoder_attention": "causal",
            "activation_function": "relu",
            "scale_embedding": True,
            "max_position_embeddings": 512,
            "pad_token_id": 0,
            "decoder_start_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "label_smoothing": 0.1,
        }
        return cls(**{**common, **cls.presets[name], **overrides})

    def validate_simultaneous(self) -> None:
        """Run by transformers at construction and before saving."""
        if self.wait_k is not None:
            check_k(self.wait_k)
        check_catchup(self.catchup)
        if self.encoder_attention not in ("causal", "prefix"):
            raise ValueError(
                f"encoder_attention must be 'causal' or 'prefix'; got {self.encoder_attention!r}"
            )
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"label_smoothing must be 0 or more and below 1; got {self.label_smoothing}"
            )
