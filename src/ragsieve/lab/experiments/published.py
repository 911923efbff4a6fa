"""Figures of the papers, cell by cell, and why ours need not equal them."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from ragsieve.errors import InputError
from ragsieve.lab.experiments.figures import Beside

_FILE = "published.json"
_SPECIFIC = 2  # dataset and retriever both named


@dataclasses.dataclass(frozen=True, slots=True)
class Published:
    """One published figure; shares in [0, 1], times in seconds.

    :param method: as an experiment names it.
    :param attack: as an experiment's ``published`` names it; ``all`` for the mean over attacks.
    :param dataset: lower case; None for a mean over datasets.
    :param retriever: alias of the encoder; None for a mean over retrievers.
    :param scope: the data behind it, in words.
    """

    method: str
    attack: str
    metric: str
    value: float
    source: str
    scope: str
    count: int = 5
    dataset: str | None = None
    retriever: str | None = None

    @property
    def specific(self) -> int:
        """How closely it says where it was measured."""
        return (self.dataset is not None) + (self.retriever is not None)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where one of our figures was measured, for comparison.

    :param method: name without the profile.
    :param remarks: facts of this run that make a difference, in words.
    """

    method: str
    profile: str
    attack: str | None
    count: int
    dataset: str
    encoder: str
    documents: int
    remarks: tuple[str, ...] = ()


@functools.cache
def published_figures() -> tuple[Published, ...]:
    """All of them.

    :raises InputError: when the packaged file is damaged.
    """
    text = files("ragsieve.lab.experiments").joinpath(_FILE).read_text("utf-8")
    try:
        return tuple(_figure(row) for row in json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{_FILE}: damaged ({error}); reinstall the package") from error


def beside(place: Place, metric: str, value: float) -> Beside | None:
    """The closest published figure to one of ours; None where nobody published one."""
    if place.attack is None:
        return None
    fitting = [
        one
        for one in published_figures()
        if (one.method, one.attack, one.metric, one.count)
        == (place.method, place.attack, metric, place.count)
        and (one.dataset is None or one.dataset == place.dataset.lower())
        and (one.retriever is None or one.retriever in place.encoder.lower())
    ]
    if not fitting:
        return None
    closest = max(fitting, key=lambda one: one.specific)
    return Beside(
        value=closest.value,
        difference=value - closest.value,
        source=closest.source,
        scope=closest.scope,
        reasons=tuple(_reasons(closest, place)),
    )


def _reasons(published: Published, place: Place) -> Iterable[str]:
    if published.specific < _SPECIFIC:
        yield f"published: {published.scope}; here: {place.dataset}, one retriever"
    if "seconds" not in published.metric:
        yield f"another snapshot: {place.documents:,} documents here"
    else:
        yield "another machine"
    if place.profile == "default":
        yield "profile default is not the published rule"
    yield from place.remarks


def _figure(row: dict[str, Any]) -> Published:
    figure = Published(**row)
    if "seconds" not in figure.metric and not 0 <= figure.value <= 1:
        raise ValueError(
            f"{figure.method}, {figure.attack}: expected a share, found {figure.value}"
        )
    if not figure.source or not figure.scope:
        raise ValueError(f"{figure.method}, {figure.attack}: source and scope are missing")
    return figure
