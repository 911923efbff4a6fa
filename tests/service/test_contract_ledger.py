"""Generated requests against the routes that a ledger adds: scans and findings.

Needs schemathesis: ``.venvs/service/bin/pytest -m contract tests/service``.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.contract

OPERATIONS = [
    ("/v1/scans", "POST"),
    ("/v1/scans", "GET"),
    ("/v1/scans/{scan_id}", "GET"),
    ("/v1/scans/{scan_id}/cancel", "POST"),
    ("/v1/findings", "GET"),
    ("/v1/findings/export", "GET"),
]
EXAMPLES = 30


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    from ragsieve.service.app import create_app
    from ragsieve.service.keys import KeyFile, Role
    from unit.service.keeping import Kept

    folder = tmp_path_factory.mktemp("ledger")
    keys = KeyFile(folder / "keys.json")
    token, _ = keys.add("contract", Role.ADMIN)
    return create_app(Kept(folder).parts(keys)), token


@pytest.fixture(scope="module")
def description(made):
    import schemathesis

    app, token = made
    headers = {"Authorization": f"Bearer {token}"}
    return schemathesis.openapi.from_asgi("/v1/openapi.json", app, headers=headers)


@pytest.mark.parametrize("kind", ["positive", "negative"])
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_answers_keep_to_the_description(made, description, path, method, kind):
    from hypothesis import HealthCheck, given, settings
    from schemathesis import GenerationMode, checks

    _, token = made
    mode = GenerationMode.POSITIVE if kind == "positive" else GenerationMode.NEGATIVE
    seen = []

    @given(case=description[path][method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    def generated(case):
        case.headers["Authorization"] = f"Bearer {token}"
        answer = case.call()
        seen.append(answer.status_code)
        # Without a lifespan no job runs: 503 is what the description promises then.
        if (path, method, answer.status_code) == ("/v1/scans", "POST", 503):
            return
        case.validate_response(
            answer,
            checks=[
                checks.not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_headers_conformance,
                checks.response_schema_conformance,
            ],
        )

    generated()
    assert seen
    assert 500 not in seen
