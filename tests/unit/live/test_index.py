"""A live index: order of documents, drift, refusals, hostile ids."""

from __future__ import annotations

import numpy as np
import pytest

from builders import clustered, documents
from ragsieve.detectors.campaigns import campaigns
from ragsieve.detectors.default_corpus import DefaultCorpusConfig, DefaultCorpusRule
from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.errors import ConfigError, EmbeddingError, InputError
from ragsieve.live.index import LiveIndex
from ragsieve.live.neighbors import LiveNeighbors
from ragsieve.records import Document
from ragsieve.testing import FakeCausalScorer


def batch(seed, size, prefix="d"):
    texts, rows = clustered(np.random.default_rng(seed), size)
    return documents(texts, prefix=prefix), rows


@pytest.fixture(params=[PaperCorpusRule, DefaultCorpusRule])
def index(request):
    made = LiveIndex(request.param())
    made.add(*batch(1, 30))
    return made


def test_documents_stand_in_the_order_they_came_and_updates_come_last(index):
    index.remove(["d1"])
    index.update(*batch(2, 1))
    index.add(*batch(3, 2, "e"))
    expected = (*(f"d{i}" for i in range(2, 30)), "d0", "e0", "e1")
    assert index.document_ids == expected == index.scan().document_ids
    assert [verdict.document_id for verdict in index.verdicts] == list(expected)
    assert "d1" not in index
    assert "e1" in index
    assert len(index) == 31


def test_a_document_that_left_may_come_again(index):
    scan = index.scan()
    items, rows = batch(1, 30)
    index.remove(["d29"])
    index.add(items[29:], rows[29:])
    again = index.scan()
    assert again.document_ids == scan.document_ids
    assert again.graph.similarities.tolist() == scan.graph.similarities.tolist()


def test_everything_may_leave(index):
    index.remove(list(index.document_ids))
    assert len(index) == 0
    with pytest.raises(InputError, match="holds no document"):
        index.scan()
    index.add(*batch(2, 3))
    assert len(index.scan()) == 3


def test_refusals_change_nothing(index):
    before = index.scan().scores.tolist()
    items, rows = batch(2, 3, "e")
    known, _ = batch(1, 1)
    nan = rows.copy()
    nan[1, 0] = np.nan
    refused = [
        (lambda: index.add([], rows[:0]), InputError, "at least one document"),
        (lambda: index.add(known, rows[:1]), InputError, "'d0' is in the index already"),
        (lambda: index.add([*items[:1], *items[:1]], rows[:2]), InputError, "more than once"),
        (lambda: index.add(items, rows[:2]), EmbeddingError, r"\(3\), found 2"),
        (
            lambda: index.add(items, rows[:, :5]),
            EmbeddingError,
            "dimension 5, those of the index 16",
        ),
        (lambda: index.add(items, nan), EmbeddingError, "row 1 .* NaN"),
        (lambda: index.remove([]), InputError, "at least one document id"),
        (lambda: index.remove(["d0", "e0"]), InputError, "'e0' is not in the index"),
        (lambda: index.remove(["d0", "d0"]), InputError, "more than once"),
        (lambda: index.update(items, rows), InputError, "'e0' is not in the index"),
    ]
    for change, error, message in refused:
        with pytest.raises(error, match=message):
            change()
        assert index.scan().scores.tolist() == before


def test_an_id_in_an_error_is_shown_safely(index):
    with pytest.raises(InputError) as caught:
        index.remove(["\x1b[2J\u202e" + "x" * 500])
    assert "\x1b" not in str(caught.value)
    assert "<U+202E>" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_estimate_stands_until_the_drift_is_past_its_share():
    index = LiveIndex(DefaultCorpusRule(), drift_share=0.1)
    assert index.add(*batch(1, 40)).estimated
    first = index.statistics
    assert (first.estimate, first.documents, index.drift) == (1, 40, 0.0)
    change = index.add(*batch(2, 3, "e"))
    assert not change.estimated
    assert change.drift == index.drift == 3 / 40
    assert index.statistics is first
    (note,) = index.scan().notes
    assert note == "statistics: estimate 1, from 40 documents; 3 came or left since (7.5%)"
    assert not index.remove(["e0"]).estimated  # 4 of 40: at the share, not past it
    change = index.update(*batch(3, 1))  # leaves and comes
    assert change.estimated
    assert change.drift == 0.0
    assert (index.statistics.estimate, index.statistics.documents) == (2, 42)


def test_an_estimate_can_be_asked_for():
    index = LiveIndex(DefaultCorpusRule(), drift_share=1.0)
    index.add(*batch(1, 40))
    index.add(*batch(2, 10, "e"))
    index.estimate()
    assert (index.statistics.estimate, index.statistics.documents, index.drift) == (2, 50, 0.0)


