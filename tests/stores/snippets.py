"""The Python of the documentation of stores, to be run by their tests."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "stores-more.md"


def run_snippet(heading, **names):
    """Run the first block of Python below a heading; the names it leaves."""
    section = PAGE.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL).group(1)
    exec(compile(code, f"{PAGE.name}: {heading}", "exec"), names)  # noqa: S102 -- our own pages
    return names
