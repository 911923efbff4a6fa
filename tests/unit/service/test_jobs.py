"""Scan jobs over HTTP: progress, what they find and hide, cancelling, tenants, interruptions."""

from __future__ import annotations

import datetime
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from ragsieve.cases import Place, Remediation
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.profiles import corpus_rule
from ragsieve.errors import ConfigError
from ragsieve.ledger import open_ledger
from ragsieve.ledger.records import ScanKind, ScanStart, ScanState, Target
from ragsieve.service.jobs import ASKED
from ragsieve.service.keys import Role
from ragsieve.service.loading import load_parts
from ragsieve.settings import load_settings
from unit.service.keeping import ADDRESS, Kept, ended, scanned, until
from unit.service.making import asked, key_file, samples, served

PLANTED = {f"p{n}" for n in range(5)}


@pytest.fixture
def kept(tmp_path):
    return Kept(tmp_path)


class Slow:
    """A judge that tells how far it is and then waits."""

    def __init__(self):
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self):
        return self

    fingerprint = "slow"

    def scan(self, corpus, vectors, *, progress):
        progress(10)
        self.begun.set()
        self.go.wait(20)
        progress(len(corpus) - 10)
        return CorpusDetector(corpus_rule("default")).scan(corpus, vectors)


def test_a_dry_run_finds_and_changes_nothing(kept):
    with served(kept.parts()) as client:
        job = scanned(client, collection="default")
        assert job["state"] == "finished"
        assert job["store"] == ADDRESS
        assert job["done"] == job["total"] == 85
        found = job["found"]
        assert (found["documents"], found["hidden"], found["partial"]) == (85, None, False)
        assert found["findings"] >= 5
        assert found["to_quarantine"] == found["findings"]
        page = client.get(job["findings"])
        assert page.status_code == 200, page.text
        page = page.json()
        assert page["total"] == found["findings"]
        ids = {one["place"]["document_id"] for one in page["findings"]}
        assert ids >= PLANTED
        seconds = samples(client)['ragsieve_scan_duration_seconds_count{store="default"}']
    assert seconds == 1
    assert kept.store.changes == 0
    assert kept.ledger.scans.get(job["id"]).state is ScanState.FINISHED


def test_applied_it_hides_and_retrieval_honours_it_at_once(kept):
    with served(kept.parts()) as client:
        before = client.post("/v1/filter", json=asked(["p0", *[f"d{n}" for n in range(39)]]))
        assert before.json()["withheld"] == []
        job = scanned(client, store=ADDRESS, apply=True)
        assert job["found"]["hidden"] >= 5
        after = client.post("/v1/filter", json=asked(["p0", *[f"d{n}" for n in range(39)]]))
        assert "p0" in after.json()["withheld"]
        assert "p0" not in {one["id"] for one in after.json()["kept"]}
    assert set(kept.store.hidden) >= PLANTED


def test_how_far_it_is_and_one_of_a_store_at_a_time(kept):
    slow = kept.detector = Slow()
    with served(kept.parts()) as client:
        first = client.post("/v1/scans", json={})
        assert first.headers["Location"] == f"/v1/scans/{first.json()['id']}"
        assert slow.begun.wait(10)
        at = client.get(first.headers["Location"]).json()
        assert (at["state"], at["phase"], at["done"], at["total"]) == ("running", "judging", 10, 85)
        second = client.post("/v1/scans", json={"collection": "default"})
        assert second.status_code == 409
        slow.go.set()
        assert ended(client, first.json()["id"])["state"] == "finished"


def test_a_running_job_is_cancelled_and_changes_nothing(kept):
    slow = kept.detector = Slow()
    with served(kept.parts()) as client:
        job_id = client.post("/v1/scans", json={"apply": True}).json()["id"]
        assert slow.begun.wait(10)
        assert client.post(f"/v1/scans/{job_id}/cancel").status_code == 200
        slow.go.set()
        assert ended(client, job_id)["state"] == "cancelled"
        assert client.post(f"/v1/scans/{job_id}/cancel").status_code == 409
        kept.detector = lambda: CorpusDetector(corpus_rule("default"))
        assert scanned(client, collection="default")["state"] == "finished"
    assert kept.store.hidden == {}
    assert kept.ledger.scans.get(job_id).state is ScanState.FAILED


