"""Generated requests against the service's own description of itself.

Needs schemathesis: ``.venvs/service/bin/pytest -m contract tests/service``.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.contract

POSTS = ["/v1/filter", "/v1/filter/batch", "/v1/gate"]
GETS = ["/healthz", "/readyz", "/metrics", "/v1/collections"]
PATHS = [*GETS, *POSTS]
EXAMPLES = 120
# A valid form may still name what is not there: an unknown id, a known newcomer.
EXPECTED = {"200", "404", "422"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    from ragsieve.service.app import create_app
    from ragsieve.service.keys import KeyFile, Role
    from unit.service.making import collection, parts

    keys = KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")
    token, _ = keys.add("contract", Role.ADMIN)
    return create_app(parts(collection(state=True), keys=keys)), token


@pytest.fixture(scope="module")
def description(made):
    import schemathesis

    app, token = made
    headers = {"Authorization": f"Bearer {token}"}
    return schemathesis.openapi.from_asgi("/v1/openapi.json", app, headers=headers)


def test_every_route_is_described(description):
    found = {one.ok().path for one in description.get_all_operations()}
    assert found == set(PATHS)


@pytest.mark.parametrize(
    ("path", "kind"),
    [(path, "positive") for path in PATHS] + [(path, "negative") for path in POSTS],
)
def test_answers_keep_to_the_description(made, description, path, kind):
    from hypothesis import HealthCheck, given, settings
    from schemathesis import GenerationMode, checks

    _, token = made
    mode = GenerationMode.POSITIVE if kind == "positive" else GenerationMode.NEGATIVE
    method = "POST" if path in POSTS else "GET"
    operation = description[path][method]
    seen = []

    def refusing(answer):
        return kind == "negative" and answer.status_code != 413

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES if method == "POST" else 10,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    def generated(case):
        case.headers["Authorization"] = f"Bearer {token}"
        answer = case.call()
        seen.append(str(answer.status_code))
        case.validate_response(
            answer,
            checks=[
                checks.not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_headers_conformance,
                checks.response_schema_conformance,
                # Larger than any body may be is a refusal too, which the check does not know.
                *([checks.negative_data_rejection] if refusing(answer) else []),
            ],
        )
        if kind == "positive":
            assert str(answer.status_code) in EXPECTED

    generated()
    assert seen


@pytest.mark.parametrize("path", [path for path in PATHS if path not in {"/healthz", "/readyz"}])
def test_no_route_answers_without_a_key(made, path):
    from fastapi.testclient import TestClient

    app, _ = made
    with TestClient(app) as client:
        for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
            assert client.request(method, path).status_code == 401
