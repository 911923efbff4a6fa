"""Where judging fails or takes too long: closed refuses, open says that nothing was judged."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time

import pytest

from ragsieve.defense.policy import FilterPolicy, Resort
from ragsieve.errors import BackendError
from ragsieve.service.app import create_app
from ragsieve.service.workers import Overloaded, Workers
from ragsieve.settings import ServiceSettings
from unit.service.making import Broken, asked, collection, parts, samples, served


def failing(on_failure, error=None, wait=None, **more):
    options = {"on_failure": on_failure, "request_seconds": 0.2, "threads": 1, "waiting": 0} | more
    held = collection(detector=Broken(error, wait), withheld=lambda: frozenset({"d1"}))
    return parts(held, settings=ServiceSettings(**options))


@pytest.mark.parametrize("error", [RuntimeError("d3 is secret"), BackendError("x"), MemoryError()])
@pytest.mark.parametrize("mode", ["full", "decision"])
def test_open_hands_over_what_is_not_quarantined(error, mode, caplog):
    with served(failing("open", error)) as client:
        found = client.post("/v1/filter", json=asked(mode=mode, k=4)).json()
        counted = samples(client)
    assert [one["id"] for one in found["kept"]] == ["d0", "d2", "d3", "d4"]
    assert (found["fallback"], found["partial"]) == ("error", True)
    assert found["withheld"] == ["d1"]
    assert found["candidates"] == []
    assert any("unfiltered" in step["reason"] for step in found["trace"])
    assert counted['ragsieve_query_fallback_total{reason="error"}'] == 1
    assert counted["ragsieve_query_fallback_ratio"] == 1
    assert "secret" not in caplog.text


@pytest.mark.parametrize("path", ["/v1/filter", "/v1/filter/batch"])
def test_closed_refuses(path):
    body = asked() if path == "/v1/filter" else {"requests": [asked()]}
    with served(failing("closed", RuntimeError("secret"))) as client:
        answer = client.post(path, json=body)
        counted = samples(client)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert "secret" not in answer.text
    assert counted['ragsieve_query_refused_total{reason="error"}'] == 1
    assert "ragsieve_query_fallback_ratio" not in counted


@pytest.mark.parametrize("on_failure", ["open", "closed"])
def test_a_timeout_and_then_an_overload(on_failure):
    wait = threading.Event()
    with served(failing(on_failure, wait=wait)) as client:
        begun = time.perf_counter()
        late = client.post("/v1/filter", json=asked())
        assert time.perf_counter() - begun < 2
        # The thread is still held, and nothing may wait for it.
        full = client.post("/v1/filter", json=asked())
        ready = client.get("/readyz")
        counted = samples(client)
        wait.set()
    assert ready.status_code == 503
    assert "threads" in ready.json()["reasons"][0]
    kind = "fallback" if on_failure == "open" else "refused"
    assert counted[f'ragsieve_query_{kind}_total{{reason="timeout"}}'] == 1
    assert counted[f'ragsieve_query_{kind}_total{{reason="overload"}}'] == 1
    if on_failure == "open":
        assert (late.json()["fallback"], full.json()["fallback"]) == ("timeout", "overload")
    else:
        assert (late.status_code, full.status_code) == (503, 503)


def test_the_thread_serves_again_once_the_late_job_has_ended():
    wait = threading.Event()
    made = failing("closed", wait=wait, request_seconds=1)
    with served(made) as client:
        assert client.post("/v1/filter", json=asked()).status_code == 503
        wait.set()
        deadline = time.time() + 5
        while client.get("/readyz").status_code != 200 and time.time() < deadline:
            time.sleep(0.01)
        assert client.post("/v1/filter", json=asked()).status_code == 200


def test_what_the_policy_refuses_to_judge_is_the_senders_to_change():
    held = collection(policy=FilterPolicy(on_short=Resort.RAISE))
    with served(parts(held, settings=ServiceSettings(on_failure="open"))) as client:
        answer = client.post("/v1/filter", json=asked(count=3))
    assert answer.status_code == 422
    assert (
        "insufficient tail" in answer.json()["detail"] or "missing tail" in answer.json()["detail"]
    )


def test_an_unexpected_error_of_a_route_is_500_without_its_text(caplog):
    caplog.set_level(logging.DEBUG)

    def broken():
        raise RuntimeError("the key is hunter2")

    held = collection(withheld=broken)
    with served(parts(held), raises=False) as client:
        answer = client.post("/v1/filter", json=asked())
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "hunter2" not in answer.text
    assert "RuntimeError at " in caplog.text
    assert "hunter2" not in caplog.text


def test_a_recorder_that_fails_spoils_no_answer():
    class Recorder:
        seen = 0

        def filtered(self, principal, collection, outcome):
            Recorder.seen += 1
            raise RuntimeError("the ledger is gone")

    made = parts(collection(), recorder=Recorder())
    app = create_app(made)
    with served(made) as client:
        # Without a state every candidate is undecided, which is worth keeping.
        assert client.post("/v1/filter", json=asked()).status_code == 200
        deadline = time.time() + 5
        while Recorder.seen == 0 and time.time() < deadline:
            time.sleep(0.01)
        deadline = time.time() + 5
        while not samples(client)["ragsieve_recording_failures_total"] and time.time() < deadline:
            time.sleep(0.01)
        assert samples(client)["ragsieve_recording_failures_total"] == 1
    assert app.state.runtime.parts is made


def test_what_waits_to_be_recorded_is_recorded_before_the_end():
    seen = []

    class Recorder:
        def filtered(self, principal, collection, outcome):
            time.sleep(0.02)
            seen.append((principal.name, collection.name, outcome.ranking.query_id))

    with served(parts(collection(), recorder=Recorder())) as client:
        for number in range(10):
            client.post("/v1/filter", json=asked(query_id=f"q{number}"))
    assert seen == [("local", "default", f"q{number}") for number in range(10)]


def test_workers_bound_what_waits():
    workers, wait = Workers(1, 1), threading.Event()

    async def run():
        jobs = [asyncio.create_task(workers.run(wait.wait, seconds=5)) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert workers.full
        with pytest.raises(Overloaded):
            await workers.run(wait.wait, seconds=5)
        assert workers.submit(wait.wait) is False
        wait.set()
        assert await asyncio.gather(*jobs) == [True, True]

    asyncio.run(run())
    assert workers.held == 0
    workers.close()
    assert workers.submit(wait.wait) is False
    assert workers.held == 0


def test_a_waiting_job_that_timed_out_is_never_run():
    workers, wait, ran = Workers(1, 4), threading.Event(), []

    async def run():
        first = asyncio.create_task(workers.run(wait.wait, seconds=5))
        await asyncio.sleep(0.02)
        with pytest.raises(TimeoutError):
            await workers.run(lambda: ran.append(1), seconds=0.02)
        wait.set()
        await first

    asyncio.run(run())
    workers.close(finish=True)
    assert ran == []
    assert workers.held == 0


def test_many_clients_at_once_get_their_own_answers():
    with (
        served(parts(collection(state=True))) as client,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):

        def ask(number):
            names = [f"d{(number + place) % 60}" for place in range(40)]
            found = client.post("/v1/filter", json=asked(names, query_id=f"q{number}")).json()
            return found["query_id"], found["candidates"][0]["id"]

        assert list(pool.map(ask, range(60))) == [(f"q{n}", f"d{n}") for n in range(60)]


def test_what_was_hidden_while_a_request_waited_is_not_handed_over():
    hidden, wait = {"d1"}, threading.Event()

    class Reviewed(Broken):
        def score_many(self, rankings, *, progress=None):
            hidden.add("d2")
            return super().score_many(rankings, progress=progress)

    held = collection(detector=Reviewed(None, wait), withheld=lambda: frozenset(hidden))
    settings = ServiceSettings(on_failure="open", request_seconds=0.2, threads=1, waiting=0)
    with served(parts(held, settings=settings)) as client:
        found = client.post("/v1/filter", json=asked(k=4)).json()
        wait.set()
    assert found["fallback"] == "timeout"
    assert found["withheld"] == ["d1", "d2"]
    assert [one["id"] for one in found["kept"]] == ["d0", "d3", "d4", "d5"]
