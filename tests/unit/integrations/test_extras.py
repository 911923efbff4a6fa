"""Without its framework a module says what to install."""

from __future__ import annotations

import importlib
import sys

import pytest

from ragsieve.errors import MissingExtraError


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("langchain", "langchain_core", "langchain"),
        ("llamaindex", "llama_index", "llamaindex"),
        ("haystack", "haystack", "haystack"),
    ],
)
def test_the_command_is_named(module, package, extra, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"ragsieve.integrations.{module}", raising=False)
    with pytest.raises(MissingExtraError, match=rf"pip install 'ragsieve\[{extra}\]'"):
        importlib.import_module(f"ragsieve.integrations.{module}")


def test_what_needs_no_framework_imports_none():
    for module in ("marks", "contexts", "retrieved", "arrivals"):
        importlib.import_module(f"ragsieve.integrations.{module}")
    ours = importlib.import_module("ragsieve.integrations.retrieved")
    assert ours.ContextFilter.__module__ == "ragsieve.integrations.retrieved"
