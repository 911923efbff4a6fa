"""Findings that belong together are one campaign, the strongest campaign comes first."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from builders import documents
from ragsieve.detectors.campaigns import LISTED_HOLDERS, Budgeted, campaigns, cut
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.gate import IngestGate
from ragsieve.evidence.alien import AlienRun
from ragsieve.records import Decision, Level, NeighborGraph

DIMENSION = 20


def texts_of(rng, size):
    """A hundred everyday words, and rare ones scattered among them."""
    texts = []
    for row in range(size):
        mixed = [f"e{(row * 7 + step) % 100}" for step in range(30)]
        mixed += [f"r{rng.integers(10**6)}" for _ in range(int(rng.integers(4, 14)))]
        rng.shuffle(mixed)
        texts.append(" ".join(mixed))
    return texts


def corpus(groups=0, size=150, seed=7, spread=0.12):
    """A clustered background, then groups of five that stand together."""
    rng = np.random.default_rng(seed)
    texts = texts_of(rng, size)
    rows = rng.normal(size=(10, DIMENSION))[rng.integers(10, size=size)]
    rows = rows + 0.8 * rng.normal(size=rows.shape)
    centres = np.repeat(rng.normal(size=(groups, DIMENSION)), 5, axis=0)
    more = centres + spread * rng.normal(size=centres.shape)
    return [*texts, *texts_of(rng, 5 * groups)], np.vstack([rows, more])


def scan_of(texts, rows, profile="default"):
    return CorpusDetector(profile).scan(documents(texts), rows)


def test_planted_groups_are_one_campaign_each():
    scan = scan_of(*corpus(groups=3))
    found = campaigns(scan)
    members = [set(one.rows) for one in found]
    for start in (150, 155, 160):
        assert set(range(start, start + 5)) in members
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    for one in found:
        if one.rows[0] >= 150:
            assert one.by_neighbors >= 4
            assert one.by_stretch == 0
            assert one.score == max(scan.scores[list(one.rows)])
    # Every finding stands in exactly one campaign, and nothing else does.
    rows = sorted(row for one in found for row in one.rows)
    assert rows == [row for row, one in enumerate(scan.decisions) if one is Decision.FLAGGED]


def test_members_come_strongest_first():
    scan = scan_of(*corpus(groups=2))
    for one in campaigns(scan):
        scores = [scan.scores[row] for row in one.rows]
        assert scores == sorted(scores, reverse=True)
    assert max(len(one.rows) for one in campaigns(scan)) == 5


def nonsense(mark, length):
    return [f"{mark}{number}" for number in range(length)]


def test_a_shared_stretch_links_documents_that_are_no_neighbours():
    texts, rows = corpus()
    # What two documents far apart share is alien in neither, so their stretches are alien by
    # their own words, and the two shared scraps inside link them.
    for row in (3, 60):
        own = nonsense(f"x{row}n", 18)
        stretch = [*own[:6], "s0", "s1", "s2", *own[6:12], "s3", "s4", "s5", *own[12:]]
        texts[row] = " ".join([*stretch, texts[row]])
    texts[120] = " ".join([*nonsense("other", 18), texts[120]])
    scan = scan_of(texts, rows)
    assert 60 not in scan.graph.indices[3]
    assert 3 not in scan.graph.indices[60]
    together, alone = (next(one for one in campaigns(scan) if row in one.rows) for row in (3, 120))
    assert set(together.rows) == {3, 60}
    assert together.by_stretch == 1
    assert together.by_neighbors == 0
    assert alone.rows == (120,)


@pytest.mark.parametrize("holders", [2, LISTED_HOLDERS, LISTED_HOLDERS + 20])
def test_any_number_of_holders_of_a_stretch_is_one_campaign(holders):
    texts, rows = corpus(size=60)
    phrase = " ".join(nonsense("s", 12))
    texts = [f"{phrase} {text}" if row < holders else text for row, text in enumerate(texts)]
    scan = scan_of(texts, rows)
    runs = tuple(
        AlienRun(20.0, 0, 12, 12, 0, 40) if row < holders else AlienRun(0.0, 0, 0, 0, 0, 40)
        for row in range(60)
    )
    # As if nothing stood out but the stretch.
    gaps = dataclasses.replace(scan.knowledge.gaps, group=np.zeros(60, np.int64))
    forced = dataclasses.replace(
        scan,
        decisions=(Decision.FLAGGED,) * holders + (Decision.CLEAR,) * (60 - holders),
        levels=(Level.REVIEW,) * 60,
        knowledge=dataclasses.replace(scan.knowledge, runs=runs, gaps=gaps),
    )
    (one,) = campaigns(forced)
    assert set(one.rows) == set(range(holders))
    assert one.by_neighbors == 0
    assert one.by_stretch >= holders - 1


def lone(size, scores, levels, pairs=()):
    """A scan of the published profile whose only neighbours are the given pairs."""
    base = scan_of([f"text {row}" for row in range(size)], np.eye(size), "paper")
    similarities = np.zeros((size, size - 1))
    indices = np.array([[j for j in range(size) if j != i] for i in range(size)])
    for left, right in pairs:
        for one, other in ((left, right), (right, left)):
            similarities[one, indices[one] == other] = 0.9
    return dataclasses.replace(
        base,
        graph=NeighborGraph(indices, similarities),
        scores=np.array(scores),
        decisions=tuple(Decision.FLAGGED if score >= 1 else Decision.CLEAR for score in scores),
        levels=tuple(levels),
    )


def test_order_is_by_level_then_strength_then_row():
    review, quarantine = Level.REVIEW, Level.QUARANTINE
    scan = lone(
        7,
        [1.5, 1.2, 1.2, 1.0, 0.2, 1.2, 1.2],
        [review, review, review, quarantine, Level.INFO, review, review],
        pairs=[(1, 6)],
    )
    found = campaigns(scan)
    # Quarantine first; then strength, whatever the size; equals by row.
    assert [one.rows for one in found] == [(3,), (0,), (1, 6), (2,), (5,)]
    assert [one.number for one in found] == [1, 2, 3, 4, 5]
    assert [one.level for one in found] == [quarantine, review, review, review, review]
    assert [one.by_neighbors for one in found] == [0, 0, 2, 0, 0]


def test_a_campaign_has_the_highest_level_in_it():
    scan = lone(3, [1.1, 1.4, 1.2], [Level.REVIEW, Level.QUARANTINE, Level.REVIEW], [(0, 1)])
    first, second = campaigns(scan)
    assert (first.rows, first.level, first.score) == ((1, 0), Level.QUARANTINE, 1.4)
    assert (second.rows, second.level) == ((2,), Level.REVIEW)


@pytest.mark.parametrize(
    ("budget", "within"),
    [(None, {0, 1, 2, 3}), (1, {3}), (2, {3, 1}), (3, {3, 1, 2}), (4, {3, 1, 2, 0}), (99, {0, 1, 2, 3})],
)  # fmt: skip
def test_a_budget_is_spent_in_order_and_to_the_document(budget, within):
    scan = lone(4, [1.1, 1.6, 1.5, 1.0], [Level.REVIEW] * 3 + [Level.QUARANTINE], pairs=[(1, 2)])
    found = campaigns(scan)
    assert cut(found, budget) == Budgeted(found, frozenset(within))


def test_a_scan_without_findings_has_no_campaign():
    scan = lone(3, [0.1, 0.2, 0.3], [Level.INFO] * 3)
    assert campaigns(scan) == ()
    assert cut((), 5) == Budgeted((), frozenset())
    assert campaigns(scan_of(["one text"], np.ones((1, 4)))) == ()


def test_the_published_profile_groups_by_its_edges():
    texts, rows = corpus(groups=1)
    scan = scan_of(texts, rows, "paper")
    found = campaigns(scan)
    members = [set(one.rows) for one in found if set(one.rows) & set(range(150, 155))]
    assert len(members) == 1
    assert members[0] <= set(range(150, 155))
    assert len(members[0]) >= 3
    assert all(one.by_stretch == 0 for one in found)


def test_a_batch_is_grouped_among_itself():
    texts, rows = corpus(groups=2)
    items = documents(texts)
    rule = DefaultCorpusRule()
    gate = IngestGate(rule)
    scan = CorpusDetector(rule).scan(items[:155], rows[:155])
    snapshot = gate.snapshot(scan, rows[:155])
    judged = gate.judge(snapshot, items[155:], rows[155:])
    (one,) = campaigns(judged)
    assert set(one.rows) == set(range(5))
    # Rows are those of the batch: the group found earlier is no part of it.
    assert [judged.document_ids[row] for row in sorted(one.rows)] == [
        f"d{i}" for i in range(155, 160)
    ]
