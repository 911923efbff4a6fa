"""PostgreSQL with pgvector: one server for all tests, one database for each collection."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import uuid

from stores.makers import Maker
from stores.postgres import new_database, running_server

_numbers = itertools.count()


@functools.cache
def server():
    """The server of this run; stopped at its end."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(running_server())


def database():
    """The URL of a new database with pgvector."""
    return new_database(server().url(), f"d{next(_numbers)}")


def store_address(url, table="docs", **options):
    """The address of a table for `open_store`, of a database by its URL."""
    query = "&".join(f"{name}={value}" for name, value in {"table": table, **options}.items())
    return f"{url}&{query}"


def _text(vector):
    return f"[{','.join(map(repr, map(float, vector)))}]"


def create_plain(folder, rows):
    """Text ids, all metadata in one column, an index for the cosine."""
    import psycopg

    url = database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE docs (id text PRIMARY KEY, text text, embedding vector(16), metadata jsonb)"
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO docs VALUES (%s, %s, %s, %s)",
                [(r.id, r.text, _text(r.vector), json.dumps(dict(r.metadata))) for r in rows],
            )
        connection.execute("CREATE INDEX ON docs USING hnsw (embedding vector_cosine_ops)")
    return store_address(url)


def create_columns(folder, rows):
    """Uuids, metadata in columns, an awkward schema, ivfflat for the inner product."""
    import psycopg

    url = database()
    table = '"Re: a%s".docs'
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "Re: a%s"')
        connection.execute(
            f'CREATE TABLE {table} (n serial, "my id" uuid PRIMARY KEY, content text NOT NULL, '
            "emb vector, title text, source varchar(20), page int, weight float8, draft boolean, "
            "tokens tsvector GENERATED ALWAYS AS (to_tsvector('simple', left(content, 100))) STORED)"
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                # Formatted by the driver: a name of the table holds a percent sign.
                f"INSERT INTO {table.replace('%', '%%')} "  # noqa: S608
                '("my id", content, emb, title, source, page, weight, draft) '
                "VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                [
                    (r.id, r.text, _text(r.vector), *(r.metadata[key] for key in COLUMNS))
                    for r in rows
                ],
            )
        connection.execute(f"ALTER TABLE {table} DROP COLUMN n")
        connection.execute(f"ALTER TABLE {table} ALTER emb TYPE vector(16)")
        connection.execute(f"CREATE INDEX ON {table} USING ivfflat (emb vector_ip_ops)")
    return store_address(url, "docs", schema="Re%3A%20a%25s", id="my%20id", text="content")


COLUMNS = ("title", "source", "page", "weight", "draft")


def uuids(count):
    return [str(uuid.UUID(int=(number + 1) << 64, version=4)) for number in range(count)]


def native_search(connector, vector, depth, filtered):
    """As a user would: one query with the condition in it."""
    layout = connector.layout()
    # What is probed of an index is not what is tested here.
    lines = ("SET enable_indexscan = off", nearest_sql(layout, vector, depth, filtered))
    with connector.connect() as connection:
        for line in lines:
            found = connection.execute(line)
        return [name for (name,) in found]


def nearest_sql(layout, vector, depth, filtered):
    return (
        f'SELECT "{layout.id.name}"::text FROM "{layout.schema}"."{layout.table}" '  # noqa: S608
        f'WHERE {filtered} ORDER BY "{layout.vector.name}" {layout.operator} '
        f"'{_text(vector)}'::vector LIMIT {depth}"
    )


MAKERS = [
    Maker("postgresql", create_plain, native_search),
    Maker(
        "postgresql-columns",
        create_columns,
        native_search,
        ids=uuids,
        unknown_id=str(uuid.UUID(int=7, version=4)),
    ),
]
