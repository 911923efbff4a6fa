"""Every speed figure of this project in one run, each a ratio against a plain implementation.

    python benchmarks/run.py [--quick] [--json]

Parts: the neighbour graph (``graph.py``), the scan's text (``text_scan.py``), one retrieval
(``query_cost.py``), the live index (``live_index.py``). Each compares its decisions with the plain
side's in the same run; the program fails when two differ. ``--quick`` takes smaller sizes: it ends
within 50 seconds on two idle cores, and its ratios lie below those of the full run.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from live_index import live_figures
from query_cells import embedded_cells
from query_cost import query_cost
from query_models import word_answers
from text_scan import text_figures

HERE = Path(__file__).parent
_GRAPH = {
    True: ["--rows", "72000", "--plain-rows", "1000", "--repeats", "1"],
    False: ["--rows", "100000", "--plain-rows", "2000", "--repeats", "3"],
}
_QUERY = {True: (4, 1, 3), False: (25, 2, 9)}  # rankings, of them plainly, repeats


def graph_figures(*, quick: bool) -> dict:
    """The exact neighbour graph against plain numpy with a loop, in processes of their own."""
    command = [sys.executable, str(HERE / "graph.py"), *_GRAPH[quick], "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    return {
        "rows": found["rows"],
        "dims": found["dims"],
        "scan_speedup": found["speedup_wall"],
        "scan_speedup_processor": found["speedup_cpu"],
        "decisions_equal": found["identical"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rankings, plainly, repeats = _QUERY[options.quick]
    query = query_cost(
        embedded_cells(rankings), word_answers(), plain_rankings=plainly, repeats=repeats
    )
    of_query = dataclasses.asdict(query)
    for name in ("costs", "cold"):
        del of_query[name]
    result = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg()[0],
        "quick": options.quick,
        "graph": graph_figures(quick=options.quick),
        "text": dataclasses.asdict(text_figures(quick=options.quick)),
        "query": of_query,
        "live": dataclasses.asdict(live_figures(quick=options.quick)),
    }
    parts = ("graph", "text", "query", "live")
    result["decisions_equal"] = all(result[name]["decisions_equal"] for name in parts)
    print(json.dumps(result, indent=None if options.json else 2))
    sys.exit(0 if result["decisions_equal"] else 1)


if __name__ == "__main__":
    main()
