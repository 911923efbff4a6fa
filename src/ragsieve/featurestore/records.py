"""What the feature store is told and what it tells."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Space:
    """Entries that one computation gave.

    :param kind: what they are: ``losses``, ``states``, ``text``, ...
    :param fingerprint: everything their numbers depend on beside the text: model, revision,
        dtype, truncation, profile, version of the encoding.
    """

    kind: str
    fingerprint: str

    def keys(self, texts: Sequence[str]) -> list[bytes]:
        """Where the entry of each text stands, 32 bytes each.

        The fingerprint is part of a key: an entry of another one cannot be found by mistake.
        """
        start = hashlib.blake2b(digest_size=32, key=self._seed())
        found = []
        for text in texts:
            one = start.copy()
            # surrogatepass: what to do with a lone surrogate is the computation's decision.
            one.update(text.encode("utf-8", "surrogatepass"))
            found.append(one.digest())
        return found

    def _seed(self) -> bytes:
        named = f"{len(self.kind)} {self.kind}{self.fingerprint}"
        return hashlib.blake2b(named.encode("utf-8", "surrogatepass")).digest()


@dataclasses.dataclass(frozen=True, slots=True)
class StoreReport:
    """What one process saw of the store since it opened it.

    :param hits: entries asked for and found.
    :param misses: entries asked for and not there, damaged ones included.
    :param damaged: entries that were not as they were written; they are computed again.
    :param kept: entries written.
    :param unkept: entries that could not be written, or were larger than the store takes.
    :param pruned: entries removed to stay within the bound.
    :param notes: what went wrong, each once.
    """

    hits: int = 0
    misses: int = 0
    damaged: int = 0
    kept: int = 0
    unkept: int = 0
    pruned: int = 0
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SpaceUsage:
    """What one space holds.

    :param stored_bytes: of its entries, with a rough allowance for their management.
    """

    space: Space
    entries: int
    stored_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """What a store holds.

    :param file_bytes: of the file and its log on disk.
    :param damaged: damaged entries met and replaced since the store was made.
    :param set_aside: name of a damaged file beside it; None when there is none.
    """

    spaces: tuple[SpaceUsage, ...]
    file_bytes: int
    damaged: int
    set_aside: str | None

    @property
    def entries(self) -> int:
        """Entries of all spaces."""
        return sum(one.entries for one in self.spaces)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all spaces, what the bound applies to."""
        return sum(one.stored_bytes for one in self.spaces)


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    """What reading a whole store found.

    :param entries: entries read.
    :param damaged: entries that are not as they were written.
    :param structure: what is wrong with the file as a whole; None when nothing is.
    :param repaired: whether what was found was removed.
    """

    entries: int
    damaged: int
    structure: str | None = None
    repaired: bool = False

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return self.damaged == 0 and self.structure is None


@dataclasses.dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed."""

    entries: int
    stored_bytes: int
