"""A service in a process of its own, made to be killed: ``python killed.py FOLDER PORT MOMENT``.

MOMENT ``judging`` waits while a scan job judges; ``hiding`` after the store hid documents and
before that is confirmed. A file of that name in FOLDER tells that the moment has come.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import uvicorn

from memory_store import MemoryStore
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.profiles import corpus_rule
from ragsieve.service.app import create_app
from unit.service.keeping import Kept


class Waiting(MemoryStore):
    """A store that keeps what it hid in a file, and then lets its process hang."""

    def quarantine(self, ids, **more):
        done = super().quarantine(ids, **more)
        (FOLDER / "hidden.json").write_text(json.dumps(sorted(self.hidden)))
        hang("hiding")
        return done


class Judge:
    fingerprint = "waits"

    def scan(self, corpus, vectors, *, progress):
        if MOMENT == "judging":
            hang("judging")
        return CorpusDetector(corpus_rule("default")).scan(corpus, vectors, progress=progress)


def hang(moment):
    (FOLDER / moment).touch()
    time.sleep(60)


if __name__ == "__main__":
    FOLDER, MOMENT = Path(sys.argv[1]), sys.argv[3]
    kept = Kept(FOLDER)
    kept.stores["default"] = Waiting(kept.rows, kept.store.address)
    kept.detector = Judge
    app = create_app(kept.parts())
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
