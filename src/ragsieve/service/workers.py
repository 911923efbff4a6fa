"""A few threads for work that computes, and a bound on what waits for them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Overloaded(Exception):  # noqa: N818 -- an answer, not a fault
    """As much waits as may wait."""


class Workers:
    """Runs jobs in threads; a job that takes too long is no longer waited for.

    A thread cannot be stopped: a job that overran keeps its place until it ends, so that late
    jobs cannot pile up behind each other.

    :param waiting: jobs that may wait for a thread.
    """

    def __init__(self, threads: int, waiting: int, *, name: str = "judge") -> None:
        self._threads, self._name = threads, name
        self.open()
        self._room = threads + waiting
        self._held = 0
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Jobs that run or wait, overrun ones among them."""
        return self._held

    @property
    def full(self) -> bool:
        """Whether a further job would be refused."""
        return self._held >= self._room

    async def run(self, job: Callable[[], T], *, seconds: float) -> T:
        """A job's result.

        :param seconds: to wait for it, from now.
        :raises Overloaded: when as much waits as may wait.
        :raises TimeoutError: when it took too long.
        """
        return await asyncio.wait_for(asyncio.wrap_future(self._begin(job)), seconds)

    def submit(self, job: Callable[[], object]) -> bool:
        """Run a job that nobody waits for; False when as much waits as may wait."""
        try:
            self._begin(job)
        except Overloaded:
            return False
        return True

    def open(self) -> None:
        """Take jobs, also after :meth:`close`: an app may be started again."""
        self._pool = concurrent.futures.ThreadPoolExecutor(
            self._threads, thread_name_prefix=self._name
        )

    def close(self, *, finish: bool = False) -> None:
        """Take no further job.

        :param finish: whether those that wait are run and waited for; they are dropped otherwise.
        """
        self._pool.shutdown(wait=finish, cancel_futures=not finish)

    def _begin(self, job: Callable[[], T]) -> concurrent.futures.Future[T]:
        with self._lock:
            if self._held >= self._room:
                raise Overloaded
            self._held += 1
        try:
            future = self._pool.submit(job)
        except RuntimeError:
            # The service is stopping.
            self._released(None)
            raise Overloaded from None
        future.add_done_callback(self._released)
        return future

    def _released(self, _future: object) -> None:
        with self._lock:
            self._held -= 1
