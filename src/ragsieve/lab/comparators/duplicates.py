"""Duplicates: exact ones by SHA-256, near ones by MinHash; the first of a kind stays."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve._extras import require
from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError
from ragsieve.evidence.tokens import tokens
from ragsieve.lab.comparators.base import ControlPoint, CorpusComparator, Declaration
from ragsieve.lab.poison.base import Fidelity
from ragsieve.records import NeighborGraph

_SOURCE = "PoisonedRAG, USENIX Security 2025, section 7"
EXACT_DECLARATION = Declaration(
    name="duplicates",
    control_point=ControlPoint.INGEST,
    needs=frozenset(),
    native_rule="drop a document whose text's SHA-256 an earlier one has",
    fidelity=Fidelity.EXACT,
    source=_SOURCE,
    binary=True,
)
MINHASH_DECLARATION = Declaration(
    name="duplicates-minhash",
    control_point=ControlPoint.INGEST,
    needs=frozenset(),
    native_rule=(
        "drop a document whose three-word shingles share an estimated Jaccard of 0.8 or more "
        "with an earlier one's"
    ),
    fidelity=Fidelity.VARIANT,
    source=_SOURCE,
)


@dataclasses.dataclass(frozen=True, slots=True)
class MinHashConfig:
    """Constants.

    :param jaccard: estimate at which a document is dropped.
    :param sought: estimate from which pairs are looked for; below it the score is mostly 0.
    :param hashes: of a signature.
    :param words: of a shingle.
    """

    jaccard: float = 0.8
    sought: float = 0.5
    hashes: int = 128
    words: int = 3
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.sought <= self.jaccard <= 1 or min(self.hashes, self.words) < 1:
            raise ConfigError(
                "duplicates-minhash: expected 0 < sought <= jaccard <= 1, hashes and words >= 1"
            )


class ExactDuplicates(CorpusComparator):
    """Score: 1 for a repeat, else 0."""

    declaration = EXACT_DECLARATION

    def fingerprint(self) -> str:
        """The name: there are no constants."""
        return fingerprint(self.profile)

    def scores(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,  # noqa: ARG002
    ) -> npt.NDArray[np.float64]:
        """Whether each text stands earlier in the corpus."""
        seen: set[bytes] = set()
        found = np.zeros(len(contents))
        for row, text in enumerate(contents):
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
            found[row] = float(digest in seen)
            seen.add(digest)
        return found


class MinHashDuplicates(CorpusComparator):
    """Score: the highest estimated Jaccard to an earlier document, in [0, 1]."""

    declaration = MINHASH_DECLARATION

    def __init__(self, config: MinHashConfig | None = None) -> None:
        self.config = config or MinHashConfig()
        self.threshold = self.config.jaccard

    def fingerprint(self) -> str:
        """Hash of the constants."""
        return fingerprint(self.profile, self.config)

    def scores(
        self,
        contents: Sequence[str],
        graph: NeighborGraph,  # noqa: ARG002
    ) -> npt.NDArray[np.float64]:
        """The highest estimate among the earlier documents that the hash tables bring up."""
        datasketch = require("datasketch", extra="lab")
        tables = datasketch.MinHashLSH(threshold=self.config.sought, num_perm=self.config.hashes)
        signatures: list[Any] = []
        found = np.zeros(len(contents))
        for row, text in enumerate(contents):
            signature = datasketch.MinHash(num_perm=self.config.hashes, seed=self.config.seed)
            signature.update_batch(shingles(text, self.config.words))
            earlier = tables.query(signature)
            found[row] = max((signature.jaccard(signatures[other]) for other in earlier), default=0)
            tables.insert(row, signature)
            signatures.append(signature)
        return found


def shingles(text: str, words: int) -> list[bytes]:
    """The distinct runs of so many tokens, sorted; the whole of a shorter text."""
    found = tokens(text)
    runs = {" ".join(found[at : at + words]) for at in range(max(1, len(found) - words + 1))}
    return sorted(run.encode("utf-8", "surrogatepass") for run in runs)