def test_profile_paper_has_nothing_to_estimate():
    index = LiveIndex(PaperCorpusRule())
    assert not index.add(*batch(1, 40)).estimated
    index.estimate()
    assert index.statistics is None
    assert index.drift == 0.0
    assert index.scan().notes == ()


def test_a_copy_that_leaves_vouches_for_nobody_at_once():
    """Pairs are counted as the corpus is; only the estimate waits for its drift."""
    rng = np.random.default_rng(0)
    everyday = [f"e{i}" for i in range(100)]
    phrase = " ".join(f"z{i}" for i in range(16))
    texts = [" ".join(rng.permutation(everyday)[:40]) for _ in range(120)]
    rows = rng.normal(size=(120, 12))
    texts[0] += f" {phrase}"
    texts[1] += f" {phrase}"
    rows[1] = -rows[0]  # not a neighbour, so it vouches
    index = LiveIndex(DefaultCorpusRule(), drift_share=1.0)
    index.add(documents(texts), rows)
    assert index.scan().knowledge.runs[0].aliens < 4
    index.remove(["d1"])
    assert index.scan().knowledge.runs[0].aliens >= 14
    index.add([Document("back", texts[1])], rows[1:2])
    assert index.scan().knowledge.runs[0].aliens < 4


def test_neighbours_vouch_for_nobody_however_many_and_one_stranger_for_all():
    rng = np.random.default_rng(0)
    everyday = [f"e{i}" for i in range(100)]
    phrase = " ".join(f"z{i}" for i in range(16))
    texts = [" ".join(rng.permutation(everyday)[:40]) for _ in range(120)]
    rows = rng.normal(size=(120, 12))
    rows[:8] = rows[0] + 0.05 * rng.normal(size=(8, 12))
    texts[:8] = [f"{text} {phrase}" for text in texts[:8]]
    index = LiveIndex(DefaultCorpusRule(), drift_share=1.0)
    index.add(documents(texts), rows)
    assert all(run.aliens >= 14 for run in index.scan().knowledge.runs[:8])
    index.add([Document("stranger", f"{phrase} e1 e2")], -rows[:1])
    assert all(run.aliens < 4 for run in index.scan().knowledge.runs[:8])
    index.remove(["stranger"])
    assert all(run.aliens >= 14 for run in index.scan().knowledge.runs[:8])


def test_campaigns_read_a_live_scan():
    rng = np.random.default_rng(1)
    texts, rows = clustered(rng, 80, clusters=20, spread=0.6)
    index = LiveIndex(DefaultCorpusRule())
    index.add(documents(texts), rows)
    index.remove(["d3", "d4"])
    centre = rng.normal(size=16)
    group = documents([f"planted p{i} q{i} s{i} t{i}" for i in range(5)], prefix="p")
    index.add(group, centre + 0.02 * rng.normal(size=(5, 16)))
    scan = index.scan()
    names = {scan.document_ids[row] for one in campaigns(scan) for row in one.rows}
    assert {f"p{i}" for i in range(5)} <= names


def test_long_documents_are_cut_and_say_so():
    index = LiveIndex(DefaultCorpusRule(DefaultCorpusConfig(max_characters=10)))
    index.add(documents(["short", "x" * 25]), np.eye(2))
    assert index.scan().truncated_characters.tolist() == [0, 15]


def test_impossible_choices_are_refused():
    with pytest.raises(ConfigError, match="language model"):
        LiveIndex(DefaultCorpusRule(causal=FakeCausalScorer()))
    for options in ({"drift_share": 0.0}, {"drift_share": 1.5}, {"spare": -1}):
        with pytest.raises(ConfigError, match="drift_share must lie"):
            LiveIndex(PaperCorpusRule(), **options)


def test_a_change_searches_few_and_touches_few():
    rng = np.random.default_rng(0)
    index = LiveIndex(PaperCorpusRule())
    index.add(documents(["text"] * 2000), rng.normal(size=(2000, 32)))
    change = index.add(documents(["text"] * 5, prefix="n"), rng.normal(size=(5, 32)))
    assert change.searched == 5
    assert change.touched < 400
    change = index.remove(["d5", "n2"])
    assert change.searched == 0  # spare neighbours stand in
    assert change.touched < 200
    assert index.scan().graph.k == 16


def test_rows_without_room_for_spares_and_one_row():
    lists = LiveNeighbors(3, 0)
    assert lists.used == 0
    lists.change(np.empty(0, np.int64), np.eye(1, 4, dtype=np.float32))
    assert lists.graph().indices.shape == (1, 0)
    lists.change(np.array([0]), np.eye(2, 4, dtype=np.float32))
    assert lists.graph().indices.tolist() == [[1], [0]]
    assert len(lists) == 2
