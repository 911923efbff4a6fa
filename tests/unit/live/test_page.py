"""The page about the live index runs."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "live.md"


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {})  # noqa: S102 -- our own documentation
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("True") or first.endswith("False")
    assert second == "[(1, 200), (2, 198), (3, 198)]"
