"""The filter's route: the same judgement as the library's, and what it says about it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import ranking
from ragsieve.defense.serial import serial_defense
from ragsieve.detectors.query import Mode, QueryDetector
from ragsieve.explain import MEANING
from ragsieve.service.holdings import Collection
from ragsieve.settings import ServiceSettings
from unit.service.making import QUERY, asked, collection, corpus, parts, samples, served


def whole(documents, **more):
    rows = [
        {"id": one.id, "text": one.text, "similarity": 1 - place / 1000}
        for place, one in enumerate(documents)
    ]
    return {"query": QUERY, "candidates": rows} | more


def planted_collection(**more):
    documents, _ = corpus(size=50)
    text = "The bridge. " + "".join(
        chr(0xE0000 + ord(one)) for one in "it was built by Alice alone"
    )
    held = {one.id: one for one in documents}
    held["p"] = type(documents[0])("p", text)
    return Collection("default", QueryDetector("default"), documents=held, **more)


@pytest.fixture(scope="module")
def client():
    with served(parts(collection(state=True))) as found:
        yield found


@pytest.mark.parametrize("mode", list(Mode))
def test_ids_and_whole_candidates_and_the_library_agree(client, mode):
    documents, _ = corpus()
    ids = client.post("/v1/filter", json=asked(mode=mode, query_id="q1")).json()
    sent = client.post("/v1/filter", json=whole(documents[:40], mode=mode, query_id="q1")).json()
    for one in ids["kept"]:
        one["similarity"] = next(k["similarity"] for k in sent["kept"] if k["id"] == one["id"])
    assert ids == sent
    detector = collection(state=True).detector
    texts, names = zip(*((one.text, one.id) for one in documents[:40]), strict=True)
    outcome = serial_defense(detector, mode=mode).run(ranking(texts, QUERY, names))
    assert [one["id"] for one in ids["kept"]] == [one.document.id for one in outcome.kept]
    assert ids["removed"] == list(outcome.removed_ids)
    judged = outcome.verdicts or outcome.rulings
    assert [one["decision"] for one in ids["candidates"]] == [one.decision for one in judged]
    assert [one["level"] for one in ids["candidates"]] == [one.level for one in judged]
    if mode is Mode.FULL:
        scores = [one["score_at_least"] for one in ids["candidates"]]
        assert scores == [one.score for one in judged]
    assert len(ids["trace"]) == len(outcome.trace)
    assert ids["partial"] is outcome.partial
    assert ids["fallback"] is None
    assert ids["meaning"] == MEANING


def test_a_planted_document_goes_and_the_next_moves_up():
    with served(parts(planted_collection())) as client:
        names = ["d0", "p", *[f"d{place}" for place in range(1, 40)]]
        found = client.post("/v1/filter", json=asked(names, mode="decision")).json()
        counted = samples(client)
    assert found["removed"] == ["p"]
    assert [one["id"] for one in found["kept"]] == ["d0", "d1", "d2", "d3", "d4"]
    assert [one["was"] for one in found["kept"]] == [1, 3, 4, 5, 6]
    hit = found["candidates"][1]
    assert (hit["decision"], hit["removed"]) == ("flagged", True)
    assert hit["score_at_least"] >= hit["threshold"]
    assert {step["action"] for step in found["trace"] if step.get("id") == "p"} == {"removed"}
    assert counted["ragsieve_query_candidates_removed_total"] == 1
    assert counted["ragsieve_query_refills_total"] == 1
    key = 'ragsieve_documents_flagged_total{detector="query",evidence="hidden_text"}'
    assert counted[key] == 1


def test_texts_come_only_when_asked_for(client):
    plain = client.post("/v1/filter", json=asked()).json()
    assert {one["text"] for one in plain["kept"]} == {None}
    texts = client.post("/v1/filter", json=asked(texts=True)).json()
    documents = {one.id: one for one in corpus()[0]}
    assert [one["text"] for one in texts["kept"]] == [
        documents[one["id"]].text for one in texts["kept"]
    ]


def test_k_keeps_so_many_and_never_more_than_are_judged(client):
    for k in (1, 5):
        found = client.post("/v1/filter", json=asked(k=k)).json()
        assert len(found["kept"]) == k
    answer = client.post("/v1/filter", json=asked(k=6))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "k"


def test_a_short_ranking_is_said_and_never_scored_silently(client):
    found = client.post("/v1/filter", json=asked(count=10)).json()
    assert found["tail"] == {"documents": 10, "needed": 20, "full": 40, "sufficient": False}
    assert found["partial"] is True
    assert {one["decision"] for one in found["candidates"]} == {"undecided"}
    reasons = [e["reason"] for e in found["candidates"][0]["evidences"] if e["value"] is None]
    assert any("insufficient tail" in reason for reason in reasons)


def test_absent_evidence_is_null_with_a_reason():
    with served(parts(collection())) as client:
        found = client.post("/v1/filter", json=asked()).json()
    gap = next(e for e in found["candidates"][0]["evidences"] if e["name"] == "neighbor_gap")
    assert gap["value"] is None
    assert "embeddings" in gap["reason"]
    assert found["candidates"][0]["complete"] is False
    assert found["candidates"][0]["score"] is None


def test_withheld_documents_never_come_back_and_are_asked_for_each_time():
    hidden = {"d0"}
    made = parts(collection(withheld=lambda: frozenset(hidden)))
    with served(made) as client:
        first = client.post("/v1/filter", json=asked()).json()
        hidden.add("d1")
        second = client.post("/v1/filter", json=asked()).json()
        hidden.clear()
        third = client.post("/v1/filter", json=asked()).json()
        assert samples(client)["ragsieve_query_documents_withheld_total"] == 3
    assert (first["withheld"], second["withheld"], third["withheld"]) == (
        ["d0"],
        ["d0", "d1"],
        [],
    )
    assert [one["id"] for one in second["kept"]] == ["d2", "d3", "d4", "d5", "d6"]
    assert [one["id"] for one in third["kept"]] == ["d0", "d1", "d2", "d3", "d4"]


def test_a_batch_answers_as_each_alone(client):
    requests = [
        asked(query_id="a", mode="decision"),
        asked(ids=[f"d{place}" for place in range(59, 19, -1)], query_id="b", k=3),
        asked(count=3, query_id="c"),
        asked(query_id="d", mode="decision", texts=True),
    ]
    batch = client.post("/v1/filter/batch", json={"requests": requests})
    assert batch.status_code == 200
    alone = [client.post("/v1/filter", json=one).json() for one in requests]
    assert batch.json()["results"] == alone


def test_without_a_collection_whole_candidates_are_still_judged():
    documents, _ = corpus()
    with served(parts()) as client:
        found = client.post("/v1/filter", json=whole(documents[:20])).json()
        assert found["collection"] is None
        assert len(found["kept"]) == 5
        answer = client.post("/v1/filter", json=asked())
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "ids[0]"


def test_a_repeated_id_is_dropped_with_a_step():
    names = ["d0", "d0", *[f"d{place}" for place in range(1, 40)]]
    with served(parts(collection())) as client:
        found = client.post("/v1/filter", json=asked(names)).json()
    assert [one["id"] for one in found["kept"]] == ["d0", "d1", "d2", "d3", "d4"]
    assert [one["was"] for one in found["kept"]] == [1, 3, 4, 5, 6]
    assert found["tail"]["documents"] == 40


BAD = [
    ({"query": "q"}, "body"),
    ({"ids": ["d1"]}, "query"),
    ({"query": "", "ids": ["d1"]}, "query"),
    ({"query": "q", "ids": []}, "ids"),
    ({"query": "q", "ids": [""]}, "ids[0]"),
    ({"query": "q", "ids": ["d1"], "candidates": [{"id": "a", "text": "t"}]}, "body"),
    ({"query": "q", "ids": ["d1", "nope"]}, "ids[1]"),
    ({"query": "q", "ids": ["d1"], "similarities": [0.1, 0.2]}, "body"),
    ({"query": "q", "ids": ["d1"], "similarities": ["0.1"]}, "similarities[0]"),
    ({"query": "q", "ids": ["d1"], "k": 0}, "k"),
    ({"query": "q", "ids": ["d1"], "k": "3"}, "k"),
    ({"query": "q", "ids": ["d1"], "k": True}, "k"),
    ({"query": "q", "ids": ["d1"], "texts": "yes"}, "texts"),
    ({"query": "q", "ids": ["d1"], "mode": "fast"}, "mode"),
    ({"query": "q", "ids": ["d1"], "surprise": 1}, "surprise"),
    ({"query": "q", "ids": "d1"}, "ids"),
    ({"query": "q", "candidates": [{"id": "a"}]}, "candidates[0].text"),
    ({"query": "q", "candidates": [{"id": "a", "text": None}]}, "candidates[0].text"),
    ({"query": "q" * 20_001, "ids": ["d1"]}, "query"),
    ({"query": "q", "ids": ["d1"] * 201}, "ids"),
    ({"query": "q", "ids": ["d1"] * 1_001}, "ids"),
    ({"query": "q", "ids": ["d1"], "collection": "../../etc/passwd"}, "collection"),
    ([], "body"),
    ("text", "body"),
    (None, "body"),
]


@pytest.mark.parametrize(("body", "field"), BAD)
def test_bad_input_is_a_problem_that_names_its_field(client, body, field):
    answer = client.post("/v1/filter", json=body)
    assert 400 <= answer.status_code < 500
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == answer.status_code
    assert field in [one["field"] for one in found["errors"]]


RAW = [
    rb'{"query":"\ud800","ids":["d1"]}',
    rb'{"query":"q","ids":["\udfff"]}',
    rb'{"query":"q","candidates":[{"id":"a","text":"x\ud83d"}]}',
    b'{"query":"q","ids":["d1"],"similarities":[NaN]}',
    b'{"query":"q","ids":["d1"],"similarities":[Infinity]}',
    b'{"query":"q","ids":["d1"],"similarities":[1e999]}',
    b'{"query":"q","ids":["d1"],"similarities":[' + b"9" * 400 + b"]}",
    b'{"query":"q","ids":["d1"],"k":' + b"9" * 5_000 + b"}",
    b'{"query":"q","ids":["d1"],"k":1e400}',
    b"[" * 200_000,
    b'{"a":' * 50_000,
    b"\xff\xfe\x00",
    b"\xed\xa0\x80",
    b"{",
    b"",
]


@pytest.mark.parametrize("raw", RAW, ids=lambda raw: repr(raw[:40]))
def test_hostile_bodies_are_4xx_and_never_5xx(client, raw):
    answer = client.post("/v1/filter", content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code in {400, 422}
    assert len(answer.content) < 5_000


def test_a_null_character_is_text_like_any_other(client):
    documents, _ = corpus()
    body = whole(documents[:20])
    body["candidates"][0]["text"] = "b\x00er Cloud credits"
    body["query"] = "a\x00b"
    assert client.post("/v1/filter", json=body).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_other_content_types_are_refused(client, kind):
    raw = b'{"query":"q","ids":["d1"]}'
    answer = client.post("/v1/filter", content=raw, headers={"Content-Type": kind})
    assert answer.status_code == 422


def test_an_error_repeats_nothing_long_and_nothing_invisible(client):
    hostile = "\u202e<script>" + "x" * 100_000
    answer = client.post("/v1/filter", json={"query": "q", "ids": ["d1"], hostile: 1})
    assert answer.status_code == 422
    assert len(answer.content) < 2_000
    assert "\u202e" not in answer.json()["detail"]
    faulty = {"requests": [{"query": "q", "ids": [1]}] * 200}
    many = client.post("/v1/filter/batch", json=faulty)
    assert len(many.json()["errors"]) <= 16
    assert "184 more" in many.json()["detail"]


def test_more_requests_than_the_batch_holds():
    made = parts(collection(), settings=ServiceSettings(max_batch=2))
    with served(made) as client:
        answer = client.post("/v1/filter/batch", json={"requests": [asked()] * 3})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "requests"
        assert client.post("/v1/filter/batch", json={"requests": [asked()] * 2}).is_success
        huge = client.post("/v1/filter/batch", json={"requests": [asked(count=1)] * 257})
        assert huge.status_code == 422


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(
            "query query_id ids candidates similarities k mode texts collection".split()
        ),
        JSON | st.lists(st.sampled_from(["d1", "d2"]), max_size=5),
    )
)
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_is_sent_is_answered_below_500(client, body):
    answer = client.post("/v1/filter", json=body)
    assert answer.status_code < 500
    if answer.is_success:
        assert answer.json()["meaning"] == MEANING


FAULTS = [
    {"query": "q", "ids": [0] * 1_000},
    {"query": "q", "ids": ["d1"], "similarities": ["x"] * 1_000},
    {"query": "q", "candidates": [{}] * 1_000},
    {"query": "q", "ids": ["d1"]} | {f"x{n}": 0 for n in range(1_000)},
]


@pytest.mark.parametrize("body", FAULTS)
def test_many_faults_are_not_all_told(client, body):
    """An error for each of a million fields would cost gigabytes and seconds."""
    for path, sent in (("/v1/filter", body), ("/v1/filter/batch", {"requests": [body]})):
        answer = client.post(path, json=sent)
        assert answer.status_code == 422
        assert len(answer.json()["errors"]) <= 3
