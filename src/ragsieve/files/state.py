"""A scanned corpus on disk: what later batches and retrievals are judged against."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve.errors import InputError, OutputError
from ragsieve.evidence.alien import AlienRun
from ragsieve.evidence.gap import Gaps
from ragsieve.features.knowledge import CorpusKnowledge, Snapshot
from ragsieve.features.origins import Origins
from ragsieve.features.pairs import PairTable
from ragsieve.features.ragged import Ragged
from ragsieve.features.statistics import TokenCounts
from ragsieve.features.text import TextFeatures
from ragsieve.files.estimates import estimate_arrays, estimate_fields, read_estimate
from ragsieve.records import NeighborGraph

FORMAT = 2
MANIFEST = "manifest.json"
_RUN_NUMBERS = ("start", "stop", "aliens", "outside", "tokens")

Array = npt.NDArray[Any]


def check_state_target(path: Path) -> None:
    """Fail before the work starts when a state could not be written to ``path``.

    :raises OutputError: when it exists and is no state, or its parent is missing.
    """
    if path.exists() and not (path / MANIFEST).is_file():
        raise OutputError(f"{path}: exists and is no state; choose a new or empty name")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the directory {path.parent} does not exist; create it first")


def write_state(path: Path, snapshot: Snapshot) -> None:
    """Write a snapshot as a folder, completely or not at all.

    :raises OutputError: when it cannot be written; an earlier state is then untouched.
    """
    check_state_target(path)
    # A link keeps pointing where it did; the folder it points at is replaced.
    path = path.resolve()
    fresh = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        for name, array in _arrays(snapshot).items():
            np.save(fresh / f"{name}.npy", array, allow_pickle=False)
        counts = snapshot.knowledge.statistics.counts
        _write_json(fresh / "vocabulary.json", list(counts.vocabulary))
        _write_json(fresh / "documents.json", list(snapshot.document_ids))
        origins = snapshot.knowledge.features.origins
        _write_json(fresh / "origins.json", [list(origins.sources), list(origins.authors)])
        _write_json(fresh / MANIFEST, _manifest(snapshot))
        fresh.chmod(0o755)
        _swap(fresh, path)
    except OSError as error:
        raise OutputError(f"{path}: writing failed ({error.strerror or error})") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def read_state(path: Path) -> Snapshot:
    """A snapshot written earlier.

    :raises InputError: when the folder is no state, is damaged, or of another format.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: expected a state written by `ragsieve scan --state` ({error})"
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise InputError(
            f"{path / MANIFEST}: field 'format': expected {FORMAT}, found {found!r}; scan the "
            "corpus again with this release"
        )
    try:
        return _snapshot(path, manifest)
    except (OSError, ValueError, KeyError, TypeError, EOFError, IndexError) as error:
        raise InputError(
            f"{path}: the state is damaged ({type(error).__name__}: {error}); scan again"
        ) from error


def _swap(fresh: Path, path: Path) -> None:
    if not path.exists():
        fresh.rename(path)
        return
    old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
    old.rmdir()
    path.rename(old)
    try:
        fresh.rename(path)
    except BaseException:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=True, allow_nan=False), "utf-8")


def _manifest(snapshot: Snapshot) -> dict[str, Any]:
    statistics = snapshot.knowledge.statistics
    return {
        "format": FORMAT,
        "constants": snapshot.constants,
        "encoder": snapshot.encoder,
        "documents": len(snapshot),
        "dimension": int(snapshot.embeddings.shape[1]),
        **estimate_fields(statistics),
        "counted_documents": statistics.counts.documents,
        "pair_memory_bytes": statistics.counts.pairs.memory_bytes,
    }


def _arrays(snapshot: Snapshot) -> dict[str, Array]:
    knowledge = snapshot.knowledge
    features, runs = knowledge.features, knowledge.runs
    arrays: dict[str, Array] = {
        "embeddings": snapshot.embeddings,
        "neighbors": snapshot.graph.indices,
        "similarities": snapshot.graph.similarities,
        "tokens": features.tokens.values,
        "token_offsets": features.tokens.offsets,
        "words": features.words.values,
        "word_offsets": features.words.offsets,
        "questions": features.questions,
        "mixing": features.mixing,
        "hidden": features.hidden,
        "created_days": features.origins.days,
        "groups": knowledge.groups.values,
        "group_offsets": knowledge.groups.offsets,
        "frequencies": knowledge.statistics.counts.frequencies,
        "run_ratio_nats": np.array([run.ratio_nats for run in runs], dtype=np.float64),
        "peaks": knowledge.peaks,
    }
    arrays |= estimate_arrays(knowledge.statistics)
    for field in dataclasses.fields(Gaps):
        arrays[f"gaps_{field.name}"] = getattr(knowledge.gaps, field.name)
    for name in _RUN_NUMBERS:
        arrays[f"run_{name}"] = np.array([getattr(run, name) for run in runs], dtype=np.int64)
    for name, array in knowledge.statistics.counts.pairs.arrays().items():
        arrays[f"pairs_{name}"] = array
    return arrays


