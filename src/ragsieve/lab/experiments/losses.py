"""Losses of a language model kept on disk: a text that was read once is never read again."""

from __future__ import annotations

from pathlib import Path

from ragsieve.featurestore.models import StoredCausalScorer
from ragsieve.lab.corpora.features import lab_store
from ragsieve.ports import CausalScorer


class KeptCausalScorer(StoredCausalScorer):
    """A :class:`ragsieve.ports.CausalScorer` whose losses outlive the process.

    :param folder: of a feature store of its own; made when missing.
    :raises OutputError: when it cannot be made.
    """

    def __init__(self, scorer: CausalScorer, folder: Path) -> None:
        super().__init__(scorer, lab_store(folder))
