"""New documents against a scanned corpus: judged by its statistics, or taken into it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from builders import documents
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusConfig, DefaultCorpusRule
from ragsieve.detectors.gate import IngestGate
from ragsieve.errors import EmbeddingError, InputError
from ragsieve.evidence.knn import unit_rows
from ragsieve.records import Decision, DocumentFeatures
from ragsieve.testing import FakeCausalScorer

DIMENSION = 20


def texts_of(rng, size):
    """A hundred everyday words that nothing displaces, and rare ones scattered among them."""
    texts = []
    for row in range(size):
        mixed = [f"e{(row * 7 + step) % 100}" for step in range(30)]
        mixed += [f"r{rng.integers(10**6)}" for _ in range(int(rng.integers(4, 14)))]
        rng.shuffle(mixed)
        texts.append(" ".join(mixed))
    return texts


def rows_of(rng, size):
    centres = np.random.default_rng(0).normal(size=(12, DIMENSION))
    rows = centres[rng.integers(12, size=size)] + 0.8 * rng.normal(size=(size, DIMENSION))
    # Three times, so that normalising them once more changes no bit.
    return unit_rows(unit_rows(unit_rows(rows)))


def corpus(seed, size):
    rng = np.random.default_rng(seed)
    texts = texts_of(rng, size)
    texts[size // 2] += " pаypal"
    texts[size // 3] = "Is this a question? " + texts[size // 3]
    return documents(texts), rows_of(rng, size)


def planted(seed=50):
    """Five documents about one thing in five wordings."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=DIMENSION)
    rows = centre + 0.12 * rng.normal(size=(5, DIMENSION))
    return documents(texts_of(rng, 5), prefix="p"), unit_rows(rows)


def scanned(items, rows, rule=None):
    rule = rule or DefaultCorpusRule()
    scan = CorpusDetector(rule).scan(items, rows)
    return scan, IngestGate(rule).snapshot(scan, rows, "an encoder")


def leaves(thing, path="snapshot"):
    """Every array and value of a nested record, by its path."""
    if dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            yield from leaves(getattr(thing, field.name), f"{path}.{field.name}")
    elif hasattr(thing, "arrays"):
        for name, array in thing.arrays().items():
            yield f"{path}.{name}", array
    else:
        yield path, thing


def assert_same(one, other):
    seen, wanted = dict(leaves(one)), dict(leaves(other))
    assert seen.keys() == wanted.keys()
    for path, value in wanted.items():
        if isinstance(value, np.ndarray):
            assert seen[path].dtype == value.dtype, path
            assert np.array_equal(seen[path], value, equal_nan=value.dtype.kind == "f"), path
        else:
            assert seen[path] == value, path


@pytest.mark.parametrize("old", [60, 25, 24, 3, 1])
def test_a_grown_snapshot_is_that_of_a_scan_of_all(old):
    items, rows = corpus(1, 80)
    full_scan, full = scanned(items, rows)
    _, snapshot = scanned(items[:old], rows[:old])
    scan, grown = IngestGate(DefaultCorpusRule()).extend(snapshot, items[old:], rows[old:])
    assert_same(grown, full)
    assert scan.scores.tolist() == full_scan.scores[old:].tolist()
    assert scan.decisions == full_scan.decisions[old:]
    assert scan.levels == full_scan.levels[old:]
    assert scan.document_ids == full.document_ids[old:]
    assert scan.earlier_ids == snapshot.document_ids
    for column in full_scan.evidences:
        own = scan.column(column.name).values
        assert np.array_equal(own, column.values[old:], equal_nan=True), column.name


def test_growing_in_steps_ends_where_growing_at_once_does():
    items, rows = corpus(2, 70)
    _, full = scanned(items, rows)
    _, snapshot = scanned(items[:40], rows[:40])
    gate = IngestGate(DefaultCorpusRule())
    for start, stop in ((40, 41), (41, 60), (60, 70)):
        _, snapshot = gate.extend(snapshot, items[start:stop], rows[start:stop])
    assert_same(snapshot, full)


def test_growing_in_a_sketch_ends_where_scanning_in_one_does():
    items, rows = corpus(3, 50)
    rule = DefaultCorpusRule(DefaultCorpusConfig(pair_memory_bytes=4096))
    full_scan, full = scanned(items, rows, rule)
    assert not full.knowledge.statistics.counts.pairs.exact
    assert any("sketch" in note for note in full_scan.notes)
    _, snapshot = scanned(items[:30], rows[:30], rule)
    scan, grown = IngestGate(rule).extend(snapshot, items[30:], rows[30:])
    assert_same(grown, full)
    assert scan.notes == full_scan.notes


