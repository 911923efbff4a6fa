"""The filter as every framework needs it: retrieved documents in, the context out, marked."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ragsieve.defense.pipeline import Pipeline, Stage
from ragsieve.defense.policy import FilterPolicy
from ragsieve.defense.serial import Quarantine, Sieve
from ragsieve.detectors.query import Mode, QueryDetector
from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError, InputError
from ragsieve.files.predictions import read_predictions
from ragsieve.files.state import read_state
from ragsieve.integrations.contexts import (
    Filtered,
    Found,
    Item,
    Judge,
    filtered_of,
    ranking_of,
    tail_of,
)
from ragsieve.settings import Settings, load_settings

_log = logging.getLogger("ragsieve.integrations")

# Filters around one detector share its lock: fast tokenizers fail when two threads use one.
_locks: weakref.WeakKeyDictionary[QueryDetector, threading.Lock] = weakref.WeakKeyDictionary()
_locks_lock = threading.Lock()


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    detector: QueryDetector
    pipeline: Pipeline
    judge: Judge
    lock: threading.Lock


class ContextFilter:
    """Judges retrievals (RSQ), takes flagged documents out and refills from the same ranking.

    A score is evidence that a document is promoted into retrieval, never a verdict on truth.
    Where the ranking is too short for its tail, documents are marked ``undecided`` with the
    reason and no score, ``policy.on_short`` says what becomes of them (by default they pass),
    and a warning is logged once; a document whose own text reaches the threshold is flagged
    all the same. Several threads may use one filter: each retrieval is judged once, one after
    the other, because tokenizers must not be shared between threads.

    :param detector: or a function that makes it, called at first use.
    :param policy: what happens besides flagged and clear; repeats of an id or of a text count
        as duplicates.
    :param top_n: documents handed over, at most the detector's candidates; all of them when None.
    :param mode: decision mode looks at no more than decides; scores are then often unknown.
    :param before: stages ahead of the sieve, a :class:`ragsieve.Quarantine` of what a scan
        flagged for instance, or a function that makes them, called at first use.
    :param after: stages behind it.
    :param on_filtered: called with what became of each retrieval, in the caller's thread.
    """

    def __init__(
        self,
        detector: QueryDetector | Callable[[], QueryDetector],
        *,
        policy: FilterPolicy | None = None,
        top_n: int | None = None,
        mode: Mode = Mode.FULL,
        before: Sequence[Stage] | Callable[[], Sequence[Stage]] = (),
        after: Sequence[Stage] = (),
        on_filtered: Callable[[Filtered[Any]], None] | None = None,
    ) -> None:
        if top_n is not None and top_n < 1:
            raise ConfigError(f"top_n: expected at least 1, found {top_n}")
        self._detector = detector
        self._policy = policy or FilterPolicy()
        self._top_n = top_n
        self._mode = Mode(mode)
        self._before = before
        self._after = tuple(after)
        self._on_filtered = on_filtered
        self._built: _Parts | None = None
        self._building = threading.Lock()
        self._warned: set[str] = set()

    @classmethod
    def from_config(
        cls,
        config: Path | str | None = None,
        *,
        settings: Settings | None = None,
        state: Path | str | None = None,
        predictions: Path | str | None = None,
        policy: FilterPolicy | None = None,
        top_n: int | None = None,
        mode: Mode = Mode.FULL,
        on_filtered: Callable[[Filtered[Any]], None] | None = None,
    ) -> ContextFilter:
        """A filter as configured; files and models are opened at first use, nothing is downloaded.

        :param config: a TOML file of settings.
        :param settings: in its place.
        :param state: what ``ragsieve scan --state`` kept of the corpus.
        :param predictions: what that scan wrote: findings at ``filter.quarantine_at`` or above
            are taken out first.
        :param policy: in place of the settings' ``filter``.
        :raises ConfigError: for settings that do not fit, or both kinds of them.
        """
        if config is not None and settings is not None:
            raise ConfigError("expected a configuration file or settings, found both; give one")
        chosen = settings or load_settings(None if config is None else Path(config))
        resorts = policy or chosen.filter

        def detector() -> QueryDetector:
            from ragsieve.assembly import ingest_gate, query_detector

            if state is None:
                return query_detector(chosen)
            gate = ingest_gate(chosen, confirm=False)
            return query_detector(chosen, gate.features(read_state(Path(state))))

        def before() -> Sequence[Stage]:
            return () if predictions is None else (_quarantine(chosen, resorts, Path(predictions)),)

        return cls(
            detector,
            policy=resorts,
            top_n=top_n,
            mode=mode,
            before=before,
            on_filtered=on_filtered,
        )

    @property
    def depth(self) -> int:
        """Documents to retrieve: as many as the full rule looks at."""
        return self._parts.detector.documents

    @property
    def fewest(self) -> int:
        """Documents below which there is no usable tail."""
        return self._parts.detector.fewest_documents

    def warm_up(self) -> None:
        """Open files and models now rather than at first use.

        :raises RagsieveError: for what is missing or does not fit.
        """
        _ = self._parts

    def check_depth(self, depth: int | None, setting: str) -> None:
        """Log a warning when a retriever is asked for fewer documents than the tail needs.

        :param depth: what it is asked for; nothing is said when None.
        :param setting: the framework's name for it.
        """
        if depth is not None and depth < self.fewest:
            self._warn(
                f"insufficient tail: {setting} is {depth}, judging needs {self.fewest} documents; "
                f"set it to {self.depth}"
            )

    def judge(self, query: str, found: Sequence[Found[Item]]) -> Filtered[Item]:
        """Filter one retrieval.

        :param found: best first.
        :raises RankingError: when it cannot be judged and the policy says raise.
        """
        if not isinstance(query, str):
            raise InputError(f"expected the query as text, found {type(query).__name__}")
        if not found:
            return Filtered((), (), None)
        parts = self._parts
        ranking = ranking_of(query, found)
        with parts.lock:
            outcome = parts.pipeline.run(ranking)
        tail, note = tail_of(outcome)
        if note is not None and tail != "reduced":
            self._warn(f"{note}; ask the retriever for {parts.detector.documents} documents")
        filtered = filtered_of(parts.judge, found, outcome)
        if self._on_filtered is not None:
            self._on_filtered(filtered)
        return filtered

    async def ajudge(self, query: str, found: Sequence[Found[Item]]) -> Filtered[Item]:
        """As :meth:`judge`, in a thread of its own: the event loop goes on."""
        return await asyncio.to_thread(self.judge, query, found)

    @property
    def _parts(self) -> _Parts:
        with self._building:
            if self._built is None:
                self._built = self._assembled()
            return self._built

    def _assembled(self) -> _Parts:
        detector = self._detector() if callable(self._detector) else self._detector
        top_n = detector.candidates if self._top_n is None else self._top_n
        if top_n > detector.candidates:
            raise ConfigError(
                f"top_n: expected at most the {detector.candidates} candidates that are judged, "
                f"found {top_n}; raise the profile's candidates, or hand over fewer"
            )
        before = self._before() if callable(self._before) else self._before
        policy = self._policy
        stages = [*before, Sieve(detector, policy, mode=self._mode), *self._after]
        pipeline = Pipeline(stages, context_size=top_n, on_few_survivors=policy.on_few_survivors)
        with _locks_lock:
            lock = _locks.setdefault(detector, threading.Lock())
        names = ",".join(stage.name for stage in stages)
        stated = fingerprint(policy, detector.fingerprint, str(top_n), names)
        judge = Judge(detector.threshold, detector.profile, stated)
        return _Parts(detector, pipeline, judge, lock)

    def _warn(self, message: str) -> None:
        # Once a filter: a retriever that is too shallow is so at every question.
        kind = message.split(":", 1)[0]
        level = logging.DEBUG if kind in self._warned else logging.WARNING
        self._warned.add(kind)
        _log.log(level, "%s", message)


def _quarantine(settings: Settings, policy: FilterPolicy, predictions: Path) -> Quarantine:
    rows = list(read_predictions(predictions))
    paper = settings.profile == "paper"
    return Quarantine(
        [
            row.document_id
            for row in rows
            if row.flagged and row.level.reaches(policy.quarantine_at)
        ],
        scanned_ids=[row.document_id for row in rows],
        on_unavailable=policy.on_unavailable,
        needed=settings.paper.query.documents if paper else settings.query.fewest_documents,
    )
