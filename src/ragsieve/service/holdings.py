"""The corpora that a service knows, and who may ask about which."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol

from ragsieve.defense.policy import FilterPolicy
from ragsieve.detectors.query import QueryDetector
from ragsieve.ports import TextEmbedder
from ragsieve.records import Document, FloatArray, Scan
from ragsieve.service.access import Principal
from ragsieve.service.problems import Refused

BARE = ""


class Gate(Protocol):
    """Judges new documents against a corpus; changes nothing."""

    @property
    def against(self) -> Literal["state", "live"]:
        """What it judges against."""
        ...

    @property
    def encoder(self) -> str:
        """Identity of what made the corpus's vectors; empty when unknown."""
        ...

    def judge(self, documents: Sequence[Document], rows: FloatArray) -> Scan:
        """The scan of the new documents alone. Called by one thread at a time.

        :raises InputError: for an id that is there already, or repeated.
        :raises EmbeddingError: for rows that do not fit.
        """
        ...


def nothing_withheld() -> frozenset[str]:
    """No document is kept out."""
    return frozenset()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """One corpus.

    :param name: empty for the collection of nothing, in which whole candidates are judged.
    :param tenant: who owns it.
    :param documents: by id; whoever names an id gets its text judged.
    :param withheld: ids that no retrieval may return, as of now. Must be quick and never fail:
        it is asked for every retrieval, and where judging failed too.
    :param scanned: ids that the scan saw; None when that is not known.
    :param known: documents of the state; None without one.
    :param made: when the state was written.
    :param suspects: what the scan flagged at any level, to see it in tails.
    :param embedder: makes vectors for the gate where documents come without.
    :param store: public address of the vector store behind it; None where none was declared.
    :param vectors_by: model behind the vectors; None when nobody said.
    """

    name: str
    detector: QueryDetector
    policy: FilterPolicy = FilterPolicy()
    tenant: str | None = None
    documents: Mapping[str, Document] = dataclasses.field(default_factory=dict)
    withheld: Callable[[], frozenset[str]] = nothing_withheld
    scanned: frozenset[str] | None = None
    known: int | None = None
    made: datetime.datetime | None = None
    suspects: frozenset[str] = frozenset()
    gate: Gate | None = None
    embedder: TextEmbedder | None = None
    store: str | None = None
    vectors_by: str | None = None

    @property
    def address(self) -> str:
        """Where its documents lie, as findings say: the store, else its own name."""
        return self.store or self.name

    def age_seconds(self, now: datetime.datetime) -> float | None:
        """Since the state was written; None without one."""
        return None if self.made is None else max(0.0, (now - self.made).total_seconds())


class Holdings:
    """Collections by name, and the one of nothing.

    :param bare: judges whole candidates where nothing is known about them.
    """

    def __init__(self, bare: Collection, members: Iterable[Collection] = ()) -> None:
        self.bare = bare
        self._members = {member.name: member for member in members}

    def __iter__(self) -> Iterator[Collection]:
        return iter(self._members.values())

    def visible(self, principal: Principal) -> tuple[Collection, ...]:
        """Those whose owner the principal stands for."""
        return tuple(one for one in self._members.values() if principal.sees(one.tenant))

    def find(self, principal: Principal, name: str | None, *, field: str) -> Collection:
        """The collection called ``name``; without a name the only one that is seen.

        One that is not seen is answered as one that is not there.

        :param field: of the request, for the refusal.
        :raises Refused: when there is none, or several and none is named.
        """
        seen = self.visible(principal)
        if name is None:
            if len(seen) > 1:
                raise Refused(422, f"expected one of {len(seen)} collections, by name", field=field)
            return seen[0] if seen else self.bare
        for one in seen:
            if one.name == name:
                return one
        raise Refused(404, "there is no such collection", field=field)