def test_judging_changes_no_statistic_and_finds_the_neighbours_of_a_whole_scan():
    items, rows = corpus(4, 70)
    full_scan, _ = scanned(items, rows)
    _, snapshot = scanned(items[:50], rows[:50])
    _, untouched = scanned(items[:50], rows[:50])
    scan = IngestGate(DefaultCorpusRule()).judge(snapshot, items[50:], rows[50:])
    assert_same(snapshot, untouched)
    assert scan.knowledge.statistics is snapshot.knowledge.statistics
    assert scan.graph.indices.tolist() == full_scan.graph.indices[50:].tolist()
    assert scan.graph.similarities.tolist() == full_scan.graph.similarities[50:].tolist()
    # A gap needs neighbours and words alone; only its threshold is the old corpus's.
    assert scan.knowledge.gaps.gap.tolist() == full_scan.knowledge.gaps.gap[50:].tolist()
    assert scan.earlier_ids == snapshot.document_ids
    assert len(scan) == 20


def test_one_document_alone_is_alien_where_a_whole_scan_finds_it_alien():
    items, rows = corpus(5, 61)
    full_scan, _ = scanned(items, rows)
    _, snapshot = scanned(items[:60], rows[:60])
    scan = IngestGate(DefaultCorpusRule()).judge(snapshot, items[60:], rows[60:])
    (run,), whole = scan.knowledge.runs, full_scan.knowledge.runs[60]
    # Pi is the old corpus's, so the ratio may differ; which tokens are alien may not.
    assert run.aliens + run.outside == whole.aliens + whole.outside > 0


def test_the_batch_itself_cannot_vouch_for_its_stretches():
    items, rows = corpus(6, 60)
    _, snapshot = scanned(items, rows)
    phrase = " ".join(f"z{i}" for i in range(14))
    rng = np.random.default_rng(9)
    texts = [f"{phrase} {text}" for text in texts_of(rng, 12)]
    scan = IngestGate(DefaultCorpusRule()).judge(
        snapshot, documents(texts, prefix="n"), rows_of(rng, 12)
    )
    assert [run.start for run in scan.knowledge.runs] == [0] * 12
    assert all(run.aliens >= 12 for run in scan.knowledge.runs)
    assert {Decision.FLAGGED} == set(scan.decisions)


def test_a_planted_group_that_arrives_at_once_is_found():
    items, rows = corpus(7, 150)
    _, snapshot = scanned(items, rows)
    more, vectors = planted()
    scan = IngestGate(DefaultCorpusRule()).judge(snapshot, more, vectors)
    assert scan.flagged_ids == ("p0", "p1", "p2", "p3", "p4")
    assert (scan.column("neighbor_gap").values >= 1).all()
    ordinary = IngestGate(DefaultCorpusRule()).judge(snapshot, *corpus_of_news())
    assert len(ordinary.flagged_ids) <= 1


def corpus_of_news():
    rng = np.random.default_rng(77)
    return documents(texts_of(rng, 20), prefix="n"), rows_of(rng, 20)


def test_a_planted_group_that_arrives_one_by_one_is_found_once_it_has_company():
    items, rows = corpus(7, 150)
    _, snapshot = scanned(items, rows)
    gate = IngestGate(DefaultCorpusRule())
    more, vectors = planted()
    flagged = []
    for place in range(5):
        scan, snapshot = gate.extend(snapshot, more[place : place + 1], vectors[place : place + 1])
        flagged += scan.flagged_ids
    assert flagged[-3:] == ["p2", "p3", "p4"]
    assert "p0" not in flagged  # nothing resembled it yet
    # Judged one by one and never taken in, none of them has company.
    _, still = scanned(items, rows)
    alone = [gate.judge(still, more[i : i + 1], vectors[i : i + 1]).flagged_ids for i in range(5)]
    assert alone == [()] * 5


def test_a_language_model_sees_the_new_documents_alone():
    items, rows = corpus(8, 60)
    causal = FakeCausalScorer()
    rule = DefaultCorpusRule(causal=causal)
    _, snapshot = scanned(items, rows, rule)
    text = " ".join(f"z{i}" for i in range(14)) + " " + texts_of(np.random.default_rng(3), 1)[0]
    causal.calls.clear()
    new = documents([text], prefix="n")
    scan, grown = IngestGate(rule).extend(snapshot, new, rows_of(np.random.default_rng(3), 1))
    assert causal.calls == [(text,)]
    assert scan.column("alien_run").values.tolist() == [0.0]
    assert grown.knowledge.peaks[:60].tolist() == pytest.approx(
        snapshot.knowledge.peaks.tolist(), nan_ok=True
    )
    assert 0 < grown.knowledge.peaks[60] < 0.72
    # A state fits any model: it depends on the constants alone.
    assert IngestGate(DefaultCorpusRule()).judge(grown, documents(["x"], "m"), rows[:1])


@pytest.fixture(scope="module")
def state():
    items, rows = corpus(9, 40)
    return items, rows, scanned(items, rows)[1]


