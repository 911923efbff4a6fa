"""The table of public reports names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
CASES = 45


def rows():
    for line in (HERE / "README.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].isdecimal():
            yield int(cells[0]), cells


def test_every_case_stands_in_the_table_once():
    assert [number for number, _ in rows()] == list(range(1, CASES + 1))


def test_every_named_test_exists():
    missing, named = [], 0
    for number, cells in rows():
        found = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", cells[3])
        assert found, f"case {number} names no test"
        for path, name in found:
            named += 1
            source = HERE.parent / path
            text = source.read_text("utf-8") if source.is_file() else ""
            if not text or (name and not re.search(rf"def {name}\(", text)):
                missing.append(f"{number}: {path}::{name}")
    assert missing == []
    assert named >= CASES
