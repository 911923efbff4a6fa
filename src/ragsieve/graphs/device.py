"""The exact search's products by torch: on a GPU, or in bfloat16 where the processor has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ragsieve._extras import require
from ragsieve.evidence.shortlist import Floats, ranges, rounding
from ragsieve.evidence.tiles import MakeProduct, Product, Some

_BLOCK = 8192
# Half an ulp of a number of at most one.
_BFLOAT16 = 2.0**-9


def torch_product(device: str = "cpu", *, half: bool = False) -> MakeProduct:
    """Products for :func:`ragsieve.evidence.knn.cosine_knn`, which stays exact.

    :param device: of torch, such as ``cuda``; the rows have to fit.
    :param half: multiply in bfloat16, summing in float32: a rougher product leaves more
        candidates to exact similarities. Without it float32, TF32 left off.
    :raises MissingExtraError: when torch is not installed.
    """
    require("torch", extra="models")

    def make(left: Floats, right: Floats) -> Product:
        return _TorchProduct(left, right, device, half=half)

    return make


class _TorchProduct:
    def __init__(self, left: Floats, right: Floats, device: str, *, half: bool) -> None:
        self._device = device
        self._torch: Any = require("torch", extra="models")
        self._kind = self._torch.bfloat16 if half else self._torch.float32
        self._product = self._torch.empty(0, dtype=self._kind, device=device)
        self._tile = self._torch.empty(0)
        self._left, lost = self._moved(left)
        self._right, other = (self._left, lost) if right is left else self._moved(right)
        # By Cauchy and Schwarz what the rows lost, then the sum, then the result in bfloat16.
        self.error = 1.01 * (lost + other + lost * other + 4 * rounding(left.shape[1], 24))
        self.error += 1.01 * _BFLOAT16 if half else 0.0

    def __call__(self, rows: Some, columns: Some) -> Floats:
        left, right = self._left[rows], self._right[columns]
        shape = left.shape[0], right.shape[0]
        size = shape[0] * shape[1]
        # Buffers for all tiles: fresh memory would cost as much as looking at it.
        if self._tile.numel() < size:
            self._product = self._torch.empty(size, dtype=self._kind, device=self._device)
            self._tile = self._torch.empty(size)
        product = self._torch.mm(left, right.T, out=self._product[:size].view(shape))
        tile: Floats = self._tile[:size].view(shape).copy_(product).numpy()
        return tile

    def _moved(self, unit: Floats) -> tuple[Any, float]:
        """Rows on the device, and the greatest length of what a row lost on the way."""
        moved = self._torch.empty(unit.shape, dtype=self._kind, device=self._device)
        lost = 0.0
        for part in ranges(len(unit), _BLOCK):
            moved[part] = self._torch.from_numpy(unit[part])
            gone = unit[part].astype(np.float64) - moved[part].double().cpu().numpy()
            lost = max(lost, float(np.linalg.norm(gone, axis=1).max()))
        return moved, lost