def test_what_waits_is_bounded_and_cancelled(tmp_path):
    owners = {"default": None, "second": None, "third": None}
    kept = Kept(tmp_path, owners=owners, scans_waiting=1)
    slow = kept.detector = Slow()
    with served(kept.parts()) as client:
        assert client.post("/v1/scans", json={}).status_code == 422
        running = client.post("/v1/scans", json={"collection": "default"}).json()["id"]
        assert slow.begun.wait(10)
        waiting = client.post("/v1/scans", json={"collection": "second"}).json()["id"]
        full = client.post("/v1/scans", json={"collection": "third"})
        assert full.status_code == 503
        assert "Retry-After" in full.headers
        cancelled = client.post(f"/v1/scans/{waiting}/cancel").json()
        assert cancelled["state"] == "cancelled"
        slow.go.set()
        ended(client, running)
        listed = client.get("/v1/scans").json()["scans"]
        assert [(one["id"], one["state"]) for one in listed] == [
            (waiting, "cancelled"),
            (running, "finished"),
        ]
        assert len(client.get("/v1/scans", params={"limit": 1}).json()["scans"]) == 1
    assert kept.stores["second"].changes == 0


def test_a_store_that_fails_fails_its_job_and_not_the_next(kept):
    kept.store.die = "fail"
    with served(kept.parts()) as client:
        job = scanned(client, collection="default", apply=True)
        assert job["state"] == "failed"
        assert job["found"] is None
        assert "gone" in job["note"]
        # What was intended and not done is not served meanwhile, and can be done again.
        assert scanned(client, collection="default", apply=True)["state"] == "finished"
    assert set(kept.store.hidden) >= PLANTED
    assert kept.ledger.states.pending() == ()


def test_who_may(tmp_path):
    kept = Kept(tmp_path, owners={"ours": "acme", "theirs": "other"})
    keys = key_file(tmp_path)
    tokens = {
        role: keys.add(role, role, tenant="acme")[0] for role in (Role.SERVICE, Role.REVIEWER)
    }
    admin, _ = keys.add("boss", Role.ADMIN, tenant="other")
    made = kept.parts(keys)
    with served(made, tokens[Role.SERVICE]) as client:
        assert client.post("/v1/scans", json={}).status_code == 403
        assert client.get("/v1/scans").status_code == 403
    with served(made, tokens[Role.REVIEWER]) as client:
        assert client.post("/v1/scans", json={"apply": True}).status_code == 403
        job = scanned(client, collection="ours")
        assert job["asked_by"].startswith("reviewer [")
        for asked_for in ({"collection": "theirs"}, {"store": f"{ADDRESS}/theirs"}):
            assert client.post("/v1/scans", json=asked_for).status_code == 404
    with served(made, admin) as client:
        assert client.get("/v1/scans").json()["scans"] == []
        assert client.get(f"/v1/scans/{job['id']}").status_code == 404
        assert client.post(f"/v1/scans/{job['id']}/cancel").status_code == 404
        assert client.get(job["findings"]).json()["total"] == 0
        assert scanned(client, apply=True)["found"]["hidden"] >= 5
    assert kept.stores["ours"].hidden == {}
    with served(made, tokens[Role.REVIEWER]) as client:
        assert [one["id"] for one in client.get("/v1/scans").json()["scans"]] == [job["id"]]


@pytest.mark.parametrize(
    "body",
    [
        {"collection": "nothing"},
        {"store": "chroma:///etc?collection=passwd"},
        {"store": "file:///etc/passwd"},
        {"collection": "default", "store": ADDRESS},
        {"apply": "yes"},
        {"path": "/etc"},
    ],
)
def test_what_cannot_be_scanned_is_refused(kept, body):
    with served(kept.parts()) as client:
        assert client.post("/v1/scans", json=body).status_code in {404, 422}
        assert client.get("/v1/scans/%2e%2e%2fpasswd").status_code == 404
        assert client.get("/v1/scans/no-such-job").status_code == 404
        assert client.post("/v1/scans/no-such-job/cancel").status_code == 404


