"""SQLite connections and child processes: none is carried across a fork."""

from __future__ import annotations

import functools
import os
import weakref
from typing import Protocol


class Closing(Protocol):
    """Something with a connection that can be closed at any time and opens again by itself."""

    def before_fork(self) -> None:
        """Wait for whoever is using the connection, and close it."""
        ...

    def after_fork(self) -> None:
        """Let others in again; called in the parent and in the child."""
        ...


_OPEN: weakref.WeakSet[Closing] = weakref.WeakSet()


def watch_forks(one: Closing) -> None:
    """Close this one's connection before every fork from now on.

    A connection that exists in two processes loses its locks in one of them, which can damage
    the file.
    """
    _OPEN.add(one)
    _register()


@functools.cache
def _register() -> None:
    # Systems without fork have nothing to register with.
    register = getattr(os, "register_at_fork", None)
    if register is not None:
        register(before=_before, after_in_parent=_after, after_in_child=_after)


def _before() -> None:
    for one in list(_OPEN):
        one.before_fork()


def _after() -> None:
    for one in list(_OPEN):
        one.after_fork()
