"""Profiles side by side on a real corpus with published poison: index scan and retrieval filter.

    python benchmarks/detection.py --bench DIR [--profiles NAME ...] [--attacks NAME ...]
        [--counts N ...] [--targets N] [--encoder NAME] [--only scan|filter]
        [--ingest scan|gate] [--json FILE]

Scan: all targets of an attack are poisoned at once and the whole index is judged.

Filter: the documents of one target are put into the index and its question is asked; candidates
are the first five. Corpus-wide thresholds are those of the unpoisoned index, which one target's
documents hardly move; alien runs come from the scan with all targets poisoned, or with
``--ingest gate`` from judging each target's documents at the ingestion gate against the unpoisoned
index. Clean figures come from the same questions over the unpoisoned index: what the filter costs
when nobody attacks.

With ten documents a target gets five published ones and a lightly edited copy of each, and the
first 60 targets are attacked.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench import ATTACKS, TARGETS, Bench, Poison, load_bench, shared_options
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.gate import IngestGate
from ragsieve.detectors.query import QueryDetector
from ragsieve.evidence.knn import nearest_rows
from ragsieve.features.knowledge import Snapshot, SnapshotFeatures
from ragsieve.lab.metrics import auroc, detected_at
from ragsieve.records import (
    Decision,
    Document,
    FloatArray,
    Query,
    RankedDocument,
    Ranking,
    Scan,
    Verdict,
)
from ragsieve.retrieval import rank

PROFILES = ("paper", "default")
COUNTS = (1, 3, 5, 10)
DEPTH = 40  # of a ranking; profile paper reads the first 20
SHARE = 0.05
CLEAN = "clean only"


@dataclasses.dataclass(frozen=True, slots=True)
class ScanFigures:
    """One profile's scan of one poisoned index.

    :param count: documents per target.
    :param documents: planted documents, all of them judged.
    :param found: share of them above the threshold that costs 5% of the clean documents.
    :param fixed: share of them removed by the fixed rule.
    :param clean: share of the clean documents removed by the fixed rule.
    """

    attack: str
    count: int
    profile: str
    targets: int
    documents: int
    auroc: float | None
    found: float | None
    fixed: float | None
    clean: float


@dataclasses.dataclass(frozen=True, slots=True)
class FilterFigures:
    """One profile's judgement of the candidates of poisoned rankings.

    :param hits: planted documents among the candidates; the shares are of these.
    :param clean: share of the candidates of unpoisoned rankings removed by the fixed rule.
    :param bystanders: the same share of the clean candidates of poisoned rankings.
    :param before: planted documents per question among the candidates.
    :param after: the same once the fixed rule has removed what it flags.
    """

    attack: str
    count: int
    profile: str
    targets: int
    hits: int
    auroc: float | None
    found: float | None
    fixed: float | None
    clean: float
    bystanders: float | None
    before: float | None
    after: float | None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Case:
    """An index with the poison of every target, clean documents first.

    :param rows: shape (len(documents), d).
    """

    attack: str
    count: int
    poison: tuple[Poison, ...]
    documents: tuple[Document, ...]
    rows: FloatArray

    @classmethod
    def of(cls, bench: Bench, attack: str, count: int, targets: int) -> Case:
        """The index with ``count`` documents for each of the first targets."""
        poison = bench.poison(attack, count, targets=targets)
        planted = [document for one in poison for document in one.documents]
        rows = np.concatenate([bench.rows, *(one.rows for one in poison)])
        return cls(attack, count, poison, (*bench.corpus, *planted), rows)

    @classmethod
    def clean(cls, bench: Bench) -> Case:
        """The index as it is."""
        return cls(CLEAN, 0, (), bench.corpus, bench.rows)


class Detectors:
    """Scans and query detectors of the profiles; a scan is made once.

    :param clean: the index as it is.
    :param ingest: ``scan`` or ``gate``: where alien runs of planted documents come from.
    """

    def __init__(self, clean: Case, ingest: str) -> None:
        self._clean = clean
        self._ingest = ingest
        self._scans: dict[tuple[str, str, int], Scan] = {}
        self._gate = IngestGate(DefaultCorpusRule())

    def scan(self, profile: str, case: Case) -> Scan:
        """The profile's judgement on the whole index."""
        key = (profile, case.attack, case.count)
        if key not in self._scans:
            self._scans[key] = CorpusDetector(profile).scan(case.documents, case.rows)
        return self._scans[key]

    @functools.cached_property
    def snapshot(self) -> Snapshot:
        """The clean index as a state."""
        return self._gate.snapshot(self.scan("default", self._clean), self._clean.rows)

    def clean(self, profile: str, rankings: Sequence[Ranking]) -> list[tuple[Verdict, ...]]:
        """Verdicts on rankings of the clean index; no language model."""
        if profile != "default":
            return QueryDetector(profile).score_many(rankings)
        features = self._gate.features(self.snapshot)
        return QueryDetector(profile, features=features).score_many(rankings)

    def poisoned(
        self, profile: str, case: Case, rankings: Sequence[Ranking]
    ) -> list[tuple[Verdict, ...]]:
        """Verdicts on one ranking a target, in whose index only that target's poison stands."""
        if profile != "default":
            return QueryDetector(profile).score_many(rankings)
        if self._ingest == "scan":
            whole = self._gate.snapshot(self.scan(profile, case), case.rows)
            surroundings = self._gate.features(self.snapshot).surroundings
            features = SnapshotFeatures(whole, surroundings)
            return QueryDetector(profile, features=features).score_many(rankings)
        found = []
        for ranking, poison in zip(rankings, case.poison, strict=True):
            features = self._gate.features(self.snapshot, poison.documents, poison.rows)
            found.append(QueryDetector(profile, features=features).score(ranking))
        return found


