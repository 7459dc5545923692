"""The loss, its gradients, and the training tools of transformers."""

import copy

import pytest
import torch
from transformers import (
    DataCollatorForSeq2Seq,
    EncoderDecoderCache,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from tests.tiny import (
    PAD,
    VOCABULARY,
    batch,
    tiny_model,
    words,
)


pytestmark = pytest.mark.usefixtures("no_gradients")


def test_the_loss_is_the_smoothed_cross_entropy_of_real_labels(encoder_attention):
    model = tiny_model(encoder_attention=encoder_attention, label_smoothing=0.1)
    source, mask = batch(7, 5)
    labels = words(2, 6, seed=1)
    labels[1, 4:] = -100
    outputs = model(source, attention_mask=mask, labels=labels, wait_k=2)
    given = torch.cat(
        [torch.full((2, 1), PAD), labels[:, :-1].where(labels[:, :-1] != -100, PAD)], dim=1
    )
    logits = model(source, attention_mask=mask, decoder_input_ids=given, wait_k=2).logits
    assert torch.equal(outputs.logits, logits)
    log_p, real = logits.log_softmax(-1), labels != -100
    of_label = log_p.gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1)
    each = -(0.9 * of_label + 0.1 * log_p.mean(-1))[real]
    torch.testing.assert_close(outputs.loss, each.mean())
    for items in (20, torch.tensor(20)):
        shared = model(
            source, attention_mask=mask, labels=labels, wait_k=2, num_items_in_batch=items
        )
        torch.testing.assert_close(shared.loss, each.sum() / 20)


def test_without_smoothing_the_loss_is_marians():
    model = tiny_model(encoder_attention="prefix")
    source, mask = batch(7, 5)
    labels = words(2, 6, seed=1)
    labels[1, 4:] = -100
    theirs = model.to_marian()(source, attention_mask=mask, labels=labels).loss
    torch.testing.assert_close(model(source, attention_mask=mask, labels=labels).loss, theirs)


def test_a_tuple_starts_with_the_loss(model):
    source, labels = words(2, 7), words(2, 6, seed=1)
    as_dict = model(source, labels=labels, wait_k=2)
    as_tuple = model(source, labels=labels, wait_k=2, return_dict=False)
    assert isinstance(as_tuple, tuple)
    assert list(as_dict) == ["loss", "logits", "encoder_last_hidden_state"]
    for one, other in zip(as_dict.to_tuple(), as_tuple, strict=True):
        assert torch.equal(one, other)
    logits, past, *_ = model(source, decoder_input_ids=labels, wait_k=2, return_dict=False)
    assert logits.shape == (2, 6, VOCABULARY)
    assert isinstance(past, EncoderDecoderCache)


def trained_gradients(model, checkpointing=False, **options):
    model = copy.deepcopy(model).train()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    source, mask = batch(7, 5)
    torch.manual_seed(0)
    model(
        source, attention_mask=mask, labels=words(2, 6, seed=1), wait_k=torch.tensor([1, 3])
    ).loss.backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad}


@torch.enable_grad()
@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_gives_the_same_gradients(encoder_attention, reentrant):
    model = tiny_model(encoder_attention=encoder_attention)
    plain = trained_gradients(model)
    saving = trained_gradients(model, checkpointing=True, use_reentrant=reentrant)
    assert all(gradient is not None for gradient in plain.values())
    assert set(plain) == set(saving)
    for name, gradient in plain.items():
        torch.testing.assert_close(saving[name], gradient, msg=name)


@torch.enable_grad()
def test_prefixes_encoded_in_small_calls_have_the_same_gradients():
    model = tiny_model(encoder_attention="prefix", dropout=0.0)
    at_once = trained_gradients(model)
    model.model.encoder.prefix_positions_per_call = 10
    for name, gradient in trained_gradients(model).items():
        torch.testing.assert_close(gradient, at_once[name], rtol=1e-4, atol=1e-5, msg=name)


@torch.enable_grad()
def test_no_gradient_reaches_a_token_that_was_not_read(model):
    embeddings = model.get_encoder().embed_tokens(words(1, 12)).detach().requires_grad_()
    logits = model(
        inputs_embeds=embeddings, decoder_input_ids=words(1, 10, seed=1), wait_k=2
    ).logits
    for step in (1, 5, 9):
        (gradient,) = torch.autograd.grad(
            logits[:, step - 1].pow(2).sum(), embeddings, retain_graph=True
        )
        reached = gradient[0].abs().sum(-1) > 0
        assert reached.tolist() == [place < step + 1 for place in range(12)]


def test_training_mode_is_random_and_repeats_with_the_seed(model):
    noisy = copy.deepcopy(model).train()
    source, labels = words(2, 7), words(2, 6, seed=1)

    def loss(seed):
        torch.manual_seed(seed)
        return noisy(source, labels=labels, wait_k=2).loss.item()

    assert loss(0) == loss(0) != loss(1)


def test_layerdrop_leaves_layers_out_in_training_only(encoder_attention):
    model = tiny_model(
        encoder_attention=encoder_attention,
        encoder_layerdrop=1.0,
        decoder_layerdrop=1.0,
        dropout=0.0,
    )
    ran = []
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        layer.register_forward_hook(lambda *_: ran.append(1))
    model(words(2, 7), labels=words(2, 6, seed=1))
    assert len(ran) == 4
    model.train()(words(2, 7), labels=words(2, 6, seed=1))
    assert len(ran) == 4


def examples(tokenizer):
    texts = [
        ("w3 w4 w5 w6", "w7 w8"),
        ("w9 w10", "w11 w12 w13 w14"),
        ("w15", "w16"),
        ("w5 w6 w7", "w3 w4"),
    ]
    return [dict(tokenizer(source, text_target=target)) for source, target in texts]


def test_the_collator_of_transformers_feeds_it(model, tokenizer):
    collated = DataCollatorForSeq2Seq(tokenizer, model=model)(examples(tokenizer))
    assert collated["decoder_input_ids"][:, 0].tolist() == [PAD] * 4
    assert (collated["labels"] == -100).any()
    collated.pop("token_type_ids", None)
    outputs = model(**collated, wait_k=2)
    assert outputs.loss.isfinite()
    collated.pop("decoder_input_ids")
    torch.testing.assert_close(model(**collated, wait_k=2).loss, outputs.loss)


@torch.enable_grad()
def test_the_trainer_of_transformers_trains_it(encoder_attention, tokenizer, tmp_path):
    options = {"wait_k": 2, "label_smoothing": 0.1, "dropout": 0.0}
    model = tiny_model(encoder_attention=encoder_attention, **options)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=str(tmp_path),
            max_steps=1,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            predict_with_generate=True,
            generation_max_length=8,
            disable_tqdm=True,
        ),
        train_dataset=examples(tokenizer),
        eval_dataset=examples(tokenizer),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
    )
    result = trainer.train()
    changed = {
        name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])
    }
    assert changed == {name for name in before if "embed_positions" not in name}
    # It divides by the labels of all the micro-batches of a step, so the loss is the mean over all
    # of them.
    fresh = tiny_model(encoder_attention=encoder_attention, **options)
    whole = fresh(**DataCollatorForSeq2Seq(tokenizer, model=fresh)(examples(tokenizer))).loss
    assert result.training_loss == pytest.approx(whole.item(), rel=1e-4)
    predictions = trainer.predict(examples(tokenizer))
    assert len(predictions.predictions) == 4
    assert "test_loss" in predictions.metrics
