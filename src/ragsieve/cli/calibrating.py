"""The command that sets thresholds from an operator's own traffic."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragsieve._atomic import check_distinct, check_writable, write_text
from ragsieve._extras import require
from ragsieve.cli import options
from ragsieve.cli.console import Console
from ragsieve.cli.exits import leave
from ragsieve.errors import ConfigError, InputError
from ragsieve.settings import Settings

if TYPE_CHECKING:
    from ragsieve.calibration.record import CalibrationRecord, Source
    from ragsieve.calibration.slices import Scored
    from ragsieve.cli.traffic import Naming, Planted


@dataclasses.dataclass(frozen=True, slots=True)
class Traffic:
    """The files a calibration reads; None for those that were not given."""

    contexts: Path | None
    documents: Path | None
    embeddings: Path | None
    scores: tuple[Path, ...]
    state: Path | None
    replayed: Path | None
    replayed_scores: tuple[Path, ...]
    labels: Path | None
    policy: Path | None
    against: Path | None

    def __post_init__(self) -> None:
        fresh = self.contexts is not None or self.documents is not None
        if (self.documents is None) != (self.embeddings is None):
            raise ConfigError("expected --documents and --embeddings together")
        if fresh and self.scores:
            raise ConfigError("--scores has its judgements already; leave the traffic out")
        if not fresh and not self.scores:
            raise ConfigError(
                "expected benign traffic: --contexts, --documents with --embeddings, or --scores"
            )
        replayed = self.replayed is not None or bool(self.replayed_scores)
        if replayed != (self.labels is not None):
            raise ConfigError("what is replayed needs --labels, which say what was planted")

    def named(self) -> list[tuple[str, Path]]:
        """Every file, with what it is for."""
        found = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            paths = value if isinstance(value, tuple) else [value] if value else []
            found += [(field.name, path) for path in paths]
        return found


def calibrate(
    output: Annotated[Path, typer.Option(help="Policy file (.toml) to write; its record beside.")],
    contexts: Annotated[
        Path | None, typer.Option(help="Benign retrievals: thresholds for `filter`.")
    ] = None,
    documents: Annotated[
        Path | None, typer.Option(help="Benign corpus, with --embeddings: thresholds for `scan`.")
    ] = None,
    embeddings: Annotated[Path | None, typer.Option(help="Its embeddings (.npy).")] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(help="Predictions of benign traffic instead; may stand several times."),
    ] = None,
    replayed: Annotated[
        Path | None, typer.Option(help="Contexts with planted documents, from `lab prepare`.")
    ] = None,
    replayed_scores: Annotated[
        list[Path] | None, typer.Option(help="Predictions of such traffic; as --scores.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="The lab's truth about what was replayed.")
    ] = None,
    condition: Annotated[
        str | None, typer.Option(help="Take only benign contexts of this condition.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="Policy whose rules stay; that of --against, else the built-in."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Last calibration: its policy file, or its record.")
    ] = None,
    alarm_rate: Annotated[
        float, typer.Option(help="Alarms wanted on benign traffic, between 0 and 1.")
    ] = 0.01,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Count queries with an alarm, not documents.")
    ] = False,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    trim: Annotated[
        float, typer.Option(help="Highest share of the traffic left out as possibly planted.")
    ] = 0.0,
    dataset: Annotated[
        str | None, typer.Option(help="Slice: pattern over the store's address.")
    ] = None,
    retriever: Annotated[str | None, typer.Option(help="Slice: the embedding version.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Slice: whose traffic it is.")] = None,
    state: options.State = None,
    features: options.Features = None,
    profile: options.Profile = None,
    causal_model: options.CausalModel = None,
    token_model: options.TokenModel = None,
    token_layer: options.TokenLayer = None,
    device: options.Device = None,
    models_dir: options.ModelsDir = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Set thresholds from your own benign traffic, slice by slice, and find drift."""
    from ragsieve.calibration.calibrate import calibrate as calibrated
    from ragsieve.calibration.policy_file import with_thresholds
    from ragsieve.calibration.record import CalibrationRecord, write_record
    from ragsieve.calibration.slices import portions
    from ragsieve.calibration.thresholds import Aim
    from ragsieve.cli.calibration_report import report
    from ragsieve.cli.traffic import Naming, check_benign, read_planted
    from ragsieve.policy.file import read_policy
    from ragsieve.settings import load_settings

    console = Console(as_json=as_json)
    traffic = Traffic(
        contexts,
        documents,
        embeddings,
        tuple(scores or ()),
        state,
        replayed,
        tuple(replayed_scores or ()),
        labels,
        policy,
        against,
    )
    # Before the work, not after it.
    require("tomlkit", extra="ledger")
    if condition is not None and contexts is None:
        raise ConfigError("--condition chooses among --contexts; give them, or leave it out")
    record_file = _check_output(output, traffic, config)
    aim = Aim(alarm_rate, "query" if per_query else "document", confidence, trim)
    base = policy or (against if against is not None and against.suffix == ".toml" else None)
    rules, text = read_policy(base), _text_of(base)
    earlier = None if against is None else _earlier(console, against)
    planted = None if labels is None else read_planted(labels)
    settings = load_settings(
        config,
        profile=profile,
        models_dir=models_dir,
        models={
            "causal": causal_model,
            "encoder": token_model,
            "encoder_layer": token_layer,
            "device": device,
        },
        features={"store": features},
    )
    naming = Naming(dataset, retriever, tenant)
    benign, replays = _judged(console, settings, traffic, naming, condition, planted)
    if planted is not None:
        check_benign(benign, planted)
    done = calibrated(
        portions(benign), aim, policy=rules.declared, replays=replays, earlier=earlier
    )
    written = with_thresholds(text, rules.declared, done.thresholds)
    fresh = traffic.contexts is not None or traffic.documents is not None
    record = CalibrationRecord(
        format=1,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        alarm_rate=aim.alarm_rate,
        unit=aim.unit,
        confidence=aim.confidence,
        trim=aim.trim,
        sources=_sources(traffic),
        config_sha256=settings.sha256 if fresh else None,
        policy_sha256=_sha256(written.encode()),
        slices=done.slices,
    )
    # A policy never stands without the record of its thresholds.
    write_record(record_file, record)
    write_text(output, written)
    gone = sorted(
        str(one.slice)
        for one in (earlier.slices if earlier is not None else ())
        if one.slice not in {own.slice for own in done.slices}
    )
    report(console, record, output, gone)
    compared = earlier is not None
    leave(
        findings=any(one.drift is not None and one.drift.drifted for one in done.slices),
        partial=bool(gone)
        or any(
            one.threshold is None or one.left_out or (compared and one.drift is None)
            for one in done.slices
        ),
    )


