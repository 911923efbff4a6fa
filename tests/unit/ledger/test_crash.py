"""Killed at any moment, a ledger loses nothing it said it had written and does nothing twice."""

from __future__ import annotations

import collections
import random
import time

import pytest

from ragsieve.cases import Remediation
from ragsieve.ledger import open_ledger
from ragsieve.ledger.faults import StaleStateError
from ragsieve.ledger.records import QueueFilter
from unit.ledger.building import (
    STORE,
    context,
    finished,
    hide,
    incident,
    place,
    sha,
    start,
    target,
    worker,
)

WORKING = """
import random
from ragsieve.cases import Opinion
from ragsieve.errors import StoreError

ledger = open_ledger(sys.argv[1], actor=sys.argv[2])
chance = random.Random(sys.argv[2])
print("ready", flush=True)
turn = 0
while True:
    turn += 1
    scan_id = f"{sys.argv[2]}-{turn}"
    names = [f"d{number}" for number in chance.sample(range(12), 4)]
    ledger.scans.begin(start(scan_id))
    found = [incident(name, name, scan_id) for name in names]
    ledger.incidents.record(found)
    print("recorded", *(one.id for one in found), flush=True)
    for to in (Remediation.QUARANTINING, Remediation.RELEASING):
        for name in names:
            try:
                intent = ledger.states.intend(
                    [target(name, name)], to, reason="r", scan_id=scan_id, resume=True
                )
                done = ledger.states.confirm(intent.items)
            except StoreError:
                continue
            for item in done:
                print(item.state, name, item.version, flush=True)
    ledger.reviews.add(found[0].id, Opinion.BENIGN, reason="r")
    ledger.exposures.add(STORE, [context(names)])
    print("reviewed", found[0].id, flush=True)
"""


def killed(url, name, lines, seconds):
    """What it said; killed so long after it said so many lines."""
    process = worker(WORKING, url, name)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    said = "".join(process.stdout.readline() for _ in range(lines))
    time.sleep(seconds)
    process.kill()
    said += process.communicate(timeout=60)[0]
    # The last line may be cut off: it was said by a process that died.
    return [line.split() for line in said.splitlines(keepends=True) if line.endswith("\n")]


def test_kill_at_random_points(ledger_url):
    chance = random.Random(7)  # noqa: S311
    said = []
    for turn in range(3):
        said += killed(ledger_url, f"w{turn}", chance.randint(2, 15), chance.uniform(0, 0.03))
        with open_ledger(ledger_url, actor="mara") as ledger:
            report = ledger.audit.verify()
            assert report.intact, report
    assert len(said) >= 6
    with open_ledger(ledger_url, actor="mara") as ledger:
        check_nothing_is_lost(ledger, said)
        check_every_step_follows(ledger)
        pending = ledger.states.pending()
        ledger.states.abandon(pending, reason="looked into: the store was not touched")
        assert ledger.states.pending() == ()
        assert ledger.audit.verify().intact
        check_every_step_follows(ledger)


def check_nothing_is_lost(ledger, said):
    queue = ledger.incidents.queue(QueueFilter(superseded=None), limit=100_000)
    kept = {one.incident.id: one for one in queue.entries}
    for kind, *facts in said:
        if kind == "recorded":
            assert set(facts) <= set(kept)
        elif kind == "reviewed":
            assert kept[facts[0]].incident.opinion is not None
        else:
            name, version = facts
            assert ledger.states.get(place(name)).version >= int(version)
            steps = [one.new for one in ledger.history(sha(name)).changes]
            assert kind in steps


def check_every_step_follows(ledger):
    told, resumed = collections.Counter(), collections.Counter()
    for entry in ledger.audit.entries(limit=100_000):
        if entry.action.startswith("state."):
            names = [document[1] for document in entry.payload["documents"]]
            (resumed if entry.action == "state.resume" else told).update(names)
    written = collections.Counter()
    for number in range(12):
        name = f"d{number}"
        state, version = Remediation.NONE, 0
        for change in ledger.history(sha(name)).changes:
            # Nothing is hidden that was hidden already, and no step is missing.
            assert change.old == state
            assert change.new != state
            state, version = change.new, version + 1
            written[name] += 1
        item = ledger.states.get(place(name))
        assert (item.state if item else Remediation.NONE) == state
        assert (item.version if item else 0) == version + resumed[name]
    assert told == written


def test_a_kill_between_intent_and_confirmation_is_found(ledger_url):
    code = """
ledger = open_ledger(sys.argv[1], actor="w")
ledger.scans.begin(start())
ledger.states.intend([target()], Remediation.QUARANTINING, reason="r", scan_id="s1")
print("ready", flush=True)
sys.stdin.readline()
"""
    process = worker(code, ledger_url)
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate(timeout=60)
    with open_ledger(ledger_url, actor="mara") as ledger:
        (left,) = ledger.states.pending()
        assert left.place == place()
        # Retrieval is on the safe side until somebody looked.
        assert ledger.states.hidden(STORE) == {"d1"}
        with pytest.raises(StaleStateError, match="hands of w"):
            hide(ledger, target())
        (item,) = ledger.states.confirm([left])
        assert item.state is Remediation.QUARANTINED


RACING = """
from ragsieve.ledger.faults import StaleStateError

ledger = open_ledger(sys.argv[1], actor=sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
won = []
for number in range(20):
    one = target(f"d{number}", "t")
    try:
        items = ledger.states.intend(
            [one], Remediation.QUARANTINING, reason="r", scan_id="s1"
        ).items
    except StaleStateError:
        continue
    ledger.states.confirm(items)
    won += [item.place.document_id for item in items]
print(*won)
"""


def test_of_two_writers_one_hides_each_document(ledger_url):
    with open_ledger(ledger_url, actor="mara") as ledger:
        ledger.scans.begin(start())
        writers = [worker(RACING, ledger_url, name) for name in ("first", "second")]
        for process in writers:
            assert process.stdout.readline() == "ready\n"
        for process in writers:
            process.stdin.write("go\n")
            process.stdin.flush()
        won = [name for process in writers for name in finished(process).split()]
        assert len(won) == len(set(won))
        assert set(won) == ledger.states.hidden(STORE)
        assert len(won) == 20
        assert {item.version for item in ledger.states.items()} == {2}
        assert ledger.audit.verify().intact


def test_an_interrupt_in_the_middle_writes_nothing(ledger):
    ledger.scans.begin(start())
    head = ledger.audit.head()

    def broken():
        yield incident("d1", "one")
        yield incident("d2", "two")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.incidents.record(broken())

    def half():
        with ledger.incidents.desk.writing() as pen:
            pen.note("half", "done", {}, tenant=None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    ledger.exposures.add(STORE, [context(["d1"])])
    assert ledger.audit.head() == head
    assert ledger.incidents.queue().total == 0