def _snapshot(path: Path, manifest: dict[str, Any]) -> Snapshot:
    def load(name: str) -> Array:
        array: Array = np.load(path / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        return array

    def whole(name: str) -> Array:
        return np.array(load(name))

    ids, vocabulary = (
        _texts(json.loads((path / f"{name}.json").read_text("utf-8")))
        for name in ("documents", "vocabulary")
    )
    sources, authors = json.loads((path / "origins.json").read_text("utf-8"))
    pairs = {
        name: whole(f"pairs_{name}")
        for name in ("keys", "counts", "sketch")
        if (path / f"pairs_{name}.npy").exists()
    }
    counts = TokenCounts(
        vocabulary,
        int(manifest["counted_documents"]),
        whole("frequencies"),
        PairTable.from_arrays(pairs, int(manifest["pair_memory_bytes"])),
    )
    days = whole("days_apart") if (path / "days_apart.npy").exists() else None
    statistics = read_estimate(manifest, days, counts)
    features = TextFeatures(
        tokens=Ragged(load("tokens"), whole("token_offsets")),
        words=Ragged(load("words"), whole("word_offsets")),
        questions=whole("questions"),
        mixing=whole("mixing"),
        hidden=whole("hidden"),
        origins=Origins(_declared(sources), _declared(authors), whole("created_days")),
    )
    ratios = whole("run_ratio_nats").tolist()
    numbers = [whole(f"run_{name}").tolist() for name in _RUN_NUMBERS]
    snapshot = Snapshot(
        document_ids=ids,
        embeddings=load("embeddings"),
        graph=NeighborGraph(whole("neighbors"), whole("similarities")),
        knowledge=CorpusKnowledge(
            features=features,
            statistics=statistics,
            gaps=Gaps(*(whole(f"gaps_{field.name}") for field in dataclasses.fields(Gaps))),
            groups=Ragged(whole("groups"), whole("group_offsets")),
            runs=tuple(AlienRun(*row) for row in zip(ratios, *numbers, strict=True)),
            peaks=whole("peaks"),
        ),
        encoder=str(manifest["encoder"]),
        constants=str(manifest["constants"]),
    )
    _check(snapshot, int(manifest["documents"]))
    return snapshot


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError("expected a list of texts")
    return tuple(values)


def _declared(values: list[str | None]) -> tuple[str | None, ...]:
    return tuple(None if value is None else str(value) for value in values)


def _check(snapshot: Snapshot, size: int) -> None:
    """Every array has its size and points inside the others.

    :raises ValueError: at the first that does not.
    """
    knowledge = snapshot.knowledge
    features, counts = knowledge.features, knowledge.statistics.counts
    words = len(counts.vocabulary)
    _expect(len(set(snapshot.document_ids)) == size, "documents.json", f"{size} distinct ids")
    _expect(len(set(counts.vocabulary)) == words, "vocabulary.json", "each token once")
    _expect(counts.frequencies.shape == (words,), "frequencies.npy", f"{words} numbers")
    _expect(
        snapshot.embeddings.ndim == 2 and snapshot.embeddings.shape[0] == size,  # noqa: PLR2004
        "embeddings.npy",
        f"{size} rows",
    )
    graph = snapshot.graph
    _expect(
        graph.indices.shape == graph.similarities.shape and len(graph) == size,
        "neighbors.npy and similarities.npy",
        f"{size} rows of one shape",
    )
    _expect(_inside(graph.indices, size), "neighbors.npy", f"rows below {size}")
    for name, ragged, limit in (
        ("tokens", features.tokens, words),
        ("words", features.words, words),
        ("groups", knowledge.groups, size),
    ):
        offsets = ragged.offsets
        whole = len(ragged) == size and offsets[0] == 0 and offsets[-1] == ragged.values.size
        ordered = bool((np.diff(offsets) >= 0).all())
        _expect(whole and ordered, f"{name}.npy and its offsets", f"{size} rows end to end")
        _expect(_inside(ragged.values, limit), f"{name}.npy", f"numbers below {limit}")
    columns = {
        "questions": features.questions,
        "mixing": features.mixing,
        "hidden": features.hidden,
        "created_days": features.origins.days,
        "peaks": knowledge.peaks,
    }
    columns |= {
        f"gaps_{field.name}": getattr(knowledge.gaps, field.name)
        for field in dataclasses.fields(Gaps)
    }
    for name, column in columns.items():
        _expect(column.shape == (size,), f"{name}.npy", f"{size} values")
    _expect(len(knowledge.runs) == size, "run_*.npy", f"{size} values")
    declared = {len(features.origins.sources), len(features.origins.authors)}
    _expect(declared == {size}, "origins.json", f"{size} sources and authors")


def _expect(holds: bool, name: str, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name}: expected {expected}")


def _inside(numbers: Array, limit: int) -> bool:
    return numbers.size == 0 or bool(numbers.min() >= 0 and numbers.max() < limit)
