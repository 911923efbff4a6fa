"""The server: what it bounds, how it stops."""

from __future__ import annotations

import asyncio

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragsieve.settings import ServiceSettings

_LONGEST_HEAD_BYTES = 32 << 10


def make_server(app: FastAPI, settings: ServiceSettings) -> uvicorn.Server:
    """A server of one process: its threads judge, its loop reads and writes.

    ``run()`` returns after SIGINT or SIGTERM, when the requests at hand are answered.
    """
    seconds = settings.header_seconds

    class Timed(TimedHeads):
        head_seconds = seconds

    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            http=Timed,
            ws="none",
            lifespan="on",
            log_config=None,
            # Ours names no address; see headers.py.
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=settings.connections,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=settings.stop_seconds,
            h11_max_incomplete_event_size=_LONGEST_HEAD_BYTES,
        )
    )


class TimedHeads(H11Protocol):
    """Closes a connection whose request's head does not come in time, or that takes no answer.

    The server bounds connections; without this, a few that send or read nothing would hold them
    all.
    """

    head_seconds: float = 10.0
    taking_seconds: float = 60.0
    _late: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        # Writing pauses with the first byte that is left over.
        transport.set_write_buffer_limits(high=0)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait on while a head is not whole."""
        super().data_received(data)
        if self._between_requests():
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._stop_waiting()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to take what is left over."""
        super().pause_writing()
        self._taken()
        self._untaken = self.loop.call_later(self.taking_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It took everything."""
        super().resume_writing()
        self._taken()

    def _taken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None

    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        # From the first byte on: a byte now and then gains no time.
        if self._late is None:
            self._late = self.loop.call_later(self.head_seconds, self._close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self) -> None:
        self._late = None
        if self._between_requests() and not self.transport.is_closing():
            self.transport.abort()
