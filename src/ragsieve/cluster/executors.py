"""Where tasks run: in this process, in processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol, TypeVar

from ragsieve.errors import BackendError

_ATTEMPTS = 3

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs one task on many items."""

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        """The number of each item and its result, in the order they finish.

        What the task raises is raised here and ends the run. A worker that dies is not the
        task's fault: its item is run again.

        :param task: picklable, like the items; may run more than once on an item.
        :raises BackendError: when workers keep dying.
        """
        ...


class SerialExecutor:
    """One item after the other, in this process."""

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        """As :meth:`Executor.run`."""
        for number, item in enumerate(items):
            yield number, task(item)


class ProcessExecutor:
    """Processes of this machine.

    A process that dies takes the pool with it: what was running at that moment runs again.

    :param workers: processes.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError("workers must be at least 1")
        self._workers = workers

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        """As :meth:`Executor.run`."""
        waiting = dict(enumerate(items))
        fruitless = 0
        while waiting:
            before = len(waiting)
            for number, result in self._round(task, waiting):
                del waiting[number]
                yield number, result
            fruitless = 0 if len(waiting) < before else fruitless + 1
            if fruitless == _ATTEMPTS:
                raise BackendError(
                    f"worker processes died {_ATTEMPTS} times without finishing anything; look "
                    "for lack of memory, or give smaller blocks"
                )

    def _round(
        self, task: Callable[[Item], Result], waiting: dict[int, Item]
    ) -> Iterator[tuple[int, Result]]:
        # Forked processes would inherit the locks of threads that linear algebra keeps.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(self._workers, len(waiting)), mp_context=context)
        futures: dict[Future[Result], int] = {}
        try:
            # The pool may break before everything is handed over.
            with contextlib.suppress(BrokenProcessPool):
                for number, item in waiting.items():
                    futures[pool.submit(task, item)] = number
            for future in as_completed(list(futures)):
                number = futures.pop(future)
                try:
                    result = future.result()
                except BrokenProcessPool:
                    continue
                yield number, result
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
