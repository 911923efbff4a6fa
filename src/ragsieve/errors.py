"""The error tree. Every message says what was expected, what was found, where, and what to do.

::

    RagsieveError
    ├─ InputError (ValueError)        something handed in cannot be used
    │  ├─ RecordError                 one line of a file: path, line, field
    │  ├─ EmbeddingError              vectors that do not fit their documents
    │  └─ RankingError                a ranking the policy refuses to judge
    ├─ ConfigError (ValueError)       unknown key, impossible value
    ├─ OutputError (OSError)          a result cannot be written
    ├─ MissingExtraError (ImportError)  an optional dependency is not installed
    ├─ StoreError (RuntimeError)      a vector store or the ledger failed
    └─ BackendError (RuntimeError)    a model failed
       └─ ModelFilesError             model files are missing or damaged
"""

from __future__ import annotations

from pathlib import Path


class RagsieveError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(RagsieveError, ValueError):
    """Something handed in cannot be used."""


class RecordError(InputError):
    r"""One record of a file breaks its layout.

    :param path: the file.
    :param line: line number, counted from 1 and by ``\n`` only.
    :param field: the offending field, or None when the whole line is at fault.
    :param problem: what was expected, what was found, and what to do.
    """

    def __init__(self, path: Path | str, line: int, field: str | None, problem: str) -> None:
        self.path = str(path)
        self.line = line
        self.field = field
        where = f"{self.path}:{line}" + (f": field {field!r}" if field else "")
        super().__init__(f"{where}: {problem}")


class EmbeddingError(InputError):
    """Vectors are not finite, zero, wrongly shaped, or belong to another corpus."""


class RankingError(InputError):
    """A ranking cannot be judged and the policy says ``raise``."""


class ConfigError(RagsieveError, ValueError):
    """A configuration holds an unknown key or an impossible value."""


class OutputError(RagsieveError, OSError):
    """A result cannot be written; the previous file, if any, is untouched."""


class MissingExtraError(RagsieveError, ImportError):
    """An optional dependency is needed and absent."""


class BackendError(RagsieveError, RuntimeError):
    """A model backend failed; the cause is chained."""


class ModelFilesError(BackendError):
    """Model files are missing, incomplete or damaged."""


class StoreError(RagsieveError, RuntimeError):
    """A vector store or the ledger failed, or does not hold what was expected."""
