"""The interface of reviewers: findings, acts with what was seen, undoing, rolling back, tenants."""

from __future__ import annotations

import pytest

from ragsieve.cases import Opinion, Remediation
from ragsieve.service.keys import Role
from unit.service.making import served
from unit.service.reviewed import STORE, make, rows


@pytest.fixture
def bench(tmp_path):
    return make(tmp_path, extra=["A finding that stands alone, about a bridge."])


@pytest.fixture
def client(bench):
    with served(bench.parts()) as found:
        yield found


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    """A bench that its tests leave as it is."""
    return make(
        tmp_path_factory.mktemp("steady"), extra=["A finding that stands alone, about a bridge."]
    )


@pytest.fixture(scope="module")
def reader(steady):
    with served(steady.parts()) as found:
        yield found


def queue(client, **asked):
    return client.get("/v1/reviews", params=asked).json()


def seen(client, **asked):
    """Findings as an act takes them."""
    return [
        {"id": one["id"], "version": one["version"], "item_version": one["item_version"]}
        for one in queue(client, **asked)["findings"]
    ]


def act(client, findings, what="quarantine", reason="five copies of one claim", **more):
    return client.post(
        "/v1/reviews/act", json={"act": what, "reason": reason, "findings": findings} | more
    )


def test_the_queue_is_sorted_by_risk_and_exposure_and_says_what_a_score_is(reader):
    found = queue(reader)
    assert found["total"] == 6
    assert "not that it is false" in found["meaning"]
    priorities = [one["priority"] for one in found["findings"]]
    assert priorities == sorted(priorities, reverse=True)
    assert found["findings"][-1]["campaign"] is None
    assert {one["exposure"] for one in found["findings"][:5]} == {3}


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"campaign": "scan1-1"}, 5),
        ({"campaign": "another"}, 0),
        ({"store": STORE}, 6),
        ({"author": "eve"}, 6),
        ({"author": "bob"}, 0),
        ({"evidence": "neighbor_gap", "evidence_at_least": 2.45}, 4),
        ({"evidence": "hidden_text", "evidence_at_least": 0.1}, 0),
        ({"state": "quarantined"}, 0),
        ({"reviewed": "false"}, 6),
        ({"scan": "scan1"}, 6),
        ({"days": 3}, 6),
        ({"document": "p3"}, 1),
        ({"source": "https://wiki.example/bridges", "limit": 2}, 6),
    ],
)
def test_the_queue_is_filtered(reader, asked, count):
    assert queue(reader, **asked)["total"] == count


def test_one_finding_tells_what_it_rests_on(steady, reader):
    found = reader.get(f"/v1/reviews/{steady.of('p0').id}").json()
    missing = [one for one in found["evidences"] if one["value"] is None]
    assert [(one["name"], one["reason"]) for one in missing] == [
        ("peak_surprisal", "no language model was loaded")
    ]
    assert found["context"]["ranking"][0] == {"id": "p0", "rank": 1, "similarity": 0.89}
    assert (found["acl"], found["rollback_handle"]) == ("editors", "scan1")


def test_a_campaign_is_hidden_and_comes_back(bench, client):
    assert {"p0", "p1", "p2", "p3", "p4"} <= set(bench.served())
    done = act(client, seen(client, campaign="scan1-1"))
    assert done.status_code == 200, done.text
    assert sorted(done.json()["changed"]) == ["p0", "p1", "p2", "p3", "p4"]
    assert not {name for name in bench.served() if name.startswith("p")}
    assert bench.hidden() == {"p0", "p1", "p2", "p3", "p4"}
    states = {
        one["document_id"]: (one["state"], one["opinion"]) for one in queue(client)["findings"]
    }
    assert states["p0"] == ("quarantined", "confirmed")
    assert states["x0"] == ("none", None)

    undone = client.post("/v1/reviews/undo", json={"reason": "too fast"})
    assert undone.json()["act_id"] == done.json()["act_id"]
    assert {"p0", "p1", "p2", "p3", "p4"} <= set(bench.served())
    assert bench.hidden() == frozenset()
    found = queue(client, campaign="scan1-1")["findings"]
    assert {(one["state"], one["opinion"]) for one in found} == {("released", "needs-info")}
    again = client.post("/v1/reviews/undo", json={"act_id": done.json()["act_id"], "reason": "x"})
    assert again.status_code == 409
    assert client.post("/v1/reviews/undo", json={"reason": "x"}).status_code == 404
    assert bench.ledger.audit.verify().intact


