"""Scores by slice: whose documents, retrieved how, judged by which profile."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from ragsieve.calibration.samples import Sample
from ragsieve.errors import InputError
from ragsieve.policy.file import SliceThreshold
from ragsieve.policy.rules import Kind

EVERYWHERE = "**"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Slice:
    """One part of the traffic, as a policy's thresholds name it.

    :param dataset: pattern over the store's address.
    :param retriever: the embedding version; empty where any is meant, as ``tenant``.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    profile: str
    kind: Kind
    dataset: str = EVERYWHERE
    retriever: str = ""
    tenant: str = ""

    def __str__(self) -> str:
        named = (self.dataset, self.retriever or "any retriever", self.tenant or "any tenant")
        return f"{' / '.join(named)} ({self.kind}, {self.profile})"


@dataclasses.dataclass(frozen=True, slots=True)
class Scored:
    """One score and what it was given for.

    :param query: the retrieval it belongs to; None for a corpus scan.
    :param threshold: the profile's.
    :param missing: evidences that could not be measured, sorted.
    """

    slice: Slice
    document_id: str
    query: str | None
    score: float
    threshold: float
    fingerprint: str
    missing: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Portion:
    """The scores of one slice that can be compared with one another.

    :param document_ids: of each score.
    :param threshold: the profile's.
    :param fingerprint: of the configuration.
    :param missing: evidences that none of these scores contains.
    :param left_out: judgements without the same evidence.
    """

    slice: Slice
    sample: Sample
    document_ids: tuple[str, ...]
    threshold: float
    fingerprint: str
    missing: tuple[str, ...] = ()
    left_out: int = 0

    def reaching(self, threshold: float) -> tuple[str, ...]:
        """Distinct documents at or above ``threshold``, the highest score first."""
        order = np.argsort(-self.sample.scores, kind="stable")
        found = [self.document_ids[row] for row in order if self.sample.scores[row] >= threshold]
        return tuple(dict.fromkeys(found))


def slice_of(threshold: SliceThreshold) -> Slice:
    """The slice that a policy's threshold is for."""
    return Slice(
        threshold.profile,
        threshold.kind,
        threshold.dataset,
        threshold.retriever or "",
        threshold.tenant or "",
    )


def portions(scored: Iterable[Scored]) -> tuple[Portion, ...]:
    """Scores by slice, in the order of the slices' names.

    A score is the combined evidence that was measured. Scores with different evidence missing
    are different quantities: a slice keeps those with the commonest set and counts the rest.

    :raises InputError: for scores of two configurations in one slice, a judgement that stands
        twice, or a score that is no finite number of at least 0.
    """
    groups: dict[Slice, list[Scored]] = {}
    for one in scored:
        groups.setdefault(one.slice, []).append(one)
    return tuple(_portion(name, groups[name]) for name in sorted(groups))


def _portion(name: Slice, rows: Sequence[Scored]) -> Portion:
    for what in ("fingerprint", "threshold"):
        kinds = sorted({str(getattr(one, what)) for one in rows})
        if len(kinds) > 1:
            raise InputError(
                f"{name}: scores of two configurations ({what} {' and '.join(kinds[:2])}) cannot "
                "be compared; score the traffic with one"
            )
    seen: set[tuple[str | None, str]] = set()
    for one in rows:
        key = (one.query, one.document_id)
        if key in seen:
            where = "" if one.query is None else f" for query {one.query!r}"
            raise InputError(f"{name}: document {one.document_id!r} is judged twice{where}")
        seen.add(key)
    commonest = collections.Counter(one.missing for one in rows).most_common(1)[0][0]
    kept = [one for one in rows if one.missing == commonest]
    numbers: dict[object, int] = {}
    groups = [
        numbers.setdefault(row if one.query is None else one.query, len(numbers))
        for row, one in enumerate(kept)
    ]
    return Portion(
        name,
        Sample(np.array([one.score for one in kept], dtype=np.float64), np.array(groups)),
        tuple(one.document_id for one in kept),
        kept[0].threshold,
        kept[0].fingerprint,
        commonest,
        len(rows) - len(kept),
    )
