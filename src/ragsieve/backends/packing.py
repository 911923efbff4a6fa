"""Linear layers laid out once the way the processor multiplies them, instead of at every call."""

from __future__ import annotations

import functools
from typing import Any

from ragsieve._extras import require

# Their code calls its linear layers and looks at nothing inside them.
_PACKABLE = frozenset(
    {"bert", "electra", "llama", "mistral", "mpnet", "qwen2", "qwen3", "roberta", "xlm-roberta"}
)


def pack_linears(model: Any, *, rows: int) -> int:
    """Replace the linear layers of a model on a CPU by ones with packed weights.

    The same sums in another order: float32 results differ in their last bits, as they do from
    batch to batch. A model of another family, and a torch without oneDNN's packed layout, stays
    as it is.

    :param rows: tokens of a usual batch, which the layout is chosen for; others are possible.
    :returns: layers replaced.
    """
    if model.config.model_type not in _PACKABLE or not _packs(str(model.dtype)):
        return 0
    packed, linear = _packed_class(), require("torch", extra="models").nn.Linear
    places = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if type(child) is linear
    ]
    for parent, name in places:
        # One at a time: the plain weights of the layer before are free by now.
        setattr(parent, name, packed(getattr(parent, name), rows))
    return len(places)


@functools.cache
def _packs(dtype: str) -> bool:
    """Whether torch packs weights of this type here, tried once: its operators are not public."""
    torch = require("torch", extra="models")
    kind = getattr(torch, dtype.removeprefix("torch."))
    linear = torch.nn.Linear(32, 48).to(kind)
    rows = torch.linspace(-1.0, 1.0, 96).reshape(3, 32).to(kind)
    try:
        with torch.inference_mode():
            found, expected = _packed_class()(linear, 8)(rows), linear(rows)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return False
    close: bool = torch.allclose(found.float(), expected.float(), rtol=1e-2, atol=1e-2)
    return close


@functools.cache
def _packed_class() -> Any:
    # A class of torch's modules exists only once torch is imported.
    torch = require("torch", extra="models")

    class PackedLinear(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, linear: Any, rows: int) -> None:
            super().__init__()
            bias = linear.bias
            self.bias = None if bias is None else bias.detach()
            self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), rows)

        def forward(self, states: Any) -> Any:
            return torch.ops.mkldnn._linear_pointwise(
                states, self.packed, self.bias, "none", [], ""
            )

    return PackedLinear
