"""The edge to third-party model code: its errors become ours, its chatter stays inside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ragsieve._extras import require
from ragsieve.errors import BackendError, RagsieveError

# What torch, tokenizers and transformers are known to raise; torch's out-of-memory is a
# RuntimeError. Interrupts and exhausted Python memory pass through.
_THIRD_PARTY = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, OSError)


@contextlib.contextmanager
def model_errors(identity: str) -> Iterator[None]:
    """Chain what a model raises into a BackendError that names the model.

    :raises BackendError: in place of the third-party error.
    """
    try:
        yield
    except RagsieveError:
        raise
    except _THIRD_PARTY as error:
        raise BackendError(f"{identity}: the model failed: {error}") from error


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