def _check_output(output: Path, traffic: Traffic, config: Path | None) -> Path:
    from ragsieve.calibration.record import record_path

    if output.suffix != ".toml":
        raise ConfigError(f"{output}: expected a policy file, whose name ends in .toml")
    record = record_path(output)
    read: list[Path | None] = [config, *(path for _, path in traffic.named())]
    if traffic.against is not None:
        read.append(record_path(traffic.against))
    for path in (output, record):
        check_writable(path)
    check_distinct([output, record], read)
    return record


def _text_of(policy: Path | None) -> str:
    from importlib import resources

    if policy is None:
        return (resources.files("ragsieve.policy") / "default.toml").read_text("utf-8")
    return policy.read_bytes().decode("utf-8")


def _earlier(console: Console, against: Path) -> CalibrationRecord:
    from ragsieve.calibration.record import read_record, record_path

    if against.suffix != ".toml":
        return read_record(against)
    record = read_record(record_path(against))
    try:
        changed = _sha256(against.read_bytes()) != record.policy_sha256
    except OSError as error:
        raise InputError(f"{against}: cannot be read ({error.strerror})") from error
    if changed:
        console.note(f"{against}: was changed after its calibration; the record is compared with")
    return record


def _judged(
    console: Console,
    settings: Settings,
    traffic: Traffic,
    naming: Naming,
    condition: str | None,
    planted: Planted | None,
) -> tuple[list[Scored], Any]:
    """Benign scores, and what was replayed; None for that when nothing was."""
    from ragsieve.assembly import corpus_detector, feature_store, query_detector
    from ragsieve.cli.known import feature_source
    from ragsieve.cli.neighbors import NeighborChoice, scanned
    from ragsieve.cli.traffic import (
        file_scores,
        filter_scores,
        replays_of,
        scan_scores,
        with_planted,
    )
    from ragsieve.files.contexts import read_contexts
    from ragsieve.files.corpus import read_corpus
    from ragsieve.files.embeddings import read_embeddings

    benign = list(file_scores(traffic.scores, naming))
    again = list(file_scores(traffic.replayed_scores, naming))
    store = feature_store(settings, note=console.note)
    if traffic.contexts is not None or traffic.replayed is not None:
        known = feature_source(settings, traffic.state, traffic.documents, traffic.embeddings)
        detector = query_detector(settings, known, store=store)
        if traffic.contexts is not None:
            rows = read_contexts(traffic.contexts)
            if condition is not None:
                rows = tuple(row for row in rows if row.carried.condition == condition)
                if not rows:
                    raise InputError(f"{traffic.contexts}: no context has condition {condition!r}")
            benign += filter_scores(console, rows, detector, settings, naming)
        if traffic.replayed is not None and planted is not None:
            attacked = with_planted(read_contexts(traffic.replayed), planted)
            again += filter_scores(console, attacked, detector, settings, naming)
    if traffic.documents is not None and traffic.embeddings is not None:
        corpus = read_corpus(traffic.documents)
        vectors = read_embeddings(traffic.embeddings, corpus)
        scan = scanned(
            console,
            corpus_detector(settings, store=store),
            corpus,
            vectors,
            NeighborChoice(traffic.embeddings),
        )
        benign += scan_scores(scan, corpus, naming)
    return benign, None if planted is None else replays_of(again, planted)


def _sources(traffic: Traffic) -> tuple[Source, ...]:
    from ragsieve.calibration.record import Source

    found = []
    for role, path in traffic.named():
        # A state's manifest holds the hashes of its files.
        place = path / "manifest.json" if path.is_dir() else path
        try:
            with place.open("rb") as handle:
                digest = hashlib.file_digest(handle, "sha256").hexdigest()
        except OSError as error:
            raise InputError(f"{place}: cannot be read ({error.strerror})") from error
        found.append(Source(role, path.name, digest))
    return tuple(found)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
