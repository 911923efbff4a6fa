"""Rows equal to the last bit: found, searched once, and put back."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.shortlist import Doubles, Floats, runs

_BLOCK = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Copies:
    """Rows grouped by equality.

    :param first: shape (groups,), the lowest row of each group, ascending.
    :param group: shape (rows,), the group of each row.
    :param members: shape (rows,), rows by group, ascending in each.
    :param starts: shape (groups + 1,), where each group starts in ``members``.
    """

    first: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    members: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]

    def expanded(
        self,
        rows: npt.NDArray[np.int64],
        near: npt.NDArray[np.int64],
        similarities: Doubles,
        own: Doubles,
        k: int,
    ) -> tuple[npt.NDArray[np.int64], Doubles]:
        """The neighbours of ``rows`` among all rows, from those of groups among groups.

        :param near: shape (groups, at least min(k, groups - 1)), groups near each group.
        :param similarities: of the same shape.
        :param own: shape (groups,), the similarity of a row to its copies.
        :param k: at most all rows less one.
        """
        wanted, place = np.unique(self.group[rows], return_inverse=True)
        indices = np.empty((rows.size, k), dtype=np.int64)
        found = np.empty((rows.size, k))
        asked = np.argsort(place, kind="stable")
        step = max(1, _BLOCK // (k + 1) ** 2)
        for start in range(0, wanted.size, step):
            mine = wanted[start : start + step]
            columns, cosines = self._listed(mine, near[mine], similarities[mine], own[mine], k + 1)
            ends = np.searchsorted(place[asked], [start, start + mine.size])
            answered = asked[ends[0] : ends[1]]
            columns, cosines = (
                columns[place[answered] - start],
                cosines[place[answered] - start],
            )
            others = columns != rows[answered, None]
            others[others.all(axis=1), -1] = False
            indices[answered] = columns[others].reshape(-1, k)
            found[answered] = cosines[others].reshape(-1, k)
        return indices, found

    def _listed(
        self,
        groups: npt.NDArray[np.int64],
        near: npt.NDArray[np.int64],
        similarities: Doubles,
        own: Doubles,
        k: int,
    ) -> tuple[npt.NDArray[np.int64], Doubles]:
        """The k rows nearest to each group, its own members among them."""
        sources = np.concatenate([groups[:, None], near], axis=1)
        cosines = np.concatenate([own[:, None], similarities], axis=1).ravel()
        sizes = np.minimum(np.diff(self.starts)[sources], k).ravel()
        begins = np.cumsum(sizes) - sizes
        offset = np.arange(sizes.sum()) - np.repeat(begins, sizes)
        member = self.members[np.repeat(self.starts[sources].ravel(), sizes) + offset]
        cosine = np.repeat(cosines, sizes)
        line = np.repeat(np.repeat(np.arange(groups.size), sources.shape[1]), sizes)
        order = np.lexsort((member, -cosine, line))
        starts, counts = runs(line)
        order = order[np.arange(line.size) - np.repeat(starts, counts) < k]
        return member[order].reshape(-1, k), cosine[order].reshape(-1, k)


def find_copies(unit: Floats) -> Copies | None:
    """Groups of rows equal to the last bit; None when no two are.

    :param unit: shape (rows, d), contiguous.
    """
    size = unit.shape[0]
    marks = _marks(unit)
    order = np.argsort(marks, kind="stable")
    same = np.zeros(size, dtype=np.bool_)
    alike = np.flatnonzero(marks[order[1:]] == marks[order[:-1]]) + 1
    step = max(1, _BLOCK // unit.shape[1])
    for start in range(0, alike.size, step):
        part = alike[start : start + step]
        one, other = unit[order[part]], unit[order[part - 1]]
        same[part] = (one.view(np.uint32) == other.view(np.uint32)).all(axis=1)
    if not same.any():
        return None
    begins = np.flatnonzero(~same)
    # Groups are numbered by their lowest row, which a stable sort leaves in front.
    number = np.empty(begins.size, dtype=np.int64)
    by_first = np.argsort(order[begins])
    number[by_first] = np.arange(begins.size)
    group = np.empty(size, dtype=np.int64)
    group[order] = number[np.cumsum(~same) - 1]
    sizes = np.bincount(group, minlength=begins.size)
    return Copies(
        first=order[begins][by_first],
        group=group,
        members=np.argsort(group, kind="stable"),
        starts=np.concatenate([[0], np.cumsum(sizes)]),
    )


def _marks(unit: Floats) -> npt.NDArray[np.uint64]:
    """A number of each row; equal rows have equal ones."""
    factors = np.random.default_rng(0).integers(1, 2**63, unit.shape[1], dtype=np.uint64) | 1
    marks = np.empty(unit.shape[0], dtype=np.uint64)
    step = max(1, _BLOCK // unit.shape[1])
    for start in range(0, unit.shape[0], step):
        bits = unit[start : start + step].view(np.uint32)
        marks[start : start + step] = np.einsum("ij,j->i", bits.astype(np.uint64), factors)
    return marks
