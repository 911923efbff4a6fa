"""Tasks on a Ray cluster: an existing one, or one of this machine where that is asked for."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ragsieve._extras import require
from ragsieve.cluster.executors import Item, Result
from ragsieve.errors import BackendError, ConfigError, RagsieveError

LOCAL = "local"
_CLIENT = "ray://"
_CONNECT_SECONDS = 10.0
_RETRIES = 3


@contextlib.contextmanager
def ray_executor(address: str, *, local_workers: int | None = None) -> Iterator[RayExecutor]:
    """Connect to a cluster for the length of a run.

    A process that is connected already stays so, and keeps its connection.

    :param address: ``HOST:PORT`` of a cluster's head, ``auto`` for the one this machine belongs
        to, or ``local`` to start one here.
    :param local_workers: processors of a cluster started here; all of them when None.
    :raises BackendError: when there is no such cluster.
    :raises ConfigError: when no address is given.
    :raises MissingExtraError: when Ray is not installed.
    """
    ray: Any = require("ray", extra="ray")
    if not address:
        raise ConfigError(f"ray address: expected HOST:PORT, auto or {LOCAL}, found nothing")
    ours = not ray.is_initialized()
    if ours:
        _check_reachable(address)
        only_here = {"num_cpus": local_workers, "include_dashboard": False}
        try:
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **(only_here if address == LOCAL else {}),
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise _no_cluster(address, error) from error
    try:
        yield RayExecutor(ray)
    finally:
        if ours:
            ray.shutdown()


class RayExecutor:
    """Runs tasks on the cluster this process is connected to, one processor each.

    Ray runs the task of a dead worker again, three times at most.

    :param ray: the module, connected.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        """As :meth:`ragsieve.cluster.executors.Executor.run`."""
        ray = self._ray
        call = ray.remote(_call).options(num_cpus=1, max_retries=_RETRIES)
        shared = ray.put(task)
        waiting = iter(enumerate(items))
        running: dict[Any, int] = {}
        try:
            while True:
                # Two a processor keep the workers busy; more would only hold results in memory.
                room = self._processors() * 2 - len(running)
                for _, (number, item) in zip(range(room), waiting, strict=False):
                    running[call.remote(shared, item)] = number
                if not running:
                    return
                (done,), _ = ray.wait(list(running), num_returns=1)
                number = running.pop(done)
                yield number, self._result(done, number)
        finally:
            for left in running:
                ray.cancel(left, force=True)

    def _processors(self) -> int:
        # Asked each time: a cluster may grow while it works.
        return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def _result(self, done: Any, number: int) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(done)
        except errors.RayTaskError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, RagsieveError):
                raise cause from None
            raise BackendError(f"task {number} failed on a worker: {cause or error}") from error
        except errors.RayError as error:
            raise BackendError(
                f"task {number} was lost {_RETRIES + 1} times ({type(error).__name__}); look for "
                "lack of memory on the workers, or give smaller blocks"
            ) from error


def _check_reachable(address: str) -> None:
    """Whether somebody listens at ``HOST:PORT``; Ray itself would try for minutes."""
    host, _, port = address.removeprefix(_CLIENT).rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> BackendError:
    return BackendError(
        f"no Ray cluster at {address!r} ({error}); start one with `ray start --head`, or give the "
        f"address {LOCAL} for a cluster of this machine"
    )


def _call(task: Callable[[Item], Result], item: Item) -> Result:
    return task(item)
