"""A search run to its end: what is kept is reused, the rest goes to the workers."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ragsieve.cluster.checkpoints import Checkpoints
from ragsieve.cluster.executors import Executor
from ragsieve.cluster.kernel import search_block
from ragsieve.cluster.plan import Block, SearchPlan
from ragsieve.errors import InputError
from ragsieve.evidence.tiles import Found
from ragsieve.records import NeighborGraph


@dataclasses.dataclass(frozen=True, slots=True)
class SearchReport:
    """A graph, and how it came about.

    :param graph: that of :func:`ragsieve.evidence.knn.cosine_knn` over all rows.
    :param computed: blocks computed in this run.
    :param reused: blocks taken from checkpoints.
    :param damaged: checkpoints that were found damaged, and computed again.
    :param seconds: of this run.
    """

    graph: NeighborGraph
    computed: int
    reused: int
    damaged: tuple[str, ...]
    seconds: float


def search(
    plan: SearchPlan,
    executor: Executor,
    *,
    checkpoints: Path | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> SearchReport:
    """The exact neighbours of every row of a plan.

    :param checkpoints: folder, on storage that all workers share, where finished blocks are
        kept and looked for; none are kept when None.
    :param progress: called with the rows of each block that is done.
    :raises EmbeddingError: when a shard is not what it was, or a row is not finite or is zero.
    :raises BackendError: when workers keep dying.
    :raises OutputError: when checkpoints cannot be written.
    """
    began = time.perf_counter()
    kept = None if checkpoints is None else Checkpoints.opened(checkpoints, plan)
    shape = plan.rows, plan.used
    indices, similarities = np.empty(shape, np.int64), np.empty(shape)

    def take(block: Block, found: Found) -> None:
        rows = slice(block.start, block.stop)
        indices[rows], similarities[rows] = found
        if progress is not None:
            progress(block.rows)

    missing, damaged = [], []
    for block in plan.blocks:
        found = None
        try:
            found = None if kept is None else kept.read(block)
        except InputError:
            damaged.append(kept.path(block).name if kept else "")
        if found is None:
            missing.append(block)
        else:
            take(block, found)
    task = functools.partial(_computed, plan, kept)
    for number, found in executor.run(task, missing):
        take(missing[number], found)
    return SearchReport(
        NeighborGraph(indices, similarities),
        computed=len(missing),
        reused=len(plan.blocks) - len(missing),
        damaged=tuple(damaged),
        seconds=time.perf_counter() - began,
    )


def _computed(plan: SearchPlan, kept: Checkpoints | None, block: Block) -> Found:
    """A block's result, on a worker; kept before it is handed over."""
    if kept is None:
        return search_block(plan, block)
    kept.check_shared()
    # A block that is run again may have been finished by a worker that died afterwards.
    with contextlib.suppress(InputError):
        earlier = kept.read(block)
        if earlier is not None:
            return earlier
    found = search_block(plan, block)
    kept.write(block, found)
    return found
