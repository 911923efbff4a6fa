"""The gate as every framework needs it: new documents in, those to write and those held out."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ragsieve.display import visible
from ragsieve.errors import InputError, OutputError
from ragsieve.evidence.knn import unit_rows
from ragsieve.features.knowledge import Snapshot
from ragsieve.files.state import read_state
from ragsieve.integrations.marks import arrival_fields, content_id
from ragsieve.live.index import LiveIndex
from ragsieve.live.store import LiveStore, LiveWriter
from ragsieve.records import Document, Level, Provenance, Scan, Verdict
from ragsieve.settings import load_settings

WAIT_SECONDS = 60.0
_RETRY_SECONDS = 0.05
_SHOWN_CHARACTERS = 80

Item = TypeVar("Item")
Rows = npt.NDArray[np.floating]


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """What a batch of new documents was found to be.

    :param verdicts: one a document, in the order given.
    :param held_ids: documents of the batch flagged at the level asked for.
    :param earlier_ids: documents that came before and stand flagged at that level now.
    """

    verdicts: tuple[Verdict, ...]
    held_ids: tuple[str, ...]
    earlier_ids: tuple[str, ...] = ()


class CorpusMemory(Protocol):
    """What is known of the corpus that new documents come to."""

    def judge(self, documents: Sequence[Document], rows: Rows, hold_at: Level | None) -> Judged:
        """Judge a batch; see :class:`ArrivalFilter` for ``hold_at``.

        :raises InputError: for documents or rows that cannot be used.
        """
        ...


class ScannedState:
    """A corpus as a scan kept it; it never changes, so batches do not know of each other.

    :param state: folder of ``ragsieve scan --state``, or what was read from it.
    :param config: TOML file of the settings it was made with.
    """

    def __init__(self, state: Path | str | Snapshot, *, config: Path | str | None = None) -> None:
        self._state = state
        self._config = config

    def judge(self, documents: Sequence[Document], rows: Rows, hold_at: Level | None) -> Judged:
        """Judge a batch against the state.

        :raises InputError: for an id the state holds already, or rows that do not fit.
        """
        from ragsieve.assembly import ingest_gate

        # A local reference: another thread may read the state at the same time, and both are equal.
        state = self._state
        if not isinstance(state, Snapshot):
            state = self._state = read_state(Path(state))
        gate = ingest_gate(load_settings(None if self._config is None else Path(self._config)))
        scan = gate.judge(state, documents, rows)
        return _judged(scan, documents, hold_at)


class LiveCorpus:
    """A live index, which every batch enters: later ones are judged with earlier ones in it.

    Documents that are held leave it again. Ids it knows already are updated. Batches take turns:
    threads wait for each other, and with a folder processes do too.

    :param live: an index in memory, or the folder of one on disk.
    :param config: TOML file of the settings the folder was made with.
    :param wait_seconds: how long to wait for another process that writes to the folder.
    """

    def __init__(
        self,
        live: LiveIndex | Path | str,
        *,
        config: Path | str | None = None,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._live = live
        self._config = config
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self._live, LiveIndex):
            raise TypeError(
                "a live index in memory cannot be shared between processes; give the folder of one"
            )
        return {key: value for key, value in vars(self).items() if key != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    def judge(self, documents: Sequence[Document], rows: Rows, hold_at: Level | None) -> Judged:
        """Take a batch in, judge it among all, let what is held go again.

        :raises InputError: for rows that do not fit; nothing has changed then.
        :raises OutputError: when another process went on writing for too long.
        """
        unit_rows(rows)  # A batch is refused before any of it has entered.
        with self._lock, self._opened() as live:
            index = live.index if isinstance(live, LiveWriter) else live
            known = [place for place, one in enumerate(documents) if one.id in index]
            fresh = [place for place, one in enumerate(documents) if one.id not in index]
            if known:
                live.update([documents[place] for place in known], rows[known])
            if fresh:
                live.add([documents[place] for place in fresh], rows[fresh])
            judged = _judged(index.scan(), documents, hold_at)
            if judged.held_ids:
                live.remove(judged.held_ids)
        return judged

    @contextlib.contextmanager
    def _opened(self) -> Iterator[LiveIndex | LiveWriter]:
        if isinstance(self._live, LiveIndex):
            yield self._live
            return
        store = LiveStore(self._live, _still_rule(self._config))
        until = time.monotonic() + self._wait_seconds
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    live = stack.enter_context(store.writer())
                    break
                except OutputError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(_RETRY_SECONDS)
            yield live


@dataclasses.dataclass(frozen=True, slots=True)
class Arrival(Generic[Item]):
    """One new document, as the gate reads it.

    :param item: the framework's own document, handed back untouched.
    :param row: its embedding, by the corpus's encoder.
    :param id: the one it will be stored under; a hash of the text when None or empty.
    """

    item: Item
    text: str
    row: Sequence[float] | Rows
    id: str | None = None
    provenance: Provenance = Provenance()

    @property
    def name(self) -> str:
        """The id it is judged under."""
        return self.id or content_id(self.text)


@dataclasses.dataclass(frozen=True, slots=True)
class Sorted(Generic[Item]):
    """New documents told apart, each with its verdict and the metadata that say it.

    :param kept: documents to write, in the order given.
    :param held: documents to keep out until somebody looked at them.
    :param judged: None when there was no document.
    """

    kept: tuple[tuple[Item, dict[str, str | float]], ...]
    held: tuple[tuple[Item, dict[str, str | float]], ...]
    judged: Judged | None


class ArrivalFilter:
    """Judges new documents before they are written (ring 1) and holds flagged ones out.

    A score is evidence that a document was built to be retrieved, never a verdict on truth:
    held documents wait for somebody's judgement.

    :param corpus: what is known of the corpus they come to.
    :param hold_at: flagged documents are held from this level on; None writes all of them, marked.
    :param on_sorted: called with what became of each batch, in the caller's thread.
    """

    def __init__(
        self,
        corpus: CorpusMemory,
        *,
        hold_at: Level | str | None = Level.QUARANTINE,
        on_sorted: Callable[[Sorted[Any]], None] | None = None,
    ) -> None:
        self._corpus = corpus
        self._hold_at = None if hold_at is None else Level(hold_at)
        self._on_sorted = on_sorted

    def sort(self, arrivals: Sequence[Arrival[Item]]) -> Sorted[Item]:
        """Judge one batch; the same document twice in it is judged once.

        :raises InputError: for an id with two texts, or rows that cannot be used.
        """
        if not arrivals:
            return Sorted((), (), None)
        distinct = _distinct(arrivals)
        documents = [
            Document(one.name, one.text, provenance=one.provenance) for one in distinct.values()
        ]
        rows = _rows([one.row for one in distinct.values()])
        judged = self._corpus.judge(documents, rows, self._hold_at)
        fields = {one.document_id: arrival_fields(one) for one in judged.verdicts}
        held = set(judged.held_ids)
        done = Sorted(
            tuple((one.item, fields[one.name]) for one in arrivals if one.name not in held),
            tuple((one.item, fields[one.name]) for one in arrivals if one.name in held),
            judged,
        )
        if self._on_sorted is not None:
            self._on_sorted(done)
        return done

    async def asort(self, arrivals: Sequence[Arrival[Item]]) -> Sorted[Item]:
        """As :meth:`sort`, in a thread of its own: the event loop goes on."""
        return await asyncio.to_thread(self.sort, arrivals)


def _distinct(arrivals: Sequence[Arrival[Item]]) -> dict[str, Arrival[Item]]:
    first: dict[str, Arrival[Item]] = {}
    for one in arrivals:
        if first.setdefault(one.name, one).text != one.text:
            shown = visible(one.name, limit=_SHOWN_CHARACTERS)
            raise InputError(
                f"document {shown!r} stands in the batch with two texts; ids must differ"
            )
    return first


def _rows(rows: Sequence[Sequence[float] | Rows]) -> Rows:
    sizes = {len(row) for row in rows}
    if len(sizes) > 1:
        raise InputError(
            f"expected embeddings of one dimension, found {sorted(sizes)}; embed with one encoder"
        )
    return np.asarray(rows, dtype=np.float64)


def _judged(scan: Scan, documents: Sequence[Document], hold_at: Level | None) -> Judged:
    batch = {one.id for one in documents}
    places = {name: row for row, name in enumerate(scan.document_ids) if name in batch}
    at = Level.QUARANTINE if hold_at is None else hold_at
    flagged = scan.flagged_at(at)
    held = () if hold_at is None else tuple(name for name in flagged if name in batch)
    return Judged(
        verdicts=tuple(scan.verdict(places[one.id]) for one in documents),
        held_ids=held,
        earlier_ids=tuple(name for name in flagged if name not in batch),
    )


def _still_rule(config: Path | str | None) -> Any:
    """The rule of a live index, which asks no language model."""
    from ragsieve.detectors.profiles import corpus_rule

    settings = load_settings(None if config is None else Path(config))
    return corpus_rule(
        settings.profile, default=settings.corpus, paper=settings.paper.corpus, causal=None
    )
