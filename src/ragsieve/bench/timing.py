"""Timing that takes turns, and what it means that two scans are equal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ragsieve.records import Scan

Found = TypeVar("Found")


def timed(run: Callable[[], Found]) -> tuple[float, Found]:
    """Seconds of one call by the wall clock, and what it gave."""
    start = time.perf_counter()
    found = run()
    return time.perf_counter() - start, found


def median(values: list[float]) -> float:
    """The middle of some seconds."""
    return float(np.median(values))


def same_scan(one: Scan, other: Scan) -> bool:
    """Whether two scans have the same documents, decisions, levels, scores and neighbours."""
    return (
        one.document_ids == other.document_ids
        and one.decisions == other.decisions
        and one.levels == other.levels
        and np.array_equal(one.scores, other.scores)
        and np.array_equal(one.graph.indices, other.graph.indices)
    )
