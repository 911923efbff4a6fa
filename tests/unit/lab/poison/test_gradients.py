"""The gradient encoder on a tiny random model, and once on the embedded one."""

import numpy as np
import pytest

from ragsieve.backends.gradients import HubGradientEncoder
from ragsieve.backends.loading import LoadOptions, ModelSource
from ragsieve.backends.presets import EMBEDDED_RETRIEVER, Pooling, RetrieverPreset
from ragsieve.backends.retriever import HubTextEmbedder
from ragsieve.errors import BackendError
from ragsieve.lab.poison.base import Workshop
from ragsieve.lab.poison.hotflip import HotFlip, HotFlipConfig
from ragsieve.lab.poison.payloads import payloads_for
from unit.backends.conftest import _save, _tokenizer
from unit.lab.poison.fakes import TARGET, dataset

CPU = LoadOptions(device="cpu")
TEXTS = ["alpha beta", "gamma one two", "alpha", "delta three three one beta"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=16,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=24,
        initializer_range=0.5,
    )
    place = tmp_path_factory.mktemp("models") / "tiny-gradients"
    return _save(BertModel(config), _tokenizer(with_specials=True), place)


def both(folder, pooling=Pooling.MEAN, **arguments):
    preset = RetrieverPreset("tiny", pooling, **arguments)
    source = ModelSource(str(folder))
    return (
        HubGradientEncoder(source, preset, options=CPU, batch_tokens=16),
        HubTextEmbedder(source, preset, options=CPU),
    )


@pytest.mark.parametrize("pooling", list(Pooling))
@pytest.mark.parametrize("prefix", ["", "passage: "])
def test_ids_are_encoded_as_their_text_is_embedded(folder, pooling, prefix):
    encoder, embedder = both(folder, pooling, passage_prefix=prefix)
    ids = [encoder.token_ids(text) for text in TEXTS]
    np.testing.assert_allclose(encoder.encode_ids(ids), embedder.embed_documents(TEXTS), atol=1e-6)
    same = encoder.encode_ids([ids[0], ids[0]])
    np.testing.assert_allclose(same[1], embedder.embed_documents(TEXTS[:1])[0], atol=1e-6)
    assert [encoder.decode(one) for one in ids] == TEXTS
    assert encoder.encode_ids([]).shape == (0, 16)


@pytest.mark.parametrize("pooling", list(Pooling))
def test_the_gradient_is_that_of_the_similarity(folder, pooling):
    import torch

    encoder, _ = both(folder, pooling)
    ids = encoder.token_ids("alpha beta gamma")
    goal = np.random.default_rng(0).normal(size=16).astype(np.float32)
    slope = encoder.gradient(ids, goal)
    assert slope.shape == (3, 16)
    table = encoder._loaded.model.get_input_embeddings().weight
    row, step = ids[1], 1e-2
    for axis in (0, 7):
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                table[row, axis] += sign * step
                values.append(float(encoder.encode_ids([ids])[0] @ goal))
                table[row, axis] -= sign * step
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(slope[1, axis], abs=2e-3)


def test_vocabulary_and_embeddings(folder):
    encoder, _ = both(folder)
    assert encoder.vocabulary[4] == "alpha"
    assert encoder.embeddings.shape == (16, 16)
    # [PAD] [UNK] [CLS] [SEP], and two rows that no token has.
    assert encoder.special_ids == {0, 1, 2, 3, 14, 15}
    assert encoder.token_ids("") == []
    assert "tiny-gradients@local-" in encoder.identity
    assert encoder.identity != both(folder, Pooling.CLS)[0].identity


def test_ids_beyond_the_positions_are_cut_off(folder):
    encoder, embedder = both(folder)
    ids = [4, 5] * 30
    text = encoder.decode(ids)
    np.testing.assert_allclose(
        encoder.encode_ids([ids])[0], embedder.embed_documents([text])[0], atol=1e-6
    )
    slope = encoder.gradient(ids, np.ones(16))
    assert np.abs(slope[:22]).min(axis=0).max() > 0
    assert not slope[22:].any()
    with pytest.raises(BackendError, match="tiny-gradients"):
        encoder.encode_ids([[99]])


@pytest.mark.models
def test_hotflip_on_the_embedded_model(models_dir):
    source = ModelSource(str(models_dir / EMBEDDED_RETRIEVER.model))
    embedder = HubTextEmbedder(source, EMBEDDED_RETRIEVER, options=CPU)
    encoder = HubGradientEncoder(source, EMBEDDED_RETRIEVER, options=CPU)
    data = dataset()
    rows = embedder.embed_documents([document.content for document in data.documents])
    shop = Workshop(data, embedder, rows, gradients=encoder)
    payloads = payloads_for(TARGET, 1, np.random.default_rng(0)).texts
    config = HotFlipConfig(steps=3, candidates=10)
    made = HotFlip(config).craft(TARGET, payloads, shop, np.random.default_rng(0))
    plain = embedder.embed_documents([f"{TARGET.query.text}. {payloads[0]}"])[0]
    question = embedder.embed_queries([TARGET.query.text])[0]
    assert made.texts[0].endswith(payloads[0])
    assert "[unused" not in made.texts[0]
    assert made.faithfulness.similarity > float(plain @ question)
