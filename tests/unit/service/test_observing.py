"""What the service says of itself: metrics, spans, headers, its own description."""

from __future__ import annotations

import datetime
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragsieve import __version__
from ragsieve.records import Decision
from ragsieve.service.windows import Traffic
from ragsieve.settings import ServiceSettings
from unit.service.making import Broken, asked, collection, parts, samples, served


def test_the_agreed_names_are_there():
    with served(parts(collection(state=True))) as client:
        client.post("/v1/filter", json=asked(mode="decision"))
        client.post("/v1/filter", json=asked(count=4))
        found = samples(client)
    for name in (
        'ragsieve_query_filter_duration_seconds_count{mode="decision"}',
        "ragsieve_query_candidates_removed_total",
        "ragsieve_query_refills_total",
        "ragsieve_query_insufficient_tail_total",
        "ragsieve_query_fallback_ratio",
        "ragsieve_query_tail_contamination_ratio",
        f'ragsieve_build_info{{profile="default",version="{__version__}"}}',
    ):
        assert name in found
    assert found["ragsieve_query_insufficient_tail_total"] == 1


def test_dimensions_stay_bounded_whatever_is_asked():
    with served(parts(collection(state=True))) as client:
        client.post("/v1/filter", json=asked())
        before = {name for name in samples(client) if "http_requests" not in name}
        for number in range(20):
            client.post("/v1/filter", json=asked(query_id=f"q{number}", count=30 + number % 10))
            client.get(f"/nope/{number}")
            client.request("X" * (number + 1), "/healthz")
            client.get(f"/v1/collections?tenant=t{number}")
        found = samples(client)
    after = {name for name in found if "http_requests" not in name}
    assert after == before
    http = [name for name in found if name.startswith("ragsieve_http_requests_total")]
    assert len(http) < 10
    assert not any("q1" in name or "t1" in name or "/nope" in name for name in found)


def test_two_apps_count_apart():
    one, two = parts(collection()), parts(collection())
    with served(one) as first, served(two) as second:
        first.post("/v1/filter", json=asked())
        key = 'ragsieve_query_retrievals_total{mode="full"}'
        assert samples(first)[key] == 1
        assert key not in samples(second)


def test_freshness_is_the_states_age_and_what_the_scan_never_saw():
    made = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=2)
    held = collection("a", made=made, scanned=frozenset({"d0", "d1"}))
    with served(parts(held, collection("b"))) as client:
        found = samples(client)
        listed = client.get("/v1/collections").json()["collections"]
    assert found['ragsieve_state_age_seconds{collection="a"}'] == pytest.approx(7200, abs=60)
    assert found['ragsieve_state_unseen_documents{collection="a"}'] == 58
    assert 'ragsieve_state_age_seconds{collection="b"}' not in found
    assert [one["state_age_seconds"] is None for one in listed] == [False, True]


def test_nothing_is_said_of_no_traffic():
    traffic = Traffic()
    assert traffic.fallback_share is None
    assert traffic.tail_contamination is None
    assert traffic.drift is None
    assert traffic.decision_shares() is None


def test_tail_contamination_counts_scan_findings_and_what_retrievals_flagged():
    traffic = Traffic()
    traffic.judged("c", [("a", Decision.FLAGGED)], ["t1", "t2", "s"], frozenset({"s"}))
    assert traffic.tail_contamination == pytest.approx(1 / 3)
    traffic.judged("c", [("b", Decision.CLEAR)], ["a", "t2", "t3"], frozenset())
    assert traffic.tail_contamination == pytest.approx(2 / 6)
    # Another collection's document of that id is another document.
    traffic.judged("d", [], ["a", "x", "y"], frozenset())
    assert traffic.tail_contamination == pytest.approx(2 / 9)


def feed(traffic, decisions):
    for decision in decisions:
        traffic.judged("c", [("x", decision)], [], frozenset())


def test_drift_is_zero_for_the_same_and_grows_with_the_change():
    clear, flagged = [Decision.CLEAR] * 90 + [Decision.FLAGGED] * 10, [Decision.FLAGGED] * 100
    traffic = Traffic(decisions=100)
    feed(traffic, clear)
    assert traffic.drift is None
    feed(traffic, clear)
    assert traffic.drift == 0
    feed(traffic, flagged[:20])
    some = traffic.drift
    feed(traffic, flagged)
    assert traffic.drift > some > 0


