"""Findings that belong together, so that a reviewer looks at one campaign and not at fifty alarms."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ragsieve.evidence.density import EDGE_COSINE
from ragsieve.features.knowledge import CorpusKnowledge
from ragsieve.features.pairs import pair_keys
from ragsieve.records import Decision, Level, Scan

# Two alien runs are one stretch when they share this many token pairs.
SHARED_PAIRS = 4
LISTED_HOLDERS = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Campaign:
    """Findings connected by the neighbours and the stretches that made them stand out.

    :param number: rank among the campaigns, from 1; the strongest first.
    :param rows: the findings, in rows of the scan, the strongest first.
    :param level: the highest of its findings.
    :param score: the highest score in it.
    :param by_neighbors: links through neighbours that stand out.
    :param by_stretch: links through a shared alien stretch.
    """

    number: int
    rows: tuple[int, ...]
    level: Level
    score: float
    by_neighbors: int
    by_stretch: int


@dataclasses.dataclass(frozen=True, slots=True)
class Budgeted:
    """Campaigns in order, cut where a reviewer's budget ends.

    :param within: rows of the findings that fit the budget.
    """

    campaigns: tuple[Campaign, ...]
    within: frozenset[int]


def campaigns(scan: Scan) -> tuple[Campaign, ...]:
    """Group the flagged documents of a scan.

    Ordered by level, then by the strength of their findings (root mean square of the
    scores), then by the first row. Size does not count: chains of serial documents are long.
    """
    findings = [row for row, one in enumerate(scan.decisions) if one is Decision.FLAGGED]
    place = {row: number for number, row in enumerate(findings)}
    near = list(_by_neighbors(scan, place))
    shared = list(_by_stretch(scan, findings))
    groups = _components(len(findings), near + shared)
    links = collections.Counter(groups[left] for left, _ in near)
    stretches = collections.Counter(groups[left] for left, _ in shared)
    members: dict[int, list[int]] = collections.defaultdict(list)
    for row in findings:
        members[groups[place[row]]].append(row)
    unnumbered = [
        Campaign(
            number=0,
            rows=tuple(sorted(rows, key=lambda row: (-scan.scores[row], row))),
            level=max((scan.levels[row] for row in rows), key=list(Level).index),
            score=float(max(scan.scores[row] for row in rows)),
            by_neighbors=links[group],
            by_stretch=stretches[group],
        )
        for group, rows in members.items()
    ]
    unnumbered.sort(
        key=lambda one: (-list(Level).index(one.level), -_strength(scan, one), one.rows)
    )
    return tuple(
        dataclasses.replace(one, number=number) for number, one in enumerate(unnumbered, start=1)
    )


def cut(found: tuple[Campaign, ...], budget: int | None) -> Budgeted:
    """Spend a budget of documents on campaigns in their order; the last one may be cut short.

    :param budget: documents a reviewer can look at; None for all.
    """
    rows = [row for one in found for row in one.rows]
    return Budgeted(found, frozenset(rows if budget is None else rows[:budget]))


def _strength(scan: Scan, campaign: Campaign) -> float:
    return float(np.sqrt(np.square(scan.scores[list(campaign.rows)]).mean()))


def _by_neighbors(scan: Scan, place: dict[int, int]) -> Iterator[tuple[int, int]]:
    knowledge = scan.knowledge
    first = len(scan.earlier_ids)
    for row, number in place.items():
        least = EDGE_COSINE
        if isinstance(knowledge, CorpusKnowledge):
            if not knowledge.gaps.group[row]:
                continue
            # Nearer to the group that stands out than to the floor; copies, left out of the
            # group, stand as near.
            least = 0.5 * float(knowledge.gaps.mean[row] + knowledge.gaps.floor[row])
        for other, similarity in zip(
            (scan.graph.indices[row] - first).tolist(),
            scan.graph.similarities[row].tolist(),
            strict=True,
        ):
            if other in place and similarity >= least:
                yield number, place[other]


def _by_stretch(scan: Scan, findings: list[int]) -> Iterator[tuple[int, int]]:
    knowledge = scan.knowledge
    if not isinstance(knowledge, CorpusKnowledge):
        return
    holders: dict[int, list[int]] = collections.defaultdict(list)
    for number, row in enumerate(findings):
        run = knowledge.runs[row]
        tokens = knowledge.features.tokens[knowledge.first + row][run.start : run.stop]
        for key in np.unique(pair_keys(tokens)).tolist():
            holders[key].append(number)
    together: collections.Counter[tuple[int, int]] = collections.Counter()
    for numbers in holders.values():
        # Many holders are linked as a chain: it joins them all, and lists no square of pairs.
        pairs = itertools.combinations if len(numbers) <= LISTED_HOLDERS else _chain
        together.update(pairs(numbers, 2))
    yield from (pair for pair, count in together.items() if count >= SHARED_PAIRS)


def _chain(numbers: list[int], _size: int) -> Iterator[tuple[int, int]]:
    return itertools.pairwise(numbers)


def _components(size: int, links: list[tuple[int, int]]) -> list[int]:
    if not size:
        return []
    left = np.array([one for one, _ in links], dtype=np.int64)
    right = np.array([other for _, other in links], dtype=np.int64)
    table = coo_matrix((np.ones(len(links)), (left, right)), shape=(size, size))
    _, groups = connected_components(table, directed=False)
    found: list[int] = groups.tolist()
    return found
