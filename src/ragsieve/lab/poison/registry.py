"""Every construction by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ragsieve.errors import ConfigError
from ragsieve.lab.poison import camodocs, cem
from ragsieve.lab.poison.adaptive_corpus import (
    BudgetDecoys,
    DenseGround,
    Few,
    NearCopies,
    SpreadApart,
)
from ragsieve.lab.poison.adaptive_query import (
    Aliases,
    AllAtOnce,
    EvenWords,
    QuietLanguage,
    TailFill,
)
from ragsieve.lab.poison.adaptive_rings import BorrowedOrigin, Fraction
from ragsieve.lab.poison.base import Construction
from ragsieve.lab.poison.corrupt import CorruptAs
from ragsieve.lab.poison.hotflip import HotFlip, HotFlipConfig
from ragsieve.lab.poison.numeric import NumericTampering
from ragsieve.lab.poison.prefixed import Prefixed
from ragsieve.lab.poison.rings import AuthorityTemplate, FormatOnly
from ragsieve.lab.poison.woven import CpaLite, CpaRag

CONSTRUCTIONS: Mapping[str, Callable[[], Construction]] = MappingProxyType(
    {
        "PR-B": Prefixed,
        "PR-W": HotFlip,
        "CEM-C": cem.Cem,
        "CEM-D": lambda: cem.Cem(scattered=True),
        "CEM-C-reduced": lambda: cem.Cem(cem.REDUCED),
        "CEM-D-reduced": lambda: cem.Cem(cem.REDUCED, scattered=True),
        "CPA-RAG": CpaRag,
        "CPA-lite": CpaLite,
        "CamoDocs": camodocs.CamoDocs,
        "CamoDocs-reduced": lambda: camodocs.CamoDocs(camodocs.REDUCED),
        "CorruptRAG-AS": CorruptAs,
        "numeric-tampering": NumericTampering,
        "TriShield-template": AuthorityTemplate,
        "TriShield-format-only": FormatOnly,
        "R1": SpreadApart,
        "R2": NearCopies,
        "R3": Few,
        "R4": DenseGround,
        "R5": BudgetDecoys,
        "R6": Aliases,
        "R7": TailFill,
        "R8": lambda: HotFlip(HotFlipConfig(one_script=True), name="R8"),
        "R9": QuietLanguage,
        "R10": EvenWords,
        "R11": AllAtOnce,
        "T1": lambda: FormatOnly("T1"),
        "T2": Fraction,
        "T3": BorrowedOrigin,
    }
)


def construction(name: str) -> Construction:
    """A construction with its own default configuration.

    :raises ConfigError: for a name that is none.
    """
    if name not in CONSTRUCTIONS:
        known = ", ".join(CONSTRUCTIONS)
        raise ConfigError(f"construction: expected one of {known}, found {name!r}")
    return CONSTRUCTIONS[name]()
