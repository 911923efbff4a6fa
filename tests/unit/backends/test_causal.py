import math

import numpy as np
import pytest

from ragsieve.backends.causal import HubCausalScorer
from ragsieve.backends.loading import LoadOptions, ModelSource
from ragsieve.errors import BackendError
from ragsieve.ports import CausalScorer

CPU = LoadOptions(device="cpu")


@pytest.fixture
def build(causal_folder):
    def build(**arguments):
        return HubCausalScorer(ModelSource(str(causal_folder)), options=CPU, **arguments)

    return build


def reference(folder, text):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    ids = AutoTokenizer.from_pretrained(folder)(text, truncation=True, max_length=64)["input_ids"]
    if len(ids) < 2:
        return np.empty(0)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double().numpy()
    normaliser = np.log(np.exp(logits).sum(axis=1))
    return np.array([normaliser[i] - logits[i, ids[i + 1]] for i in range(len(ids) - 1)])


def test_losses_are_those_of_one_text_alone_and_in_order(build, causal_folder, texts):
    for loss, text in zip(build().losses(texts), texts, strict=True):
        np.testing.assert_allclose(loss, reference(causal_folder, text), atol=1e-4)
        assert loss.dtype == np.float32


def test_batched_is_one_by_one(build, texts):
    scorer = build()
    for together, text in zip(scorer.losses(texts), texts, strict=True):
        np.testing.assert_allclose(together, scorer.losses([text])[0], atol=1e-4)


def test_the_first_token_has_no_loss(build):
    empty, one, two = build().losses(["", "alpha", "alpha beta"])
    assert (empty.shape, one.shape, two.shape) == ((0,), (0,), (1,))


def test_losses_are_likelihoods(build):
    scorer = build()
    words = ("alpha", "beta", "gamma", "delta", "one", "two", "three", "query", "passage", ":")
    total = sum(
        math.exp(-float(loss[0])) for loss in scorer.losses([f"alpha {word}" for word in words])
    )
    # The four special tokens hold what is left of the probability.
    assert 0 < total < 1
    assert scorer.vocabulary_size == len(words) + 4


def test_truncation(build):
    scorer = build(max_tokens=6)
    cut, short = scorer.losses(
        ["one two three alpha beta gamma delta", "one two three alpha beta gamma"]
    )
    assert cut.shape == (5,)
    np.testing.assert_allclose(cut, short, atol=1e-5)
    assert build(max_tokens=5).identity != scorer.identity


def test_long_texts_are_scored_in_pieces_without_a_seam(build, causal_folder, monkeypatch):
    monkeypatch.setattr("ragsieve.backends.causal._LOSS_ROWS", 4)
    text = "one two three alpha beta gamma delta " * 3
    np.testing.assert_allclose(build().losses([text])[0], reference(causal_folder, text), atol=1e-4)


def test_no_texts_and_only_empty_texts(build):
    assert build().losses([]) == []
    assert [loss.size for loss in build().losses(["", ""])] == [0, 0]


def test_is_the_port(build):
    assert isinstance(build(), CausalScorer)
    assert "tiny-causal@local-" in build().identity


def test_a_failing_model_is_a_backend_error_with_its_cause(build, monkeypatch):
    scorer = build()

    def fail(*args, **kwargs):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(scorer._model.loaded.model.model, "forward", fail)
    with pytest.raises(BackendError, match=r"tiny-causal@.*out of memory") as caught:
        scorer.losses(["alpha beta"])
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_family_whose_head_is_not_known_is_asked_for_its_logits(build, causal_folder, texts):
    known, other = build(), build()
    # Padding is masked for it, since nothing says that it may be left in sight.
    other._model.loaded.model.config.model_type = "somebody's"
    asked = []
    forward = other._model.loaded.model.forward

    def remember(*args, **kwargs):
        asked.append(kwargs["attention_mask"])
        return forward(*args, **kwargs)

    other._model.loaded.model.forward = remember
    for one, two in zip(known.losses(texts), other.losses(texts), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)
    assert asked


def test_results_do_not_keep_their_batch_alive(build):
    short, long = build().losses(["alpha beta", "one two three alpha beta gamma delta"])
    assert short.base is None
    assert long.base is None
