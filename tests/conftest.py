"""What every test shares: no network, one thread, and tiny models that are made once."""

import gc
import os

import hypothesis
import pytest


# Before anything imports torch or transformers. Processes that a test starts inherit it.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Which layout is fastest differs from one process to the next, and layouts round differently: what
# hangs on the last digit, such as a probability beside its threshold, would differ too. The tests
# of the layouts themselves do without.
os.environ.setdefault("HF_SIMULTANEOUS_LAYOUT", "own")

# The same examples in every run: a change that breaks a property is told from one that was unlucky.
# Nor does an example fail that a busy machine was slow to run.
hypothesis.settings.register_profile(
    "calm",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("calm")


def pytest_collection_modifyitems(items):
    """Folders whose files take long first: two processes that share the files are done together
    only if the last of them are short."""
    long = tuple(f"tests/{folder}/" for folder in ("serving", "sharing", "system", "training"))
    items.sort(key=lambda item: not item.nodeid.startswith(long))


def pytest_collection_finish():
    """What was imported stays: no collection of garbage need look at it again, and every training
    asks for one."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    """Where torch itself dies of a precision, the tests that use it are skipped, by name."""
    from hf_simultaneous import probe

    for mark in item.iter_markers("precision"):
        found = probe.probe(*mark.args)
        if not found.survived:
            pytest.skip(f"{item.name}: {found}")


@pytest.fixture
def no_gradients():
    """Unless a test asks for them with `@torch.enable_grad()`."""
    import torch

    with torch.no_grad():
        yield


@pytest.fixture(scope="session", params=["causal", "prefix"])
def encoder_attention(request):
    return request.param


@pytest.fixture(scope="session")
def model(encoder_attention):
    """One model of either encoder, in eval mode. Shared: copy it before changing it."""
    from tests.tiny import TALKATIVE, tiny_model

    return tiny_model(encoder_attention=encoder_attention, **TALKATIVE)


@pytest.fixture(scope="session")
def exact(encoder_attention):
    """The same in double precision, for what must agree to the last few bits."""
    import torch

    from tests.tiny import TALKATIVE, tiny_model

    return tiny_model(dtype=torch.float64, encoder_attention=encoder_attention, **TALKATIVE)


@pytest.fixture(scope="session")
def tokenizer():
    """A word is a token: `w3` to `w39`, in the vocabulary of the tiny models."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    from tests.tiny import VOCABULARY

    names = ["<pad>", "<s>", "</s>", *(f"w{number}" for number in range(3, VOCABULARY))]
    backend = Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )
