"""PostgreSQL with pgvector, beyond the contract that all stores keep."""

from __future__ import annotations

import dataclasses
import datetime
import json
import threading
import time

import numpy as np
import pytest

from ragsieve.connectors import open_store, parse_address
from ragsieve.connectors.contract import BundledRow
from ragsieve.connectors.hashing import row_sha256, same_row
from ragsieve.errors import ConfigError, StoreError
from stores.makers import make_rows
from stores.makers_pgvector import MAKERS, create_plain, database, server, store_address
from stores.postgres import new_database, running_server
from stores.snippets import run_snippet

pytestmark = pytest.mark.stores
NOW = datetime.datetime(2026, 5, 4, 3, 2, 1, tzinfo=datetime.UTC)


def execute(url, *statements, values=None):
    """Run statements; what the last one found."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def url_of(address):
    where = parse_address(address)
    return f"postgresql://postgres@/{where.database}?host={where.option('host')}"


def hide(store, ids, *, reason="why", scan="scan-1"):
    return store.quarantine(ids, reason=reason, scan_id=scan, since=NOW)


@pytest.fixture
def opened(tmp_path, request):
    def make(count=40):
        rows = make_rows(MAKERS[0], count)
        address = create_plain(tmp_path, rows)
        store = open_store(address)
        request.addfinalizer(store.close)
        return rows, store, url_of(address)

    return make


@pytest.fixture
def table(request):
    """An open store over a table made by SQL."""

    def make(*statements, **options):
        url = database()
        execute(url, *statements)
        store = open_store(store_address(url, **options))
        request.addfinalizer(store.close)
        return store, url

    return make


def test_the_columns_come_with_the_first_quarantine_and_not_before(opened):
    rows, store, url = opened(5)
    columns = (
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE column_name LIKE 'ragsieve%' ORDER BY 1"
    )
    store.fingerprint(), list(store.pages()), store.search(rows[0].vector, depth=2)
    assert store.retrieval_filter() == "TRUE"
    assert hide(store, ["nobody"]) == ()
    assert execute(url, columns) == []
    hide(store, ["d00001"])
    assert execute(url, columns) == [
        ("ragsieve_quarantined_at", "timestamp with time zone"),
        ("ragsieve_reason", "text"),
        ("ragsieve_scan", "text"),
    ]
    assert execute(
        url,
        "SELECT id, ragsieve_quarantined_at, ragsieve_reason FROM docs WHERE ragsieve_scan <> ''",
    ) == [("d00001", NOW, "why")]


def test_the_documented_snippet_leaves_hidden_rows_out(opened):
    import psycopg

    rows, store, url = opened(30)
    hide(store, ["d00003", "d00004"])
    with psycopg.connect(url) as connection:
        # A server keeps its address for itself: the documentation opens it anew.
        names = run_snippet(
            "PostgreSQL with pgvector",
            address=store_address(url),
            connection=connection,
            query=rows[3].vector.tolist(),
        )
    names["store"].close()
    assert names["served"] == '"ragsieve_quarantined_at" IS NULL'
    found = [name for name, _ in names["nearest"]]
    assert len(found) == 20
    assert not {"d00003", "d00004"} & set(found)


def test_a_filtered_index_search_keeps_its_depth(opened):
    """As plastic-labs/honcho#1048: a filtered HNSW silently returns fewer than k."""
    rows, store, url = opened(3_000)
    query = rows[0].vector
    near = [row.id for row, _ in store.search(query, depth=1_500)]
    assert len(near) == 1_500
    hide(store, near)
    execute(url, "VACUUM ANALYZE docs")
    served = store.retrieval_filter()
    plain = f"SELECT id FROM docs WHERE {served} ORDER BY embedding <=> '{query.tolist()}' LIMIT 20"  # noqa: S608
    # What a user gets who forgets about it: the index is asked, and nothing is left.
    assert (
        len(execute(url, "SET hnsw.iterative_scan = off", "SET enable_seqscan = off", plain)) < 20
    )
    found = store.search(query, depth=20)
    assert len(found) == 20
    assert not {row.id for row, _ in found} & set(near)
    assert [value for _, value in found] == sorted(value for _, value in found)


def test_nul_and_surrogates(opened):
    """As deepset-ai/haystack#7592: NUL aborts the batch."""
    _, store, _ = opened(5)
    assert hide(store, ["d00001", "a\0b", "\ud800"], reason="b`\0`er \ud800") == ("d00001",)
    (mark,) = store.marks()
    assert mark.reason == "b`\u2400`er \\ud800"
    bundle = store.export(["d00002", "d00003"])
    store.delete(bundle)
    for text, words in (("b`\0`er", "NUL"), ("\ud800", "surrogate")):
        row = dataclasses.replace(bundle.rows[1].row, text=text)
        items = (bundle.rows[0], BundledRow(row, row_sha256(row), None))
        with pytest.raises(StoreError, match=words):
            store.restore(dataclasses.replace(bundle, rows=items))
    # All or nothing: the row before it is not there either.
    assert store.fingerprint().count == 3
    assert store.restore(bundle) == ("d00002", "d00003")


def test_a_database_that_is_gone_and_back():
    with running_server() as own:
        url = new_database(own.url(), "gone")
        execute(
            url,
            "CREATE TABLE docs (id int PRIMARY KEY, text text, embedding vector(2))",
            "INSERT INTO docs SELECT n, 'text', '[1,2]' FROM generate_series(1, 3000) n",
        )
        store = open_store(store_address(url))
        assert hide(store, ["7"]) == ("7",)
        pages = store.pages(100)
        assert len(next(pages)) == 100
        own.stop("immediate")
        with pytest.raises(StoreError, match="reading all rows failed"):
            list(pages)
        for call in (
            store.fingerprint,
            store.marks,
            lambda: hide(store, ["8"]),
            lambda: store.search(np.ones(2), depth=3),
            lambda: next(store.pages()),
        ):
            with pytest.raises(StoreError, match="failed"):
                call()
        own.start()
        assert hide(store, ["7", "8"]) == ("8",)
        assert [mark.id for mark in store.marks()] == ["7", "8"]
        assert store.fingerprint().count == 3_000
        store.close()


def test_a_connection_that_was_cut_is_made_anew(opened):
    _, store, url = opened(5)
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'ragsieve' AND datname = current_database()"
    )
    assert execute(url, cut) == [(True,)]
    with pytest.raises(StoreError):
        store.marks()
    assert hide(store, ["d00001"]) == ("d00001",)


def test_two_writers_at_once_hide_nothing_twice(opened):
    rows, store, url = opened(400)
    other = open_store(store_address(url))
    ids = [row.id for row in rows]
    changed = {}

    def work(name, writer, wanted):
        changed[name] = hide(writer, wanted, scan=name)

    threads = [
        threading.Thread(target=work, args=("one", store, ids[:300])),
        threading.Thread(target=work, args=("two", other, ids[:99:-1])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(changed["one"] + changed["two"]) == ids
    assert {mark.id: mark.scan_id for mark in store.marks()} == {
        name: scan for scan, names in changed.items() for name in names
    }
    other.close()


def test_adding_columns_gives_up_instead_of_blocking_everybody(opened, monkeypatch):
    import psycopg

    monkeypatch.setattr("ragsieve.connectors.pgvector.LOCK_SECONDS", 1)
    _, store, url = opened(3)
    with psycopg.connect(url) as reader:
        reader.execute("SELECT 1 FROM docs").fetchall()
        began = time.monotonic()
        with pytest.raises(StoreError, match="adding the columns"):
            hide(store, ["d00001"])
        assert time.monotonic() - began < 8
    assert store.marks() == ()
    assert hide(store, ["d00001"]) == ("d00001",)


def test_privileges_are_those_documented(opened):
    _, store, url = opened(5)
    execute(
        url,
        "CREATE ROLE reader LOGIN",
        "CREATE ROLE keeper LOGIN",
        "GRANT SELECT ON docs TO reader, keeper",
    )
    as_role = {
        name: open_store(store_address(url.replace("postgres@", f"{name}@")))
        for name in ("reader", "keeper")
    }
    reader, keeper = as_role["reader"], as_role["keeper"]
    assert len(next(reader.pages())) == 5
    with pytest.raises(StoreError, match=r"not allowed .*docs/stores-more.md"):
        hide(reader, ["d00001"])
    store.prepare()
    execute(
        url,
        "GRANT UPDATE (ragsieve_quarantined_at, ragsieve_reason, ragsieve_scan) ON docs TO keeper",
    )
    with pytest.raises(StoreError, match="hiding rows is not allowed"):
        hide(reader, ["d00001"])
    assert hide(keeper, ["d00001"]) == ("d00001",)
    assert keeper.release(["d00001"]) == ("d00001",)
    with pytest.raises(StoreError, match="deleting rows is not allowed"):
        keeper.delete(keeper.export(["d00002"]))
    assert store.fingerprint().count == 5
    for opened_store in as_role.values():
        opened_store.close()
    execute(url, "DROP OWNED BY reader, keeper", "DROP ROLE reader, keeper")


def test_every_column_comes_back_as_it_was(table):
    store, url = table(
        "CREATE TYPE mood AS ENUM ('fine', 'it''s')",
        "CREATE TABLE docs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text, "
        "embedding vector(3), meta jsonb, made timestamptz, price numeric, tags text[], raw bytea, "
        "f4 real, f8 double precision, how mood, more json, code char(5), "
        'long int GENERATED ALWAYS AS (length(text)) STORED, "a%s {b}"" c" varchar(9), day date, '
        "gap interval)",
        "INSERT INTO docs (text, embedding, meta, made, price, tags, raw, f4, f8, how, more, code, "
        '"a%s {b}"" c", day, gap) VALUES '
        """('one', '[0.1,2,3e-30]', '{"source": "wiki", "n": [1, {"x": null}], "f": 1.5}',
            '2026-01-02 03:04:05.678901+02', 1.50, '{"a,b","{}",NULL}', '\\x00ff', 0.1, 'NaN', 'it''s',
            '{"b":1}', 'ab', 'x', '2026-02-03', '1 day 02:00'),
           (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '-Infinity', NULL, NULL, NULL, NULL, NULL, NULL),
           ('three', '[0,0,0]', '{"text": "forged", "made": 1, "meta": 2}', now(), 'NaN', '{}', '', 1e-40, 0.1,
            'fine', '[1]', 'q', '', 'infinity', '-3 months'),
           ('four', '[1,1,1]', '[1, 2]', now(), 1e300, '{}', '', 3.4e38, 1e-320, 'fine', '"s"', '', '', NULL, NULL)
        """,
    )
    whole = "SELECT to_jsonb(d) #- '{ragsieve_scan}' FROM docs d ORDER BY id"
    hide(store, ["1"])
    before = execute(url, "SET extra_float_digits = 1", whole)
    rows = {row.id: row for row in store.fetch(["1", "2", "3", "4"])}
    assert rows["1"].metadata["source"] == "wiki"
    assert rows["1"].metadata["made"] == "2026-01-02 01:04:05.678901+00"
    assert rows["1"].metadata["price"] == "1.50"
    assert "long" not in rows["1"].metadata
    assert (rows["2"].text, rows["2"].vector) == ("", None)
    # A key of a document cannot pass for a column.
    assert rows["3"].text == "three"
    assert rows["3"].metadata["meta"] == {"text": "forged", "made": 1, "meta": 2}
    assert rows["4"].metadata["meta"] == [1, 2]
    bundle = store.export(["1", "2", "3", "4"])
    assert store.delete(bundle) == ("1", "2", "3", "4")
    assert execute(url, whole) == []
    assert store.restore(bundle) == ("1", "2", "3", "4")
    assert execute(url, "SET extra_float_digits = 1", whole) == before
    assert [mark.id for mark in store.marks()] == ["1"]


@pytest.mark.parametrize(
    ("kind", "value", "lossy"),
    [
        ("vector(4)", "[0.1,-2,0,4e-20]", False),
        ("halfvec(4)", "[0.1,-2,0,4]", True),
        ("sparsevec(4)", "{1:0.1,4:-2}/4", False),
        ("bit(4)", "1010", True),
    ],
)
def test_types_of_vectors(table, kind, value, lossy):
    store, url = table(
        f"CREATE TABLE docs (id int PRIMARY KEY, text text, embedding {kind})",
        f"INSERT INTO docs VALUES (1, 'a', '{value}'), (2, 'b', '{value}')",  # noqa: S608
    )
    able = store.capabilities()
    assert able.lossy_vectors is lossy
    assert any("embeddings" in note for note in able.notes) is lossy
    (row,) = store.fetch(["1"])
    assert row.vector.shape == (4,)
    assert row.vector.dtype == np.float32
    bundle = store.export(["1"])
    store.delete(bundle)
    store.restore(bundle)
    assert execute(url, "SELECT count(DISTINCT embedding::text) FROM docs") == [(1,)]
    assert same_row(store.fetch(["1"])[0], row, tolerance=0)
    assert [row.id for row, _ in store.search(row.vector, depth=5)] in (["1", "2"], ["2", "1"])


@pytest.mark.parametrize(
    ("index", "options", "distance"),
    [
        ("hnsw (embedding vector_l2_ops)", {}, "l2"),
        ("hnsw (embedding vector_ip_ops)", {}, "ip"),
        ("ivfflat (embedding vector_cosine_ops)", {}, "cosine"),
        ("hnsw (embedding vector_l2_ops)", {"distance": "cosine"}, "cosine"),
        ("btree (text)", {}, "cosine"),
    ],
)
def test_the_distance_is_that_of_the_index(table, index, options, distance):
    store, _ = table(
        "CREATE TABLE docs (id int PRIMARY KEY, text text, embedding vector(2))",
        "INSERT INTO docs VALUES (1, 'far along', '[9,0]'), (2, 'near', '[1,0.5]'), (3, 'none', NULL), "
        "(4, 'zero', '[0,0]')",
        f"CREATE INDEX ON docs USING {index}",
        **options,
    )
    assert store.layout().distance == distance
    found = [row.id for row, _ in store.search(np.array([1.0, 0.0]), depth=9)]
    # Without a distance a row is nobody's neighbour: NULL never, zeros not by the cosine.
    assert found == {"l2": ["2", "4", "1"], "ip": ["1", "2", "4"], "cosine": ["1", "2"]}[distance]


@pytest.mark.parametrize(
    ("kind", "ids", "others"),
    [
        ("int", ["1", "-5"], ["01", "1.0", "+1", " 1", "1e0", "99999999999", "-", "", "\u0661"]),
        ("smallint", ["1", "-32768"], ["32768", "99999"]),
        ("varchar(20)", ["a", 'it\'s "%s" {x}', "Ünï"], ["A", "a ", "\0"]),
        (
            "uuid",
            ["6b1e3c5a-0000-4000-8000-000000000001"],
            ["6B1E3C5A-0000-4000-8000-000000000001", "{6b1e3c5a-0000-4000-8000-000000000001}", "x"],
        ),
    ],
)
def test_ids_are_strings_and_back(table, kind, ids, others):
    store, url = table(f"CREATE TABLE docs (id {kind} PRIMARY KEY, text text, embedding vector(1))")
    for name in ids:
        execute(url, "INSERT INTO docs VALUES (%s, 'text', '[1]')", values=[name])
    assert sorted(row.id for row in store.fetch([*others, *ids])) == sorted(ids)
    assert store.fetch(others) == ()
    assert hide(store, [*others, *ids]) == tuple(ids)
    assert store.release([*others, *ids]) == tuple(ids)
    bundle = store.export(ids)
    assert store.delete(bundle) == tuple(ids)
    assert store.restore(bundle) == tuple(ids)
    row = dataclasses.replace(bundle.rows[0].row, id=others[0])
    wrong = dataclasses.replace(bundle, rows=(BundledRow(row, row_sha256(row), None),))
    if kind != "varchar(20)":
        with pytest.raises(StoreError, match="cannot be an id"):
            store.restore(wrong)


def test_rows_on_which_others_hang_are_not_deleted(table):
    store, url = table(
        "CREATE TABLE docs (id int PRIMARY KEY, text text, embedding vector(1))",
        "CREATE TABLE notes (doc int REFERENCES docs ON DELETE CASCADE)",
        "INSERT INTO docs VALUES (1, 'a', '[1]')",
        "INSERT INTO notes VALUES (1)",
    )
    assert not store.capabilities().deletes
    with pytest.raises(StoreError, match="notes"):
        store.delete(store.export(["1"]))
    assert execute(url, "SELECT count(*) FROM notes") == [(1,)]
    assert hide(store, ["1"]) == ("1",)


def test_names_are_never_read_as_sql(table):
    name = '"docs""; DROP TABLE kept; --"'
    store, url = table(
        "CREATE TABLE kept (id int)",
        f'CREATE TABLE {name} (";id""" int PRIMARY KEY, "te%%xt{{}}" text, "v\'" vector(1), "; m" jsonb)',
        f"INSERT INTO {name} VALUES (1, 'a', '[1]', '{{\"k\": 1}}')",  # noqa: S608
        table="docs%22%3B%20DROP%20TABLE%20kept%3B%20--",
        id="%3Bid%22",
        text="te%25%25xt%7B%7D",
        vector="v%27",
        metadata="%3B%20m",
    )
    assert hide(store, ["1"]) == ("1",)
    bundle = store.export(["1"])
    assert dict(bundle.rows[0].row.metadata) == {"k": 1}
    store.delete(bundle)
    assert store.restore(bundle) == ("1",)
    store.release(["1"])
    assert [row.text for row, _ in store.search(np.ones(1), depth=3)] == ["a"]
    assert execute(url, "SELECT count(*) FROM kept") == [(0,)]


@pytest.mark.parametrize(
    ("create", "options", "words"),
    [
        ("CREATE TABLE other (id int)", {}, "no table"),
        ("CREATE VIEW docs AS SELECT 1 AS id, 'a' AS text", {}, "is no table"),
        ("CREATE TABLE docs (id int PRIMARY KEY, text text)", {}, "vector"),
        ("CREATE TABLE docs (id int, text text, v vector(1))", {"id": "id"}, "not unique"),
        ("CREATE TABLE docs (id int UNIQUE, text text, v vector(1))", {"id": "id"}, "not null"),
        ("CREATE TABLE docs (id int PRIMARY KEY, words text, v vector(1))", {}, "words text"),
        (
            "CREATE TABLE docs (id int PRIMARY KEY, text text, v vector(1), w vector(1))",
            {},
            "several",
        ),
        ("CREATE TABLE docs (id int PRIMARY KEY, text text, v vector(1))", {"text": "v"}, "'v'"),
        ("CREATE TABLE docs (id date PRIMARY KEY, text text, v vector(1))", {}, "could be the id"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_what_to_do(table, create, options, words):
    with pytest.raises(StoreError, match=words):
        table(create, **options)


def test_options_that_cannot_be(table):
    create = "CREATE TABLE docs (id int PRIMARY KEY, text text, v vector(1))"
    with pytest.raises(ConfigError, match="cosine"):
        table(create, distance="near")


def test_an_error_shows_no_secret(tmp_path):
    address = f"postgresql://someone:s3cret-word@/db?host={tmp_path}&table=docs"
    with pytest.raises(StoreError) as caught:
        open_store(address)
    assert "s3cret" not in str(caught.value)
    assert "someone" not in parse_address(address).public


def test_pages_show_one_moment(opened):
    rows, store, url = opened(50)
    pages = store.pages(10)
    seen = [row.id for row in next(pages)]
    execute(
        url,
        "DELETE FROM docs WHERE id > 'd00020'",
        "UPDATE docs SET text = 'other' WHERE id = 'd00015'",
        "INSERT INTO docs SELECT 'new', text, embedding, metadata FROM docs LIMIT 1",
        "ALTER TABLE docs DROP COLUMN metadata",
    )
    rest = [row for page in pages for row in page]
    assert seen + [row.id for row in rest] == [row.id for row in rows]
    assert {row.id: row.text for row in rest}["d00015"] == rows[15].text


def test_the_server_is_shared_and_the_tables_of_frameworks_are_understood(table):
    assert server() is server()
    store, _ = table(
        "CREATE TABLE langchain_pg_embedding (id varchar PRIMARY KEY, collection_id uuid, "
        "embedding vector, document varchar, cmetadata jsonb)",
        "INSERT INTO langchain_pg_embedding VALUES ('a', NULL, '[1,2]', 'text', '{\"source\": \"s\"}')",
        table="langchain_pg_embedding",
    )
    (row,) = store.fetch(["a"])
    assert row.text == "text"
    assert json.loads(json.dumps(row.metadata)) == {"source": "s", "collection_id": None}
