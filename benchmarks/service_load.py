"""The service under load: a real process, many clients, every answer checked.

    python benchmarks/service_load.py [--seconds 180] [--clients 16] [--profile default]
        [--bench DIR [--models-dir DIR]] [--json FILE]

A corpus with planted rings is written to a temporary folder with its state, a ledger and a
configuration; ``ragsieve serve`` serves it on a free port of 127.0.0.1. Clients, threads of this
process, ask for ids alone in mode ``decision``, each its next question when the last is answered.
Before the clock starts every ranking was asked once, so that the service knows its texts. The
answers to a sample of the rankings are compared with what a detector in this process decides, all
others with the status 200 and their number of documents. Memory is the server's resident set, as
the kernel says. Ends by itself; a failed check exits with 1.

``--bench DIR`` takes ``corpus.jsonl`` and ``queries.jsonl`` of a set on disk in place of made texts.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import http.client
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ragsieve.assembly import ingest_gate
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.files.state import write_state
from ragsieve.ledger import open_ledger
from ragsieve.records import Ranking
from ragsieve.service.loading import load_parts
from ragsieve.settings import load_settings
from service_corpus import DEPTH, Load, bench_load, bodies_of, made_load

SAMPLE = 60
_START_SECONDS = 180.0
_RSS_SECONDS = 5.0


def written(load: Load, folder: Path, port: int, given: argparse.Namespace) -> Path:
    """The folder of a service: corpus, state, configuration."""
    profile = given.profile
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as out:
        for one in load.corpus:
            out.write(json.dumps({"id": one.id, "title": one.title, "text": one.text}) + "\n")
    state = ""
    if profile == "default":
        gate = ingest_gate(load_settings(), confirm=False)
        scan = CorpusDetector(DefaultCorpusRule()).scan(load.corpus, load.rows)
        write_state(folder / "state", gate.snapshot(scan, load.rows, "load"))
        state = f'state = "{folder}/state"\n'
    config = folder / "ragsieve.toml"
    config.write_text(
        f'profile = "{profile}"\n'
        f'[features]\nstore = "{folder}/features.sqlite"\n'
        f'[ledger]\nurl = "sqlite:///{folder}/ledger.sqlite"\n'
        f'[service]\nport = {port}\nledger = true\nkeys = "{folder}/keys.json"\n'
        f"request_seconds = {given.request_seconds:g}\n"
        f'[service.collections.load]\ncorpus = "{folder}/corpus.jsonl"\n{state}',
        "utf-8",
    )
    return config


@contextlib.contextmanager
def served(config: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The service in a process of its own, once it is ready."""
    command = [sys.executable, "-m", "ragsieve", "serve", "--config", str(config)]
    with (config.parent / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=config.parent)  # noqa: S603
        try:
            limit = time.monotonic() + _START_SECONDS
            while not _ready(port):
                if process.poll() is not None or time.monotonic() > limit:
                    raise SystemExit(f"the service did not start: see {config.parent}/server.log")
                time.sleep(0.1)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ready(port: int) -> bool:
    try:
        status, _ = Client(port).get("/readyz")
    except OSError:
        return False
    return status == 200


