"""Where the pulled models are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The folder of the embedded models; a test that needs them fails without, it never skips."""
    folder = Path(os.environ.get("RAGSIEVE_MODELS_DIR") or REPOSITORY / ".cache" / "models")
    if not folder.is_dir():
        pytest.fail(
            f"{folder}: expected the embedded models, found no such folder; run `make models`, "
            "or set RAGSIEVE_MODELS_DIR to where they are"
        )
    return folder
