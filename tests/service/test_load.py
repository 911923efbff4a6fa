"""A real server under load for some seconds: nothing fails, decisions are right, memory stays.

The long run is ``python benchmarks/service_load.py``; docs/service.md has its figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.contract

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "service_load.py"
SECONDS = 12
MOST_GROWTH_MIB = 24.0


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("load") / "figures.json"
    size = ["--documents", "800", "--rankings", "120", "--seconds", str(SECONDS)]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *size, "--json", str(path)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
    )
    assert path.exists(), done.stderr
    return json.loads(path.read_text()) | {"program": done.returncode}


def test_every_answer_is_right(found):
    assert found["program"] == 0
    assert set(found["statuses"]) == {"200"}
    assert found["server_errors"] == found["connection_errors"] == found["different"] == 0
    assert found["compared"] > 100
    assert found["requests"] > 20 * SECONDS


def test_memory_does_not_grow(found):
    """presidio#2033: a service that grew by gigabytes."""
    sizes = [size for _, size in found["rss_mib"]]
    assert found["requests"] > 2 * found["rankings"]
    assert sizes[-1] - sizes[0] < MOST_GROWTH_MIB, sizes


def test_findings_are_kept_and_retrievals_counted_meanwhile(found):
    service, ledger = found["service"], found["ledger"]
    assert ledger["findings"] > 0
    assert ledger["audit_intact"]
    assert service["ragsieve_exposures_dropped_total"] == 0
    # However often it was retrieved, a finding is kept once.
    assert ledger["findings"] < service["ragsieve_query_candidates_removed_total"] / 5
    assert ledger["log_errors"] == {}


def test_it_ends_when_told(found):
    assert found["exit_code"] == 0