class Client:
    """One connection, opened again when it breaks."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of one answer."""
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of one answer."""
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, answer.read()


@dataclasses.dataclass(slots=True)
class Counted:
    """What one client saw."""

    seconds: list[float] = dataclasses.field(default_factory=list)
    statuses: dict[int, int] = dataclasses.field(default_factory=dict)
    errors: int = 0
    compared: int = 0
    different: int = 0


def expected_of(config: Path, rankings: Sequence[Ranking], size: int) -> dict[int, list[list[str]]]:
    """Decisions and levels of a sample of rankings, by a detector in this process."""
    settings = load_settings(config)
    # No ledger and no file in common with the server.
    plain = settings.model_copy(
        update={
            "features": settings.features.model_copy(update={"store": None}),
            "service": settings.service.model_copy(update={"ledger": False}),
        }
    )
    (held,) = load_parts(plain).holdings
    places = np.linspace(0, len(rankings) - 1, min(size, len(rankings)), dtype=int)
    return {
        int(place): [
            [one.document_id, str(one.decision), str(one.level)]
            for one in held.detector.decide(rankings[place])
        ]
        for place in places
    }


def work(
    port: int,
    bodies: Sequence[bytes],
    expected: dict[int, list[list[str]]],
    first: int,
    until: float,
    counted: Counted,
) -> None:
    """Ask one question after the other until the time is over."""
    client, place = Client(port), first
    while time.monotonic() < until:
        begun = time.perf_counter()
        try:
            status, body = client.post("/v1/filter", bodies[place])
        except (OSError, http.client.HTTPException):
            counted.errors += 1
            client = Client(port)
            continue
        counted.seconds.append(time.perf_counter() - begun)
        counted.statuses[status] = counted.statuses.get(status, 0) + 1
        if status == 200:
            found = json.loads(body)
            good = len(found["kept"]) == 5 and found["fallback"] is None
            if place in expected:
                counted.compared += 1
                judged = [[one["id"], one["decision"], one["level"]] for one in found["candidates"]]
                good = good and judged == expected[place]
            counted.different += not good
        place = (place + 1) % len(bodies)


def rss_mib(pid: int) -> float:
    """Resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("the server ended")


def measure(
    process: subprocess.Popen[bytes],
    port: int,
    load: Load,
    config: Path,
    seconds: float,
    clients: int,
) -> dict:
    """Ask for a while; the figures."""
    bodies = bodies_of(load.rankings)
    expected = expected_of(config, load.rankings, SAMPLE)
    warm, warming = Client(port), time.monotonic()
    for body in bodies:
        status, _ = warm.post("/v1/filter", body)
        if status != 200:
            raise SystemExit(f"warming up: status {status}")
    warming = time.monotonic() - warming
    counts = [Counted() for _ in range(clients)]
    begun = time.monotonic()
    threads = [
        threading.Thread(
            target=work,
            args=(port, bodies, expected, n * len(bodies) // clients, begun + seconds, one),
            daemon=True,
        )
        for n, one in enumerate(counts)
    ]
    memory = [(0.0, rss_mib(process.pid))]
    for one in threads:
        one.start()
    while (now := time.monotonic() - begun) < seconds:
        time.sleep(min(_RSS_SECONDS, max(0.05, seconds - now)))
        memory.append((time.monotonic() - begun, rss_mib(process.pid)))
    for one in threads:
        one.join(90)
    took = time.monotonic() - begun
    time.sleep(1.5)
    _, metrics = Client(port).get("/metrics")
    return _figures(counts, took, memory) | {
        "warm_up_seconds": round(warming, 1),
        "service": _metrics(metrics.decode()),
    }


def _figures(counts: Sequence[Counted], took: float, memory: list[tuple[float, float]]) -> dict:
    seconds = np.sort(np.concatenate([one.seconds for one in counts]))
    statuses: dict[str, int] = {}
    for one in counts:
        for status, count in one.statuses.items():
            statuses[str(status)] = statuses.get(str(status), 0) + count
    p50, p95, p99 = (round(float(np.quantile(seconds, q)) * 1000, 1) for q in (0.5, 0.95, 0.99))
    late = [pair for pair in memory if pair[0] >= took / 3]
    slope = float(np.polyfit(*zip(*late, strict=True), 1)[0]) * 60 if len(late) > 1 else 0.0
    shown = [memory[0], *_each(memory, 30.0), memory[-1]]
    return {
        "seconds": round(took, 1),
        "requests": len(seconds),
        "requests_per_second": round(len(seconds) / took, 1),
        "milliseconds": {"p50": p50, "p95": p95, "p99": p99, "max": round(seconds[-1] * 1000, 1)},
        "statuses": statuses,
        "server_errors": sum(n for status, n in statuses.items() if status >= "500"),
        "connection_errors": sum(one.errors for one in counts),
        "compared": sum(one.compared for one in counts),
        "different": sum(one.different for one in counts),
        "rss_mib": [[round(at), round(size, 1)] for at, size in dict(shown).items()],
        "rss_mib_per_minute_after_a_third": round(slope, 2),
    }


def _each(memory: list[tuple[float, float]], step: float) -> list[tuple[float, float]]:
    ends = np.arange(step, memory[-1][0], step)
    return [next(pair for pair in memory if pair[0] >= end) for end in ends]


def _metrics(text: str) -> dict[str, float]:
    wanted = (
        "ragsieve_recording_failures_total",
        "ragsieve_exposures_dropped_total",
        "ragsieve_query_retrievals_total",
        "ragsieve_query_candidates_removed_total",
        "ragsieve_review_queue_documents",
    )
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(wanted))
    return {name: float(value) for name, value in pairs}


