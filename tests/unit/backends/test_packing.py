import numpy as np
import pytest

from ragsieve.backends import packing
from ragsieve.backends.causal import HubCausalScorer
from ragsieve.backends.loading import LoadOptions, ModelSource, load_causal, load_encoder
from ragsieve.backends.packing import pack_linears

CPU = LoadOptions(device="cpu")


def linears(model):
    import torch

    return [one for one in model.modules() if type(one) is torch.nn.Linear]


@pytest.mark.parametrize("rows", [1, 7, 40])
def test_packed_layers_give_the_same_sums(encoder_folder, rows):
    import torch

    plain = load_encoder(ModelSource(str(encoder_folder)), CPU).model
    packed = load_encoder(ModelSource(str(encoder_folder)), CPU).model
    count = len(linears(plain))
    assert count > 0
    assert pack_linears(packed, rows=8) == count
    assert linears(packed) == []
    ids = torch.arange(rows)[None] % 10
    with torch.inference_mode():
        expected, found = (one(input_ids=ids).last_hidden_state for one in (plain, packed))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-5)


def test_an_unknown_family_stays_as_it_is(causal_folder):
    model = load_causal(ModelSource(str(causal_folder)), CPU).model
    before = len(linears(model))
    model.config.model_type = "somebody's"
    assert pack_linears(model, rows=8) == 0
    assert len(linears(model)) == before


@pytest.mark.parametrize("failure", [AttributeError, NotImplementedError, RuntimeError])
def test_a_torch_without_packed_weights(causal_folder, monkeypatch, texts, failure):
    expected = HubCausalScorer(ModelSource(str(causal_folder)), options=CPU).losses(texts)

    def absent():
        def build(linear, rows):
            raise failure("no such operator")

        return build

    monkeypatch.setattr(packing, "_packed_class", absent)
    packing._packs.cache_clear()
    try:
        scorer = HubCausalScorer(ModelSource(str(causal_folder)), options=CPU)
        found = scorer.losses(texts)
        assert linears(scorer._model.loaded.model)
    finally:
        packing._packs.cache_clear()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
