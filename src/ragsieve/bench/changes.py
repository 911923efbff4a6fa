"""What adding documents to a live index costs against a scan of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.bench.scans import held_scan
from ragsieve.bench.timing import median, same_scan, timed
from ragsieve.errors import InputError
from ragsieve.evidence.knn import cosine_knn
from ragsieve.live.index import LiveIndex, Rule
from ragsieve.records import Document, Scan

LARGEST_BATCH = 100
_BATCH_SHARE = 0.01


@dataclasses.dataclass(frozen=True, slots=True)
class LiveFigures:
    """Medians over repeats, in seconds.

    :param batch: documents added to all the others.
    :param add_seconds: adding them and scanning the index.
    :param remove_seconds: letting them go again and scanning; between two additions, so None
        with a single repeat.
    :param full_scan_seconds: of all documents, measured in the same run.
    :param live_add_share: adding over the full scan.
    :param estimated: times the statistics were estimated anew in an addition.
    :param decisions_equal: decisions, levels, scores and neighbours, after every addition, with
        those of a scan of all under the statistics in force.
    """

    profile: str
    documents: int
    batch: int
    add_seconds: float
    remove_seconds: float | None
    full_scan_seconds: float
    live_add_share: float
    estimated: int
    decisions_equal: bool


def live_figures(
    rule: Rule,
    documents: Sequence[Document],
    embeddings: npt.NDArray[np.floating],
    scan: Scan,
    full_scan_seconds: float,
    repeats: int,
) -> LiveFigures:
    """Add the last hundredth of a corpus, 100 documents at most, to the rest.

    :param scan: of all documents, by the same rule.
    :raises InputError: for a corpus of fewer than two documents.
    """
    size = len(documents)
    if size < 2:  # noqa: PLR2004 -- one to be there and one to come
        raise InputError("a live index is measured on two documents at least")
    batch = max(1, min(LARGEST_BATCH, int(size * _BATCH_SHARE)))
    first = size - batch
    fresh, rows = documents[first:], np.asarray(embeddings[first:])
    names = [one.id for one in fresh]
    index = LiveIndex(rule, drift_share=1.0)
    index.add(
        documents[:first],
        embeddings[:first],
        graph=cosine_knn(embeddings[:first], rule.neighbors),
    )
    added, removed = [], []
    estimated, equal = 0, True
    for repeat in range(repeats):
        if repeat:
            removed.append(timed(lambda: (index.remove(names), index.scan()))[0])
        spent, (change, found) = timed(lambda: (index.add(fresh, rows), index.scan()))
        added.append(spent)
        estimated += change.estimated
        whole = held_scan(rule, documents, scan.graph, index.statistics)
        equal &= same_scan(found, whole)
    return LiveFigures(
        profile=rule.profile,
        documents=size,
        batch=batch,
        add_seconds=median(added),
        remove_seconds=median(removed) if removed else None,
        full_scan_seconds=full_scan_seconds,
        live_add_share=median(added) / full_scan_seconds,
        estimated=estimated,
        decisions_equal=equal,
    )
