"""What is searched, cut into blocks of rows that do not depend on each other."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.cluster.shards import Shard, embeddings_digest
from ragsieve.errors import ConfigError
from ragsieve.evidence.shortlist import ranges

# Raise it when the same rows start to give other neighbours or similarities.
KERNEL = 1
BLOCK_ROWS = 8192
PART_ROWS = 65_536


def kernel_name() -> str:
    """What decides the last bit of a similarity: this code, numpy and the processor's kind."""
    return f"{KERNEL} numpy-{np.__version__} {platform.machine()}"


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Corpus rows ``start`` to ``stop``, whose neighbours one task finds."""

    start: int
    stop: int

    @property
    def rows(self) -> int:
        """How many."""
        return self.stop - self.start


@dataclasses.dataclass(frozen=True, slots=True)
class SearchPlan:
    """An exact search of all rows of some shards.

    :param neighbors: wanted of every row, >= 1.
    :param block_rows: rows of a block: the unit of work, of checkpoints and of what a lost
        worker costs.
    :param part_rows: rows a worker holds at a time to compare a block with.
    :param kernel: :func:`kernel_name` where the plan was made; workers have to have the same.
    :raises ConfigError: for a number below 1.
    """

    shards: tuple[Shard, ...]
    neighbors: int
    block_rows: int = BLOCK_ROWS
    part_rows: int = PART_ROWS
    kernel: str = dataclasses.field(default_factory=kernel_name)

    def __post_init__(self) -> None:
        if min(self.neighbors, self.block_rows, self.part_rows) < 1:
            raise ConfigError(
                "neighbors, block_rows and part_rows must be at least 1, found "
                f"{self.neighbors}, {self.block_rows} and {self.part_rows}"
            )

    @property
    def rows(self) -> int:
        """Of all shards."""
        return self.shards[-1].first + self.shards[-1].rows

    @property
    def used(self) -> int:
        """Neighbours a row gets: fewer than wanted in a corpus of fewer than neighbors + 1."""
        return min(self.neighbors, self.rows - 1)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks, in row order."""
        return tuple(Block(part.start, part.stop) for part in ranges(self.rows, self.block_rows))

    @property
    def digest(self) -> str:
        """SHA-256 of everything a block's result depends on besides its rows."""
        facts = {
            "kernel": self.kernel,
            "neighbors": self.neighbors,
            "rows": self.rows,
            "embeddings": embeddings_digest(self.shards),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def parts(self) -> list[tuple[Shard, slice]]:
        """All rows in order, as stretches of shards that a worker can hold."""
        return [(one, part) for one in self.shards for part in ranges(one.rows, self.part_rows)]

    def read(self, block: Block) -> npt.NDArray[np.floating]:
        """The rows of a block, as stored, shape (block.rows, d).

        :raises EmbeddingError: when a shard is not what it was.
        """
        return np.concatenate([shard.read(part.start, part.stop) for shard, part in self.of(block)])

    def of(self, block: Block) -> Sequence[tuple[Shard, slice]]:
        """Where the rows of a block stand."""
        return [
            (one, slice(max(0, block.start - one.first), min(one.rows, block.stop - one.first)))
            for one in self.shards
            if one.first < block.stop and one.first + one.rows > block.start
        ]
