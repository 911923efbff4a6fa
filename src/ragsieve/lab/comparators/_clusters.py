"""scikit-learn without its remarks on data that has fewer distinct points than clusters."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from ragsieve._extras import require


@contextlib.contextmanager
def quiet_clustering() -> Iterator[None]:
    """Hold back warnings that fewer clusters were found than asked for: copies make them usual."""
    kind = require("sklearn.exceptions", extra="lab").ConvergenceWarning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kind)
        yield
