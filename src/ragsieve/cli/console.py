"""What a command shows: results on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ragsieve.display import visible


class Console:
    """One command's output.

    :param as_json: print one JSON object on standard output instead of words.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._out = RichConsole(highlight=False, soft_wrap=True)
        self._err = RichConsole(stderr=True, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def progress(self, label: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar on standard error, absent without a terminal; yields its advance function."""
        if not self._err.is_terminal:
            yield lambda _count: None
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self._err, transient=True) as bar:
            task = bar.add_task(label, total=total)
            yield lambda count: bar.advance(task, count)

    def note(self, message: str) -> None:
        """A remark on standard error."""
        self._err.print(Text(visible(message)))

    def result(self, fields: Mapping[str, Any], lines: Sequence[str]) -> None:
        """The command's result: ``fields`` under ``--json``, else ``lines``."""
        if self._as_json:
            # Escaped to ASCII: the reader gets every character back, a terminal gets none raw.
            sys.stdout.write(json.dumps(fields, ensure_ascii=True, allow_nan=False) + "\n")
            return
        for line in lines:
            self._out.print(Text(visible(line)))

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table on standard output; nothing under ``--json``."""
        if self._as_json:
            return
        table = Table(title=title, title_justify="left")
        for column in columns:
            table.add_column(column)
        for row in rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        self._out.print(table)
