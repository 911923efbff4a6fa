"""The command that computes a neighbour graph, in blocks, on one machine or many."""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsieve._atomic import check_distinct, check_writable
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.errors import ConfigError

if TYPE_CHECKING:
    from ragsieve.cluster.executors import Executor
    from ragsieve.cluster.search import SearchReport

_NAMED = 4


class Where(enum.StrEnum):
    """Where blocks are computed."""

    SERIAL = "serial"
    PROCESSES = "processes"
    RAY = "ray"


class Fingerprint(enum.StrEnum):
    """How shards are told from other versions of them."""

    CONTENTS = "contents"
    ENDS = "ends"


def graph(
    embeddings: Annotated[
        Path,
        typer.Option(help="A .npy or .parquet file, or a folder of shards of one of these kinds."),
    ],
    output: options.Output,
    neighbors: Annotated[int, typer.Option(min=1, help="Neighbours a document.")] = 16,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder where finished blocks are kept and looked for.")
    ] = None,
    executor: Annotated[Where, typer.Option(help="Where blocks are computed.")] = Where.SERIAL,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; or processors of a local Ray cluster.")
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(help="HOST:PORT of a Ray cluster, auto, or local to start one here."),
    ] = None,
    block_rows: Annotated[
        int | None, typer.Option(min=1, help="Rows of a block, what a lost worker costs.")
    ] = None,
    fingerprint: Annotated[
        Fingerprint, typer.Option(help="Hash whole shards, or their ends, size and time.")
    ] = Fingerprint.CONTENTS,
    as_json: options.AsJson = False,
) -> None:
    """Find every document's exact nearest neighbours, block by block; resumable."""
    from ragsieve.cluster.plan import BLOCK_ROWS, SearchPlan
    from ragsieve.cluster.search import search
    from ragsieve.cluster.shards import embeddings_digest, survey
    from ragsieve.files.graph import write_graph

    console = Console(as_json=as_json)
    check_writable(output)
    check_distinct([output, checkpoint], [embeddings])
    with _executor(executor, workers, ray_address) as running:
        shards = survey(embeddings, fingerprint=fingerprint.value, executor=running)
        plan = SearchPlan(shards, neighbors, block_rows or BLOCK_ROWS)
        with console.progress("searching neighbours", plan.rows) as advance:
            report = search(plan, running, checkpoints=checkpoint, progress=advance)
    digest = embeddings_digest(shards)
    write_graph(
        output, report.graph, embeddings=digest, fingerprint=fingerprint, kernel=plan.kernel
    )
    if report.damaged:
        named = ", ".join(report.damaged[:_NAMED])
        console.note(f"{len(report.damaged)} damaged checkpoints were computed again: {named}")
    if plan.used < neighbors:
        console.note(f"tiny corpus: {plan.used} neighbours a document, not {neighbors}")
    fields = _fields(report) | {"shards": len(shards), "embeddings": digest}
    console.result(fields, [_line(report)])


def _fields(report: SearchReport) -> dict[str, object]:
    return {
        "rows": len(report.graph),
        "neighbors": report.graph.k,
        "blocks": report.computed + report.reused,
        "blocks_computed": report.computed,
        "blocks_reused": report.reused,
        "damaged_checkpoints": list(report.damaged),
        "seconds": round(report.seconds, 3),
    }


def _line(report: SearchReport) -> str:
    return (
        f"{len(report.graph):,} rows, {report.graph.k} neighbours each: "
        f"{report.computed:,} blocks computed, {report.reused:,} reused, "
        f"{report.seconds:,.1f} seconds."
    )


@contextlib.contextmanager
def _executor(where: Where, workers: int | None, address: str | None) -> Iterator[Executor]:
    from ragsieve.cluster.executors import ProcessExecutor, SerialExecutor
    from ragsieve.cluster.on_ray import LOCAL, ray_executor

    if (where is Where.RAY) != (address is not None):
        raise ConfigError("--ray-address: expected with --executor ray, and only there")
    if workers is not None and where is not Where.PROCESSES and address != LOCAL:
        raise ConfigError(f"--workers: expected with --executor processes or --ray-address {LOCAL}")
    if where is Where.SERIAL:
        yield SerialExecutor()
    elif where is Where.PROCESSES:
        yield ProcessExecutor(workers or os.cpu_count() or 1)
    else:
        with ray_executor(address or "", local_workers=workers) as running:
            yield running