def scan_figures(detectors: Detectors, case: Case, profile: str, clean_size: int) -> ScanFigures:
    """The scan table's figures of one profile."""
    scan = detectors.scan(profile, case)
    flags = np.array([decision is Decision.FLAGGED for decision in scan.decisions])
    scores, poison = scan.scores[:clean_size], scan.scores[clean_size:]
    return ScanFigures(
        attack=case.attack,
        count=case.count,
        profile=profile,
        targets=len(case.poison),
        documents=int(poison.size),
        auroc=auroc(poison, scores) if poison.size else None,
        found=detected_at(poison, scores, SHARE) if poison.size else None,
        fixed=_mean(flags[clean_size:]),
        clean=float(flags[:clean_size].mean()),
    )


class FilterTable:
    """Judges the rankings of poisoned and unpoisoned questions.

    :param profiles: profiles judged.
    """

    def __init__(self, bench: Bench, detectors: Detectors, profiles: Sequence[str]) -> None:
        self._bench = bench
        self._detectors = detectors
        self._profiles = profiles
        self._clean = Case.clean(bench)
        self._judged: dict[tuple[str, tuple[Query, ...]], list[tuple[Verdict, ...]]] = {}

    def clean_figures(self) -> list[FilterFigures]:
        """What is removed from the rankings of all questions when nothing is planted."""
        queries = self._bench.queries()
        rankings = self.rankings(queries)
        nothing: list[Verdict] = []
        return [
            _filter_figures(
                self._clean, profile, _flat(self._clean_verdicts(profile, rankings)), nothing, []
            )
            for profile in self._profiles
        ]

    def figures(self, case: Case) -> list[FilterFigures]:
        """The filter table's figures of every profile."""
        queries = [one.query for one in case.poison]
        clean = self.rankings(queries)
        poisoned = [
            with_poison(ranking, one, vector)
            for ranking, one, vector in zip(
                clean, case.poison, self._bench.asked(queries), strict=True
            )
        ]
        planted = {document.id for one in case.poison for document in one.documents}
        figures = []
        for profile in self._profiles:
            judged = _flat(self._detectors.poisoned(profile, case, poisoned))
            hits = [verdict for verdict in judged if verdict.document_id in planted]
            others = [verdict for verdict in judged if verdict.document_id not in planted]
            negatives = _flat(self._clean_verdicts(profile, clean))
            figures.append(_filter_figures(case, profile, negatives, hits, others))
        return figures

    def rankings(self, queries: Sequence[Query]) -> list[Ranking]:
        bench = self._bench
        return rank(queries, bench.corpus, bench.asked(queries), bench.rows, depth=DEPTH)

    def _clean_verdicts(
        self, profile: str, rankings: Sequence[Ranking]
    ) -> list[tuple[Verdict, ...]]:
        # Most attacks and every number of documents ask the same questions.
        key = (profile, tuple(Query(one.query_id, one.query) for one in rankings))
        if key not in self._judged:
            self._judged[key] = self._detectors.clean(profile, rankings)
        return self._judged[key]


def with_poison(ranking: Ranking, poison: Poison, vector: FloatArray) -> Ranking:
    """The ranking once the poison stands at the end of the index, in its old depth.

    :param vector: shape (d,), the question's.
    """
    order, similarities = nearest_rows(vector[None], poison.rows, len(poison.documents))
    planted = [
        RankedDocument(poison.documents[row], 1, float(similarity))
        for row, similarity in zip(order[0].tolist(), similarities[0].tolist(), strict=True)
    ]
    # The sort is stable: at equal similarity the index's order decides, clean first.
    merged = sorted([*ranking.entries, *planted], key=lambda entry: -(entry.similarity or 0.0))
    return ranking.renumbered(merged[: len(ranking)])


def _filter_figures(
    case: Case,
    profile: str,
    negatives: Sequence[Verdict],
    hits: Sequence[Verdict],
    others: Sequence[Verdict],
) -> FilterFigures:
    found, clean = _scores(hits), _scores(negatives)
    missed = sum(not verdict.flagged for verdict in hits)
    targets = len(case.poison)
    return FilterFigures(
        attack=case.attack,
        count=case.count,
        profile=profile,
        targets=targets,
        hits=len(hits),
        auroc=auroc(found, clean) if hits else None,
        found=detected_at(found, clean, SHARE) if hits else None,
        fixed=_mean([verdict.flagged for verdict in hits]),
        clean=float(np.mean([verdict.flagged for verdict in negatives])),
        bystanders=_mean([verdict.flagged for verdict in others]),
        before=len(hits) / targets if targets else None,
        after=missed / targets if targets else None,
    )


