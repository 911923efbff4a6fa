"""The edge to third-party model code: its errors become ours, its chatter stays inside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from ragsieve._extras import require
from ragsieve.errors import BackendError, RagsieveError
from ragsieve.records import FloatArray

# What torch, tokenizers and transformers are known to raise; torch's out-of-memory is a
# RuntimeError. Interrupts and exhausted Python memory pass through.
_THIRD_PARTY = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, OSError)


@contextlib.contextmanager
def model_errors(
    identity: str, *, kinds: tuple[type[Exception], ...] = _THIRD_PARTY
) -> Iterator[None]:
    """Chain what a model raises into a BackendError that names the model.

    :param kinds: the third party's errors.
    :raises BackendError: in place of the third-party error.
    """
    try:
        yield
    except (RagsieveError, MemoryError):
        raise
    except kinds as error:
        raise BackendError(f"{identity}: the model failed: {error}") from error


def check_finite(identity: str, vectors: FloatArray, *, remedy: str) -> None:
    """Refuse rows, shape (texts, d), with a component that is not finite.

    :raises BackendError: names the model and the first such text.
    """
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if bad.size:
        raise BackendError(
            f"{identity}: {bad.size} of {len(vectors)} vectors are not finite "
            f"(first: text {bad[0]}); {remedy}"
        )


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Hold back log lines and progress bars of transformers while loading; restore after."""
    logging = require("transformers.utils.logging", extra="models")
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