def test_undoing_returns_to_the_opinion_before(bench, client):
    act(client, seen(client, document="p0"), "duplicate")
    act(client, seen(client, document="p0"), "benign")
    client.post("/v1/reviews/undo", json={"reason": "not so"})
    assert bench.ledger.incidents.get(bench.of("p0").id).incident.opinion is Opinion.DUPLICATE


def test_releasing_and_undoing_it_keeps_the_rollback_handle(bench, client):
    act(client, seen(client, document="p0"))
    hid = bench.ledger.incidents.get(bench.of("p0").id).item.scan_id
    assert act(client, seen(client, document="p0"), "release").json()["changed"] == ["p0"]
    assert "p0" in bench.served()
    assert client.post("/v1/reviews/undo", json={"reason": "no"}).status_code == 200
    item = bench.ledger.incidents.get(bench.of("p0").id).item
    assert (item.state, item.scan_id) == (Remediation.QUARANTINED, hid)
    assert "p0" not in bench.served()


@pytest.mark.parametrize("what", ["confirmed", "benign", "duplicate", "needs-info"])
def test_opinions_alone_touch_no_store(bench, client, what):
    done = act(client, seen(client, campaign="scan1-1"), what)
    assert (done.status_code, done.json()["changed"]) == (200, [])
    assert bench.store.changes == 0
    assert {one["opinion"] for one in queue(client, campaign="scan1-1")["findings"]} == {what}


def test_of_two_reviewers_the_second_is_told_who_changed_what(bench, client):
    first = second = seen(client, campaign="scan1-1")
    assert act(client, first[:1], "benign", "a known copy").status_code == 200
    before = bench.ledger.audit.head()
    told = act(client, second)
    assert (told.status_code, told.headers["content-type"]) == (409, "application/problem+json")
    problem = told.json()
    assert "nothing was written" in problem["detail"]
    assert [one["field"] for one in problem["errors"]] == ["findings[0]"]
    assert "local said benign" in problem["errors"][0]["problem"]
    assert bench.store.changes == 0
    assert bench.ledger.audit.head() == before


def test_a_change_from_the_command_line_is_a_change_too(bench, client):
    held = seen(client, document="p1")
    other = bench.ledger.acting_as("cli")
    row = bench.store.rows["p1"]

    def job(custody):
        from ragsieve.ledger.records import ScanStart

        other.scans.begin(ScanStart("cli1", STORE, "manual", "manual"))
        target = custody.target("p1", bench.of("p1").content_sha256)
        return custody.quarantine([target], reason="seen", scan_id="cli1")

    bench.stores.run(STORE, None, other, job)
    assert row.id in bench.store.hidden
    told = act(client, held, "benign").json()
    assert told["status"] == 409
    assert "quarantined by cli" in told["errors"][0]["problem"]


def test_another_process_that_is_quicker_by_a_hair_leaves_nothing_behind(
    bench, client, monkeypatch
):
    held = seen(client, document="p2")
    plain = bench.store.quarantine

    def meanwhile(ids, **more):
        done = plain(ids, **more)
        bench.ledger.acting_as("other process").reviews.add(
            bench.of("p2").id, Opinion.BENIGN, reason="known"
        )
        return done

    monkeypatch.setattr(bench.store, "quarantine", meanwhile)
    told = act(client, held)
    assert told.status_code == 409
    assert "other process said benign" in told.text
    assert "p2" in bench.served()
    assert bench.ledger.incidents.get(bench.of("p2").id).incident.opinion is Opinion.BENIGN


def test_undoing_over_what_somebody_did_since_is_refused(bench, client):
    act(client, seen(client, document="p0"))
    bench.ledger.acting_as("ada").reviews.add(bench.of("p0").id, Opinion.CONFIRMED, reason="indeed")
    told = client.post("/v1/reviews/undo", json={"reason": "no"})
    assert told.status_code == 409
    assert "ada said confirmed" in told.text
    assert "p0" not in bench.served()


def test_a_document_that_holds_something_else_by_now_is_left_alone_and_named(bench, client):
    held = seen(client, campaign="scan1-1")
    from memory_store import replaced

    bench.store.rows["p0"] = replaced(bench.store.rows["p0"], text="Corrected: opened in 1931.")
    del bench.store.rows["p1"]
    done = act(client, held).json()
    assert sorted(done["left"]) == ["p0", "p1"]
    assert sorted(done["changed"]) == ["p2", "p3", "p4"]
    assert "p0" in bench.served()


