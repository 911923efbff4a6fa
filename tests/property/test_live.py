"""A live index equals a scan of all its documents after any sequence of changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragsieve.detectors.corpus import CorpusDetector, judged
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.evidence.knn import cosine_knn
from ragsieve.live.index import LiveIndex
from ragsieve.records import Document, Provenance

seeds = st.integers(0, 100_000)
SOURCES = (None, "", "a", "b")


class World:
    """Random documents, some of them copies, twins in text or in vector, and foreign.

    A hundred everyday words that nothing displaces; rare phrases that few documents share,
    most of them near each other.
    """

    def __init__(self, rng, dimension=8, clusters=4):
        self.rng = rng
        self.centres = rng.normal(size=(clusters, dimension))
        self.number = 0
        self.made = []

    def document(self, name=None):
        rng = self.rng
        cluster = int(rng.integers(len(self.centres)))
        row = self.centres[cluster] + 0.2 * rng.normal(size=self.centres.shape[1])
        text = self.text(cluster)
        draw = rng.random()
        if self.made and draw < 0.25:
            other, vector = self.made[int(rng.integers(len(self.made)))]
            row = vector
            text = other.text if draw < 0.12 else text
        elif self.made and draw < 0.3:
            text = self.made[int(rng.integers(len(self.made)))][0].text + " again"
        if name is None:
            name, self.number = f"n{self.number}", self.number + 1
        origin = Provenance(
            source=SOURCES[rng.integers(4)], created=f"2024-01-{rng.integers(1, 29):02}"
        )
        made = Document(name, text, provenance=origin)
        self.made.append((made, row))
        return made, row

    def text(self, cluster):
        rng = self.rng
        if rng.random() < 0.04:
            return ""
        parts = [f"e{number}" for number in rng.permutation(100)[:40]]
        for _ in range(int(rng.integers(0, 4))):
            phrase = (
                10 * cluster + int(rng.integers(10))
                if rng.random() < 0.7
                else int(rng.integers(60))
            )
            place = int(rng.integers(len(parts)))
            parts[place:place] = [f"p{phrase}w{i}" for i in range(7)]
        parts.append(["", "", "", "word词 Привет", "Is it so? yes", "b\u200bad"][rng.integers(6)])
        return " ".join(parts).strip()

    def documents(self, count, names=None):
        made = [self.document(None if names is None else names[i]) for i in range(count)]
        return [one for one, _ in made], np.array([row for _, row in made])


class Mirror:
    """What the corpus is, kept by plain means."""

    def __init__(self, rule, **options):
        self.index = LiveIndex(rule, **options)
        self.held = {}

    def add(self, documents, rows):
        change = self.index.add(documents, rows)
        self.held |= {one.id: (one, row) for one, row in zip(documents, rows, strict=True)}
        return change

    def remove(self, names):
        change = self.index.remove(names)
        for name in names:
            del self.held[name]
        return change

    def update(self, documents, rows):
        change = self.index.update(documents, rows)
        for one, row in zip(documents, rows, strict=True):
            del self.held[one.id]
            self.held[one.id] = (one, row)
        return change

    def full_scan(self):
        documents = [one for one, _ in self.held.values()]
        rows = np.array([row for _, row in self.held.values()])
        rule = self.index.rule
        if isinstance(rule, PaperCorpusRule):
            return CorpusDetector(rule).scan(documents, rows)
        graph = cosine_knn(rows, rule.neighbors)
        contents = [one.content for one in documents]
        declared = [one.provenance for one in documents]
        held = self.index.statistics
        measured = rule.measure(contents, graph, declared, held)
        if held.documents == len(documents) and self.index.drift == 0:
            # Nothing came or left: the estimate in force is the one a plain scan makes.
            fresh = rule.measure(contents, graph, declared).knowledge.statistics
            assert fresh.everyday == held.everyday
            assert fresh.alien_share == held.alien_share
            assert (fresh.gap, fresh.run_nats) == (held.gap, held.run_nats)
            assert fresh.question_share == held.question_share
        ids = tuple(one.id for one in documents)
        return judged(rule, ids, graph, measured, np.zeros(len(ids), np.int64))

    def check(self):
        scan, whole = self.index.scan(), self.full_scan()
        assert scan.document_ids == whole.document_ids
        assert scan.graph.indices.tolist() == whole.graph.indices.tolist()
        assert scan.graph.similarities.tolist() == whole.graph.similarities.tolist()
        for own, other in zip(scan.evidences, whole.evidences, strict=True):
            assert own.name == other.name
            assert np.array_equal(own.values, other.values, equal_nan=True), own.name
            for (name, left), (_, right) in zip(own.components, other.components, strict=True):
                assert np.array_equal(left, right, equal_nan=left.dtype.kind == "f"), name
        assert scan.scores.tolist() == whole.scores.tolist()
        assert scan.decisions == whole.decisions
        assert scan.levels == whole.levels
        if scan.knowledge is not None:
            mine, other = scan.knowledge, whole.knowledge
            assert mine.runs == other.runs
            assert [mine.groups[i].tolist() for i in range(len(scan))] == [
                other.groups[i].tolist() for i in range(len(scan))
            ]
            counts, wanted = mine.statistics.counts, other.statistics.counts
            assert counts.documents == wanted.documents
            held = {
                t: f
                for t, f in zip(counts.vocabulary, counts.frequencies.tolist(), strict=True)
                if f
            }
            assert held == {
                t: f
                for t, f in zip(wanted.vocabulary, wanted.frequencies.tolist(), strict=True)
                if f
            }
        return scan


def walk(mirror, world, steps, largest=4):
    """Random changes, each checked; what they did."""
    rng, changes = world.rng, []
    for _ in range(steps):
        names = list(mirror.held)
        kind = rng.choice(["add", "remove", "update"]) if names else "add"
        count = int(rng.integers(1, largest + 1))
        if kind == "add":
            changes.append(mirror.add(*world.documents(count)))
        else:
            chosen = rng.permutation(names)[:count].tolist()
            if kind == "remove":
                changes.append(mirror.remove(chosen))
            else:
                changes.append(mirror.update(*world.documents(len(chosen), chosen)))
        if mirror.held:
            mirror.check()
    return changes


RULES = {"paper": PaperCorpusRule, "default": DefaultCorpusRule}


@pytest.fixture(params=[0.25, 10.0], ids=["either way", "never all"])
def most_searched(request, monkeypatch):
    """Beyond this share of the documents all are searched for: the second fixture never does."""
    monkeypatch.setattr("ragsieve.live.neighbors._MOST_SEARCHED", request.param)


@pytest.mark.parametrize("profile", RULES)
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=seeds,
    size=st.one_of(st.integers(1, 60), st.integers(60, 140)),
    spare=st.sampled_from([0, 1, 8]),
)
def test_any_sequence_of_changes_ends_where_a_scan_of_all_does(
    profile, most_searched, seed, size, spare
):
    world = World(np.random.default_rng(seed))
    mirror = Mirror(RULES[profile](), spare=spare, drift_share=0.2)
    mirror.add(*world.documents(size))
    mirror.check()
    changes = walk(mirror, world, 4)
    assert len(changes) == 4


@pytest.mark.parametrize("profile", RULES)
def test_neighbours_a_scan_found_can_be_taken_over(profile):
    world = World(np.random.default_rng(2))
    mirror = Mirror(RULES[profile](), spare=3)
    documents, rows = world.documents(90)
    graph = cosine_knn(rows, mirror.index.rule.neighbors)
    assert mirror.index.add(documents, rows, graph=graph).searched == 0
    mirror.held = {one.id: (one, row) for one, row in zip(documents, rows, strict=True)}
    mirror.check()
    walk(mirror, world, 8)


@pytest.mark.parametrize("profile", RULES)
def test_a_long_walk(profile):
    world = World(np.random.default_rng(1), clusters=12)
    mirror = Mirror(RULES[profile](), spare=2, drift_share=0.6)
    mirror.add(*world.documents(160))
    changes = walk(mirror, world, 22, largest=8)
    assert any(change.searched > change.added for change in changes)
    assert any(change.touched < len(mirror.held) for change in changes)
    if profile == "default":
        assert {change.estimated for change in changes} == {True, False}
        assert mirror.index.statistics.estimate > 1
        assert len({run.ratio_nats for run in mirror.index.scan().knowledge.runs}) > 20


def test_places_are_given_back():
    world = World(np.random.default_rng(3))
    for rule in (PaperCorpusRule(), DefaultCorpusRule()):
        mirror = Mirror(rule, drift_share=1.0)
        mirror.add(*world.documents(80))
        names = list(mirror.held)
        changes = [mirror.remove(names[start : start + 10]) for start in range(0, 40, 10)]
        assert [change.compacted for change in changes] == [False, False, True, False]
        mirror.check()
        walk(mirror, world, 3)


def test_a_tiny_index_grows_and_shrinks_one_by_one():
    for rule in (PaperCorpusRule(), DefaultCorpusRule()):
        world = World(np.random.default_rng(4))
        mirror = Mirror(rule, drift_share=1.0)
        for _ in range(30):
            mirror.add(*world.documents(1))
            mirror.check()
        for name in list(mirror.held)[:28]:
            mirror.remove([name])
            scan = mirror.check()
        assert scan.graph.k == 1