def _scores(verdicts: Sequence[Verdict]) -> npt.NDArray[np.float64]:
    return np.array([verdict.score for verdict in verdicts], dtype=np.float64)


def _mean(flags: Sequence[bool] | npt.NDArray[np.bool_]) -> float | None:
    return float(np.mean(flags)) if len(flags) else None


def _flat(judged: Iterable[tuple[Verdict, ...]]) -> list[Verdict]:
    return [verdict for verdicts in judged for verdict in verdicts]


def _print_head(title: str, common: str, columns: Sequence[str], profiles: Sequence[str]) -> None:
    cells = "".join(f"{column:>7}" for column in columns)
    names = "".join(f"  {profile:^{len(cells)}}" for profile in profiles)
    print(f"\n{title}\n{'':<{len(common)}}{names}".rstrip())
    print(common + f"  {cells}" * len(profiles), flush=True)


def _print_row(common: str, values: Sequence[Sequence[float | None]]) -> None:
    groups = ("  " + "".join(_cell(value) for value in group) for group in values)
    print(common + "".join(groups), flush=True)


def _cell(value: float | None) -> str:
    return f"{'-':>7}" if value is None else f"{value:>7.3f}"


def print_scans(
    detectors: Detectors, cases: Sequence[Case], profiles: Sequence[str]
) -> list[ScanFigures]:
    """Print the scan table, a row as soon as it is known."""
    clean_size = len(cases[0].documents)
    head = f"{'attack':<16}{'n':>3}"
    _print_head("scan of the index", head, ["AUROC", "@5%", "fixed", "clean"], profiles)
    every = []
    for case in cases:
        row = [scan_figures(detectors, case, profile, clean_size) for profile in profiles]
        values = [(one.auroc, one.found, one.fixed, one.clean) for one in row]
        _print_row(f"{case.attack:<16}{case.count:>3}", values)
        every += row
    return every


def print_filters(
    table: FilterTable, cases: Sequence[Case], profiles: Sequence[str]
) -> list[FilterFigures]:
    """Print the filter table, a row as soon as it is known."""
    head = f"{'attack':<16}{'n':>3}{'hits':>6}{'before':>8}"
    columns = ["AUROC", "@5%", "fixed", "clean", "bystd", "after"]
    _print_head("filter of retrievals", head, columns, profiles)
    every = []
    for case in cases:
        row = table.figures(case) if case.poison else table.clean_figures()
        values = [
            (one.auroc, one.found, one.fixed, one.clean, one.bystanders, one.after) for one in row
        ]
        before = "-" if row[0].before is None else f"{row[0].before:.2f}"
        _print_row(f"{case.attack:<16}{case.count:>3}{row[0].hits:>6}{before:>8}", values)
        every += row
    return every


def parsed_options() -> argparse.Namespace:
    """The command line."""
    parser = shared_options("Profiles side by side on a real corpus with published poison.")
    parser.add_argument("--profiles", nargs="+", default=PROFILES)
    parser.add_argument("--attacks", nargs="+", default=ATTACKS, help="files of attacks/")
    parser.add_argument("--counts", nargs="+", type=int, default=COUNTS, help="1 to 10")
    parser.add_argument("--targets", type=int, default=TARGETS, help="first targets of an attack")
    parser.add_argument("--only", choices=("scan", "filter"))
    parser.add_argument("--ingest", choices=("scan", "gate"), default="scan")
    parser.add_argument("--json", type=Path, help="also write every figure here")
    options = parser.parse_args()
    if not all(1 <= count <= 10 for count in options.counts) or options.targets < 1:
        parser.error("expected 1 to 10 documents per target and at least one target")
    return options


def main() -> None:
    options = parsed_options()
    bench = load_bench(options)
    print(f"{len(bench.corpus)} documents, {bench.embedder.identity}")
    cases = [
        Case.clean(bench),
        *(
            Case.of(bench, attack, count, options.targets)
            for attack in options.attacks
            for count in options.counts
        ),
    ]
    detectors = Detectors(cases[0], options.ingest)
    scans: list[ScanFigures] = []
    filters: list[FilterFigures] = []
    if options.only != "filter":
        scans = print_scans(detectors, cases, options.profiles)
    if options.only != "scan":
        table = FilterTable(bench, detectors, options.profiles)
        filters = print_filters(table, cases, options.profiles)
    if options.json:
        figures = {
            "encoder": bench.embedder.identity,
            "documents": len(bench.corpus),
            "scan": [dataclasses.asdict(one) for one in scans],
            "filter": [dataclasses.asdict(one) for one in filters],
        }
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
