"""The embedded preset with the real weights: the files hold, and the numbers mean something."""

import importlib.util
import inspect

import numpy as np
import pytest

from ragsieve import assembly
from ragsieve.backends.causal import HubCausalScorer
from ragsieve.backends.installed import model_path, verify
from ragsieve.backends.loading import LoadOptions, ModelSource
from ragsieve.backends.memo import MemoCausalScorer
from ragsieve.backends.onnx import OnnxTextEmbedder
from ragsieve.backends.presets import (
    EMBEDDED_CAUSAL,
    EMBEDDED_LIGHT,
    EMBEDDED_RETRIEVER,
    EMBEDDED_TOKENS,
)
from ragsieve.backends.retriever import HubTextEmbedder
from ragsieve.backends.tokens import HubTokenEncoder
from ragsieve.settings import load_settings

pytestmark = pytest.mark.models

CPU = LoadOptions(device="cpu")
SENTENCE = "The capital of France is Paris, and the city lies on the river Seine."
PARAPHRASE = "Paris, which lies along the Seine, is the French capital."
UNRELATED = "Bake the bread at a high temperature until the crust is brown."
TEXTS = [SENTENCE, "", PARAPHRASE * 4, "Bread", UNRELATED, "Zürich — 東京 \U0001f600", SENTENCE]


def source(models_dir, name):
    return ModelSource(str(model_path(models_dir, name)))


@pytest.fixture(scope="module")
def embedder(models_dir):
    preset = EMBEDDED_RETRIEVER
    return HubTextEmbedder(source(models_dir, preset.model), preset, options=CPU)


@pytest.fixture(scope="module")
def light(models_dir):
    return OnnxTextEmbedder(model_path(models_dir, EMBEDDED_LIGHT.model), EMBEDDED_LIGHT)


@pytest.fixture(scope="module")
def scorer(models_dir):
    preset = EMBEDDED_CAUSAL
    return HubCausalScorer(
        source(models_dir, preset.model), max_tokens=preset.max_tokens, options=CPU
    )


@pytest.fixture(scope="module")
def encoder(models_dir):
    preset = EMBEDDED_TOKENS
    return HubTokenEncoder(source(models_dir, preset.model), layer=preset.layer, options=CPU)


def test_every_file_has_its_recorded_hash(models_dir):
    assert [(status.name, status.problems) for status in verify(models_dir) if not status.ok] == []


def test_a_paraphrase_is_closer_than_an_unrelated_sentence(embedder):
    vectors = embedder.embed_documents([SENTENCE, PARAPHRASE, UNRELATED])
    assert vectors.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    paraphrase, unrelated = vectors[1:] @ vectors[0]
    assert paraphrase > 0.8
    assert unrelated < 0.2


def test_a_question_finds_its_answer(embedder):
    documents = embedder.embed_documents([UNRELATED, SENTENCE])
    query = embedder.embed_queries(["What is the capital of France?"])[0]
    assert np.argmax(documents @ query) == 1


def test_embedding_in_batches_is_embedding_one_by_one(embedder):
    together = embedder.embed_documents(TEXTS)
    alone = np.vstack([embedder.embed_documents([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_shuffled_words_are_more_surprising(scorer):
    words = SENTENCE.split()
    np.random.default_rng(7).shuffle(words)
    sentence, shuffled = scorer.losses([SENTENCE, " ".join(words)])
    assert sentence.mean() < 3.5
    assert shuffled.mean() > sentence.mean() + 1
    # A guess over the whole vocabulary would cost ln V.
    assert shuffled.mean() < np.log(scorer.vocabulary_size)


def test_a_known_continuation_is_expected(scorer):
    paris, bread = scorer.losses(
        ["The capital of France is Paris", "The capital of France is bread"]
    )
    assert paris[-1] < 2
    assert bread[-1] > paris[-1] + 5


def test_scoring_in_batches_is_scoring_one_by_one(scorer):
    for together, text in zip(scorer.losses(TEXTS), TEXTS, strict=True):
        np.testing.assert_allclose(together, scorer.losses([text])[0], atol=1e-4)
    assert scorer.losses([""])[0].shape == (0,)


def test_a_long_text_is_scored_up_to_its_limit(scorer):
    assert scorer.losses(["word " * 2000])[0].shape == (511,)


def test_token_states_are_unit_and_the_same_in_batches(encoder):
    states = encoder.states(TEXTS, max_tokens=256)
    assert [len(one) for one in states][1] == 0
    assert encoder.states([PARAPHRASE * 30], max_tokens=256)[0].shape == (256, 384)
    for together, text in zip(states, TEXTS, strict=True):
        np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(together, encoder.states([text], max_tokens=256)[0], atol=1e-5)


def test_a_token_in_a_like_context_is_closer(encoder):
    river, shore, money = encoder.states(["river bank", "river shore", "money bank"], max_tokens=8)
    assert river[1] @ shore[1] > money[1] @ shore[1]


def test_remembered_losses_are_the_models(scorer):
    memo = MemoCausalScorer(scorer)
    first, again = memo.losses([SENTENCE, SENTENCE])
    assert first is again
    np.testing.assert_allclose(first, scorer.losses([SENTENCE])[0], atol=1e-6)


def test_the_light_retriever_agrees_with_the_float32_one(light, embedder):
    pages = [inspect.getdoc(value) for value in vars(np).values() if callable(value)]
    texts = [*TEXTS, *[page[:600] for page in pages if page][:60], "word " * 2000]
    cosines = np.sum(light.embed_documents(texts) * embedder.embed_documents(texts), axis=1)
    assert cosines.min() >= 0.99
    assert np.mean(cosines >= 0.999) > 0.8
    queries = ["What is the capital of France?", "how to bake bread"]
    cosines = np.sum(light.embed_queries(queries) * embedder.embed_queries(queries), axis=1)
    assert cosines.min() >= 0.99


def test_a_light_row_depends_on_its_own_text_only(light):
    texts = [*TEXTS, *[SENTENCE[: 7 * n] for n in range(1, 10)], "word " * 2000]
    together = light.embed_documents(texts)
    alone = np.vstack([light.embed_documents([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    assert together.shape == (len(texts), light.dimension) == (len(texts), 384)


def test_a_light_row_reads_512_tokens(light):
    rows = light.embed_documents(["word " * 2000, "word " * 510, "word " * 509])
    np.testing.assert_array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[1], rows[2])


def test_auto_is_the_light_retriever_where_it_can_run(models_dir, light, embedder, tmp_path):
    def identity(folder=models_dir, **models):
        settings = load_settings(models_dir=folder, models={"device": "cpu", **models})
        return assembly.text_embedder(settings).identity

    assert identity() == identity(retriever="light") == light.identity
    assert identity(retriever="embedded") == embedder.identity
    path = str(models_dir / EMBEDDED_RETRIEVER.model)
    assert identity(retriever_path=path) == embedder.identity
    (tmp_path / EMBEDDED_RETRIEVER.model).symlink_to(path)
    assert identity(tmp_path) == embedder.identity


def test_auto_needs_the_light_libraries(models_dir, embedder, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name)
    )
    settings = load_settings(models_dir=models_dir, models={"device": "cpu"})
    assert assembly.text_embedder(settings).identity == embedder.identity
