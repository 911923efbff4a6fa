"""Read an experiment from TOML; an unknown key is an error that names file and key."""

from __future__ import annotations

import enum
import itertools
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ragsieve.detectors.profiles import DEFAULT_PROFILE, PROFILES
from ragsieve.errors import ConfigError
from ragsieve.lab.experiments.spec import (
    Answers,
    Attack,
    Experiment,
    JudgeKind,
    Kind,
    Method,
    MethodKind,
    Models,
    Part,
    PipelineName,
    Unpoisoned,
    Value,
)

_Choice = TypeVar("_Choice", bound=enum.StrEnum)
_DETECTORS = (MethodKind.RSQ, MethodKind.RSG, MethodKind.SERIAL, MethodKind.NONE)


def read_experiment(path: Path | str) -> Experiment:
    """The experiment of a file, named after it.

    :raises ConfigError: for an unreadable file, an unknown key or an impossible value.
    """
    place = Path(path)
    try:
        fields = tomllib.loads(place.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{place}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise ConfigError(f"{place}: expected TOML: {error}") from error
    try:
        return _experiment(place.stem, _Table(fields))
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


class _Table:
    """A TOML table whose keys are taken one by one; what nobody took is unknown.

    :param name: where it stands, for errors.
    """

    def __init__(self, fields: dict[str, Any], name: str = "") -> None:
        self._left = dict(fields)
        self._name = name

    def text(self, key: str, default: str | None = None) -> str:
        value = self._take(key, default)
        if not isinstance(value, str) or not value:
            raise self._error(key, "a string", value)
        return value

    def text_or_none(self, key: str) -> str | None:
        return self.text(key) if key in self._left else None

    def number(self, key: str, default: int) -> int:
        value = self._take(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._error(key, "a whole number", value)
        return value

    def number_or_none(self, key: str) -> int | None:
        return self.number(key, 0) if key in self._left else None

    def choice(self, key: str, kind: type[_Choice], default: _Choice | None = None) -> _Choice:
        value = self._take(key, default)
        if value not in set(kind):
            raise self._error(key, f"one of {', '.join(kind)}", value)
        return kind(value)

    def texts(self, key: str) -> tuple[str, ...]:
        found: tuple[str, ...] = self._list(key, (), lambda one: isinstance(one, str), "strings")
        return found

    def numbers(self, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
        found: tuple[int, ...] = self._list(
            key, default, lambda one: type(one) is int, "whole numbers"
        )
        return found

    def shares(self, key: str) -> tuple[float, ...]:
        found = self._list(key, (), lambda one: type(one) in {int, float}, "numbers")
        return tuple(float(one) for one in found)

    def values(self, key: str) -> tuple[Value, ...]:
        found: tuple[Value, ...] = self._list(
            key, None, lambda one: isinstance(one, bool | int | float | str), "numbers or strings"
        )
        return found

    def table(self, key: str) -> _Table:
        value = self._take(key, {})
        if not isinstance(value, dict):
            raise self._error(key, "a table", value)
        return _Table(value, self._path(key))

    def tables(self, key: str) -> Iterator[_Table]:
        value = self._take(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self._error(key, f"tables [[{self._path(key)}]]", value)
        for place, one in enumerate(value):
            yield _Table(one, f"{self._path(key)}[{place}]")

    def rest(self) -> tuple[tuple[str, Value], ...]:
        """All that is left, as constants."""
        left = sorted(self._left.items())
        for key, value in left:
            if not isinstance(value, bool | int | float | str):
                raise self._error(key, "a number or a string", value)
        self._left = {}
        return tuple(left)

    def has(self, key: str) -> bool:
        return key in self._left

    def close(self) -> None:
        """Fail when a key was not taken."""
        if self._left:
            keys = ", ".join(repr(self._path(key)) for key in sorted(self._left))
            raise ConfigError(f"unknown key {keys}; remove it")

    def _list(self, key: str, default: Any, fits: Callable[[Any], bool], what: str) -> Any:
        value = self._take(key, default)
        if not isinstance(value, list | tuple) or not all(fits(one) for one in value):
            raise self._error(key, f"a list of {what}", value)
        return tuple(value)

    def _take(self, key: str, default: Any) -> Any:
        return self._left.pop(key, default)

    def _path(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key

    def _error(self, key: str, expected: str, value: object) -> ConfigError:
        found = "nothing" if value is None else repr(value)
        return ConfigError(f"{self._path(key)}: expected {expected}, found {found}")


def _experiment(name: str, table: _Table) -> Experiment:
    answers = _answers(table.table("answers")) if table.has("answers") else None
    models = table.table("models")
    experiment = Experiment(
        name=name,
        claim=table.text("claim"),
        kind=table.choice("kind", Kind),
        dataset=table.text("dataset"),
        retriever=table.text("retriever", "auto"),
        depth=table.number("depth", 100),
        context=table.number("context", 5),
        payloads=table.text_or_none("payloads"),
        targets=table.number_or_none("targets"),
        part=table.choice("part", Part, Part.ALL),
        unpoisoned=table.choice("unpoisoned", Unpoisoned, Unpoisoned.TARGETS),
        seeds=table.numbers("seeds", (2026,)),
        shares=table.shares("shares"),
        recalls=table.shares("recalls"),
        repeats=table.number("repeats", 1),
        models=Models(
            models.text("causal", "auto"),
            models.text("encoder", "auto"),
            models.text_or_none("masked"),
        ),
        attacks=tuple(_attack(one) for one in table.tables("attacks")),
        methods=tuple(_methods(table)),
        answers=answers,
    )
    models.close()
    table.close()
    return experiment


def _attack(table: _Table) -> Attack:
    attack = Attack(
        name=table.text("name"),
        counts=table.numbers("counts", (5,)),
        file=table.text_or_none("file"),
        published=table.text_or_none("published"),
        targets=table.number_or_none("targets"),
        write=table.number("write", 5),
    )
    table.close()
    return attack


def _methods(table: _Table) -> Iterator[Method]:
    for one in table.tables("detectors"):
        yield from _detectors(one)
    for one in table.tables("ablations"):
        yield from _ablations(one)
    for one in table.tables("sweeps"):
        yield from _sweep(one)
    for name in table.texts("pipelines"):
        if name not in set(PipelineName):
            names = ", ".join(PipelineName)
            raise ConfigError(f"pipelines: expected one of {names}, found {name!r}")
        yield Method(MethodKind.PIPELINE, name)
    for name in table.texts("comparators"):
        yield Method(MethodKind.COMPARATOR, name)


def _detectors(table: _Table) -> Iterator[Method]:
    kind = _detector(table)
    if kind is MethodKind.NONE:
        table.close()
        yield Method(kind, kind)
        return
    profiles = table.texts("profiles") or (DEFAULT_PROFILE,)
    overrides = table.table("constants").rest()
    table.close()
    for profile in profiles:
        yield Method(kind, kind, _known(profile), overrides=overrides)


def _ablations(table: _Table) -> Iterator[Method]:
    kind, profile = _detector(table), _known(table.text("profile", DEFAULT_PROFILE))
    without, alone = table.texts("without"), table.texts("alone")
    table.close()
    if kind not in {MethodKind.RSQ, MethodKind.RSG}:
        raise ConfigError(f"ablations: defined for rsq and rsg, found {kind.value!r}")
    yield from (Method(kind, kind, profile, without=(name,)) for name in without)
    yield from (Method(kind, kind, profile, alone=name) for name in alone)


def _sweep(table: _Table) -> Iterator[Method]:
    """Every combination of the values given, as methods of their own."""
    kind, profile = _detector(table), _known(table.text("profile", DEFAULT_PROFILE))
    if kind not in {MethodKind.RSQ, MethodKind.RSG}:
        raise ConfigError(f"sweeps: defined for rsq and rsg, found {kind.value!r}")
    keys, lists = [table.text("key")], [table.values("values")]
    second = table.text_or_none("and_key")
    if second is not None:
        keys.append(second)
        lists.append(table.values("and_values"))
    table.close()
    for chosen in itertools.product(*lists):
        yield Method(kind, kind, profile, overrides=tuple(zip(keys, chosen, strict=True)))


def _detector(table: _Table) -> MethodKind:
    kind = table.choice("detector", MethodKind)
    if kind not in _DETECTORS:
        raise ConfigError(
            "detector: comparators are named in the list `comparators`, pipelines in `pipelines`"
        )
    return kind


def _known(profile: str) -> str:
    if profile not in PROFILES:
        raise ConfigError(f"profile: expected one of {', '.join(PROFILES)}, found {profile!r}")
    return profile


def _answers(table: _Table) -> Answers:
    answers = Answers(
        model=table.text_or_none("model"),
        base_url=table.text_or_none("base_url"),
        judge=table.choice("judge", JudgeKind, JudgeKind.CONTAINMENT),
        answer_tokens=table.number("answer_tokens", 128),
        local=table.texts("local"),
        members=table.texts("members"),
    )
    table.close()
    return answers
