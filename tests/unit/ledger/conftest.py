"""A new ledger for each test; the PostgreSQL tests run the same ones with other addresses."""

from __future__ import annotations

import shutil

import pytest

from ragsieve.ledger import open_ledger
from unit.ledger.building import Clock


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    open_ledger(f"sqlite:///{path}", actor="nobody").close()
    return path


@pytest.fixture
def empty_url(tmp_path):
    """A database without tables."""
    return f"sqlite:///{tmp_path / 'empty.db'}"


@pytest.fixture
def ledger_url(made_once, tmp_path):
    """A ledger in which nothing is written yet."""
    shutil.copy(made_once, tmp_path / "ledger.db")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger(ledger_url, clock):
    with open_ledger(ledger_url, actor="mara", clock=clock) as opened:
        yield opened
