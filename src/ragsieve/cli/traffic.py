"""Where `calibrate` takes scores from: a fresh run, or files of an earlier one."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ragsieve._jsonl import read_jsonl
from ragsieve.calibration.calibrate import Replay
from ragsieve.calibration.recall import Replayed
from ragsieve.calibration.samples import Sample
from ragsieve.calibration.slices import EVERYWHERE, Scored, Slice, portions
from ragsieve.cli.console import Console
from ragsieve.defense.serial import serial_defense
from ragsieve.detectors.default_corpus import PROVENANCE
from ragsieve.detectors.query import QueryDetector
from ragsieve.errors import InputError
from ragsieve.files.contexts import Carried, ContextRow
from ragsieve.files.predictions import Prediction, read_predictions
from ragsieve.lab.labels import read_labels
from ragsieve.policy.rules import Kind
from ragsieve.records import Document, Scan, Verdict
from ragsieve.settings import Settings

# Not needed for a complete verdict, and known for some documents only.
_OPTIONAL = frozenset({PROVENANCE})


@dataclasses.dataclass(frozen=True, slots=True)
class Naming:
    """How slices are called, whatever the records say; None leaves it to the records."""

    dataset: str | None = None
    retriever: str | None = None
    tenant: str | None = None

    def slice(self, profile: str, kind: Kind, carried: Carried, tenant: str | None) -> Slice:
        """The slice of one judgement.

        :raises InputError: when a record's dataset would be read as a pattern.
        """
        dataset = self.dataset or carried.dataset
        if self.dataset is None and dataset is not None and set("*?") & set(dataset):
            raise InputError(
                f"dataset {dataset!r}: holds a character that a policy reads as a pattern; "
                "name it with --dataset"
            )
        return Slice(
            profile,
            kind,
            dataset or EVERYWHERE,
            self.retriever or carried.encoder or "",
            self.tenant or tenant or "",
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Planted:
    """What the lab says it planted.

    :param campaigns: of each planted document: question and attack, or itself where unknown.
    :param known: whether the file names campaigns.
    """

    campaigns: Mapping[str, tuple[str, ...]]
    known: bool

    def __contains__(self, document_id: str) -> bool:
        return document_id in self.campaigns


def read_planted(path: Path) -> Planted:
    """Planted documents of the lab's truth file.

    :raises InputError: when it cannot be read, or names none.
    """
    truth = read_labels(path)
    campaigns: dict[str, tuple[str, ...]] = {}
    known = True
    for row in read_jsonl(path):
        name = row.identifier("document_id", "id")
        if truth[name]:
            parts = tuple(row.text(field, default="") for field in ("query_id", "attack"))
            known &= any(parts)
            campaigns[name] = parts if any(parts) else (name,)
    if not campaigns:
        raise InputError(f"{path}: expected planted documents, found none")
    return Planted(campaigns, known)


def filter_scores(
    console: Console,
    rows: Sequence[ContextRow],
    detector: QueryDetector,
    settings: Settings,
    naming: Naming,
) -> list[Scored]:
    """Scores of the candidates of each ranking, as `filter` gives them."""
    with console.progress("judging retrievals", len(rows)) as advance:
        pipeline = serial_defense(detector, policy=settings.filter, progress=advance)
        outcomes = pipeline.run_many([row.ranking for row in rows])
    found = []
    for row, outcome in zip(rows, outcomes, strict=True):
        tenants = {one.id: one.provenance.tenant for one in row.ranking.documents}
        query = _query(row.ranking.query_id, row.carried)
        for verdict in outcome.verdicts:
            name = naming.slice(
                verdict.profile, "filter", row.carried, tenants.get(verdict.document_id)
            )
            found.append(_scored(verdict, name, query))
    return found


def scan_scores(scan: Scan, corpus: Sequence[Document], naming: Naming) -> list[Scored]:
    """Scores of a corpus scan."""
    return [
        _scored(
            verdict,
            naming.slice(scan.profile, "scan", Carried(), document.provenance.tenant),
            None,
        )
        for verdict, document in zip(scan, corpus, strict=True)
    ]


def file_scores(paths: Sequence[Path], naming: Naming) -> Iterator[Scored]:
    """Scores of saved predictions; those of `filter` have a query, those of `scan` have none.

    :raises InputError: for predictions of decision mode, which hold bounds in place of scores.
    """
    for path in paths:
        lower_bounds = _lower_bounds(path)
        for one, lower in zip(read_predictions(path), lower_bounds, strict=True):
            kind: Kind = "scan" if one.query_id is None else "filter"
            yield Scored(
                slice=naming.slice(one.profile, kind, one.carried, None),
                document_id=one.document_id,
                query=None if one.query_id is None else _query(one.query_id, one.carried),
                score=one.score,
                threshold=one.threshold,
                fingerprint=one.fingerprint,
                missing=_missing(one) if lower else (),
            )


def replays_of(scored: Sequence[Scored], planted: Planted) -> dict[Slice, Replay]:
    """What was replayed, by dataset and retriever.

    :raises InputError: when no planted document was judged, or as `portions`.
    """
    own = [
        dataclasses.replace(one, slice=dataclasses.replace(one.slice, tenant=""))
        for one in scored
        if one.document_id in planted
    ]
    if not own:
        raise InputError("no planted document of --labels is judged in what was replayed")
    sizes: dict[tuple[str, ...], int] = {}
    for campaign in planted.campaigns.values():
        sizes[campaign] = sizes.get(campaign, 0) + 1
    numbers = {campaign: number for number, campaign in enumerate(sizes)}
    found = {}
    for portion in portions(own):
        belongs = [planted.campaigns[name] for name in portion.document_ids]
        groups = np.array([numbers[one] for one in belongs], dtype=np.int64)
        known = [sizes[one] if planted.known else 0 for one in belongs]
        replayed = Replayed(
            Sample(portion.sample.scores, groups),
            np.array(known, dtype=np.int64),
            len(planted.campaigns) - len(set(portion.document_ids)),
        )
        found[portion.slice] = Replay(replayed, portion.fingerprint, portion.missing)
    return found


def with_planted(rows: Sequence[ContextRow], planted: Planted) -> list[ContextRow]:
    """The rankings that hold a planted document; the others say nothing about recall."""
    return [row for row in rows if any(one.id in planted for one in row.ranking.documents)]


def check_benign(scored: Collection[Scored], planted: Planted) -> None:
    """Benign traffic must hold nothing that is known to be planted.

    :raises InputError: when it does.
    """
    known = sorted({one.document_id for one in scored if one.document_id in planted})
    if known:
        raise InputError(
            f"{len(known)} documents of the benign traffic are planted according to --labels "
            f"({known[0]!r} first); hand in benign traffic, or choose it with --condition"
        )


def _scored(verdict: Verdict, name: Slice, query: str | None) -> Scored:
    return Scored(
        slice=name,
        document_id=verdict.document_id,
        query=query,
        score=verdict.score,
        threshold=verdict.threshold,
        fingerprint=verdict.fingerprint,
        missing=_missing(verdict),
    )


def _missing(one: Verdict | Prediction) -> tuple[str, ...]:
    lost = {own.name for own in one.evidences if not own.measured and not own.optional}
    return tuple(sorted(lost - _OPTIONAL))


def _query(query_id: str, carried: Carried) -> str:
    return " / ".join([*carried.fields().values(), query_id])


def _lower_bounds(path: Path) -> list[bool]:
    found = []
    for row in read_jsonl(path):
        if "score_at_least" in row.fields:
            raise row.error(
                "score_at_least",
                "holds bounds in place of a score; write predictions with --mode full",
            )
        found.append(row.fields.get("score_is_lower_bound") is True)
    return found
