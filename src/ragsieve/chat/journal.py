"""Replies that were paid for, kept on disk: the same request is asked once and never paid twice.

One JSON object a line, appended under a file lock and flushed to disk before the reply is handed
on. The key is a hash of the request, so the journal holds no prompt. A line that a crash has torn
is passed over and named; the lines around it stay what they were.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ragsieve._atomic import check_writable
from ragsieve._extras import require
from ragsieve.errors import BackendError, OutputError
from ragsieve.ports import ChatModel
from ragsieve.records import ChatMessage, ChatReply

_VERSION = 1


def request_key(identity: str, messages: Sequence[ChatMessage], max_tokens: int) -> str:
    """SHA-256 over all that a reply depends on, in hexadecimal."""
    turns = [[message.role, message.content] for message in messages]
    text = json.dumps([_VERSION, identity, max_tokens, turns], ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class ReplyJournal:
    """An append-only file of replies; several threads and several processes may share it.

    :param path: created with the first reply; ``NAME.lock`` is put beside it.
    :raises MissingExtraError: when extra ``chat`` is not installed.
    :raises OutputError: when the file could not be written later, which is too late.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        check_writable(self.path)
        filelock = require("filelock", extra="chat")
        self._between = filelock.FileLock(f"{self.path}.lock")
        self._within = threading.RLock()
        self._known: dict[str, ChatReply] = {}
        self._running: dict[str, concurrent.futures.Future[ChatReply]] = {}
        self._offset = 0
        self._lines = 0
        self._damaged: list[int] = []
        with self._locked():
            if self.path.exists():
                self._end_torn_line()
                self._read_on()

    def __len__(self) -> int:
        return len(self._known)

    @property
    def damaged(self) -> tuple[int, ...]:
        """Numbers, from 1, of the lines that hold no reply, as after a crash."""
        return tuple(self._damaged)

    def find(self, key: str) -> ChatReply | None:
        """The reply to a request, whichever process wrote it; None when there is none."""
        with self._within:
            if key not in self._known:
                self._read_on()
            return self._known.get(key)

    def keep(self, key: str, identity: str, reply: ChatReply) -> None:
        """Append a reply; it is on the disk when this returns.

        :raises OutputError: when it cannot be written.
        """
        fields = {
            "key": key,
            "identity": identity,
            "content": reply.content,
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
            "seconds": reply.seconds,
        }
        # ASCII: a lone surrogate in a reply must not cost the reply.
        line = json.dumps(fields, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"
        with self._locked():
            # What cannot be written was paid for all the same.
            self._known.setdefault(key, reply)
            self._end_torn_line()
            self._append(line)

    def once(self, key: str, identity: str, ask: Callable[[], ChatReply]) -> ChatReply:
        """The reply to a request, asked for only where nobody has it and nobody is asking.

        Threads that come while one asks wait for what it gets, its failure included. A second
        process that asks at the same moment pays too; the first reply written counts.

        :raises BackendError: when there is no reply; nothing is kept then.
        :raises OutputError: when the reply cannot be kept.
        """
        with self._within:
            known = self.find(key)
            if known is not None:
                return known
            other = self._running.get(key)
            mine: concurrent.futures.Future[ChatReply] = concurrent.futures.Future()
            if other is None:
                self._running[key] = mine
        if other is not None:
            return _waited(other)
        try:
            reply = ask()
            self.keep(key, identity, reply)
            mine.set_result(reply)
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._within:
                del self._running[key]
        return reply

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._within:
            try:
                self._between.acquire()
            except OSError as error:
                raise OutputError(f"{self.path}.lock: cannot be locked ({error})") from error
            try:
                yield
            except OSError as error:
                raise OutputError(
                    f"{self.path}: the journal cannot be read or written ({error.strerror})"
                ) from error
            finally:
                self._between.release()

    def _end_torn_line(self) -> None:
        """A record appended to a torn one would be lost with it."""
        with self.path.open("a+b") as handle:
            if handle.seek(0, os.SEEK_END) == 0:
                _sync_folder(self.path.parent)
                return
            handle.seek(-1, os.SEEK_END)
            if handle.read(1) != b"\n":
                handle.write(b"\n")
                handle.flush()
                os.fsync(handle.fileno())

    def _append(self, line: bytes) -> None:
        with self.path.open("ab") as handle:
            handle.write(line)
            handle.flush()
            os.fsync(handle.fileno())

    def _read_on(self) -> None:
        """Take in the finished lines that this or another process has added."""
        try:
            with self.path.open("rb") as handle:
                handle.seek(self._offset)
                for line in handle:
                    if not line.endswith(b"\n"):
                        break  # another process is writing it
                    self._offset += len(line)
                    self._lines += 1
                    self._take(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be read ({error.strerror})") from error

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        found = _record(line)
        if found is None:
            self._damaged.append(self._lines)
        else:
            self._known.setdefault(*found)


class JournaledChat:
    """A chat model that answers from a journal what was answered before.

    :param chat: asked for the rest; at temperature 0, or a repeated question gets one reply.
    """

    def __init__(self, chat: ChatModel, journal: ReplyJournal) -> None:
        self.chat = chat
        self.journal = journal

    @property
    def identity(self) -> str:
        """The model's; a kept reply is the model's reply."""
        return self.chat.identity

    def reply(self, messages: Sequence[ChatMessage], *, max_tokens: int) -> ChatReply:
        """The kept reply, or a new one, which is kept before it is returned.

        :raises BackendError: when there is none.
        :raises OutputError: when it cannot be kept.
        """
        identity = self.chat.identity
        asked = tuple(messages)
        return self.journal.once(
            request_key(identity, asked, max_tokens),
            identity,
            lambda: self.chat.reply(asked, max_tokens=max_tokens),
        )


def _waited(other: concurrent.futures.Future[ChatReply]) -> ChatReply:
    try:
        return other.result()
    except BackendError as error:
        # One exception must not be raised in several threads: each adds to its traceback.
        raise BackendError(str(error)) from None


def _record(line: bytes) -> tuple[str, ChatReply] | None:
    try:
        fields: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    key, content = fields.get("key"), fields.get("content")
    prompt, completion = fields.get("prompt_tokens"), fields.get("completion_tokens")
    if not isinstance(key, str) or not isinstance(content, str):
        return None
    if not all(count is None or type(count) is int for count in (prompt, completion)):
        return None
    seconds = fields.get("seconds")
    return key, ChatReply(
        content, prompt, completion, float(seconds) if isinstance(seconds, int | float) else None
    )


def _sync_folder(folder: Path) -> None:
    """The name of a new file survives a power cut too, where folders can be flushed."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
