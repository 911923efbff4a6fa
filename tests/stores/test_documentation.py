"""docs/stores.md runs, and says what the stores say of themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragsieve.connectors import chroma, lancedb, open_store, qdrant
from ragsieve.connectors.address import parse_address
from stores import makers_chroma, makers_lancedb, makers_qdrant
from stores.makers import make_rows

pytestmark = pytest.mark.stores
PAGE = (Path(__file__).parents[2] / "docs" / "stores.md").read_text("utf-8")


def test_the_snippets_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "stores.md", "exec"), names)  # noqa: S102 -- our own documentation
    said = capsys.readouterr().out.splitlines()
    promised = re.findall(r"print\(.*\)   # (.*)", PAGE)
    assert said == promised
    assert len(promised) == 2
    names["client"].close()
    names["qdrant"].close()


def test_the_written_filters_are_those_of_the_stores(tmp_path):
    for maker, shown in (
        (makers_chroma, '{"ragsieve_quarantined": {"$ne": True}}'),
        (makers_lancedb, '"ragsieve_quarantined IS NOT TRUE"'),
        (makers_qdrant, None),
    ):
        (one,) = maker.MAKERS
        connector = open_store(one.create(tmp_path, make_rows(one, 3)))
        if shown is not None:
            assert shown in PAGE
            assert connector.retrieval_filter() == eval(shown)  # noqa: S307 -- a literal
        else:
            (condition,) = connector.retrieval_filter().must_not
            assert (condition.key, condition.match.value) == ("ragsieve_quarantined", True)
        for note in connector.capabilities().notes:
            assert note in PAGE
        connector.close()
    for note in (*chroma._NOTES, *lancedb._NOTES, qdrant._NOTE_VECTORS):
        assert note in PAGE


def test_the_addresses_are_addresses():
    shown = re.findall(r"`([a-z]+://[^`]+)`", PAGE)
    assert len(shown) == 9
    for text in shown:
        address = parse_address(text)
        assert not address.secret or address.secret not in address.public
