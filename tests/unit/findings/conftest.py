from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

SCHEMAS = Path(__file__).parents[2] / "schemas"


def validator(name):
    schema = json.loads((SCHEMAS / name).read_text("utf-8"))
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


@pytest.fixture(scope="session")
def sarif_schema():
    return validator("sarif-2.1.0.json")


@pytest.fixture(scope="session", params=["1.8.0", "1.9.0"])
def ocsf_schema(request):
    return validator(f"ocsf-{request.param}-detection_finding.json")