def kept_in(folder: Path) -> dict:
    """What the ledger holds after the service ended."""
    with open_ledger(f"sqlite:///{folder}/ledger.sqlite", actor="load") as ledger:
        report = ledger.audit.verify()
        return {
            "findings": ledger.incidents.queue(limit=0).total,
            "audit_entries": report.entries,
            "audit_intact": report.intact,
            "mib": round((folder / "ledger.sqlite").stat().st_size / 2**20, 1),
        }


def _errors(log: Path) -> dict[str, int]:
    """Lines of the log that tell of an error, without their times."""
    found: dict[str, int] = {}
    for line in log.read_text("utf-8", "replace").splitlines():
        if " ERROR " in line:
            words = line.partition(" ERROR ")[2]
            found[words] = found.get(words, 0) + 1
    return found


def about(arguments: Sequence[str]) -> dict:
    """When, where and with what it was measured."""
    commit, changed = _git("rev-parse", "--short", "HEAD"), _git("status", "--porcelain", "src")
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, clients on the same ones",
        "python": platform.python_version(),
        "commit": (commit or "unknown") + (" and changes after it" if changed else ""),
        "command": " ".join(["python benchmarks/service_load.py", *arguments]),
    }


def _git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parents[1]), *words]
    return subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False
    ).stdout.strip()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--documents", type=int, default=4_000)
    parser.add_argument("--rankings", type=int, default=500)
    parser.add_argument("--profile", default="default")
    parser.add_argument(
        "--request-seconds",
        type=float,
        default=10,
        help="as in the settings; cold models take more",
    )
    parser.add_argument("--bench", type=Path)
    parser.add_argument("--models-dir", type=Path)
    parser.add_argument("--json", type=Path, help="file for the figures; else standard output")
    return parser.parse_args()


def main() -> int:
    """Serve, ask, tell."""
    given = _arguments()
    load = (
        made_load(given.documents, given.rankings)
        if given.bench is None
        else bench_load(given.bench, given.rankings, given.models_dir)
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="ragsieve-load-") as made:
        folder = Path(made)
        config = written(load, folder, port, given)
        with served(config, port) as process:
            found = measure(process, port, load, config, given.seconds, given.clients)
        kept = kept_in(folder) | {"log_errors": _errors(folder / "server.log")}
    found = about([f"--seconds {given.seconds:g}", f"--profile {given.profile}"]) | {
        "load_average": {"before": round(before[0], 1), "after": round(os.getloadavg()[0], 1)},
        "profile": given.profile,
        "clients": given.clients,
        "documents": len(load.corpus),
        "rankings": len(load.rankings),
        "depth": DEPTH,
        **found,
        "exit_code": process.returncode,
        "ledger": kept,
    }
    text = json.dumps(found, indent=2) + "\n"
    if given.json is None:
        sys.stdout.write(text)
    else:
        given.json.write_text(text, "utf-8")
    good = (
        not found["server_errors"]
        and not found["connection_errors"]
        and not found["different"]
        and set(found["statuses"]) == {"200"}
        and kept["audit_intact"]
    )
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
