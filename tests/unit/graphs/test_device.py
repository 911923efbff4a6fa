"""Products by torch change the time, never the graph."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from builders import clustered
from ragsieve.errors import MissingExtraError
from ragsieve.evidence import knn
from ragsieve.evidence.knn import cosine_knn, unit_rows
from ragsieve.evidence.shortlist import exact_similarities
from ragsieve.graphs.device import torch_product


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("wanted", [None, np.array([5, 190, 7])])
def test_the_graph_is_the_same(half, wanted, monkeypatch):
    monkeypatch.setattr(knn, "BLOCK_BYTES", 4 * 90 * 90)
    _, rows = clustered(np.random.default_rng(1), 400, dimension=40)
    rows[100:180] = rows[100] + 1e-7 * rows[100:180]
    plain = cosine_knn(rows, 12, rows=wanted)
    other = cosine_knn(rows, 12, rows=wanted, product=torch_product(half=half))
    assert (plain.indices == other.indices).all()
    assert (plain.similarities == other.similarities).all()


@pytest.mark.parametrize("half", [False, True])
def test_the_bound_holds_and_is_no_wider_than_needed(half):
    rng = np.random.default_rng(0)
    unit = unit_rows(np.abs(rng.normal(size=(200, 64))))
    product = torch_product(half=half)(unit, unit)
    pairs = np.divmod(np.arange(200 * 200), 200)
    exact = exact_similarities(unit, unit, *pairs)
    off = np.abs(product(slice(0, 200), slice(0, 200)).ravel().clip(-1, 1) - exact)
    assert off.max() <= product.error < 0.007
    assert half == (product.error > 1e-3)


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"ragsieve\[models\]"):
        torch_product()
