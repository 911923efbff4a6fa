from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsieve.connectors.address import SCHEMES, Fields, StoreAddress, parse_address, truth_of
from ragsieve.errors import ConfigError

EXAMPLES = [
    "chroma://localhost:8000/docs",
    "chroma:///srv/chroma?collection=docs",
    "qdrant://localhost:6333/docs",
    "qdrant:///srv/q%20d?collection=my%20docs&title=head.line",
    "qdrant://localhost/docs?text=page_content&vector=dense",
    "lancedb:///srv/lance?author=by&id=key&table=docs",
    "postgresql://localhost:5432/rag?schema=public&table=docs",
    "postgresql:///rag?host=/run/postgresql&table=docs",
    "faiss:///srv/i.faiss?texts=/srv/rows.jsonl",
    "milvus:///srv/milvus.db?collection=docs",
    "milvus://[::1]:19530/docs",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_address_is_shown_as_it_was_written(text):
    assert parse_address(text).public == text


def test_parts():
    address = parse_address(
        "postgresql://ann:p%40ss%2Fw@db.example:5433/rag?table=docs&title=t&id=k"
    )
    assert address == StoreAddress(
        "postgresql",
        "docs",
        host="db.example",
        port=5433,
        database="rag",
        fields=Fields(title="t"),
        options=(("id", "k"),),
        user="ann",
        secret="p@ss/w",  # noqa: S106
    )
    keyed = StoreAddress("qdrant", "docs", host="h", secret="KEY")  # noqa: S106
    assert parse_address("qdrant://:KEY@h/docs") == keyed
    assert parse_address("chroma:///a/../b//c/?collection=docs").path == "/b/c"
    assert parse_address("chroma:////etc?collection=docs").path == "/etc"
    assert parse_address("chroma://h/docs?ssl=true").option("ssl") == "true"
    assert parse_address("chroma://h/docs").option("ssl") is None


@pytest.mark.parametrize("host", ["ann:hunter2@db:5432", "ann:hunter2@[::1]:5432"])
def test_secrets_are_nowhere(host):
    address = parse_address(f"postgresql://{host}/rag?table=docs")
    for shown in (address.public, str(address), repr(address), f"{address}"):
        assert "hunter2" not in shown
        assert "ann" not in shown
    assert address.secret is not None
    again = parse_address(address.public)
    assert again == dataclasses.replace(address, user=None, secret=None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("docs.jsonl", "begins with"),
        ("weaviate://hunter2@h/docs", "begins with"),
        ("chroma:///srv", "collection"),
        ("chroma:///?collection=docs", "absolute path"),
        ("chroma://h:8000/", "collection after the host"),
        ("chroma://h/a/b", "collection after the host"),
        ("chroma://h/a?collection=b", "collection after the host"),
        ("chroma:///srv?collection=docs&colour=red", "unknown parameter 'colour'"),
        ("chroma:///srv?collection=docs&vector=v", "unknown parameter 'vector'"),
        ("qdrant://:hunter2@h:99999/docs", "port"),
        ("qdrant://:hunter2@h:hunter2/docs", "port"),
        ("qdrant://h/docs?api_key=hunter2", "unknown parameter 'api_key'"),
        ("qdrant:///srv?collection=a&collection=b", "twice"),
        ("qdrant:///srv?collection=", "expected a value"),
        ("qdrant:///srv?collection=a%00b", "control"),
        ("qdrant:///srv%00x?collection=a", "NUL"),
        ("qdrant:///srv?collection", "NAME=VALUE"),
        ("qdrant:///srv?collection=%ff", "UTF-8"),
        ("qdrant:///srv%ff?collection=a", "UTF-8"),
        ("qdrant:///sr\nv?collection=a", "control"),
        ("qdrant://:hunter2#2@h/docs", "%23"),
        ("qdrant://ann:hunter2@/srv?collection=docs", "path has no user"),
        ("lancedb://h/docs", "no servers"),
        ("lancedb://:hunter2@h/docs?table=x", "no servers"),
        ("faiss://h/docs", "no servers"),
        ("postgresql://h/?table=docs", "database"),
        ("postgresql://h/rag", "table"),
        ("postgresql://ann:hunter2@h/rag?table=docs&password=hunter2", "unknown parameter 'pass"),
    ],
)
def test_a_bad_address_is_refused_without_its_secret(text, problem):
    with pytest.raises(ConfigError) as caught:
        parse_address(text)
    assert problem in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_switch_is_true_or_false():
    assert truth_of(parse_address("chroma://h/docs?ssl=true"), "ssl")
    assert not truth_of(parse_address("chroma://h/docs?ssl=false"), "ssl")
    assert not truth_of(parse_address("chroma://h/docs"), "ssl")
    with pytest.raises(ConfigError, match="true or false"):
        truth_of(parse_address("chroma://h/docs?ssl=1"), "ssl")


WORDS = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=12)


@given(name=WORDS, title=WORDS, folder=WORDS, secret=WORDS)
def test_what_is_shown_is_read_back(name, title, folder, secret):
    folder = folder.replace(".", "_").replace("/", "_")
    address = StoreAddress("qdrant", name, path=f"/srv/{folder}", fields=Fields(title=title))
    assert parse_address(address.public) == address
    plain = name.replace("/", "_")
    server = StoreAddress("qdrant", plain, host="h", port=1, fields=Fields(title=title))
    assert parse_address(server.public) == server
    assert dataclasses.replace(server, secret=secret).public == server.public


@given(text=st.text(max_size=40), scheme=st.sampled_from(SCHEMES))
def test_any_text_is_an_address_or_refused(text, scheme):
    try:
        address = parse_address(f"{scheme}://{text}")
    except ConfigError:
        return
    assert parse_address(address.public).public == address.public