def test_a_store_that_fails_leaves_findings_waiting(bench, client):
    bench.store.die = "fail"
    told = act(client, seen(client, document="p0"))
    assert (told.status_code, told.headers["content-type"]) == (503, "application/problem+json")
    assert "memory" not in told.text
    assert bench.ledger.incidents.get(bench.of("p0").id).incident.opinion is None
    # Two minutes later what was left open is settled, and the same act goes through.
    bench.clock.skip(minutes=5)
    waiting = seen(client, document="p0")
    first = act(client, waiting)
    done = first if first.status_code == 200 else act(client, seen(client, document="p0"))
    assert done.status_code == 200, done.text
    assert "p0" not in bench.served()


def test_a_store_that_was_not_declared_is_not_opened(bench, client):
    from ragsieve.ledger.records import ScanStart
    from unit.service.reviewed import incident_of

    ledger = bench.ledger
    ledger.scans.begin(ScanStart("s2", "memory:///undeclared", "default", "f"))
    one = incident_of(rows()[0], scan_id="s2", store="memory:///undeclared")
    ledger.incidents.record([one])
    held = seen(client, store="memory:///undeclared")
    told = act(client, held)
    assert told.status_code == 409
    assert "was not told of the store" in told.json()["detail"]
    assert act(client, held, "duplicate").status_code == 200


def test_truth_is_a_track_of_its_own(bench, client):
    finding = seen(client, document="p0")[0]
    body = {"finding": finding, "truth": "false", "reason": "the town's archive says 1931"}
    assert client.post("/v1/reviews/truth", json=body).json()["truth"] == "false"
    assert client.post("/v1/reviews/truth", json=body).status_code == 409
    kept = bench.ledger.incidents.get(bench.of("p0").id)
    assert (kept.incident.truth, kept.incident.opinion, kept.item) == ("false", None, None)


def test_history_follows_the_content(bench, client):
    act(client, seen(client, document="p0"))
    found = client.get(f"/v1/reviews/{bench.of('p0').id}/history").json()
    assert [one["opinion"] for one in found["reviews"]] == ["confirmed"]
    assert [one["new"] for one in found["changes"]] == ["quarantining", "quarantined"]
    assert len(found["verdicts"]) == 1


def test_a_scan_is_previewed_and_rolled_back(bench, client):
    act(client, seen(client, campaign="scan1-1"))
    scan = bench.ledger.incidents.get(bench.of("p0").id).item.scan_id
    preview = client.get(f"/v1/reviews/scans/{scan}/rollback").json()
    assert len(preview["contested"]) == 5
    assert "reviewed as confirmed by local" in preview["contested"][0]["reasons"]
    assert preview["queries_affected"] == 3
    address = f"/v1/reviews/scans/{scan}/rollback"
    wrong = client.post(address, json={"reason": "x", "expected_documents": 5})
    assert wrong.status_code == 409
    body = {"reason": "all wrong", "expected_documents": 5, "include_contested": True}
    done = client.post(address, json=body).json()
    assert (sorted(done["released"]), done["complete"]) == (["p0", "p1", "p2", "p3", "p4"], True)
    assert {"p0", "p4"} <= set(bench.served())
    assert bench.hidden() == frozenset()
    assert client.get("/v1/reviews/scans/nothing/rollback").status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"reason": ""},
        {"reason": "  "},
        {"reason": "x" * 2_001},
        {"act": "delete"},
        {"act": "burn"},
        {"findings": []},
        {"findings": [{"id": "a", "version": -1}]},
        {"findings": [{"id": "a", "version": 0}, {"id": "a", "version": 0}]},
        {"more": 1},
    ],
)
def test_forms_that_cannot_be_used_are_refused(steady, reader, change):
    body = {"act": "benign", "reason": "r", "findings": seen(reader, document="p0")}
    before = steady.ledger.audit.head()
    assert reader.post("/v1/reviews/act", json=body | change).status_code == 422
    assert steady.ledger.audit.head() == before


def test_what_is_not_there_is_not_found(reader):
    assert reader.get("/v1/reviews/nothing").status_code == 404
    assert reader.get("/v1/reviews/a%00b").status_code == 404
    told = act(reader, [{"id": "nothing", "version": 0}])
    assert told.status_code == 404


