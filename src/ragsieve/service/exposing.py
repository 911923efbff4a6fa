"""Retrievals are counted in the ledger, in batches, off the path of the request."""

from __future__ import annotations

import logging
import threading
from collections import deque

from prometheus_client import Counter

from ragsieve.cases import QueryContext, Seen
from ragsieve.errors import StoreError
from ragsieve.ledger.book import Ledger
from ragsieve.records import Ranking
from ragsieve.service.holdings import BARE, Collection
from ragsieve.service.problems import where

EVERY_SECONDS = 1.0
_MOST_TOGETHER = 1_000

log = logging.getLogger("ragsieve.service")

_Owner = tuple[str, str | None]


class Exposing:
    """Counts which documents were retrieved, in a thread of its own.

    What a killed process had not written, a second's retrievals, is not counted.

    :param questions: whether their texts are kept with them.
    :param depth: documents of a retrieval that count, the best first.
    :param waiting: retrievals that may wait while the ledger is away; later ones are dropped.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        questions: bool,
        depth: int,
        waiting: int,
        seconds: float = EVERY_SECONDS,
    ) -> None:
        self._questions = questions
        self._ledger, self._depth, self._most = ledger, depth, waiting
        self._seconds = seconds
        self._waiting: deque[tuple[_Owner, QueryContext]] = deque()
        self._writing = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.dropped = Counter(
            "ragsieve_exposures_dropped",
            "Retrievals that were not counted: the ledger was away or too slow.",
            registry=None,
        )

    def add(self, collection: Collection, ranking: Ranking) -> None:
        """Count a retrieval, soon; quick. One of no collection has no place to count for."""
        if self._depth == 0 or collection.name == BARE:
            return
        if len(self._waiting) >= self._most:
            self.dropped.inc()
            return
        seen = tuple(
            Seen(one.document.id, one.rank, one.similarity)
            for one in ranking.entries[: self._depth]
        )
        context = QueryContext(ranking.query_id, ranking.query if self._questions else None, seen)
        self._waiting.append(((collection.address, collection.tenant), context))

    def start(self) -> None:
        """Begin to count; also after :meth:`stop`."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="exposures", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Count what waits, once, and no more."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None:
            thread.join()
        self.flush()

    def flush(self) -> bool:
        """Write what waits now; False when the ledger is away, and it waits on."""
        with self._writing:
            while self._waiting:
                batch: dict[_Owner, list[QueryContext]] = {}
                for _ in range(min(len(self._waiting), _MOST_TOGETHER)):
                    owner, context = self._waiting.popleft()
                    batch.setdefault(owner, []).append(context)
                for owner in list(batch):
                    try:
                        self._write(owner, batch[owner])
                    except StoreError as error:
                        log.error("retrievals are not counted: %s", where(error))  # noqa: TRY400
                        for other, contexts in batch.items():
                            self._waiting.extendleft((other, one) for one in reversed(contexts))
                        return False
                    del batch[owner]
            return True

    def _write(self, owner: _Owner, contexts: list[QueryContext]) -> None:
        try:
            self._ledger.exposures.add(owner[0], contexts, tenant=owner[1])
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 -- one batch must not hold up all later ones
            self.dropped.inc(len(contexts))
            log.error("retrievals are not counted: %s", where(error))  # noqa: TRY400

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self.flush()