def test_what_a_dead_process_left_is_failed_and_settled(kept):
    """As a killed process leaves it: a job asked for, its scan running, an intent pending."""
    dead = kept.opened("web [k1]")
    payload = {"service": "ragsieve", "collection": "default", "store": ADDRESS, "apply": True}
    for name, service in (("s-ours", "ragsieve"), ("s-theirs", "another"), ("s-never", "ragsieve")):
        dead.audit.add(ASKED, name, payload | {"service": service})
        if name != "s-never":
            dead.scans.begin(ScanStart(name, ADDRESS, "default", "f"))
    dead.scans.begin(
        ScanStart("f-ours", ADDRESS, "default", "f", ScanKind.FILTER, note="service ragsieve")
    )
    dead.scans.begin(ScanStart("cli", ADDRESS, "default", "f"))
    long_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    past = open_ledger(f"sqlite:///{kept.path}", actor="web [k1]", clock=lambda: long_ago)
    past.states.intend(
        [Target(Place(ADDRESS, "p0"), "0" * 64)],
        Remediation.QUARANTINING,
        reason="r",
        scan_id="s-ours",
    )
    with served(kept.parts()) as client:
        until(lambda: kept.ledger.states.pending() == ())
        states = {name: kept.ledger.scans.get(name) for name in ("s-ours", "s-theirs", "f-ours")}
        assert states["s-ours"].state is ScanState.FAILED
        assert states["s-ours"].note == "interrupted"
        assert states["f-ours"].state is ScanState.FAILED
        # Perhaps they are alive: another service, the command line.
        assert states["s-theirs"].state is ScanState.RUNNING
        assert kept.ledger.scans.get("cli").state is ScanState.RUNNING
        listed = {one["id"]: one for one in client.get("/v1/scans").json()["scans"]}
        assert (listed["s-ours"]["state"], listed["s-ours"]["note"]) == ("failed", "interrupted")
        assert (listed["s-never"]["state"], listed["s-never"]["note"]) == ("failed", "interrupted")
        assert listed["s-theirs"]["state"] == "running"
        assert client.post("/v1/scans/s-ours/cancel").status_code == 409
        assert until(lambda: samples(client).get("ragsieve_unsettled_changes") == 0.0)
    assert kept.ledger.states.get(Place(ADDRESS, "p0")).state is Remediation.NONE
    assert kept.ledger.audit.verify().intact


def test_a_service_that_stops_ends_its_job(kept):
    slow = kept.detector = Slow()
    with served(kept.parts()) as client:
        job_id = client.post("/v1/scans", json={"apply": True}).json()["id"]
        assert slow.begun.wait(10)
        threading.Timer(0.3, slow.go.set).start()
    assert kept.opened().scans.get(job_id).state is ScanState.FAILED
    with served(kept.parts()) as client:
        job = client.get(f"/v1/scans/{job_id}").json()
        assert (job["state"], job["note"]) == ("cancelled", "the service stopped")
    assert kept.store.hidden == {}


def test_an_unexpected_error_names_nothing_and_the_next_job_runs(kept):
    def broken():
        raise RuntimeError("secret of /srv")

    kept.detector = broken
    with served(kept.parts()) as client:
        job = scanned(client, collection="default")
        assert job["state"] == "failed"
        assert "secret" not in job["note"]
        kept.detector = lambda: CorpusDetector(corpus_rule("default"))
        assert scanned(client, collection="default")["state"] == "finished"


