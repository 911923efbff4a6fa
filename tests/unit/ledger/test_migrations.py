"""An empty database gets its tables, once; one of a later version is refused."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ragsieve.errors import StoreError
from ragsieve.ledger import open_ledger
from ragsieve.ledger.connecting import address_of
from ragsieve.ledger.schema import METADATA
from ragsieve.ledger.upgrading import VERSION_TABLE
from unit.ledger.building import finished, tamper, worker


def tables(url):
    engine = sa.create_engine(address_of(url))
    try:
        return set(sa.inspect(engine).get_table_names())
    finally:
        engine.dispose()


def test_the_steps_lead_to_the_tables_the_code_uses(empty_url):
    assert tables(empty_url) == set()
    open_ledger(empty_url, actor="mara").close()
    assert tables(empty_url) == set(METADATA.tables) | {VERSION_TABLE}
    engine = sa.create_engine(address_of(empty_url))
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={"version_table": VERSION_TABLE, "compare_type": True},
        )
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


def test_the_comparison_would_see_a_difference(empty_url):
    open_ledger(empty_url, actor="mara").close()
    changed = sa.MetaData()
    for table in METADATA.tables.values():
        table.to_metadata(changed)
    changed.tables["ledger_audit"].append_column(sa.Column("more", sa.Text))
    engine = sa.create_engine(address_of(empty_url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert len(compare_metadata(context, changed)) == 1
    engine.dispose()


def test_opening_again_changes_nothing(ledger_url):
    before = tables(ledger_url)
    with open_ledger(ledger_url, actor="mara") as ledger:
        ledger.audit.add("login", "mara", {})
    with open_ledger(ledger_url, actor="mara") as ledger:
        assert ledger.audit.verify().entries == 1
    assert tables(ledger_url) == before


def test_a_later_version_is_refused_and_untouched(ledger_url):
    tamper(ledger_url, "UPDATE ledger_schema SET version_num = '9999'")
    with pytest.raises(StoreError, match="'9999', which this ragsieve does not know"):
        open_ledger(ledger_url, actor="mara")
    with pytest.raises(StoreError, match="install a newer ragsieve"):
        open_ledger(ledger_url, actor="mara")


def test_a_step_that_fails_leaves_nothing(empty_url):
    engine = sa.create_engine(address_of(empty_url))
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE ledger_truth_checks (mine INTEGER)"))
    engine.dispose()
    with pytest.raises(StoreError, match="already exists"):
        open_ledger(empty_url, actor="mara")
    assert tables(empty_url) == {"ledger_truth_checks"}


OPENING = """
print("ready", flush=True)
sys.stdin.readline()
ledger = open_ledger(sys.argv[1], actor=sys.argv[2])
ledger.audit.add("login", sys.argv[2], {})
"""


def test_processes_that_open_a_new_ledger_at_once(empty_url):
    processes = [worker(OPENING, empty_url, f"process {number}") for number in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        finished(process)
    with open_ledger(empty_url, actor="mara") as ledger:
        assert ledger.audit.verify().entries == 2
