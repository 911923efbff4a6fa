"""Who may ask: keys, roles, tenants, and this machine alone without keys."""

from __future__ import annotations

import logging

import pytest

from ragsieve.errors import ConfigError
from ragsieve.service.access import is_loopback
from ragsieve.service.keys import Role
from ragsieve.service.loading import check_reach
from unit.service.making import asked, collection, key_file, parts, samples, served

EVERYWHERE = "0.0.0.0"  # noqa: S104 -- it is refused
PATHS = ["/v1/collections", "/metrics", "/v1/openapi.json", "/nope", "/v1/filter"]


def keyed(tmp_path, *members, role=Role.SERVICE, tenant=None):
    file = key_file(tmp_path)
    token, _ = file.add("a", role, tenant=tenant)
    return parts(*(members or [collection()]), keys=file), token


@pytest.mark.parametrize("path", PATHS)
def test_strangers_are_turned_away_before_anything(tmp_path, path):
    made, _ = keyed(tmp_path)
    with served(made) as client:
        for headers in (
            {},
            {"Authorization": "Bearer"},
            {"Authorization": "Bearer x"},
            {"Authorization": "Basic eDp4"},
        ):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.headers["content-type"] == "application/problem+json"


def test_a_strangers_body_is_not_read(tmp_path):
    made, _ = keyed(tmp_path)

    def body():
        yield b"["
        raise AssertionError("the body was read")

    with served(made) as client:
        # The test client sends what it has; the answer must not depend on it.
        answer = client.post("/v1/filter", content=b"[" * 10_000_000)
    assert answer.status_code == 401


def test_health_needs_no_key_and_says_no_name(tmp_path):
    made, _ = keyed(tmp_path, collection("secret-name", tenant="acme"))
    with served(made) as client:
        assert client.get("/healthz").status_code == 200
        ready = client.get("/readyz")
    assert ready.json() == {"ready": True, "reasons": []}
    assert "secret-name" not in ready.text


@pytest.mark.parametrize(
    ("role", "statuses"),
    [
        (Role.SERVICE, {"filter": 200, "collections": 200, "metrics": 200}),
        (Role.REVIEWER, {"filter": 403, "collections": 200, "metrics": 403}),
        (Role.ADMIN, {"filter": 200, "collections": 200, "metrics": 200}),
    ],
)
def test_roles(tmp_path, role, statuses):
    made, token = keyed(tmp_path, role=role)
    with served(made, token) as client:
        found = {
            "filter": client.post("/v1/filter", json=asked()).status_code,
            "collections": client.get("/v1/collections").status_code,
            "metrics": client.get("/metrics").status_code,
        }
    assert found == statuses


def test_a_revoked_key_ends_at_once_and_an_absent_file_opens_nothing(tmp_path):
    made, token = keyed(tmp_path)
    with served(made, token) as client:
        assert client.get("/v1/collections").status_code == 200
        made.keys.revoke(made.keys.keys()[0].id)
        assert client.get("/v1/collections").status_code == 401
        made.keys.path.unlink()
        assert client.get("/v1/collections").status_code == 401
        made.keys.path.write_text("damaged")
        assert client.get("/v1/collections").status_code == 503
        assert client.get("/readyz").status_code == 503


def test_keys_made_while_it_runs_close_it(tmp_path):
    file = key_file(tmp_path)
    with served(parts(collection(), keys=file)) as client:
        assert client.get("/v1/collections").status_code == 200
        token, _ = file.add("a", Role.SERVICE)
        assert client.get("/v1/collections").status_code == 401
        headers = {"Authorization": f"Bearer {token}"}
        assert client.get("/v1/collections", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example"},
        {"Host": "localhost.rebound.example"},
        {"Host": "127.0.0.1.rebound.example:8713"},
        {"Host": "localhost@rebound.example"},
        {"Host": "[::1"},
        {"Host": ""},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_without_keys_pages_from_elsewhere_are_refused(headers):
    with served(parts(collection())) as client:
        for path in ("/v1/collections", "/healthz", "/desk/login"):
            assert client.get(path, headers=headers).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8713", "LOCALHOST:1", "[::1]:8713"])
def test_without_keys_this_machines_names_are_served(host):
    with served(parts(collection())) as client:
        answer = client.get("/v1/collections", headers={"Host": host})
    assert answer.status_code == 200


@pytest.mark.parametrize("client", [("10.0.0.7", 5), ("203.0.113.1", 5)])
def test_without_keys_other_machines_are_refused(client):
    with served(parts(collection()), client=client) as found:
        assert found.get("/v1/collections").status_code == 403


@pytest.mark.parametrize(
    ("host", "ours"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)]
    + [(name, False) for name in (EVERYWHERE, "::", "", "10.0.0.1", "localhost.example", "1")],
)
def test_what_is_loopback(host, ours):
    assert is_loopback(host) is ours


