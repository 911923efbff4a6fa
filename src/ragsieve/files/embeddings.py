"""Embedding files: one row a document, with a manifest that says whose rows they are."""

from __future__ import annotations

import json
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve._atomic import replacing, write_text
from ragsieve.errors import EmbeddingError
from ragsieve.files.corpus import corpus_hash
from ragsieve.records import Document, FloatArray

# What numpy raises over damaged headers.
_UNREADABLE = (
    OSError, ValueError, EOFError, TypeError, OverflowError, SyntaxError,
    tokenize.TokenError,
)  # fmt: skip


def manifest_path(path: Path | str) -> Path:
    """Where the manifest of an embedding file stands: beside it, ``NAME.manifest.json``."""
    return Path(path).with_suffix(".manifest.json")


def write_embeddings(
    path: Path | str, embeddings: FloatArray, documents: Sequence[Document], encoder: str
) -> None:
    """Write rows and manifest, each completely or not at all.

    :param encoder: the embedder's identity: model, revision, pooling, dtype.
    :raises OutputError: when either cannot be written.
    """
    manifest = {
        "encoder": encoder,
        "rows": int(embeddings.shape[0]),
        "dimension": int(embeddings.shape[1]),
        "dtype": str(embeddings.dtype),
        "corpus_sha256": corpus_hash(documents),
    }
    # Without its manifest a file of rows is still usable, and never mistaken for another's.
    manifest_path(path).unlink(missing_ok=True)
    with replacing(path) as handle:
        np.save(handle, embeddings, allow_pickle=False)
    write_text(manifest_path(path), json.dumps(manifest, indent=2) + "\n")


def read_embeddings(path: Path | str, documents: Sequence[Document]) -> npt.NDArray[np.floating]:
    """Rows for ``documents``, memory-mapped, checked against them and the manifest.

    A file without a manifest is accepted when its shape fits.

    :raises EmbeddingError: when the file is unreadable, of another corpus, or not of shape
        (len(documents), dimension).
    """
    source = Path(path)
    try:
        # Reads the plain array format alone: neither archives nor pickled objects.
        rows = np.lib.format.open_memmap(source, mode="r")
    except _UNREADABLE as error:
        raise EmbeddingError(f"{source}: expected a .npy file of floats ({error})") from error
    if rows.ndim != 2:  # noqa: PLR2004 -- a matrix
        raise EmbeddingError(f"{source}: expected shape (rows, dimension), found {rows.shape}")
    if rows.shape[0] != len(documents):
        raise EmbeddingError(
            f"{source}: expected {len(documents)} rows, one a document, found {rows.shape[0]}; "
            "run `ragsieve embed` on this corpus"
        )
    _check_manifest(source, rows, documents)
    return rows


def encoder_of(path: Path | str) -> str | None:
    """The encoder that the manifest names; None without a manifest.

    :raises EmbeddingError: when the manifest is unreadable.
    """
    manifest = _manifest(Path(path))
    return None if manifest is None else str(manifest.get("encoder", "")) or None


def _check_manifest(
    source: Path, rows: npt.NDArray[np.floating], documents: Sequence[Document]
) -> None:
    manifest = _manifest(source)
    if manifest is None:
        return
    found = {"rows": rows.shape[0], "dimension": rows.shape[1], "dtype": str(rows.dtype)}
    for field, value in found.items():
        if manifest.get(field) != value:
            raise EmbeddingError(
                f"{manifest_path(source)}: field {field!r}: expected {value!r} as in {source.name}, "
                f"found {manifest.get(field)!r}; run `ragsieve embed` again"
            )
    if manifest.get("corpus_sha256") != corpus_hash(documents):
        raise EmbeddingError(
            f"{source}: these rows were made from another corpus (or another version of it); "
            "run `ragsieve embed` on this one"
        )


def _manifest(source: Path) -> dict[str, Any] | None:
    path = manifest_path(source)
    if not path.exists():
        return None
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise EmbeddingError(f"{path}: expected a JSON manifest ({error}); embed again") from error
    if not isinstance(manifest, dict):
        raise EmbeddingError(f"{path}: expected a JSON object; embed again")
    return manifest
