"""The neighbour graph: exact against plain on the same rows, approximate beside them.

    python benchmarks/graph.py [--rows 100000] [--dims 384] [--plain-rows 2000] [--repeats 3]
        [--approximate ivf hnsw] [--background 0.05] [--json]

The rows: topics hold subtopics of very unequal sizes (rank to the power -0.8, 200 rows each on
average); a row is its subtopic's centre plus noise, half of whose energy lies along 24 directions
of its topic and half in all; a share of the rows are uniform directions; all share one offset, as
those of language models do; order is random. Every part runs in a process of its own over the
memory-mapped file, so that peak memory (VmHWM, mapped pages included) is its own. Plain runs on
--plain-rows rows against all, its time grows with the rows; 0 runs it on all of them. Neighbours
and similarities of exact and plain are compared in every repeat. Time is wall and CPU (user and
system); ratios are medians over repeats.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from plain_graph import plain_graph, plain_unit

BLOCK = 20_000
DIRECTIONS = 24
SUBTOPIC_ROWS = 200
SUBTOPICS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--neighbors", type=int, default=16)
    parser.add_argument("--plain-rows", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--background", type=float, default=0.05, help="share of uniform rows")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-exact", action="store_true", help="neither exact nor plain")
    parser.add_argument("--no-plain", action="store_true")
    parser.add_argument("--approximate", nargs="*", default=[], choices=["ivf", "hnsw"])
    parser.add_argument("--target-recall", type=float, default=0.99)
    parser.add_argument("--embeddings", type=Path, help="rows of your own, a .npy file")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(part(options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.embeddings is None:
            options.embeddings = Path(folder) / "rows.npy"
            write_rows(options)
        result = measured(options, Path(folder))
    print(json.dumps(result, indent=2) if options.json else table(result))


def measured(options: argparse.Namespace, folder: Path) -> dict:
    rows, dims = np.load(options.embeddings, mmap_mode="r").shape
    result: dict = {
        "rows": rows,
        "dims": dims,
        "neighbors": options.neighbors,
        "background": options.background,
        "repeats": options.repeats,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": list(os.getloadavg()),
    }
    parts = [] if options.no_exact else ["exact"] + ([] if options.no_plain else ["plain"])
    runs: dict[str, list[dict]] = {name: [] for name in parts}
    agreed = []
    for _ in range(options.repeats if parts else 0):
        for name in parts:
            runs[name].append(child(options, name, folder))
        if "plain" in parts:
            agreed.append(same(folder))
    if parts:
        result["exact"] = medians(runs["exact"])
    if "plain" in parts:
        result["plain"] = medians(runs["plain"])
        for unit in ("wall_seconds", "cpu_seconds"):
            pairs = zip(runs["plain"], runs["exact"], strict=True)
            ratio = statistics.median(plain[unit] / exact[unit] for plain, exact in pairs)
            result[f"speedup_{unit.removesuffix('_seconds')}"] = ratio
        result["identical"] = all(agreed)
    for method in options.approximate:
        result[method] = child(options, method, folder)
    return result


def child(options: argparse.Namespace, name: str, folder: Path) -> dict:
    """Run one part in a process of its own."""
    given = {
        "--part": f"{name}:{folder / name}",
        "--embeddings": options.embeddings,
        "--neighbors": options.neighbors,
        "--plain-rows": options.plain_rows,
        "--seed": options.seed,
        "--target-recall": options.target_recall,
    }
    command = [sys.executable, __file__, *(str(word) for pair in given.items() for word in pair)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def part(options: argparse.Namespace) -> dict:
    name, output = options.part.split(":", 1)
    embeddings = np.load(options.embeddings, mmap_mode="r")
    size, k = len(embeddings), options.neighbors
    chosen = np.random.default_rng(options.seed).permutation(size)[: options.plain_rows or size]
    chosen.sort()
    facts: dict = {}
    # What a part needs is imported before its clock starts.
    if name == "plain":
        begin = clocks()
        unit = plain_unit(embeddings)
        once = clocks() - begin
        scale = size / len(chosen)
        begin = clocks()
        indices, similarities = plain_graph(unit, k, chosen)
        spent = (clocks() - begin) * scale + once
        facts["rows_run"] = len(chosen)
    elif name == "exact":
        from ragsieve.evidence.knn import cosine_knn

        begin = clocks()
        graph = cosine_knn(embeddings, k)
        spent = clocks() - begin
        indices, similarities = graph.indices[chosen], graph.similarities[chosen]
    else:
        from ragsieve.graphs.approximate import ApproximateConfig, approximate_graph

        config = ApproximateConfig(
            method=name, target_recall=options.target_recall, seed=options.seed
        )
        begin = clocks()
        found = approximate_graph(embeddings, k, config)
        spent = clocks() - begin
        facts |= {
            "recall": found.recall.share,
            "recall_low": found.recall.low,
            "recall_high": found.recall.high,
            "words": str(found),
        }
        indices, similarities = found.graph.indices[chosen], found.graph.similarities[chosen]
    np.savez(output, indices=indices, similarities=similarities)
    peak = peak_mib()
    return {
        "wall_seconds": float(spent[0]),
        "cpu_seconds": float(spent[1]),
        "peak_mib": peak,
        "above_embeddings_mib": peak - embeddings.nbytes / 2**20,
        **facts,
    }


def clocks() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def peak_mib() -> float:
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def same(folder: Path) -> bool:
    """Whether plain and exact agree: neighbours, and cosines but for the order of summation."""
    exact, plain = (np.load(folder / f"{name}.npz") for name in ("exact", "plain"))
    near = np.abs(exact["similarities"] - plain["similarities"]).max() < 1e-12
    return bool(near and (exact["indices"] == plain["indices"]).all())


def medians(runs: list[dict]) -> dict:
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def table(result: dict) -> str:
    lines = [
        f"{result['rows']:,} x {result['dims']}, {result['neighbors']} neighbours, "
        f"{result['date']}, {result['machine']}, load {result['load'][0]:.1f}",
        f"{'':<10}{'wall s':>10}{'CPU s':>10}{'peak MiB':>10}{'above rows':>12}",
    ]
    for name in ("exact", "plain", "ivf", "hnsw"):
        if name in result:
            run = result[name]
            lines.append(
                f"{name:<10}{run['wall_seconds']:>10.1f}{run['cpu_seconds']:>10.1f}"
                f"{run['peak_mib']:>10.0f}{run['above_embeddings_mib']:>12.0f}"
            )
    if "plain" in result:
        lines.append(
            f"speedup: wall {result['speedup_wall']:.2f}, CPU {result['speedup_cpu']:.2f}; "
            f"identical: {result['identical']}"
        )
    lines += [result[name]["words"] for name in ("ivf", "hnsw") if name in result]
    return "\n".join(lines)


def write_rows(options: argparse.Namespace) -> None:
    """Clustered unit rows, see above."""
    rng = np.random.default_rng(options.seed)
    dims, scale = options.dims, np.float32(1 / np.sqrt(options.dims))
    subtopics = max(4, options.rows // SUBTOPIC_ROWS)
    topics = max(2, subtopics // SUBTOPICS)

    def noise(*shape: int) -> np.ndarray:
        return rng.standard_normal((*shape, dims), dtype=np.float32) * scale

    offset, topic = 0.5 * noise(1), noise(topics)
    directions = noise(topics, DIRECTIONS)
    strength = (np.arange(1, DIRECTIONS + 1, dtype=np.float32)) ** -0.5
    strength /= np.linalg.norm(strength)
    topic_of = rng.integers(topics, size=subtopics)
    centre = topic[topic_of] + 0.7 * noise(subtopics)
    weight = np.arange(1.0, subtopics + 1) ** -0.8
    subtopic_of = rng.choice(subtopics, options.rows, p=weight / weight.sum())
    uniform = rng.random(options.rows) < options.background
    rows = np.lib.format.open_memmap(
        options.embeddings, mode="w+", dtype=np.float32, shape=(options.rows, dims)
    )
    for start in range(0, options.rows, BLOCK):
        mine = subtopic_of[start : start + BLOCK]
        block = centre[mine] + 0.6 * noise(mine.size)
        along = 0.6 * strength * rng.standard_normal((mine.size, DIRECTIONS), dtype=np.float32)
        for number in np.unique(topic_of[mine]):
            here = topic_of[mine] == number
            block[here] += along[here] @ directions[number]
        alone = uniform[start : start + BLOCK]
        block[alone] = noise(int(alone.sum()))
        block += offset
        rows[start : start + BLOCK] = block / np.linalg.norm(block, axis=1, keepdims=True)
    rows.flush()


if __name__ == "__main__":
    main()