@pytest.mark.parametrize("moment", ["judging", "hiding"])
def test_a_service_killed_in_the_middle(tmp_path, moment):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).parent / "killed.py"
    process = subprocess.Popen([sys.executable, str(script), str(tmp_path), str(port), moment])
    url = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=url, timeout=30, headers={"Host": "localhost"}) as client:
            until(lambda: _answers(client), seconds=60)
            job_id = client.post("/v1/scans", json={"apply": True}).json()["id"]
            until((tmp_path / moment).exists, seconds=30)
            for number in range(6):
                # Findings and counts are on their way when it dies.
                ids = [f"p{number % 5}", *[f"d{n}" for n in range(39)]]
                assert client.post("/v1/filter", json=asked(ids)).status_code == 200
    finally:
        process.kill()
        process.wait(30)

    kept = Kept(tmp_path)
    hidden = tmp_path / "hidden.json"
    names = json.loads(hidden.read_text()) if hidden.exists() else []
    now = datetime.datetime.now(datetime.UTC)
    kept.store.quarantine(names, reason="r", scan_id=job_id, since=now)
    assert kept.ledger.audit.verify().intact
    # As two minutes later: an intent of a moment ago may be somebody's who is at work.
    kept.ledger = open_ledger(
        f"sqlite:///{kept.path}",
        actor="service",
        clock=lambda: datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=3),
    )
    with served(kept.parts()) as client:
        until(lambda: client.get(f"/v1/scans/{job_id}").json()["state"] == "failed")
        job = client.get(f"/v1/scans/{job_id}").json()
        assert job["note"] == "interrupted"
        until(lambda: kept.ledger.states.pending() == ())
        # Every state tells what the store shows, and retrieval honours it.
        states = {one.place.document_id: one.state for one in kept.ledger.states.items()}
        assert {name for name, state in states.items() if state.hides} == set(names)
        assert bool(names) is (moment == "hiding")
        answer = client.post("/v1/filter", json=asked(["p0", *[f"d{n}" for n in range(39)]]))
        assert ("p0" in answer.json()["withheld"]) is ("p0" in names)
        running = kept.ledger.scans.all(state=ScanState.RUNNING)
        assert [one for one in running if one.started < now] == []
        kept.detector = lambda: CorpusDetector(corpus_rule("default"))
        assert scanned(client, collection="default", apply=True)["state"] == "finished"
    assert set(kept.store.hidden) >= PLANTED
    assert kept.ledger.audit.verify().intact


def test_settings_make_a_service_that_remembers(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"id": "d1", "text": "a bridge"}\n')
    config = tmp_path / "ragsieve.toml"
    config.write_text(
        f"""
        [ledger]
        url = "sqlite:///{tmp_path}/kept.sqlite"
        [service]
        ledger = true
        keys = "{tmp_path}/keys.json"
        secure_cookies = true
        [service.collections.handbook]
        corpus = "{tmp_path}/corpus.jsonl"
        store = "postgresql://me:hunter2@localhost:1/nothing?table=docs"
        vectors_by = "some-encoder"
        """
    )
    settings = load_settings(config)
    assert "hunter2" not in f"{settings!r}{settings.model_dump_json()}"
    made = load_parts(settings)
    assert made.secure_cookies
    (held,) = made.holdings
    assert held.address == "postgresql://localhost:1/nothing?table=docs"
    assert held.vectors_by == "some-encoder"
    with served(made) as client:
        assert client.get("/readyz").json() == {"ready": True, "reasons": []}
        # Its server is not there, or its driver: the job says so and keeps its secret.
        answer = client.post("/v1/scans", json={})
        job = ended(client, answer.json()["id"])
        assert job["state"] == "failed"
        assert "hunter2" not in json.dumps(job)
    assert (tmp_path / "kept.sqlite").exists()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ledger = false", "service.ledger = true"),
        ("ledger = true\nname = 'a b'", "name"),
        ("ledger = true\nrefresh_seconds = 0", "refresh_seconds"),
    ],
)
def test_settings_that_cannot_be(tmp_path, line, told):
    config = tmp_path / "ragsieve.toml"
    config.write_text(f"[service]\n{line}\n[service.collections.a]\nstore = 'chroma:///x'\n")
    with pytest.raises(ConfigError, match=told):
        load_settings(config)


def _answers(client):
    try:
        return client.get("/healthz").status_code == 200
    except httpx.HTTPError:
        return False
