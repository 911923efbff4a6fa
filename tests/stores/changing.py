"""A process to be killed: hides, deletes, restores or rolls back documents of a store.

``python changing.py STORE LEDGER BUNDLES WORK SCAN IDS [LIMIT]``; says ``ready`` when it begins.
IDS is a file of ids; LIMIT the size in bytes past which no file may grow, as on a full disk.
"""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path

from ragsieve.auditing.rows import row_content_sha256
from ragsieve.connectors import open_store
from ragsieve.connectors.address import parse_address
from ragsieve.ledger import open_ledger
from ragsieve.ledger.records import ScanStart
from ragsieve.remediation import custody as custody_module
from ragsieve.remediation.custody import Custody
from ragsieve.remediation.recovery import recover
from ragsieve.remediation.rollback import roll_back

# Small, so that a kill falls into one of many.
custody_module.BATCH_DOCUMENTS = 8


def custody_of(store, ledger, bundles):
    address = parse_address(store)
    return Custody(
        ledger,
        open_store(address),
        row_content_sha256(address.fields),
        bundles=Path(bundles),
    )


def begin(ledger, address, scan_id="scan1"):
    ledger.scans.begin(ScanStart(scan_id, address, "default", "f"))


def targets(custody, ids):
    rows = custody.connector.fetch(ids)
    return [custody.target(row.id, custody.content_sha256(row)) for row in rows]


def work(custody, what, ids, scan_id="scan1"):
    if what == "quarantine":
        custody.quarantine(targets(custody, ids), reason="dense", scan_id=scan_id)
    elif what == "rollback":
        roll_back(custody, scan_id, reason="a mistake")
    else:
        items = custody.ledger.states.items()
        wanted = [custody.target(one.place.document_id, one.content_sha256) for one in items]
        getattr(custody, what)(wanted, reason="because")


def main(store, ledger_url, bundles, what, scan_id, listed, limit_bytes=None):
    if limit_bytes is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit_bytes), int(limit_bytes)))
    with open_ledger(ledger_url, actor="op") as ledger:
        custody = custody_of(store, ledger, bundles)
        recover(custody, older_than_seconds=0)
        print("ready", flush=True)  # noqa: T201
        work(custody, what, Path(listed).read_text("utf-8").splitlines(), scan_id)
        custody.connector.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
