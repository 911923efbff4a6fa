"""The page about frameworks runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from frameworks.planted import offline

pytestmark = pytest.mark.frameworks

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
DECISIONS = {"clear", "undecided", "unjudged"}


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(title):
        text = PAGE.read_text("utf-8")
        (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE)
        (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        offline(monkeypatch)
        exec(compile(code, f"{PAGE}, {title}", "exec"), {"__name__": "page"})  # noqa: S102 -- our own documentation
        return capsys.readouterr().out.splitlines()

    return run


def test_langchain(printed):
    *found, many = printed("LangChain")
    assert len(found) == 5
    assert {line.split()[1] for line in found} <= DECISIONS
    assert many == "2"


def test_llamaindex(printed):
    first, *found = printed("LlamaIndex")
    assert first == "60 clear"
    assert len(found) == 5
    assert {line.split()[1] for line in found} <= DECISIONS


def test_haystack(printed):
    assert printed("Haystack") == ["5 []"]


def test_the_agent_of_the_page_is_made(printed):
    text = PAGE.read_text("utf-8")
    (code,) = re.findall(r"```\n(from langchain.agents.*?)```", text, re.DOTALL)
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.vectorstores import InMemoryVectorStore

    from frameworks.planted import sieve, vectors

    class Words:
        embed_documents = staticmethod(vectors)

    names = {
        "store": InMemoryVectorStore(Words()),
        "sieve": sieve(),
        "model": FakeListChatModel(responses=["yes"]),
    }
    exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 -- our own documentation
    assert names["agent"].get_graph().nodes
