"""One calibration: thresholds, what they find, and what changed, slice by slice."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ragsieve.calibration.drift import Drift, compare
from ragsieve.calibration.intervals import Interval
from ragsieve.calibration.policy_file import in_force
from ragsieve.calibration.recall import Recall, Replayed, recall_at
from ragsieve.calibration.record import CalibrationRecord, SliceRecord
from ragsieve.calibration.sketch import sketch_of
from ragsieve.calibration.slices import Portion, Slice
from ragsieve.calibration.thresholds import Aim, alarms_at, choose, units_of
from ragsieve.policy.file import Declaration, SliceThreshold


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """Replayed documents of one dataset and retriever.

    :param fingerprint: of the configuration that scored them.
    :param missing: evidence their scores lack.
    """

    replayed: Replayed
    fingerprint: str
    missing: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Calibrated:
    """What one calibration says.

    :param thresholds: for the policy file, narrower slices first.
    """

    slices: tuple[SliceRecord, ...]
    thresholds: tuple[SliceThreshold, ...]


def calibrate(
    benign: Sequence[Portion],
    aim: Aim,
    *,
    policy: Declaration,
    replays: Mapping[Slice, Replay] | None = None,
    earlier: CalibrationRecord | None = None,
) -> Calibrated:
    """Choose a threshold for every slice, and say what it does.

    :param policy: in force until now; a slice without a new threshold keeps what it says.
    :param replays: by slice, tenants left empty; None when nothing was replayed.
    :param earlier: the last calibration; None when there is nothing to compare with.
    """
    known = {} if earlier is None else {one.slice: one for one in earlier.slices}
    comparable = sum(
        _incomparable(portion, aim, earlier, known.get(portion.slice)) is None for portion in benign
    )
    records = []
    for portion in benign:
        units = units_of(portion.sample, aim)
        choice = choose(portion.sample, aim)
        stays = in_force(policy, portion.slice, portion.threshold)
        decides = stays if choice.threshold is None else choice.threshold.value
        recall, no_recall = _recall(portion, decides, aim, replays)
        before = known.get(portion.slice)
        no_drift = _incomparable(portion, aim, earlier, before)
        queries = portion.slice.kind != "scan"
        drift: Drift | None = None
        if no_drift is None and before is not None:
            drift = compare(before.sketch, before.in_force, units, comparisons=comparable)
        records.append(
            SliceRecord(
                slice=portion.slice,
                fingerprint=portion.fingerprint,
                documents=len(portion.sample),
                queries=len(portion.sample.sizes) if queries else None,
                units=choice.units,
                effective=choice.effective,
                trimmed=choice.trimmed,
                left_out=portion.left_out,
                missing=portion.missing,
                threshold=choice.threshold,
                rate=None if choice.alarms is None else choice.alarms.rate,
                reason=_kept(choice.reason, stays, portion),
                in_force=alarms_at(units, decides, aim.confidence),
                at_profile=alarms_at(units, portion.threshold, aim.confidence),
                review=portion.reaching(portion.threshold),
                sketch=sketch_of(units),
                recall=recall,
                no_recall=no_recall,
                drift=drift,
                no_drift=no_drift,
            )
        )
    set_ones = [
        _threshold(one, one.threshold, one.rate) for one in records if one.threshold and one.rate
    ]
    return Calibrated(tuple(records), tuple(sorted(set_ones, key=_narrow_first)))


def _kept(reason: str | None, stays: float, portion: Portion) -> str | None:
    if reason is None:
        return None
    whose = "profile's" if stays == portion.threshold else "policy's earlier"
    return f"{reason}; the {whose} threshold {stays:g} stays"


def _recall(
    portion: Portion, threshold: float, aim: Aim, replays: Mapping[Slice, Replay] | None
) -> tuple[Recall | None, str | None]:
    if replays is None:
        return None, "nothing was replayed"
    replay = replays.get(dataclasses.replace(portion.slice, tenant=""))
    if replay is None:
        return None, "nothing was replayed in this slice; name its dataset and retriever alike"
    if replay.fingerprint != portion.fingerprint:
        return None, "what was replayed was scored by another configuration"
    if replay.missing != portion.missing:
        return None, "what was replayed was scored with other evidence missing"
    return recall_at(replay.replayed, threshold, aim.confidence), None


def _incomparable(
    portion: Portion, aim: Aim, earlier: CalibrationRecord | None, before: SliceRecord | None
) -> str | None:
    """Why a slice cannot be compared with the last calibration; None when it can."""
    if earlier is None:
        return "there is no earlier calibration"
    if before is None:
        return "the earlier calibration does not know this slice"
    if earlier.unit != aim.unit:
        return f"the earlier calibration counts by {earlier.unit}, this one by {aim.unit}"
    if before.fingerprint != portion.fingerprint:
        return "the configuration changed, so that scores cannot be compared"
    if before.missing != portion.missing:
        return "other evidence was missing then"
    return None


def _threshold(one: SliceRecord, threshold: Interval, rate: Interval) -> SliceThreshold:
    return SliceThreshold(
        threshold=threshold.value,
        profile=one.slice.profile,
        kind=one.slice.kind,
        dataset=one.slice.dataset,
        retriever=one.slice.retriever or None,
        tenant=one.slice.tenant or None,
        alarm_rate=rate.value,
        low=rate.low,
        high=rate.high,
        benign=one.units,
    )


def _narrow_first(one: SliceThreshold) -> tuple[bool, bool, bool]:
    wild = any(mark in one.dataset for mark in "*?")
    return one.tenant is None, wild, one.retriever is None