def assert_refused(state, items, rows, error, match, rule=None):
    gate = IngestGate(rule or DefaultCorpusRule())
    for method in (gate.judge, gate.extend):
        with pytest.raises(error, match=match):
            method(state[2], items, rows)


def test_known_ids_are_refused(state):
    items, rows, _ = state
    fresh = documents(["a", "b"], prefix="n")
    assert_refused(
        state, [fresh[0], items[3]], rows[:2], InputError, "'d3' is in the state already"
    )


def test_no_document_is_refused(state):
    assert_refused(state, [], np.empty((0, DIMENSION)), InputError, "at least one new document")


def test_rows_that_do_not_fit_are_refused(state):
    fresh = documents(["a", "b"], prefix="n")
    assert_refused(state, fresh, state[1][:3], EmbeddingError, r"\(2\), found 3")
    assert_refused(
        state, fresh, np.ones((2, 7)), EmbeddingError, "dimension 7, those of the state 20"
    )
    assert_refused(state, fresh, np.zeros((2, DIMENSION)), EmbeddingError, "all zeros")
    assert_refused(state, fresh, np.full((2, DIMENSION), np.nan), EmbeddingError, "NaN")


def test_a_state_of_other_constants_is_refused(state):
    rule = DefaultCorpusRule(DefaultCorpusConfig(gap_spread=3.0))
    fresh = documents(["a"], prefix="n")
    assert_refused(state, fresh, state[1][:1], InputError, "other constants", rule)
    with pytest.raises(InputError, match="other constants"):
        IngestGate(rule).features(state[2])


def test_statistics_of_another_version_are_refused(state):
    items, rows, snapshot = state
    statistics = dataclasses.replace(snapshot.knowledge.statistics, version=999)
    knowledge = dataclasses.replace(snapshot.knowledge, statistics=statistics)
    old = dataclasses.replace(snapshot, knowledge=knowledge)
    fresh = documents(["a"], prefix="n")
    assert_refused((items, rows, old), fresh, rows[:1], InputError, "version 999")


def test_a_scan_that_keeps_no_knowledge_or_is_no_whole_corpus_is_no_snapshot(state):
    items, rows, snapshot = state
    gate = IngestGate(DefaultCorpusRule())
    published = CorpusDetector("paper").scan(items, rows)
    part = gate.judge(snapshot, documents(["a"], prefix="n"), rows[:1])
    for scan, own in ((published, rows), (part, rows[:1])):
        with pytest.raises(InputError, match="only a whole scan of profile default"):
            gate.snapshot(scan, own)


def test_features_by_document_id(state):
    _, rows, snapshot = state
    rule = DefaultCorpusRule()
    source = IngestGate(rule).features(snapshot)
    nobody, known = source.features(["nobody", "d7"])
    assert nobody == DocumentFeatures()
    assert known.embedding.tolist() == rows[7].tolist()
    assert known.alien_run_nats == snapshot.knowledge.runs[7].ratio_nats
    statistics = snapshot.knowledge.statistics
    assert source.surroundings.gap_threshold == rule.gap_threshold(statistics)
    assert source.surroundings.question_share == 1 / 40


def test_features_of_documents_that_came_later(state):
    items, rows, snapshot = state
    gate = IngestGate(DefaultCorpusRule())
    fresh = documents(texts_of(np.random.default_rng(4), 2), prefix="n")
    mixed = [items[3], fresh[0], items[5], fresh[1]]
    vectors = np.vstack([rows[:1], rows[10:11], rows[:1], rows[20:21]])
    source = gate.features(snapshot, mixed, vectors)
    own = gate.judge(snapshot, fresh, vectors[[1, 3]])
    first, second, known = source.features(["n0", "n1", "d3"])
    assert first.embedding.tolist() == rows[10].tolist()
    assert second.embedding.tolist() == rows[20].tolist()
    runs = [run.ratio_nats for run in own.knowledge.runs]
    assert [first.alien_run_nats, second.alien_run_nats] == runs
    # What the state holds of a document stands, whatever row is given beside it.
    assert known.embedding.tolist() == rows[3].tolist()
    assert source.features(["n2"]) == (DocumentFeatures(),)


@pytest.mark.parametrize("count", [0, 2, 9])
def test_features_with_the_wrong_number_of_rows_are_refused(count):
    items, rows = corpus(9, 40)
    _, snapshot = scanned(items, rows)
    with pytest.raises(EmbeddingError, match="one embedding row a document"):
        IngestGate(DefaultCorpusRule()).features(
            snapshot, documents(["a", "b", "c"], "n"), rows[:count]
        )


def test_a_batch_that_repeats_an_id_is_refused():
    items, rows = corpus(9, 40)
    _, snapshot = scanned(items, rows)
    new = documents(["a"], "n") * 2
    with pytest.raises(InputError, match="n0"):
        IngestGate(DefaultCorpusRule()).extend(snapshot, new, rows[:2])
