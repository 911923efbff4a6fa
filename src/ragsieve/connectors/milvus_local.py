"""Files of Milvus Lite that this process has open, so that the last one to leave lets go."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_lock = threading.Lock()
_users: collections.Counter[str] = collections.Counter()
_foreign: set[str] = set()


def enter(path: str) -> None:
    """Count a user of a file, before its client is opened."""
    manager = _manager()
    place = str(Path(path).absolute())
    with _lock:
        # A server that somebody else started here is not ours to stop.
        if not _users[place] and place in getattr(manager, "_servers", {}):
            _foreign.add(place)
        _users[place] += 1


def opened_client(make: Callable[..., Any], place: Mapping[str, Any], path: str | None) -> Any:
    """A client, counted as a user of its file where it has one.

    :param make: makes it of ``place``.
    """
    if path is None:
        return make(**place)
    enter(path)
    try:
        return make(**place)
    except BaseException:
        leave(path)
        raise


def leave(path: str) -> None:
    """The counterpart of `enter`: the last user stops the server that holds the file.

    Closing its client does not: the file would stay locked to other processes until this one
    ends.
    """
    place = str(Path(path).absolute())
    with _lock:
        _users[place] -= 1
        if _users[place] > 0:
            return
        del _users[place]
        if place in _foreign:
            _foreign.discard(place)
            return
        _manager().release_server(place)


def _manager() -> Any:
    from milvus_lite.server_manager import server_manager_instance

    return server_manager_instance
