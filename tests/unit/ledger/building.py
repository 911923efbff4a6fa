"""Findings, places and a clock for tests of the ledger."""

from __future__ import annotations

import datetime
import hashlib
import subprocess
import sys
from pathlib import Path

import sqlalchemy as sa

from ragsieve.cases import (
    Incident,
    Measure,
    Place,
    PolicyDecision,
    QueryContext,
    Remediation,
    RiskTier,
    Seen,
    Standing,
    incident_id,
)
from ragsieve.ledger.connecting import address_of
from ragsieve.ledger.records import ScanStart, Target
from ragsieve.records import Decision, Evidence, Level, Provenance, Verdict

STORE = "chroma:///var/data#articles"
TESTS = Path(__file__).parents[2]
START = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)


class Clock:
    """Each reading is a second later than the one before."""

    def __init__(self):
        self.time = START

    def __call__(self):
        self.time += datetime.timedelta(seconds=1)
        return self.time

    def skip(self, **spans):
        self.time += datetime.timedelta(**spans)


def sha(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def place(name="d1", tenant=None, store=STORE):
    return Place(store, name, tenant)


def verdict(name="d1", score=3.0, threshold=1.5, evidences=None, decision=Decision.FLAGGED):
    found = (Evidence("density", 2.0, 0.01, components=(("density_floor", 0.5),)),)
    return Verdict(
        document_id=name,
        score=score,
        threshold=threshold,
        decision=decision,
        level=Level.REVIEW,
        evidences=found if evidences is None else evidences,
        profile="default",
        fingerprint="fp",
    )


def start(scan_id="s1", tenant=None, **others):
    return ScanStart(scan_id, STORE, "default", "fp", tenant=tenant, **others)


def incident(
    name="d1",
    text="buy now",
    scan_id="s1",
    tenant=None,
    *,
    score=3.0,
    tier=RiskTier.NORMAL,
    source=None,
    author=None,
    measure=Measure.QUARANTINE,
    decided_at=START,
    evidences=None,
    **others,
):
    where = place(name, tenant)
    return Incident(
        id=incident_id(scan_id, where, sha(text)),
        scan_id=scan_id,
        place=where,
        content_sha256=sha(text),
        title="a title",
        excerpt=text[:40],
        verdict=verdict(name, score=score, evidences=evidences),
        standing=Standing(Provenance(source=source, author=author), risk_tier=tier),
        decision=PolicyDecision(measure, "dense", "two kinds of evidence", "p" * 64),
        decided_at=decided_at,
        characters=len(text),
        **others,
    )


def target(name="d1", text="buy now", tenant=None, version=None):
    return Target(place(name, tenant), sha(text), version)


def context(names, query_id="q1", query="who built it"):
    seen = tuple(Seen(name, rank, 1 / rank) for rank, name in enumerate(names, start=1))
    return QueryContext(query_id, query, seen)


def hide(ledger, *targets, scan_id="s1", reason="dense"):
    intent = ledger.states.intend(
        list(targets), Remediation.QUARANTINING, scan_id=scan_id, reason=reason
    )
    return ledger.states.confirm(intent.items)


def release(ledger, *targets, reason="it is fine"):
    intent = ledger.states.intend(list(targets), Remediation.RELEASING, reason=reason)
    return ledger.states.confirm(intent.items)


def tamper(url, *statements):
    """What somebody does who has the database itself: the triggers are no obstacle to them."""
    engine = sa.create_engine(address_of(url))
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            found = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            for (name,) in connection.exec_driver_sql(found).all():
                connection.exec_driver_sql(f"DROP TRIGGER {name}")
        else:
            connection.exec_driver_sql("ALTER TABLE ledger_audit DISABLE TRIGGER ALL")
        for statement in statements:
            connection.execute(sa.text(statement) if isinstance(statement, str) else statement)
    engine.dispose()


def worker(code, *arguments):
    """A process of its own that runs ``code`` with everything of this module in it."""
    program = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        "from unit.ledger.building import *\nfrom ragsieve.ledger import open_ledger\n"
        f"{code}"
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process):
    """What it said; a worker that failed fails the test."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out
