"""Finished blocks on shared storage: a run that was killed goes on where it stopped.

::

    graph-0123456789abcdef/     one folder a plan, named by its digest
        plan.json               what was planned, for people
        000000000000-000000008192.block    the result of rows 0 to 8192

A block file is a SHA-256 followed by the neighbours (int64) and cosines (float64), little-endian.
"""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path

import numpy as np

from ragsieve._atomic import replacing, write_text
from ragsieve.cluster.plan import Block, SearchPlan
from ragsieve.errors import InputError, OutputError
from ragsieve.evidence.tiles import Found

PLAN = "plan.json"
_DIGEST_BYTES = 32


class Checkpoints:
    """The finished blocks of one plan; picklable.

    :param folder: the plan's own folder, absolute.
    """

    def __init__(self, folder: Path, plan: SearchPlan) -> None:
        self.folder, self._plan = folder, plan
        self._digest = bytes.fromhex(plan.digest)

    @classmethod
    def opened(cls, parent: Path | str, plan: SearchPlan) -> Checkpoints:
        """The folder of a plan below ``parent``; both are made when missing.

        :raises OutputError: when they cannot be made.
        """
        folder = Path(parent).resolve() / f"graph-{plan.digest[:16]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be made ({error.strerror})") from error
        facts = {
            "digest": plan.digest,
            "kernel": plan.kernel,
            "neighbors": plan.neighbors,
            "rows": plan.rows,
            "shards": [[one.path, one.rows, one.fingerprint] for one in plan.shards],
        }
        write_text(folder / PLAN, json.dumps(facts, indent=2) + "\n")
        return cls(folder, plan)

    def check_shared(self) -> None:
        """Whether this machine sees the folder that the run was started with.

        :raises OutputError: when it does not.
        """
        if not (self.folder / PLAN).is_file():
            raise OutputError(
                f"{self.folder}: is not there on {platform.node()}; checkpoints have to be on "
                "storage that every worker sees under this path"
            )

    def path(self, block: Block) -> Path:
        """Where a block's result stands."""
        return self.folder / f"{block.start:012d}-{block.stop:012d}.block"

    def write(self, block: Block, found: Found) -> None:
        """Keep a block's result, completely or not at all.

        :raises OutputError: when it cannot be written.
        """
        payload = found[0].astype("<i8").tobytes() + found[1].astype("<f8").tobytes()
        with replacing(self.path(block)) as handle:
            handle.write(self._sum(block, payload) + payload)

    def read(self, block: Block) -> Found | None:
        """A block's result; None when there is none yet.

        :raises InputError: when it is damaged, or of another plan.
        """
        path = self.path(block)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        payload = memoryview(raw)[_DIGEST_BYTES:]
        shape = block.rows, self._plan.used
        half = 8 * shape[0] * shape[1]
        if len(payload) != 2 * half or self._sum(block, payload) != raw[:_DIGEST_BYTES]:
            raise InputError(f"{path}: is damaged; it will be computed again")
        return (
            np.frombuffer(payload[:half], "<i8").astype(np.int64).reshape(shape),
            np.frombuffer(payload[half:], "<f8").astype(np.float64).reshape(shape),
        )

    def _sum(self, block: Block, payload: bytes | memoryview) -> bytes:
        digest = hashlib.sha256(self._digest + f"{block.start}-{block.stop}".encode())
        digest.update(payload)
        return digest.digest()