@given(st.lists(st.sampled_from(list(Decision)), max_size=60))
def test_shares_are_shares(decisions):
    traffic = Traffic(decisions=10, retrievals=7)
    feed(traffic, decisions)
    for place, _ in enumerate(decisions):
        if place % 3 == 0:
            traffic.fell_back()
    shares = traffic.decision_shares()
    assert (shares is None) == (not decisions)
    if shares is not None:
        assert sum(shares.values()) == pytest.approx(1)
        assert 0 <= traffic.fallback_share <= 1
    assert traffic.drift is None or traffic.drift >= 0


def test_windows_hold_up_under_threads():
    traffic = Traffic(decisions=50)
    threads = [
        threading.Thread(target=feed, args=(traffic, list(Decision) * 200)) for _ in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sum(traffic.decision_shares().values()) == pytest.approx(1)


@pytest.fixture(scope="module")
def exporter():
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    trace.set_tracer_provider(provider)
    return found


@pytest.mark.parametrize("questions", [False, True])
def test_spans_follow_the_conventions_and_hide_the_question(exporter, questions):
    exporter.clear()
    settings = ServiceSettings(trace_questions=questions)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with served(parts(collection(state=True), settings=settings)) as client:
        client.post("/v1/filter", json=asked(), headers={"traceparent": parent})
    # One and no other: a framework's span would carry the address with its query string.
    (span,) = exporter.get_finished_spans()
    assert span.name == "ragsieve.filter"
    assert f"{span.context.trace_id:032x}" == parent.split("-")[1]
    found = span.attributes
    assert found["gen_ai.operation.name"] == "retrieval"
    assert found["gen_ai.data_source.id"] == "default"
    assert found["gen_ai.retrieval.top_k"] == 40
    assert found["openinference.span.kind"] == "RERANKER"
    assert found["ragsieve.tail_size"] == 35
    assert ("gen_ai.retrieval.query.text" in found) is questions
    events = [event for event in span.events if event.name == "gen_ai.evaluation.result"]
    assert len(events) == 5
    assert {"gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"} <= set(
        events[0].attributes
    )


def test_a_batch_has_a_span_for_each_retrieval(exporter):
    exporter.clear()
    with served(parts(collection(state=True))) as client:
        client.post("/v1/filter/batch", json={"requests": [asked(count=30), asked(count=40)]})
    *each, whole = exporter.get_finished_spans()
    assert [span.attributes["gen_ai.retrieval.top_k"] for span in each] == [30, 40]
    assert {span.parent.span_id for span in each} == {whole.context.span_id}


def test_a_failure_stands_on_its_span_without_its_text(exporter):
    exporter.clear()
    held = collection(detector=Broken(RuntimeError("secret")))
    with served(parts(held)) as client:
        client.post("/v1/filter", json=asked())
    (span,) = exporter.get_finished_spans()
    assert span.attributes["ragsieve.fallback"] == "error"
    assert "secret" not in span.to_json()


@pytest.mark.parametrize("path", ["/healthz", "/nope", "/metrics", "/v1/openapi.json", "/desk"])
def test_every_answer_is_safe_to_show(path):
    with served(parts(collection())) as client:
        headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


def test_the_description_stands_alone_and_names_every_problem():
    with served(parts(collection())) as client:
        found = client.get("/v1/openapi.json").json()
        assert client.get("/docs").status_code == 404
        assert client.get("/openapi.json").status_code == 404
    for path in ("/v1/filter", "/v1/filter/batch", "/v1/gate"):
        answers = found["paths"][path]["post"]["responses"]
        assert {"200", "400", "401", "403", "404", "408", "413", "422", "503"} <= set(answers)
        assert "application/problem+json" in answers["422"]["content"]
    assert "HTTPValidationError" not in str(found)
    assert "http://" not in str(found)
    assert "https://" not in str(found)
    assert "title" in found["components"]["schemas"]["Problem"]["properties"]


def test_readiness_gives_its_reasons_and_survives_a_broken_check():
    def broken():
        raise RuntimeError("the password is hunter2")

    checks = {"ledger": lambda: "cannot be reached", "store": lambda: None, "other": broken}
    with served(parts(collection(), checks=checks)) as client:
        answer = client.get("/readyz")
        assert client.get("/healthz").json() == {"status": "alive", "version": __version__}
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["ledger: cannot be reached", "other: cannot be checked"]
    assert "hunter2" not in answer.text


def test_further_routes_share_access_and_bounds():
    from fastapi import APIRouter, Depends

    from ragsieve.service.access import require
    from ragsieve.service.keys import Role

    def desk(runtime):
        routes = APIRouter()

        @routes.get("/v1/reviews")
        def reviews(who=Depends(require(Role.REVIEWER))):
            return {"who": who.name, "parts": runtime.parts.profile}

        return routes

    with served(parts(collection(), routers=[desk])) as client:
        assert client.get("/v1/reviews").json() == {"who": "local", "parts": "default"}
