"""A live index on disk: every change is a version, and every version can be read back."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import InputError
from ragsieve.features.statistics import VERSION, TokenCounts
from ragsieve.files.estimates import estimate_arrays, estimate_fields, read_estimate
from ragsieve.files.segments import Segment, SegmentFolder, VersionInfo
from ragsieve.live.index import DRIFT_SHARE, SPARE_NEIGHBORS, Change, LiveIndex, Rule
from ragsieve.live.judging import Arrays, Fields
from ragsieve.live.neighbors import Lists
from ragsieve.records import Document

# Changes read after a whole version; beyond them the next version is a whole one.
LONGEST_CHAIN = 64
_LIST_FIELDS = tuple(field.name for field in dataclasses.fields(Lists))


class LiveWriter:
    """A live index whose changes are on disk when the call returns.

    Made by :meth:`LiveStore.writer`. After an error of the disk the index in memory is ahead
    of the folder, so the writer refuses further changes; open a new one.
    """

    def __init__(self, folder: SegmentFolder, index: LiveIndex) -> None:
        self._folder, self.index = folder, index
        self._usable = True

    @property
    def version(self) -> int:
        """The newest version, which the index in memory equals."""
        newest = self._folder.newest()
        return 0 if newest is None else newest.number

    def add(self, documents: Sequence[Document], embeddings: npt.ArrayLike) -> Change:
        """:meth:`LiveIndex.add`, kept."""
        return self._keep(lambda: self.index.add(documents, embeddings))

    def remove(self, document_ids: Sequence[str]) -> Change:
        """:meth:`LiveIndex.remove`, kept."""
        return self._keep(lambda: self.index.remove(document_ids))

    def update(self, documents: Sequence[Document], embeddings: npt.ArrayLike) -> Change:
        """:meth:`LiveIndex.update`, kept."""
        return self._keep(lambda: self.index.update(documents, embeddings))

    def compact(self) -> VersionInfo:
        """Write the newest version anew as a whole one, without places of documents that left.

        :raises InputError: when there is no version yet.
        """
        self.index.compact()
        return self._written(lambda: self._folder.replace(self.version, _whole(self.index)))

    def prune(self, kept: int) -> tuple[int, ...]:
        """Delete versions but the last ``kept`` and those they build on; which were deleted."""
        return self._folder.prune(kept)

    def _keep(self, change: Callable[[], Change]) -> Change:
        if not self._usable:
            raise InputError("an earlier change could not be kept; open the live index again")
        before = None if self.index.statistics is None else self.index.statistics.estimate
        done = change()
        moved = self.index.moved
        whole = moved is None or self._chain_is_long()
        segment = _whole(self.index) if whole else _changed(self.index, before)
        facts = {
            "documents": len(self.index),
            "added": done.added,
            "removed": done.removed,
            "estimate": None if self.index.statistics is None else self.index.statistics.estimate,
        }
        self._written(lambda: self._folder.append(segment, whole=whole, facts=facts))
        return done

    def _written(self, write: Callable[[], VersionInfo]) -> VersionInfo:
        self._usable = False
        info = write()
        self._usable = True
        return info

    def _chain_is_long(self) -> bool:
        newest = self._folder.newest()
        return newest is None or newest.depth >= LONGEST_CHAIN


class LiveStore:
    """The versions of a live index in a folder.

    It holds what the rule reads off every document: protect it like the corpus.

    :param rule: the rule of the index, with the constants it was made with.
    :raises InputError: when the folder is no live index, or one of another rule.
    """

    def __init__(self, path: Path | str, rule: Rule) -> None:
        self.rule = rule
        self._folder = SegmentFolder(path)
        self._path = Path(path)

    @classmethod
    def create(cls, path: Path | str, rule: Rule) -> LiveStore:
        """An empty one in a new folder.

        :raises OutputError: when the folder cannot be made or is not empty.
        """
        SegmentFolder.create(path)
        return cls(path, rule)

    def versions(self) -> tuple[VersionInfo, ...]:
        """Every version that can be read, the oldest first.

        :raises InputError: when the description of one is damaged.
        """
        return self._folder.versions()

    def open(self, version: int | None = None) -> LiveIndex:
        """The index as it was at a version, the newest when None; changes to it are not kept.

        :raises InputError: when there is no such version, it is damaged, or it was made by
            another rule.
        """
        number = version
        if number is None:
            newest = self._folder.newest()
            if newest is None:
                raise InputError(f"{self._path}: the live index has no version yet; add documents")
            number = newest.number
        index: LiveIndex | None = None
        try:
            for segment in self._folder.chain(number):
                index = self._replayed(index, segment)
            if index is None:
                raise InputError(f"{self._path}: version {number} holds nothing")
            index.judge.settle_all(index.neighbors)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{self._path}: version {number} is damaged ({type(error).__name__}: {error}); "
                "use another version"
            ) from error
        return index

    @contextlib.contextmanager
    def writer(
        self, *, drift_share: float = DRIFT_SHARE, spare: int = SPARE_NEIGHBORS
    ) -> Iterator[LiveWriter]:
        """Change the newest version; one writer at a time.

        :param drift_share: of a new index; one that has versions keeps its own.
        :param spare: the same.
        :raises OutputError: when another writer holds the folder.
        """
        with self._folder.lock():
            if self._folder.newest() is None:
                index = LiveIndex(self.rule, drift_share=drift_share, spare=spare)
            else:
                index = self.open()
            yield LiveWriter(self._folder, index)

    def _replayed(self, index: LiveIndex | None, segment: Segment) -> LiveIndex:
        fields, arrays = segment.fields, segment.arrays
        if index is None:
            _check_rule(self._path, fields, self.rule)
            index = LiveIndex(
                self.rule,
                drift_share=float(fields["drift_share"]),
                spare=int(fields["spare_neighbors"]),
            )
        gone, fresh = arrays["gone"], arrays["unit"]
        lists = Lists(*(arrays[name] for name in _LIST_FIELDS))
        first = index.neighbors.slots
        index.judge.load(fields["judge"], _part(arrays, "judge."))
        if gone.size:
            index.judge.release(gone)
        index.neighbors.restore(gone, fresh, arrays["touched"], lists)
        estimate = fields["estimate"]
        if estimate is not None:
            none = TokenCounts.empty(1 << 20)
            index.judge.statistics = read_estimate(estimate, arrays.get("days_apart"), none)
        index.restore(fields["left"], fields["came"], first, arrays["excess"], fields["changed"])
        return index


def _check_rule(path: Path, fields: Fields, rule: Rule) -> None:
    wanted = _rule_fields(rule)
    found = {name: fields.get(name) for name in wanted}
    if found != wanted:
        raise InputError(
            f"{path}: the live index was made by profile {found['profile']!r} with constants "
            f"{found['constants']!r} and statistics of version {found['statistics_version']!r}; "
            f"expected {wanted['profile']!r}, {wanted['constants']!r} and "
            f"{wanted['statistics_version']!r}: use its configuration, or make a new one"
        )


def _rule_fields(rule: Rule) -> dict[str, Any]:
    default = isinstance(rule, DefaultCorpusRule)
    return {
        "profile": rule.profile,
        "constants": fingerprint(rule.profile, rule.config),
        "statistics_version": VERSION if default else None,
    }


def _whole(index: LiveIndex) -> Segment:
    """All of an index, which has no places of documents that left."""
    if index.neighbors.slots != len(index):
        index.compact()
    everything = np.arange(len(index))
    return _segment(index, 0, everything[:0], everything, (), estimated=True)


def _changed(index: LiveIndex, before: int | None) -> Segment:
    moved = index.moved
    if moved is None:
        raise ValueError("nothing was changed")
    first = int(moved.fresh[0]) if moved.fresh.size else index.neighbors.slots
    now = None if index.statistics is None else index.statistics.estimate
    left = moved.left
    return _segment(index, first, moved.gone, moved.touched, left, estimated=now != before)


def _segment(
    index: LiveIndex,
    first: int,
    gone: npt.NDArray[np.int64],
    touched: npt.NDArray[np.int64],
    left: Sequence[str],
    *,
    estimated: bool,
) -> Segment:
    lists = index.neighbors.lists(touched)
    judge_fields, judge_arrays = index.judge.dump(first)
    statistics = index.statistics if estimated else None
    came = index.document_ids[len(index) - (index.neighbors.slots - first) :]
    fields: Fields = {
        **_rule_fields(index.rule),
        "drift_share": index.drift_share,
        "spare_neighbors": index.spare,
        "left": list(left),
        "came": list(came),
        "changed": index.changed,
        "estimate": None if statistics is None else estimate_fields(statistics),
        "judge": judge_fields,
    }
    arrays: Arrays = {
        "gone": gone,
        "unit": index.neighbors.unit[first:],
        "touched": touched,
        **{name: getattr(lists, name) for name in _LIST_FIELDS},
        "excess": index.excess[first:],
        **{f"judge.{name}": array for name, array in judge_arrays.items()},
        **({} if statistics is None else estimate_arrays(statistics)),
    }
    return Segment(fields, arrays)


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
