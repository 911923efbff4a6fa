"""Thresholds into a policy file, whose rules and comments stay as the operator wrote them."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from typing import Any

from ragsieve._extras import require
from ragsieve.calibration.slices import Slice, slice_of
from ragsieve.errors import ConfigError
from ragsieve.policy.file import Declaration, SliceThreshold

_KEY = "thresholds"


def in_force(policy: Declaration, name: Slice, profile_threshold: float) -> float:
    """What a policy asks of a whole slice: of its first threshold that covers all of it."""
    covering = (one.threshold for one in policy.thresholds if _covers(one, name))
    return next(covering, profile_threshold)


def with_thresholds(text: str, policy: Declaration, thresholds: Sequence[SliceThreshold]) -> str:
    """A policy file's text with calibrated thresholds in it.

    A threshold for the same slice is replaced where it stands. A new one comes before the first
    that would decide in its place, else at the end: the first slice that fits decides.

    :param text: of a policy file.
    :param policy: what it declares.
    :raises ConfigError: when the result would say anything else than the file did, thresholds
        aside.
    :raises MissingExtraError: when tomlkit is not installed (extra ``ledger``).
    """
    if not thresholds:
        return text
    tomlkit: Any = require("tomlkit", extra="ledger")
    document = tomlkit.parse(text)
    if _KEY not in document:
        document.add(tomlkit.nl())
        document.append(_KEY, tomlkit.aot())
    held = document[_KEY]
    tables = isinstance(held, tomlkit.items.AoT)
    wanted = list(policy.thresholds)
    for one in thresholds:
        name = slice_of(one)
        same = [row for row, old in enumerate(wanted) if slice_of(old) == name]
        if same:
            wanted[same[0]] = one
            _fill(held[same[0]], one)
            continue
        entry = tomlkit.table() if tables else tomlkit.inline_table()
        _fill(entry, one)
        covering = [row for row, old in enumerate(wanted) if _covers(old, name)]
        place = covering[0] if covering else len(wanted)
        wanted.insert(place, one)
        held.insert(place, entry)
    result: str = tomlkit.dumps(document)
    before, after = tomllib.loads(text), tomllib.loads(result)
    before.pop(_KEY, None)
    written = [SliceThreshold(**fields) for fields in after.pop(_KEY)]
    if after != before or written != wanted:
        raise ConfigError(
            "the thresholds cannot be written into this policy without changing what else it "
            "says; write each as a [[thresholds]] table of its own"
        )
    return result


def _fill(entry: Any, one: SliceThreshold) -> None:
    for field in dataclasses.fields(one):
        value = getattr(one, field.name)
        if value is not None:
            entry[field.name] = value
        elif field.name in entry:
            del entry[field.name]


def _covers(one: SliceThreshold, name: Slice) -> bool:
    """Whether a threshold decides for everything in a slice.

    A pattern over stores covers another that it matches as it is written.
    """
    return one.covers(
        profile=name.profile,
        kind=name.kind,
        dataset=name.dataset,
        retriever=name.retriever or None,
        tenant=name.tenant or None,
    )
