"""Where a scan's neighbours come from: searched exactly, searched by FAISS, or from a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

from ragsieve.cli.console import Console
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.errors import ConfigError, InputError
from ragsieve.records import Document, FloatArray, Scan


@dataclasses.dataclass(frozen=True, slots=True)
class NeighborChoice:
    """What the command was told.

    :param graph: file of ``ragsieve graph``; the embeddings it was made from are checked.
    :param approximate: search by FAISS and say what share was found.
    """

    embeddings: Path
    graph: Path | None = None
    approximate: bool = False

    def __post_init__(self) -> None:
        if self.graph is not None and self.approximate:
            raise ConfigError("--graph has its neighbours already; leave --approximate out")

    @property
    def exact(self) -> bool:
        """Whether the detector searches by itself."""
        return self.graph is None and not self.approximate


def scanned(
    console: Console,
    detector: CorpusDetector,
    corpus: tuple[Document, ...],
    rows: FloatArray,
    choice: NeighborChoice,
) -> Scan:
    """The scan over the chosen neighbours; an approximate graph's recall stands in its notes.

    :raises InputError: for a graph of other embeddings, or of too few neighbours.
    :raises MissingExtraError: when FAISS is asked for and not installed.
    """
    if choice.graph is not None:
        from ragsieve.cluster.shards import embeddings_digest, survey
        from ragsieve.files.graph import read_graph, read_manifest

        taken = read_manifest(choice.graph).fingerprint
        if taken not in {"contents", "ends"}:
            raise InputError(
                f"{choice.graph}: its rows' hash was taken by {taken!r}; compute it anew"
            )
        fingerprint: Literal["contents", "ends"] = "ends" if taken == "ends" else "contents"
        digest = embeddings_digest(survey(choice.embeddings, fingerprint=fingerprint))
        wanted = min(detector.neighbors, max(0, len(corpus) - 1))
        graph = read_graph(choice.graph, rows=len(corpus), neighbors=wanted, embeddings=digest)
        return detector.scan_graph(corpus, graph)
    with console.progress("searching neighbours", len(corpus)) as advance:
        if choice.exact:
            return detector.scan(corpus, rows, progress=advance)
        from ragsieve.graphs.approximate import approximate_graph

        found = approximate_graph(rows, detector.neighbors, progress=advance)
    scan = detector.scan_graph(corpus, found.graph)
    return dataclasses.replace(scan, notes=(*scan.notes, str(found)))
