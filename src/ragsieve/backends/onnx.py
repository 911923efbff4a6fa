"""The light retriever: a quantised encoder in the ONNX format, without torch or transformers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragsieve._extras import require
from ragsieve.backends._edges import check_finite, model_errors
from ragsieve.backends.batches import (
    MAX_TEXT_CHARACTERS,
    TokenIds,
    length_sorted_batches,
    padded,
    text_chunks,
)
from ragsieve.backends.installed import sha256_of
from ragsieve.backends.loading import folder_revision
from ragsieve.backends.presets import Pooling, RetrieverPreset
from ragsieve.errors import ModelFilesError
from ragsieve.records import FloatArray

MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"

# Measured on 2 cores: a larger batch leaves the processor's cache and is slower.
BATCH_TOKENS = 512

_EXTRA = "light"
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_STATES_AXES = 3
_SHORTEST = 1e-12
_ERRORS_ONLY = 3
# Both libraries raise classes that derive from Exception itself.
_FAILURES = (Exception,)


class OnnxTextEmbedder:
    """An ONNX encoder as a :class:`ragsieve.ports.TextEmbedder`; runs on the CPU.

    :param folder: holds ``model.onnx`` and ``tokenizer.json``.
    :param preset: pooling, prefixes and truncation of this model.
    :param threads: of one forward pass; one a core when None.
    :param progress: called after each batch with the number of texts it held.
    :raises ModelFilesError: when a file is absent, damaged or of another kind of model.
    :raises MissingExtraError: when onnxruntime or tokenizers is not installed.
    """

    def __init__(
        self,
        folder: Path,
        preset: RetrieverPreset,
        *,
        threads: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        for name in (MODEL_FILE, TOKENIZER_FILE):
            if not (folder / name).is_file():
                raise ModelFilesError(
                    f"{folder / name}: expected a file of the light retriever, found nothing; "
                    "point to a folder that holds it, or run `ragsieve models pull`"
                )
        self._preset = preset
        self._progress = progress
        self._tokenizer = _tokenizer(folder / TOKENIZER_FILE, preset.max_tokens)
        self._session = _session(folder / MODEL_FILE, threads)
        self._inputs = frozenset(one.name for one in self._session.get_inputs())
        self._dimension = _dimension(folder / MODEL_FILE, self._session, self._inputs)
        weights = sha256_of(folder / MODEL_FILE)[:12]
        self._model = f"{folder.resolve().name}@{folder_revision(folder)} weights={weights}"

    @property
    def identity(self) -> str:
        """Model, revision, digest of the weights, pooling, prefixes, format and truncation."""
        preset = self._preset
        return (
            f"{self._model} int8 onnx pooling={preset.pooling} query={preset.query_prefix!r} "
            f"passage={preset.passage_prefix!r} max_tokens={preset.max_tokens} "
            f"max_characters={MAX_TEXT_CHARACTERS}"
        )

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Unit float32 rows in the order of ``texts``, shape (len(texts), dimension).

        :raises BackendError: when the model fails or gives a vector that is not finite.
        """
        return self._embed(texts, self._preset.passage_prefix)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Unit float32 rows in the order of ``texts``, with the query prefix.

        :raises BackendError: when the model fails or gives a vector that is not finite.
        """
        return self._embed(texts, self._preset.query_prefix)

    def _embed(self, texts: Sequence[str], prefix: str) -> FloatArray:
        vectors = np.empty((len(texts), self._dimension), dtype=np.float32)
        tokens = self._tokens([prefix + text[:MAX_TEXT_CHARACTERS] for text in texts])
        lengths = [len(ids) for ids in tokens]
        for rows in length_sorted_batches(lengths, token_budget=BATCH_TOKENS):
            vectors[rows] = self._forward([tokens[row] for row in rows])
            if self._progress is not None:
                self._progress(len(rows))
        check_finite(self._model, vectors, remedy="check the weights")
        return vectors

    def _tokens(self, texts: Sequence[str]) -> list[TokenIds]:
        with model_errors(self._model, kinds=_FAILURES):
            return [
                np.asarray(encoding.ids, dtype=np.int32)
                for chunk in text_chunks(texts)
                for encoding in self._tokenizer.encode_batch_fast(chunk)
            ]

    def _forward(self, sequences: Sequence[TokenIds]) -> FloatArray:
        ids, mask = padded(sequences, pad_id=0)
        values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        with model_errors(self._model, kinds=_FAILURES):
            states = self._session.run(None, {name: values[name] for name in self._inputs})[0]
        pooled = _pool(states.astype(np.float32, copy=False), mask, self._preset.pooling)
        norms = np.linalg.norm(pooled, axis=1, keepdims=True)
        unit: FloatArray = pooled / np.maximum(norms, _SHORTEST)
        return unit


def _tokenizer(path: Path, max_tokens: int) -> Any:
    tokenizers = require("tokenizers", extra=_EXTRA)
    with _loading(path):
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        # The file may ask for a shorter truncation and for padding to a fixed width.
        tokenizer.enable_truncation(max_length=max_tokens)
        tokenizer.no_padding()
    return tokenizer


def _session(path: Path, threads: int | None) -> Any:
    onnxruntime = require("onnxruntime", extra=_EXTRA)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = _ERRORS_ONLY
    # Threads that wait by spinning take the time of whatever else runs on the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with _loading(path):
        return onnxruntime.InferenceSession(
            str(path), sess_options=options, providers=["CPUExecutionProvider"]
        )


@contextlib.contextmanager
def _loading(path: Path) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise ModelFilesError(
            f"{path}: cannot be loaded ({error}); run `ragsieve models pull` again, or point to "
            "another folder"
        ) from error


def _dimension(path: Path, session: Any, inputs: frozenset[str]) -> int:
    shape = session.get_outputs()[0].shape
    fits = len(shape) == _STATES_AXES and isinstance(shape[-1], int)
    if not fits or not {"input_ids", "attention_mask"} <= inputs <= _INPUTS:
        raise ModelFilesError(
            f"{path}: expected an encoder that reads input_ids and attention_mask and gives token "
            f"states, found inputs {', '.join(sorted(inputs))} and an output of shape {shape}"
        )
    return int(shape[-1])


def _pool(states: FloatArray, mask: npt.NDArray[np.int64], pooling: Pooling) -> FloatArray:
    # states (texts, tokens, d), mask (texts, tokens) -> (texts, d)
    if pooling is Pooling.CLS:
        return states[:, 0]
    weights = mask[:, :, None].astype(np.float32)
    pooled: FloatArray = (states * weights).sum(axis=1) / weights.sum(axis=1)
    return pooled
