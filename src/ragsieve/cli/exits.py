"""Exit codes: 0 clean, 1 findings, 2 usage or bad input, 3 partial."""

from __future__ import annotations

from typing import NoReturn

import typer

CLEAN = 0
FINDINGS = 1
BAD_INPUT = 2
PARTIAL = 3
INTERRUPTED = 130


def leave(*, findings: bool, partial: bool) -> NoReturn:
    """End a command. Partial wins over findings: what was not judged may hide more.

    :raises typer.Exit: always.
    """
    raise typer.Exit(PARTIAL if partial else FINDINGS if findings else CLEAN)
