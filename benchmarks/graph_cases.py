"""The exact neighbour search where it is hard, and multiplied in bfloat16.

    python benchmarks/graph_cases.py [--rows 8000] [--dims 384] [--bfloat16-rows 20000]
        [--repeats 3] [--json]

Near copies: all rows are one direction plus noise of a size that leaves their cosines some way below
one; *copies* are equal to the last bit. bfloat16: the clustered rows of ``graph.py``, products by
numpy in float32 and by torch in bfloat16 in turns; both must give the same graph, or the program
fails. CPU seconds (user and system), medians over repeats.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from graph import write_rows
from ragsieve.evidence.knn import cosine_knn
from ragsieve.records import FloatArray, NeighborGraph

NEIGHBORS = 16


@dataclasses.dataclass(frozen=True, slots=True)
class CaseCost:
    """One set of rows, or one way to multiply them.

    :param below_one: 1 - cosine of two rows, median.
    """

    case: str
    rows: int
    below_one: float | None
    cpu_seconds: float


def near_copies(size: int, dims: int, below_one: float, seed: int = 1) -> FloatArray:
    """Unit rows around one direction.

    :param below_one: how far their cosines lie below one on average.
    """
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((size, dims)) / np.sqrt(dims)
    centre = rng.standard_normal(dims)
    rows = centre / np.linalg.norm(centre) + np.sqrt(below_one) * noise
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit.astype(np.float32)


def measured(
    ways: dict[str, Callable[[], NeighborGraph]], repeats: int
) -> tuple[dict[str, float], dict[str, NeighborGraph]]:
    """CPU seconds of each way, in turns, and the graphs of the last turn."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    graphs = {}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.process_time()
            graphs[name] = way()
            seconds[name].append(time.process_time() - start)
    return {name: statistics.median(own) for name, own in seconds.items()}, graphs


def copy_cases(size: int, dims: int, repeats: int) -> list[CaseCost]:
    """Independent rows, near copies, copies."""
    rng = np.random.default_rng(0)
    one = near_copies(1, dims, 1e-6)
    rows = {
        "independent": rng.standard_normal((size, dims)).astype(np.float32),
        "near copies": near_copies(size, dims, 1e-6),
        "near copies to the last bits": near_copies(size, dims, 1e-13),
        "copies": np.repeat(one, size, axis=0),
    }
    ways = {name: functools.partial(cosine_knn, own, NEIGHBORS) for name, own in rows.items()}
    seconds, _ = measured(ways, repeats)
    found = []
    for name, own in rows.items():
        left, right = own[: size // 2].astype(np.float64), own[size // 2 :].astype(np.float64)
        norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right[: len(left)], axis=1)
        cosines = np.einsum("ij,ij->i", left, right[: len(left)]) / norms
        found.append(CaseCost(name, size, float(np.median(1.0 - cosines)), seconds[name]))
    return found


def product_cases(size: int, dims: int, repeats: int) -> list[CaseCost]:
    """float32 products against bfloat16 ones.

    :raises SystemExit: when the graphs differ.
    """
    from ragsieve.graphs.device import torch_product

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "rows.npy"
        write_rows(
            argparse.Namespace(embeddings=place, rows=size, dims=dims, seed=1, background=0.05)
        )
        rows = np.load(place)
    half = torch_product("cpu", half=True)
    seconds, graphs = measured(
        {
            "products in float32": functools.partial(cosine_knn, rows, NEIGHBORS),
            "products in bfloat16": functools.partial(cosine_knn, rows, NEIGHBORS, product=half),
        },
        repeats,
    )
    one, other = graphs.values()
    if not (
        np.array_equal(one.indices, other.indices)
        and np.array_equal(one.similarities, other.similarities)
    ):
        sys.exit("graphs differ")
    return [CaseCost(name, size, None, own) for name, own in seconds.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--bfloat16-rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = copy_cases(options.rows, options.dims, options.repeats)
    if options.bfloat16_rows:
        found += product_cases(options.bfloat16_rows, options.dims, options.repeats)
    if options.json:
        print(json.dumps([dataclasses.asdict(one) for one in found], indent=1))
        return
    for one in found:
        below = "" if one.below_one is None else f" (1 - cosine {one.below_one:.1e})"
        print(f"{one.case}, {one.rows:,} rows{below}: {one.cpu_seconds:.2f} CPU s")


if __name__ == "__main__":
    main()
