"""What to do where the detector cannot judge, or the ranking cannot supply."""

from __future__ import annotations

import dataclasses
import enum
from typing import ClassVar

from ragsieve.errors import ConfigError
from ragsieve.records import Level


class Resort(enum.StrEnum):
    """The three ways out; each is stated in the trace."""

    KEEP = "keep"
    REMOVE = "remove"
    RAISE = "raise"


@dataclasses.dataclass(frozen=True, slots=True)
class FilterPolicy:
    """One stated outcome for every case a deployment meets besides flagged and clear.

    :param on_unavailable: a candidate below the threshold with evidence unavailable, or one
        that the corpus scan never saw.
    :param on_short: candidates of a ranking too short for its tail, fewer than n documents.
    :param on_duplicates: an id that stands again further down the ranking; ``keep`` leaves
        the repeats, and evidence against the tail is then unavailable.
    :param on_few_survivors: fewer than k documents left; ``keep`` hands over what there is,
        ``remove`` hands over nothing.
    :param quarantine_at: findings of a corpus scan are taken out from this level on;
        ``review`` takes out what still waits for a reviewer too.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    on_unavailable: Resort = Resort.KEEP
    on_short: Resort = Resort.KEEP
    on_duplicates: Resort = Resort.REMOVE
    on_few_survivors: Resort = Resort.KEEP
    quarantine_at: Level = Level.QUARANTINE

    def __post_init__(self) -> None:
        if self.quarantine_at is Level.INFO:
            raise ConfigError("filter: quarantine_at must be review or quarantine")
