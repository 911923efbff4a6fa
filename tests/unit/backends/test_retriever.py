import time

import numpy as np
import pytest

from ragsieve.backends.batches import MAX_TEXT_CHARACTERS
from ragsieve.backends.loading import LoadOptions, ModelSource
from ragsieve.backends.presets import Pooling, RetrieverPreset
from ragsieve.backends.retriever import HubTextEmbedder
from ragsieve.errors import BackendError
from ragsieve.ports import TextEmbedder

CPU = LoadOptions(device="cpu")


@pytest.fixture
def build(encoder_folder):
    def build(pooling=Pooling.MEAN, **arguments):
        passing = {
            key: arguments.pop(key) for key in ("batch_tokens", "progress") if key in arguments
        }
        preset = RetrieverPreset("tiny", pooling, **arguments)
        return HubTextEmbedder(ModelSource(str(encoder_folder)), preset, options=CPU, **passing)

    return build


def reference(folder, text, pooling, max_tokens=64):
    """One text, no padding, straight through transformers."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=max_tokens)
    with torch.no_grad():
        states = model(**inputs).last_hidden_state[0].numpy()
    vector = states[0] if pooling is Pooling.CLS else states.mean(axis=0)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("pooling", list(Pooling))
def test_pooling_ignores_padding_and_keeps_the_order(build, encoder_folder, texts, pooling):
    vectors = build(pooling).embed_documents(texts)
    expected = [reference(encoder_folder, text, pooling) for text in texts]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert vectors.dtype == np.float32


def test_the_two_poolings_differ(build):
    text = ["alpha beta gamma"]
    cls, mean = (build(pooling).embed_documents(text) for pooling in Pooling)
    assert not np.allclose(cls, mean, atol=1e-4)


def test_batches_of_one_give_the_same(build, texts):
    together = build().embed_documents(texts)
    alone = build(batch_tokens=1).embed_documents(texts)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_rows_are_unit(build, texts):
    norms = np.linalg.norm(build().embed_documents(texts), axis=1)
    np.testing.assert_allclose(norms, 1, atol=1e-6)


def test_prefixes(build, encoder_folder):
    embedder = build(query_prefix="query: ", passage_prefix="passage: ")
    for vectors, prefixed in (
        (embedder.embed_queries(["alpha"]), "query: alpha"),
        (embedder.embed_documents(["alpha"]), "passage: alpha"),
    ):
        expected = reference(encoder_folder, prefixed, Pooling.MEAN)
        np.testing.assert_allclose(vectors[0], expected, atol=1e-5)


def test_truncation_counts_special_tokens(build, encoder_folder):
    long = "alpha beta gamma delta one two three"
    vector = build(max_tokens=5).embed_documents([long])[0]
    expected = reference(encoder_folder, "alpha beta gamma", Pooling.MEAN)
    np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_ten_million_characters_are_bounded(build):
    huge = "alpha " * 1_700_000
    embedder = build()
    started = time.perf_counter()
    vector = embedder.embed_documents([huge])
    assert time.perf_counter() - started < 5
    np.testing.assert_array_equal(vector, embedder.embed_documents([huge[:MAX_TEXT_CHARACTERS]]))


def test_progress_gets_the_texts_of_each_batch(build, texts):
    seen = []
    build(batch_tokens=64, progress=seen.append).embed_documents(texts)
    assert len(seen) > 1
    assert min(seen) > 0
    assert sum(seen) == len(texts)


def test_no_texts(build):
    embedder = build()
    assert embedder.embed_documents([]).shape == (0, embedder.dimension) == (0, 16)


def test_is_the_port_and_its_identity_tells_what_changes_numbers(build):
    embedder = build(query_prefix="query: ")
    assert isinstance(embedder, TextEmbedder)
    assert embedder.identity == build(query_prefix="query: ").identity
    others = {build().identity, build(Pooling.CLS).identity, build(max_tokens=9).identity}
    assert len(others | {embedder.identity}) == 4
    assert "tiny-encoder@local-" in embedder.identity
    assert "dtype=float32" in embedder.identity


def test_a_lone_surrogate_is_a_backend_error(build):
    with pytest.raises(BackendError, match="tiny-encoder@local-"):
        build().embed_documents(["alpha", "\ud800"])


def test_a_vector_that_is_not_finite_is_refused(build):
    import torch

    embedder = build()
    with torch.no_grad():
        embedder._loaded.model.embeddings.word_embeddings.weight[4] = float("nan")
    with pytest.raises(BackendError, match=r"1 of 2 vectors are not finite \(first: text 1\)"):
        embedder.embed_documents(["beta", "alpha"])
