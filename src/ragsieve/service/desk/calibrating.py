"""How often reviewers agreed, by slice, and what another threshold would have done."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence

from ragsieve.calibration.intervals import Interval, clustered_share
from ragsieve.calibration.samples import sample
from ragsieve.cases import Incident, Opinion
from ragsieve.errors import InputError
from ragsieve.findings.plain import leading
from ragsieve.ledger.book import Ledger
from ragsieve.ledger.records import QueueFilter

CONFIDENCE = 0.95
MOST_READ = 5_000
"""Findings of one opinion that are looked at, the most pressing first."""

_CHUNK = 500


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """A part of some findings.

    :param effective: independent draws behind the interval: findings of one campaign tell less
        than as many that stand alone.
    :param interval: exact binomial (Clopper and Pearson 1934); None without findings.
    """

    count: int
    of: int
    effective: int
    interval: Interval | None


@dataclasses.dataclass(frozen=True, slots=True)
class SliceShare:
    """Reviewed alarms of one slice, and the share of them that was confirmed.

    :param evidence: the strongest one.
    """

    store: str
    profile: str
    level: str
    evidence: str
    confirmed: Share


@dataclasses.dataclass(frozen=True, slots=True)
class Calibration:
    """What reviews say about the alarms there were.

    :param threshold: that is tried out; ``usual`` the one in force most often.
    :param lowest: score among the findings; ``highest`` likewise. Both None without findings.
    :param confirmed_kept: of the confirmed ones, those at or above ``threshold``.
    :param benign_kept: of the benign ones.
    :param waiting_kept: of those without either opinion.
    :param cut: whether there are more findings than were looked at.
    """

    slices: tuple[SliceShare, ...]
    overall: Share
    threshold: float
    usual: float
    lowest: float | None
    highest: float | None
    confirmed_kept: Share
    benign_kept: Share
    waiting_kept: Share
    cut: bool


def threshold_of(text: str | None) -> float | None:
    """A threshold as it stands in an address; None where there is none.

    :raises InputError: for what is no positive number.
    """
    if not text:
        return None
    try:
        value = float(text[:40])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InputError("threshold: expected a number above 0")
    return value


def calibration(ledger: Ledger, tenant: str | None, threshold: float | None) -> Calibration:
    """Shares of confirmed alarms by slice, and what ``threshold`` would have kept.

    A content counts once, with its newest finding. Only what raised an alarm is reviewed:
    nothing here says what a lower threshold would have found.
    """
    confirmed, more = _read(ledger, tenant, QueueFilter(opinion=Opinion.CONFIRMED, superseded=None))
    benign, others = _read(ledger, tenant, QueueFilter(opinion=Opinion.BENIGN, superseded=None))
    waiting, rest = _read(ledger, tenant, QueueFilter(reviewed=False))
    everything = [*confirmed, *benign, *waiting]
    scores = [one.verdict.score for one in everything]
    thresholds = Counter(one.verdict.threshold for one in everything)
    usual = thresholds.most_common(1)[0][0] if thresholds else 1.0
    tried = usual if threshold is None else threshold
    groups: dict[tuple[str, str, str, str], list[Incident]] = {}
    for one in (*confirmed, *benign):
        groups.setdefault(_slice(one), []).append(one)
    return Calibration(
        slices=tuple(
            SliceShare(*name, confirmed=_confirmed(found)) for name, found in sorted(groups.items())
        ),
        overall=_confirmed([*confirmed, *benign]),
        threshold=tried,
        usual=usual,
        lowest=min(scores, default=None),
        highest=max(scores, default=None),
        confirmed_kept=_kept(confirmed, tried),
        benign_kept=_kept(benign, tried),
        waiting_kept=_kept(waiting, tried),
        cut=more or others or rest,
    )


def share(hits: Sequence[bool], groups: Sequence[str]) -> Share:
    """A share with its interval; members of one group count as fewer draws (Kish 1965)."""
    if not hits:
        return Share(0, 0, 0, None)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups))}
    drawn = sample([float(one) for one in hits], [numbers[name] for name in groups])
    found = clustered_share(sum(hits), len(hits), drawn.effective, CONFIDENCE)
    return Share(sum(hits), len(hits), drawn.effective, found)


def _read(ledger: Ledger, tenant: str | None, wanted: QueueFilter) -> tuple[list[Incident], bool]:
    """Findings, each content once, and whether some were not looked at."""
    found: dict[str, Incident] = {}
    offset = total = 0
    while offset < MOST_READ:
        page = ledger.incidents.queue(wanted, tenant=tenant, limit=_CHUNK, offset=offset)
        total = page.total
        for kept in page.entries:
            one = kept.incident
            known = found.get(one.content_sha256)
            if known is None or known.decided_at < one.decided_at:
                found[one.content_sha256] = one
        offset += len(page.entries)
        if len(page.entries) < _CHUNK:
            break
    return list(found.values()), offset < total


def _slice(one: Incident) -> tuple[str, str, str, str]:
    first = leading(one.verdict)
    name = "none" if first is None else first.name
    return one.place.store, one.verdict.profile, str(one.verdict.level), name


def _confirmed(found: Sequence[Incident]) -> Share:
    hits = [one.opinion is Opinion.CONFIRMED for one in found]
    return share(hits, [_group(one) for one in found])


def _kept(found: Sequence[Incident], threshold: float) -> Share:
    hits = [one.verdict.score >= threshold for one in found]
    return share(hits, [_group(one) for one in found])


def _group(one: Incident) -> str:
    if one.campaign is not None:
        return f"campaign {one.campaign}"
    return f"finding {one.id}"
