"""How a ledger refuses: each a `StoreError`, so that callers may treat them alike."""

from __future__ import annotations

from ragsieve.errors import StoreError


class StaleStateError(StoreError):
    """Somebody else changed it since it was read; nothing was written."""


class IllegalMoveError(StoreError):
    """The state a document is in does not lead to the state asked for; nothing was written."""


class NotKeptError(StoreError):
    """The ledger holds no such thing for this tenant."""
