"""The Python of docs/cluster.md runs, and gives the scans of one machine."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders import clustered
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.records import Document

PAGE = Path(__file__).parents[3] / "docs" / "cluster.md"


@pytest.mark.parametrize("profile", ["paper", "default"])
def test_the_page_runs(tmp_path, monkeypatch, profile):
    monkeypatch.chdir(tmp_path)
    texts, rows = clustered(np.random.default_rng(3), 120)
    documents = [Document(f"d{row}", text) for row, text in enumerate(texts)]
    Path("shards").mkdir()
    for number, part in enumerate((slice(0, 70), slice(70, 120))):
        table = {
            "id": [one.id for one in documents[part]],
            "text": [one.text for one in documents[part]],
            "embedding": pa.array(list(rows[part]), pa.list_(pa.float64())),
        }
        pq.write_table(pa.table(table), f"shards/part-{number}.parquet")
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names = {}
    exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102 -- our own documentation
    found, expected = names[f"{profile}_scan"], CorpusDetector(profile).scan(documents, rows)
    assert found.decisions == expected.decisions
    assert np.array_equal(found.scores, expected.scores)
