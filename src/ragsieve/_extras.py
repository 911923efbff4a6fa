"""Import optional dependencies with an error that says how to install them."""

from __future__ import annotations

import importlib
from types import ModuleType

from ragsieve.errors import MissingExtraError


def require(module: str, *, extra: str) -> ModuleType:
    """Import ``module``, which the optional extra ``extra`` installs.

    :raises MissingExtraError: when it is not installed; names the pip command.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module} is needed here and is not installed: pip install 'ragsieve[{extra}]'"
        ) from error
