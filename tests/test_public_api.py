"""The public names are complete, sorted and documented."""

from __future__ import annotations

import inspect

import ragsieve


def test_all_is_complete_and_sorted():
    public = [
        name
        for name, value in vars(ragsieve).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    ]
    assert sorted(public) == ragsieve.__all__


def test_every_name_is_documented():
    assert [name for name in ragsieve.__all__ if not inspect.getdoc(getattr(ragsieve, name))] == []