class TestKeys:
    @pytest.fixture
    def bench(self, tmp_path):
        return make(tmp_path, keyed=True, tenant="acme")

    def client(self, bench, token):
        return served(bench.parts(), token)

    def test_tenants_do_not_see_each_other(self, bench):
        mine = bench.token(tenant="acme")
        other = bench.token(name="bob", tenant="globex")
        everybody = bench.token(name="root", role=Role.ADMIN)
        with self.client(bench, mine) as client:
            held = seen(client)
            assert len(held) == 5
        for token in (other, everybody):
            with self.client(bench, token) as client:
                assert queue(client)["total"] == 0
                assert client.get(f"/v1/reviews/{held[0]['id']}").status_code == 404
                assert act(client, held).status_code == 404
                assert client.get("/v1/reviews/scans/scan1/rollback").status_code == 404
        assert bench.store.changes == 0

    def test_acts_of_one_tenant_are_not_undone_by_another(self, bench):
        with self.client(bench, bench.token(tenant="acme")) as client:
            done = act(client, seen(client)).json()["act_id"]
        with self.client(bench, bench.token(Role.ADMIN, "eve", "globex")) as client:
            told = client.post("/v1/reviews/undo", json={"act_id": done, "reason": "x"})
            assert told.status_code == 404
        with self.client(bench, bench.token(Role.REVIEWER, "second", "acme")) as client:
            told = client.post("/v1/reviews/undo", json={"act_id": done, "reason": "x"})
            assert told.status_code == 403
        with self.client(bench, bench.token(Role.ADMIN, "boss", "acme")) as client:
            told = client.post("/v1/reviews/undo", json={"act_id": done, "reason": "x"})
            assert told.status_code == 200
        assert "p0" in bench.served()

    def test_a_key_of_role_service_may_not_review(self, bench):
        with self.client(bench, bench.token(Role.SERVICE, tenant="acme")) as client:
            assert client.get("/v1/reviews").status_code == 403
            assert act(client, [{"id": "a", "version": 0}]).status_code == 403
            assert client.post("/v1/reviews/delete", json={}).status_code == 403

    def test_deleting_needs_an_admin_a_phrase_and_a_second_person(self, bench):
        boss = bench.token(Role.ADMIN, "boss", "acme")
        with self.client(bench, bench.token(tenant="acme")) as client:
            act(client, seen(client))
            body = {"reason": "planted", "findings": seen(client), "confirm": "delete 5 documents"}
            assert client.post("/v1/reviews/delete", json=body).status_code == 403
        with self.client(bench, boss) as client:
            body["findings"] = seen(client)
            assert (
                client.post("/v1/reviews/delete", json=body | {"confirm": "yes"}).status_code == 422
            )
            done = client.post("/v1/reviews/delete", json=body)
            assert done.status_code == 200, done.text
            assert not {name for name in bench.store.rows if name.startswith("p")}
            undone = client.post("/v1/reviews/undo", json={"reason": "keep them"})
            assert undone.status_code == 200, undone.text
        assert {"p0", "p4"} <= set(bench.store.rows)
        assert "p0" not in bench.served()

    def test_whoever_hid_a_document_cannot_delete_it_alone(self, bench):
        with self.client(bench, bench.token(Role.ADMIN, "boss", "acme")) as client:
            held = seen(client, document="p0")
            body = {"reason": "planted", "findings": held, "confirm": "delete 1 documents"}
            assert client.post("/v1/reviews/delete", json=body).status_code == 409
            act(client, held)
            told = client.post(
                "/v1/reviews/delete", json=body | {"findings": seen(client, document="p0")}
            )
            assert told.status_code == 409
            assert "somebody else" in told.json()["detail"]
        assert "p0" in bench.store.rows

    def test_names_of_keys_are_told_apart(self, bench):
        with self.client(bench, bench.token(tenant="acme")) as client:
            act(client, seen(client, document="p0"), "benign")
        reviewer = bench.ledger.incidents.get(bench.of("p0").id, tenant="acme").incident.reviewer
        key = bench.key_file.keys()[0]
        assert reviewer == f"mara [{key.id}]"


def test_the_description_holds_every_review_route(reader):
    paths = reader.get("/v1/openapi.json").json()["paths"]
    assert {
        "/v1/reviews",
        "/v1/reviews/act",
        "/v1/reviews/truth",
        "/v1/reviews/undo",
        "/v1/reviews/delete",
        "/v1/reviews/{incident_id}",
        "/v1/reviews/{incident_id}/history",
        "/v1/reviews/scans/{scan_id}/rollback",
    } <= set(paths)
    assert not [path for path in paths if path.startswith("/desk")]
