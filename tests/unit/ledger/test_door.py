"""The door stays light, and says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ragsieve.errors import ConfigError, MissingExtraError
from ragsieve.ledger import open_ledger
from unit.ledger.building import start


@pytest.mark.parametrize("module", ["sqlalchemy", "alembic"])
def test_without_the_extra_it_says_how_to_get_it(monkeypatch, tmp_path, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ragsieve\[ledger\]'"):
        open_ledger(str(tmp_path / "ledger.db"), actor="mara")
    assert list(tmp_path.iterdir()) == []


def test_without_postgresqls_driver_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match="psycopg") as caught:
        open_ledger("postgresql://mara:hunter2@db.example/ledger", actor="mara")
    assert "hunter2" not in str(caught.value)


def test_keywords_with_a_password_are_not_taken_for_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="list of keywords") as caught:
        open_ledger("host=db user=mara password=hunter2", actor="mara")
    assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_its_records_need_no_database():
    code = (
        "import sys; import ragsieve.ledger.records, ragsieve.ledger.reports, "
        "ragsieve.ledger.faults; print([m for m in ('sqlalchemy', 'alembic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_one_ledger_in_several_names(ledger):
    with ledger.acting_as("nils") as other:
        assert other.actor == "nils"
        other.scans.begin(start())
    # What one lets go of, the other takes up again.
    assert ledger.scans.get("s1").actor == "nils"
    assert ledger.audit.entries()[0].actor == "nils"
    assert repr(ledger) == f"Ledger({ledger.address!r}, actor='mara')"
    ledger.close()
    ledger.close()
