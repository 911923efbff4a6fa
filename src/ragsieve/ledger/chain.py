"""The audit chain: what links entries, and how a broken link is found."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ragsieve.ledger.reports import AuditEntry, AuditHead, AuditReport
from ragsieve.ledger.schema import audit

NOTHING = "0" * 64
"""What the first entry links to."""

_PAGE = 1_000


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: one text for one value.

    :raises ValueError: for a number that is not finite.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(
    seq: int,
    at: str,
    actor: str,
    action: str,
    subject: str,
    payload: Any,
    previous: str,
) -> str:
    """SHA-256 of an entry's canonical JSON, hexadecimal."""
    text = canonical(
        {
            "seq": seq,
            "at": at,
            "actor": actor,
            "action": action,
            "subject": subject,
            "payload": payload,
            "previous": previous,
        }
    )
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def append(
    connection: Connection,
    *,
    at: datetime.datetime,
    actor: str,
    action: str,
    subject: str,
    payload: Mapping[str, Any],
    tenant: str | None,
) -> AuditHead:
    """Add an entry after the last one, in the transaction of what it tells.

    The caller's transaction is the only one that writes at this time; see `Database.writing`.
    """
    head = head_of(connection)
    seq, previous = (head.seq + 1, head.sha256) if head else (1, NOTHING)
    text = canonical({**payload, "tenant": tenant})
    written = at.astimezone(datetime.UTC).isoformat(timespec="microseconds")
    sha256 = digest(seq, written, actor, action, subject, json.loads(text), previous)
    connection.execute(
        audit.insert().values(
            seq=seq,
            tenant=tenant,
            at=written,
            actor=actor,
            action=action,
            subject=subject,
            payload=text,
            previous_sha256=previous,
            sha256=sha256,
        )
    )
    return AuditHead(seq, sha256)


def head_of(connection: Connection) -> AuditHead | None:
    """The last entry; None in an empty chain."""
    newest = sa.select(audit.c.seq, audit.c.sha256).order_by(audit.c.seq.desc()).limit(1)
    found = connection.execute(newest).first()
    return None if found is None else AuditHead(found[0], found[1])


def entry_of(row: Mapping[Any, Any]) -> AuditEntry:
    """An entry as a record."""
    return AuditEntry(
        seq=row[audit.c.seq],
        at=datetime.datetime.fromisoformat(row[audit.c.at]),
        actor=row[audit.c.actor],
        action=row[audit.c.action],
        subject=row[audit.c.subject],
        payload=json.loads(row[audit.c.payload]),
        previous_sha256=row[audit.c.previous_sha256],
        sha256=row[audit.c.sha256],
    )


def verify(connection: Connection, *, expected_head: AuditHead | None = None) -> AuditReport:
    """Check every link from the first entry on.

    Finds entries that were edited, removed, put in or reordered. Entries cut off at the end
    leave a shorter chain that holds, and whoever can write the database can compute a whole new
    chain: both show only against ``expected_head``, a head that was remembered elsewhere.
    """
    head: AuditHead | None = None
    if expected_head is not None and expected_head.seq < 1:
        return AuditReport(0, None, 1, "the remembered head is none: entries count from 1")
    for row in _rows(connection):
        seq = (head.seq if head else 0) + 1
        problem = _problem(row, seq, head.sha256 if head else NOTHING)
        sha256 = row[audit.c.sha256]
        if problem is None and expected_head and seq == expected_head.seq:
            problem = "differs from the remembered head" if sha256 != expected_head.sha256 else None
        if problem is not None:
            return AuditReport(seq - 1, head, seq, f"entry {seq} {problem}")
        head = AuditHead(seq, sha256)
    entries = head.seq if head else 0
    if expected_head is not None and entries < expected_head.seq:
        lost = f"entries {entries + 1} to {expected_head.seq} are missing from the end"
        return AuditReport(entries, head, entries + 1, lost)
    return AuditReport(entries, head)


def _rows(connection: Connection) -> Iterator[Mapping[Any, Any]]:
    last: int | None = None
    while True:
        page = sa.select(audit).order_by(audit.c.seq).limit(_PAGE)
        if last is not None:
            page = page.where(audit.c.seq > last)
        rows = connection.execute(page).mappings().all()
        if not rows:
            return
        yield from rows
        last = rows[-1][audit.c.seq]


def _problem(row: Mapping[Any, Any], seq: int, previous: str) -> str | None:
    if row[audit.c.seq] != seq:
        return f"is missing; the next one is {row[audit.c.seq]}"
    if row[audit.c.previous_sha256] != previous:
        return "does not follow from the entry before it"
    text = row[audit.c.payload]
    try:
        payload = json.loads(text)
        told = payload["tenant"]
        plain = canonical(payload)
    except (ValueError, TypeError, KeyError):
        return "has a payload that cannot be read"
    if told != row[audit.c.tenant] or plain != text:
        return "was changed after it was written"
    at, actor, action, subject = (
        row[audit.c[name]] for name in ("at", "actor", "action", "subject")
    )
    if digest(seq, at, actor, action, subject, payload, previous) != row[audit.c.sha256]:
        return "was changed after it was written"
    return None