def test_listening_to_others_needs_an_active_key(tmp_path):
    file = key_file(tmp_path)
    check_reach("127.0.0.1", file)
    with pytest.raises(ConfigError, match="no active key"):
        check_reach(EVERYWHERE, file)
    _, key = file.add("a", Role.SERVICE)
    check_reach(EVERYWHERE, file)
    file.revoke(key.id)
    with pytest.raises(ConfigError):
        check_reach(EVERYWHERE, file)


def test_tenants_do_not_see_each_other(tmp_path):
    file = key_file(tmp_path)
    tokens = {
        name: file.add(name, Role.ADMIN, tenant=name)[0] for name in ("acme", "globex", "nobody")
    }
    tokens["all"] = file.add("all", Role.ADMIN)[0]
    members = [
        collection("a", prefix="a", tenant="acme"),
        collection("g", prefix="g", tenant="globex"),
        collection("shared", prefix="s"),
    ]
    seen = {}
    for name, token in tokens.items():
        with served(parts(*members, keys=file), token) as client:
            found = client.get("/v1/collections").json()["collections"]
            seen[name] = [one["name"] for one in found]
            for own, prefix in (("a", "a"), ("g", "g"), ("shared", "s")):
                answer = client.post("/v1/filter", json=asked(prefix=prefix, collection=own))
                gate = client.post("/v1/gate", json={"collection": own, "documents": [document()]})
                visible = own in seen[name]
                assert answer.status_code == (200 if visible else 404)
                assert gate.status_code == 404
                if not visible:
                    missing = client.post("/v1/filter", json=asked(collection="nothing"))
                    assert answer.json() == missing.json()
    assert seen == {"acme": ["a"], "globex": ["g"], "nobody": [], "all": ["a", "g", "shared"]}


def document(**more):
    return {"id": "n", "text": "words", "embedding": [1.0, 0.0]} | more


def test_no_body_chooses_a_tenant(tmp_path):
    made, token = keyed(tmp_path, collection("a", tenant="acme"), tenant="acme")
    theirs = {"id": "x", "text": "words", "provenance": {"tenant": "globex"}}
    with served(made, token) as client:
        whole = {"query": "q", "candidates": [theirs]}
        answer = client.post("/v1/filter", json=whole)
        assert answer.status_code == 403
        assert answer.json()["errors"][0]["field"] == "candidates[0].provenance.tenant"
        batch = client.post("/v1/filter/batch", json={"requests": [asked(), whole]})
        assert batch.status_code == 403
        assert batch.json()["errors"][0]["field"] == "requests[1].candidates[0].provenance.tenant"
        own = theirs | {"provenance": {"tenant": "acme"}}
        assert (
            client.post("/v1/filter", json={"query": "q", "candidates": [own]}).status_code == 200
        )
        chosen = client.post("/v1/filter", json=asked() | {"tenant": "globex"})
        assert chosen.status_code == 422
        # A tenant's id is not found through another's collection.
        other = client.post("/v1/filter", json=asked(ids=["g1"]))
        assert other.status_code == 422


def test_metrics_are_not_for_a_tenants_key(tmp_path):
    made, token = keyed(tmp_path, collection("a", tenant="acme"), tenant="acme", role=Role.ADMIN)
    with served(made, token) as client:
        assert client.get("/metrics").status_code == 403


def test_several_collections_need_a_name():
    made = parts(collection("a"), collection("b"))
    with served(made) as client:
        answer = client.post("/v1/filter", json=asked())
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "collection"
        assert client.post("/v1/filter", json=asked(collection="b")).status_code == 200


def test_no_key_no_question_and_no_text_reaches_a_log(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    made, token = keyed(tmp_path)
    secret = token.removeprefix("ragsieve_")
    with served(made, token) as client:
        client.post("/v1/filter", json=asked() | {"query": "confidential question"})
        client.get(f"/v1/collections?key={token}")
        client.get(f"/v1/{token}")
        client.get("/v1/collections", headers={"Authorization": f"Basic {token}"})
        client.get("/v1/collections", headers={"Authorization": f"Bearer {token}x"})
        client.post("/v1/filter", content=token, headers={"Content-Type": "application/json"})
        client.post(f"/v1/filter?{token}", json={token: 1})
        counted = samples(client)
    ours = [record for record in caplog.records if record.name.startswith(("ragsieve", "uvicorn"))]
    assert len([one for one in ours if one.name == "ragsieve.service.access"]) == 8
    for record in ours:
        line = record.getMessage() + str(record.args) + str(record.exc_text)
        assert secret not in line
        assert "confidential" not in line
    assert not any(secret in name for name in counted)
    assert 'ragsieve_http_requests_total{method="GET",route="unmatched",status="404"}' in counted
