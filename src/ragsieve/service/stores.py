"""Stores that reviewers may change: declared beforehand, opened when needed, a thread for each."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from ragsieve.auditing.rows import row_content_sha256
from ragsieve.connectors.address import Fields, parse_address
from ragsieve.connectors.contract import Connector
from ragsieve.connectors.opening import open_store
from ragsieve.errors import ConfigError, RagsieveError, StoreError
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.faults import IllegalMoveError, NotKeptError, StaleStateError
from ragsieve.remediation.custody import Custody
from ragsieve.remediation.recovery import recover

WAIT_SECONDS = 60.0
"""How long one request waits for what others do in the same store."""

log = logging.getLogger("ragsieve.service")

T = TypeVar("T")


class UndeclaredStoreError(StoreError):
    """The service was told of no such store for this tenant."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeclaredStore:
    """One collection of one store that this service may change.

    :param address: without secrets, as the ledger keeps it.
    :param fields: where the parts of a document stand.
    :param open: opens it; called by the thread that will use it.
    """

    address: str
    tenant: str | None
    fields: Fields
    open: Callable[[], Connector] = dataclasses.field(repr=False)


def declare(address: str, tenant: str | None = None) -> DeclaredStore:
    """A store by its address, which may hold a secret.

    :raises ConfigError: for an address that is none.
    """
    parsed = parse_address(address)
    return DeclaredStore(parsed.public, tenant, parsed.fields, lambda: open_store(parsed))


class Stores:
    """Custodies of the declared stores; may be shared between threads.

    Everything done in one store is done by one thread of its own, in turn: embedded stores are
    used where they were opened, and two reviewers do not write at once.

    :param bundles: folder for what is deleted; deleting is refused without one.
    :raises ConfigError: for one store of two tenants.
    """

    def __init__(
        self, declared: Iterable[DeclaredStore] = (), *, bundles: Path | None = None
    ) -> None:
        stores = tuple(declared)
        owners = {one.address: one.tenant for one in stores}
        for one in stores:
            if owners[one.address] != one.tenant:
                raise ConfigError(
                    f"{one.address}: declared for two tenants, who would see each other's "
                    "documents; give each a collection of its own"
                )
        self._held = {(one.tenant, one.address): _Held(one, bundles) for one in stores}

    def addresses(self, tenant: str | None) -> tuple[str, ...]:
        """The stores of a tenant, without secrets."""
        return tuple(sorted(address for owner, address in self._held if owner == tenant))

    def fields(self, store: str, tenant: str | None) -> Fields:
        """Where the parts of a document stand in a store.

        :raises UndeclaredStoreError: when this tenant has no such store here.
        """
        return self._find(store, tenant).declared.fields

    def run(self, store: str, tenant: str | None, ledger: Ledger, job: Callable[[Custody], T]) -> T:
        """What ``job`` makes of a store's custody, in the name of the ledger's actor.

        What a process that died left open there is settled when the store is opened.

        :raises UndeclaredStoreError: when this tenant has no such store here.
        :raises StoreError: when the store or the ledger fails; the next call opens it anew.
        """
        return self._find(store, tenant).run(ledger, job)

    def close(self) -> None:
        """Let go of all stores; calling it twice is harmless."""
        for held in self._held.values():
            held.close()

    def _find(self, store: str, tenant: str | None) -> _Held:
        found = self._held.get((tenant, store))
        if found is None:
            raise UndeclaredStoreError(
                "this service was not told of the store; name its address under "
                "[service.collections.NAME], or change it with the command line"
            )
        return found


class _Held:
    """One store, its thread, and its connector while it is open."""

    def __init__(self, declared: DeclaredStore, bundles: Path | None) -> None:
        self.declared = declared
        self._bundles = bundles
        self._hash = row_content_sha256(declared.fields)
        self._connector: Connector | None = None
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def run(self, ledger: Ledger, job: Callable[[Custody], T]) -> T:
        with self._lock:
            if self._pool is None:
                self._pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="store")
            future = self._pool.submit(self._work, ledger, job)
        try:
            return future.result(WAIT_SECONDS)
        except concurrent.futures.TimeoutError:
            if future.cancel():
                raise StoreError("the store is at work for somebody else; try again") from None
            raise StoreError("the store takes too long; look at what it did") from None

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.submit(self._drop)
            pool.shutdown(wait=True)

    def _work(self, ledger: Ledger, job: Callable[[Custody], T]) -> T:
        try:
            return job(self._custody(ledger))
        except (StaleStateError, IllegalMoveError, NotKeptError):
            raise
        except StoreError:
            # Perhaps its server was started anew; the next call opens it again.
            self._drop()
            raise

    def _custody(self, ledger: Ledger) -> Custody:
        fresh = self._connector is None
        if self._connector is None:
            self._connector = self.declared.open()
        custody = Custody(ledger, self._connector, self._hash, self.declared.tenant, self._bundles)
        if fresh:
            recover(custody)
        return custody

    def _drop(self) -> None:
        connector, self._connector = self._connector, None
        if connector is not None:
            with contextlib.suppress(RagsieveError, OSError):
                connector.close()
