"""Laws of the corpus scan: order, size, budget, tiny corpora."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import clustered, documents
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.evidence.knn import cosine_knn
from ragsieve.records import Decision, Document

few = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 100_000)


def parts(scan):
    return dict(scan.column("topology_score").components)


def distinct(rng, size, clusters=8):
    """Clustered rows in the positive orthant, no two alike, so that no cosine is negative."""
    rows = np.abs(rng.normal(size=(clusters, 12)))[rng.integers(clusters, size=size)]
    texts, _ = clustered(rng, size)
    return texts, np.abs(rows + 0.1 * rng.normal(size=(size, 12))) + 1e-3


@few
@given(seeds, st.integers(2, 70))
def test_the_order_of_the_corpus_moves_nothing(seed, size):
    rng = np.random.default_rng(seed)
    texts, rows = distinct(rng, size)
    order = rng.permutation(size)
    scan = CorpusDetector("paper").scan(documents(texts), rows)
    other = CorpusDetector("paper").scan(documents([texts[i] for i in order]), rows[order])
    assert other.scores.tolist() == scan.scores[order].tolist()
    assert other.decisions == tuple(scan.decisions[i] for i in order)
    for name, column in parts(scan).items():
        assert parts(other)[name].tolist() == column[order].tolist()


@few
@given(seeds, st.integers(20, 60))
def test_a_far_clean_document_moves_scores_through_the_size_alone(seed, size):
    texts, rows = distinct(np.random.default_rng(seed), size)
    texts = [text.replace(" word词 Привет", "") for text in texts]
    wide = np.hstack([rows, np.zeros((size, 1))])
    far = np.zeros((1, wide.shape[1]))
    far[0, -1] = 1.0
    before = CorpusDetector("paper").scan(documents(texts), wide)
    after = CorpusDetector("paper").scan(
        documents([*texts, "a plain text"]), np.vstack([wide, far])
    )
    old, new = parts(before), parts(after)
    assert new["density_contrast"][:size].tolist() == old["density_contrast"].tolist()
    assert new["eligible_neighbors"][:size].tolist() == old["eligible_neighbors"].tolist()
    assert new["density_contrast"][size] == 0.0
    # The numerators stay; only where D is 0 does the newcomer, itself 0, join the count.
    joined = (old["density_contrast"] == 0).astype(float)
    numerators = np.rint(new["upper_tail_probability"][:size] * (size + 2))
    expected = np.rint(old["upper_tail_probability"] * (size + 1)) + joined
    assert numerators.tolist() == expected.tolist()


@few
@given(seeds, st.integers(1, 120))
def test_topology_never_flags_beyond_its_budget(seed, size):
    texts, rows = clustered(np.random.default_rng(seed), size)
    scan = CorpusDetector("paper").scan(documents(texts), rows)
    topology, integrity = scan.column("topology_score").values, scan.column("script_integrity")
    rate = float(integrity.values.mean())
    assert (topology >= 0.5).sum() <= max(0.0, 0.05 - rate) * (size + 1) + 1e-9
    assert ((topology >= 0) & (topology <= 1)).all()
    assert set(integrity.values.tolist()) <= {0.0, 1.0}
    assert scan.scores.tolist() == np.maximum(topology, integrity.values).tolist()
    flagged = [one is Decision.FLAGGED for one in scan.decisions]
    assert flagged == (scan.scores >= 0.5).tolist()
    assert set(scan.flagged_ids) == {f"d{row}" for row, one in enumerate(flagged) if one}


def test_script_alarms_use_the_budget_up():
    texts, rows = distinct(np.random.default_rng(3), 40)
    plain = [text.replace(" word词 Привет", "") for text in texts]
    assert (
        CorpusDetector("paper").scan(documents(plain), rows).column("topology_score").values.max()
        > 0
    )
    mixed = ["pаypal", "pаypal", *plain[2:]]  # 2 of 40 are the whole 5%
    scan = CorpusDetector("paper").scan(documents(mixed), rows)
    assert scan.column("topology_score").values.tolist() == [0.0] * 40
    assert scan.flagged_ids == ("d0", "d1")


@few
@given(seeds, st.integers(1, 18))
def test_tiny_corpora_use_the_neighbours_there_are(seed, size):
    texts, rows = clustered(np.random.default_rng(seed), size, clusters=1)
    scan = CorpusDetector("paper").scan(documents(texts), rows)
    assert scan.k_used == min(16, size - 1)
    assert len(list(scan)) == size
    if size == 1:
        assert parts(scan)["density_contrast"].tolist() == [0.0]


@few
@given(seeds)
def test_a_graph_computed_elsewhere_gives_the_same_scan(seed):
    texts, rows = clustered(np.random.default_rng(seed), 40)
    corpus, detector = documents(texts), CorpusDetector("paper")
    graph = cosine_knn(rows, detector.neighbors)
    assert detector.scan_graph(corpus, graph).scores.tolist() == (
        detector.scan(corpus, rows).scores.tolist()
    )


@few
@given(seeds)
def test_a_title_counts_as_the_text_it_stands_in_front_of(seed):
    texts, rows = clustered(np.random.default_rng(seed), 30)
    titled = [Document(f"d{i}", text, title="Prüfung Ж") for i, text in enumerate(texts)]
    joined = documents([f"Prüfung Ж\n\n{text}" for text in texts])
    first, second = (
        CorpusDetector("paper").scan(titled, rows),
        CorpusDetector("paper").scan(joined, rows),
    )
    assert first.scores.tolist() == second.scores.tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_floats_scan_like_their_wide_copies(dtype):
    texts, rows = clustered(np.random.default_rng(8), 50)
    narrow = rows.astype(dtype)
    wide = CorpusDetector("paper").scan(documents(texts), narrow.astype(np.float64))
    assert (
        CorpusDetector("paper").scan(documents(texts), narrow).scores.tolist()
        == wide.scores.tolist()
    )
