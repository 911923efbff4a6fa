import numpy as np
import pytest

from ragsieve.backends.loading import LoadOptions, ModelSource
from ragsieve.backends.tokens import _CUTTABLE, HubTokenEncoder, _cut_layers
from ragsieve.errors import ConfigError
from ragsieve.ports import TokenEncoder

CPU = LoadOptions(device="cpu")


@pytest.fixture
def build(encoder_folder):
    def build(layer=2, **arguments):
        return HubTokenEncoder(
            ModelSource(str(encoder_folder)), layer=layer, options=CPU, **arguments
        )

    return build


def full_model_states(folder, text, layer):
    """All hidden states of the uncut model, without the special tokens at both ends."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    inputs = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        states = model(**inputs, output_hidden_states=True).hidden_states[layer][0, 1:-1].numpy()
    return states / np.linalg.norm(states, axis=1, keepdims=True)


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_a_cut_model_gives_the_full_models_states(build, encoder_folder, layer):
    text = "alpha beta gamma one"
    states = build(layer).states([text], max_tokens=32)[0]
    np.testing.assert_allclose(states, full_model_states(encoder_folder, text, layer), atol=1e-6)
    assert states.shape == (4, 16)


def test_an_encoder_that_may_not_be_cut_gives_the_same(build, monkeypatch):
    cut = build(2).states(["alpha beta gamma"], max_tokens=32)[0]
    monkeypatch.setattr("ragsieve.backends.tokens._CUTTABLE", frozenset())
    full = build(2)
    assert len(full._model.loaded.model.encoder.layer) == 3
    np.testing.assert_allclose(full.states(["alpha beta gamma"], max_tokens=32)[0], cut, atol=1e-6)


def test_only_the_layers_needed_are_kept(build):
    assert len(build(1)._model.loaded.model.encoder.layer) == 1


def test_states_are_unit_and_in_order(build, texts):
    encoder = build(batch_tokens=70)
    together = encoder.states(texts, max_tokens=20)
    assert [len(states) for states in together] == [2, 0, 9, 1, 2, 20, 2]
    for states, text in zip(together, texts, strict=True):
        np.testing.assert_allclose(np.linalg.norm(states, axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(states, encoder.states([text], max_tokens=20)[0], atol=1e-5)
        assert states.shape[1] == 16


def test_max_tokens_counts_real_tokens_and_the_model_has_the_last_word(build):
    encoder = build()
    long = ["alpha beta " * 100]
    assert encoder.states(long, max_tokens=3)[0].shape == (3, 16)
    assert encoder.states(long, max_tokens=1000)[0].shape == (62, 16)


def test_a_special_token_written_in_the_text_is_text(build):
    # Otherwise a document could delete its own tokens.
    assert build().states(["alpha [SEP] beta"], max_tokens=9)[0].shape == (3, 16)


def test_the_layer_has_to_exist(build):
    with pytest.raises(ConfigError, match=r"layer: expected 0 to 3 .*found 4"):
        build(4)


def test_is_the_port(build):
    assert isinstance(build(), TokenEncoder)
    assert "layer=2" in build(2).identity
    assert build().states([], max_tokens=5) == []


@pytest.mark.parametrize("kind", sorted(_CUTTABLE))
@pytest.mark.parametrize("layer", [0, 2])
def test_every_family_that_is_cut_gives_the_full_models_states(kind, layer):
    import torch
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(4)
    config = AutoConfig.for_model(
        kind,
        vocab_size=20,
        hidden_size=16,
        embedding_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    model = AutoModel.from_config(config).eval()
    inputs = {
        "input_ids": torch.tensor([[5, 6, 7, 8], [9, 10, 1, 1]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]),
    }
    with torch.no_grad():
        full = model(**inputs, output_hidden_states=True).hidden_states[layer]
        assert _cut_layers(model, layer)
        torch.testing.assert_close(model(**inputs).last_hidden_state, full)
