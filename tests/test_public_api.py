"""The public names are complete, sorted and documented."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect

import numpy as np
import pytest

import ragsieve
from ragsieve import testing


def test_all_is_complete_and_sorted():
    public = [
        name
        for name, value in vars(ragsieve).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    ]
    assert sorted(public) == ragsieve.__all__


def test_every_name_is_documented():
    assert [name for name in ragsieve.__all__ if not inspect.getdoc(getattr(ragsieve, name))] == []


@pytest.mark.parametrize("name", ragsieve.__all__)
def test_every_name_is_importable_and_stays_within_the_package(name):
    value = getattr(importlib.import_module("ragsieve"), name)
    assert value.__module__.startswith("ragsieve.")
    assert value.__name__ == name


@pytest.mark.parametrize("name", ragsieve.__all__)
def test_every_public_method_is_documented(name):
    value = getattr(ragsieve, name)
    if not inspect.isclass(value):
        assert callable(value)
        return
    own = {key: part for key, part in vars(value).items() if not key.startswith("_")}
    bare = [
        key
        for key, part in own.items()
        if (inspect.isfunction(part) or isinstance(part, property | classmethod))
        and not inspect.getdoc(part)
    ]
    assert bare == []


def test_the_fakes_fit_the_ports():
    assert isinstance(testing.FakeCausalScorer(), ragsieve.CausalScorer)
    assert isinstance(testing.FakeTokenEncoder(), ragsieve.TokenEncoder)
    assert isinstance(testing.FakeTextEmbedder(), ragsieve.TextEmbedder)
    texts = ["one two", "", "one two"]
    rows = testing.FakeTextEmbedder().embed_documents(texts)
    assert rows.shape == (3, testing.FakeTextEmbedder.dimension)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(3))
    assert rows[0].tolist() == rows[2].tolist()
    assert [len(x) for x in testing.FakeCausalScorer().losses(texts)] == [1, 0, 1]
    states = testing.FakeTokenEncoder().states(["a b c", ""], max_tokens=2)
    assert [len(x) for x in states] == [2, 0]


def test_the_version_is_the_distributions():
    assert importlib.metadata.version("ragsieve") == ragsieve.__version__
