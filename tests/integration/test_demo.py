"""The demo over three seeds: it finds most of what it plants, and says what it misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragsieve.lab.demo.measure import CATCHES
from ragsieve.lab.demo.run import run_demo
from ragsieve.settings import load_settings

KEPT = Path(__file__).parents[2] / ".cache" / "test-demo"


@pytest.mark.models
def test_three_seeds(models_dir):
    settings = load_settings(models_dir=models_dir)
    planted, left = 0, 0
    targets, reports = set(), set()
    for seed in (1, 2, 3):
        result = run_demo(settings, KEPT, seed=seed, note=lambda _line: None)
        rows = {row.defense: row for row in result.rows}
        undefended, both, held = rows["no defence"], rows["both"], rows["both, review held"]
        assert result.documents >= 3000
        assert result.targets >= 9
        assert result.unpoisoned >= 50
        assert result.planted >= 41
        assert undefended.poison_in_context >= 0.5 * (result.planted - 5)
        assert result.unavailable == ()
        assert len(result.catches) == CATCHES
        assert both.clean_removed <= held.clean_removed <= 0.05 * held.clean_candidates
        assert held.poison_in_context <= both.poison_in_context
        assert len(result.misses) == held.poison_in_context
        assert result.clean_quarantined_by_scan <= 0.005 * result.documents
        words = "\n".join(result.lines())
        assert "Missed: " in words
        page = Path(result.report).read_text("utf-8")
        assert "<script" not in page
        assert page.count("data:image/svg+xml;base64,") == 3
        planted += undefended.poison_in_context
        left += held.poison_in_context
        targets.add(tuple(catch.question for catch in result.catches))
        reports.add(result.report)
    assert len(targets) == len(reports) == 3
    assert left <= 0.35 * planted
    # Nothing changed: the saved result, no model.
    again = run_demo(settings, KEPT, seed=3, note=lambda _line: None)
    assert again == result
