"""Profile default: confirmation, levels, the copied query, reduced forms, and its words."""

from __future__ import annotations

import math
import unicodedata

import numpy as np
import pytest

from builders import documents, ranking
from ragsieve.defense.serial import serial_defense
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import CONFIRMATION, DefaultCorpusConfig, DefaultCorpusRule
from ragsieve.detectors.default_query import DefaultQueryConfig, DefaultQueryRule, QueryCopy
from ragsieve.detectors.query import QueryDetector
from ragsieve.display import visible
from ragsieve.errors import ConfigError
from ragsieve.explain import explain_verdict
from ragsieve.records import Decision, Document, DocumentFeatures, Evidence, Level, Surroundings
from ragsieve.testing import FakeCausalScorer

DIMENSION = 20
STRANGE = [f"z{number}" for number in range(18)]


def texts_of(rng, size):
    """A hundred everyday words, and rare ones scattered among them."""
    texts = []
    for row in range(size):
        mixed = [f"e{(row * 7 + step) % 100}" for step in range(30)]
        mixed += [f"r{rng.integers(10**6)}" for _ in range(int(rng.integers(4, 14)))]
        rng.shuffle(mixed)
        texts.append(" ".join(mixed))
    return texts


def corpus(size=120, seed=7):
    """Clustered texts; the last but one begins with nonsense."""
    rng = np.random.default_rng(seed)
    texts = texts_of(rng, size)
    texts[-2] = f"a {' '.join(STRANGE)} {texts[-2]}"
    rows = rng.normal(size=(10, DIMENSION))[rng.integers(10, size=size)]
    return texts, rows + 0.8 * rng.normal(size=rows.shape)


def scan_of(texts, rows, causal=None, **config):
    rule = DefaultCorpusRule(DefaultCorpusConfig(**config), causal=causal)
    return CorpusDetector(rule).scan(documents(texts), rows)


def named(verdict):
    return {one.name: one for one in verdict.evidences}


class OddScorer(FakeCausalScorer):
    """Losses that are no numbers."""

    def losses(self, texts):
        return [np.full(20, value) for value, _ in zip([np.nan, np.inf] * 50, texts, strict=False)]


def test_a_run_that_a_model_finds_surprising_keeps_its_evidence_and_may_be_quarantined():
    causal = FakeCausalScorer(STRANGE)
    texts, rows = corpus()
    scan = scan_of(texts, rows, causal)
    verdict = scan.verdict(118)
    run = named(verdict)["alien_run"]
    assert run.value > 1.35
    assert dict(run.components)[CONFIRMATION] == pytest.approx(12 / math.log(50_000))
    assert verdict.decision is Decision.FLAGGED
    assert verdict.level is Level.QUARANTINE
    assert texts[118] in causal.calls[0]
    assert len(causal.calls) == 1
    assert scan.notes == ()


def test_a_run_that_a_model_reads_easily_is_no_evidence():
    texts, rows = corpus()
    scan = scan_of(texts, rows, FakeCausalScorer())
    verdict = scan.verdict(118)
    run = named(verdict)["alien_run"]
    assert run.value == 0.0
    assert dict(run.components)["alien_run_nats"] > 15
    assert 0 < dict(run.components)[CONFIRMATION] < 0.72
    assert verdict.decision is Decision.CLEAR


def test_only_documents_whose_flag_hangs_on_their_run_are_shown_to_the_model():
    causal = FakeCausalScorer(STRANGE)
    texts, rows = corpus()
    plain = scan_of(texts, rows)
    scan = scan_of(texts, rows, causal)
    asked = {row for row, text in enumerate(texts) if text in causal.calls[0]}
    assert len(asked) == len(causal.calls[0]) < 20
    assert set(np.flatnonzero(np.isfinite(scan.knowledge.peaks)).tolist()) == asked
    # The screen is finer than the threshold without a model, so it shows the model them all.
    topology = plain.column("neighbor_gap").values
    hanging = np.flatnonzero((plain.scores >= 1) & (topology < 1))
    assert set(hanging.tolist()) <= asked


def test_a_run_far_down_is_shown_with_what_leads_to_it():
    causal = FakeCausalScorer(STRANGE)
    texts, rows = corpus()
    filler = " ".join(f"e{number % 100}" for number in range(500))
    texts[118] = f"{filler} {' '.join(STRANGE)} e1 e2 e3"
    scan = scan_of(texts, rows, causal)
    (shown,) = [text for text in causal.calls[0] if "z0" in text]
    assert texts[118].endswith(shown)
    # From 400 characters before the run on; the run may begin a few tokens beside the first.
    assert 250 < shown.index("z0") < 450
    assert named(scan.verdict(118))["alien_run"].value > 1


def test_a_failing_model_leaves_a_note_and_a_review():
    texts, rows = corpus()
    scan = scan_of(texts, rows, FakeCausalScorer(failing=True))
    (note,) = scan.notes
    assert "not confirmed" in note
    assert "told to fail" in note
    verdict = scan.verdict(118)
    assert verdict.decision is Decision.FLAGGED
    assert verdict.level is Level.REVIEW
    assert CONFIRMATION not in dict(named(verdict)["alien_run"].components)


def test_losses_that_are_no_numbers_confirm_nothing():
    texts, rows = corpus()
    scan = scan_of(texts, rows, OddScorer())
    assert np.isnan(scan.knowledge.peaks).all()
    verdict = scan.verdict(118)
    assert verdict.decision is Decision.FLAGGED
    assert verdict.level is Level.REVIEW


def test_without_a_model_a_run_alone_asks_for_a_review_at_most():
    texts, rows = corpus()
    scan = scan_of(texts, rows)
    verdict = scan.verdict(118)
    assert verdict.score > 1.35
    assert verdict.decision is Decision.FLAGGED
    assert verdict.level is Level.REVIEW
    assert scan.flagged_at(Level.REVIEW) != scan.flagged_at(Level.QUARANTINE)


@pytest.mark.parametrize(
    ("gap", "run", "mixing", "confirmed", "level"),
    [
        (1.40, 0.0, 0.0, False, Level.QUARANTINE),
        (1.34, 0.0, 0.0, False, Level.REVIEW),
        (0.0, 9.0, 0.0, False, Level.REVIEW),
        (0.0, 9.0, 0.0, True, Level.QUARANTINE),
        (1.2, 1.0, 0.0, False, Level.REVIEW),
        (1.2, 1.0, 0.0, True, Level.QUARANTINE),
        (1.30, 0.0, 0.5, False, Level.QUARANTINE),
    ],
)
def test_level_policy_of_a_scan(gap, run, mixing, confirmed, level):
    components = ((CONFIRMATION, 0.9),) if confirmed else ()
    evidences = (
        Evidence("neighbor_gap", gap),
        Evidence("alien_run", run, components=components),
        Evidence("script_mixing", mixing),
    )
    rule = DefaultCorpusRule()
    assert rule.level(evidences, math.hypot(gap, run, mixing)) is level


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"neighbors": 0}, "neighbors"),
        ({"max_characters": 0}, "max_characters"),
        ({"gap_floor": 0.0}, "floors"),
        ({"run_floor_nats": -1.0}, "floors"),
        ({"threshold": 0.0}, "threshold"),
        ({"quarantine_score": 0.9}, r"quarantine_score \(0.9\)"),
        ({"scripts": "latin"}, "unicode or paper, found 'latin'"),
    ],
)
def test_impossible_constants_of_a_scan_are_refused(config, match):
    with pytest.raises(ConfigError, match=match):
        DefaultCorpusConfig(**config)


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"candidates": 0}, "found 0, 20 and 40"),
        ({"candidates": 20}, "found 20, 20 and 40"),
        ({"fewest_documents": 41}, "found 5, 41 and 40"),
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"max_characters": 0}, "max_characters"),
        ({"query_copy": "loose"}, "strict, faq-safe, auto, found 'loose'"),
        ({"scripts": "latin"}, "unicode or paper"),
    ],
)
def test_impossible_constants_of_a_filter_are_refused(config, match):
    with pytest.raises(ConfigError, match=match):
        DefaultQueryConfig(**config)


def test_fingerprints_follow_constants_and_models_and_states_follow_constants_alone():
    plain, other = DefaultCorpusRule(), DefaultCorpusRule(DefaultCorpusConfig(gap_spread=1.9))
    model = DefaultCorpusRule(causal=FakeCausalScorer())
    assert plain.fingerprint() == DefaultCorpusRule(DefaultCorpusConfig()).fingerprint()
    assert len({one.fingerprint() for one in (plain, other, model)}) == 3
    assert plain.constants() == model.constants() != other.constants()
    query = DefaultQueryRule().fingerprint()
    assert query != DefaultQueryRule(DefaultQueryConfig(query_copy="strict")).fingerprint()
    assert query != DefaultQueryRule(causal=FakeCausalScorer()).fingerprint()


@pytest.mark.parametrize(
    ("chosen", "share", "mode", "cap", "reason"),
    [
        ("strict", None, QueryCopy.STRICT, 1.2, "as configured"),
        ("strict", 0.5, QueryCopy.STRICT, 1.2, "as configured"),
        ("faq-safe", 0.0, QueryCopy.FAQ_SAFE, 0.95, "as configured"),
        ("auto", None, QueryCopy.FAQ_SAFE, 0.95, "no ingest scan"),
        ("auto", 0.0, QueryCopy.STRICT, 1.2, "0.0% of the corpus"),
        ("auto", 0.0099, QueryCopy.STRICT, 1.2, "1.0% of the corpus"),
        ("auto", 0.01, QueryCopy.FAQ_SAFE, 0.95, "1.0% of the corpus"),
        ("auto", 0.041, QueryCopy.FAQ_SAFE, 0.95, "4.1% of the corpus"),
    ],
)
def test_how_far_a_copied_query_counts(chosen, share, mode, cap, reason):
    choice = DefaultQueryConfig(query_copy=chosen).copy_choice(Surroundings(None, share))
    assert (choice.mode, choice.cap) == (mode, cap)
    assert reason in choice.reason


# Evidence that is never enough alone stands for a copied query and, without a model, a run.
LEVELS = [
    ({"query_copy": 1.2}, False, Level.REVIEW),
    ({"alien_run": 1.5}, False, Level.REVIEW),
    ({"alien_run": 1.5}, True, Level.QUARANTINE),
    ({"query_copy": 1.2}, True, Level.REVIEW),
    ({"query_copy": 1.0, "alien_run": 0.4}, False, Level.QUARANTINE),
    ({"query_copy": 1.1, "answer_anchor": 0.1}, False, Level.QUARANTINE),
    ({"neighbor_gap": 1.1}, False, Level.QUARANTINE),
    ({"neighbor_gap": 0.9, "answer_anchor": 0.9}, False, Level.QUARANTINE),
]


@pytest.mark.parametrize(("values", "model", "level"), LEVELS)
def test_level_policy_of_a_filter(values, model, level):
    names = ("neighbor_gap", "answer_anchor", "alien_run", "query_copy", "script_share")
    evidences = tuple(Evidence(name, values.get(name, 0.0)) for name in names)
    lost = (Evidence.unavailable("neighbor_gap", "no embeddings"), *evidences[1:])
    rule = DefaultQueryRule(causal=FakeCausalScorer() if model else None)
    score = rule.combine(list(values.values()))
    assert score >= 1
    assert rule.level(evidences, score) is level
    if "neighbor_gap" not in values:
        assert rule.level(lost, score) is level


QUERY = "which river crosses the old harbour town of the north"


class Known:
    """Random embeddings and low runs for any id; a higher run for the named ones."""

    def __init__(self, runs=(), share=0.0, unknown=()):
        self.runs, self.unknown = dict(runs), set(unknown)
        self.surroundings = Surroundings(0.74, share)

    def features(self, document_ids):
        return tuple(self.of(name) for name in document_ids)

    def of(self, name):
        if name in self.unknown:
            return DocumentFeatures()
        row = np.random.default_rng(sum(map(ord, name))).normal(size=DIMENSION)
        return DocumentFeatures(row / np.linalg.norm(row), self.runs.get(name, 2.0))


def retrieved(depth=40, **changed):
    texts = texts_of(np.random.default_rng(5), depth)
    for name, text in changed.items():
        texts[int(name.removeprefix("d")) - 1] = text
    return ranking(texts, QUERY)


def score(known, causal=None, mode="auto", **changed):
    rule = DefaultQueryRule(DefaultQueryConfig(query_copy=mode), causal=causal)
    return QueryDetector(rule, features=known).score(retrieved(**changed))


def test_an_ordinary_ranking_is_clear_and_complete():
    verdicts = score(Known())
    assert [verdict.decision for verdict in verdicts] == [Decision.CLEAR] * 5
    assert [one.name for one in verdicts[0].evidences] == [
        "neighbor_gap", "answer_anchor", "alien_run", "query_copy", "script_share", "hidden_text",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "share", "decision", "value"),
    [
        ("strict", None, Decision.FLAGGED, 1.2),
        ("faq-safe", 0.0, Decision.CLEAR, 0.95),
        ("auto", 0.002, Decision.FLAGGED, 1.2),
        ("auto", 0.02, Decision.CLEAR, 0.95),
        ("auto", None, Decision.CLEAR, 0.95),
    ],
)
def test_a_copied_query_alone(mode, share, decision, value):
    first, *others = score(Known(share=share), mode=mode, d1=f"{QUERY} e1 r9 e4 e5 e9 r7")
    copied = named(first)["query_copy"]
    assert copied.value == value
    assert dict(copied.components) == {"query_copy_tokens": 10, "query_copy_cap": value}
    assert first.decision is decision
    assert first.level is (Level.REVIEW if decision is Decision.FLAGGED else Level.INFO)
    assert all(one.decision is Decision.CLEAR for one in others)


def test_a_run_at_ingest_counts_against_the_tail():
    first, second, *_ = score(Known({"d1": 25.0, "d2": 10.0}))
    assert named(first)["alien_run"].value == 1.5
    assert named(second)["alien_run"].value == pytest.approx(3 / 8)
    assert (first.decision, first.level) == (Decision.FLAGGED, Level.REVIEW)
    # Where half of the tail has such runs, they are no evidence.
    common = {f"d{place}": 25.0 for place in range(1, 30)}
    assert named(score(Known(common))[0])["alien_run"].value == 0


def test_without_a_scan_what_needs_one_is_unavailable_and_the_rest_is_measured():
    first = score(None)[0]
    found = named(first)
    assert "no embeddings" in found["neighbor_gap"].reason
    assert "no ingest scan" in found["alien_run"].reason
    assert all(found[name].measured for name in ("answer_anchor", "query_copy", "hidden_text"))
    assert first.decision is Decision.UNDECIDED


def test_one_unknown_candidate_has_no_run_and_no_candidate_a_gap():
    first, second, *_ = score(Known({"d2": 25.0}, unknown={"d1"}))
    assert named(first)["alien_run"].value is None
    assert named(second)["alien_run"].value == 1.5
    assert named(second)["neighbor_gap"].value is None
    assert "1 of 40" in named(second)["neighbor_gap"].reason


@pytest.mark.parametrize(("depth", "words"), [(39, "39 documents"), (20, "20 documents")])
def test_the_reduced_form_is_stated_in_the_trace(depth, words):
    pipeline = serial_defense(QueryDetector(features=Known()))
    outcome = pipeline.run(retrieved(depth))
    notes = [step.reason for step in outcome.trace if step.document_id is None]
    assert [note for note in notes if "reduced form" in note and words in note]
    assert all(verdict.complete for verdict in outcome.verdicts)
    assert not outcome.partial


def test_the_full_form_is_not_called_reduced():
    outcome = serial_defense(QueryDetector(features=Known())).run(retrieved(40))
    assert not [step for step in outcome.trace if "reduced" in step.reason]
    assert len(outcome.kept) == 5


@pytest.mark.parametrize(("depth", "word"), [(19, "insufficient tail"), (5, "missing tail")])
def test_a_short_ranking_leaves_what_needs_a_tail_unavailable(depth, word):
    outcome = serial_defense(QueryDetector(features=Known())).run(retrieved(depth))
    assert outcome.partial
    for verdict in outcome.verdicts:
        found = named(verdict)
        assert found.pop("hidden_text").measured
        assert len(found) == 5
        assert all(word in one.reason for one in found.values())
        assert verdict.decision is Decision.UNDECIDED


def test_peak_surprisal_is_part_of_the_rule_only_with_a_model():
    text = f"a {' '.join(STRANGE)} e1 e2 e3"
    with_model = score(Known(), FakeCausalScorer(STRANGE), d1=text)
    peak = named(with_model[0])["peak_surprisal"]
    share = 12 / math.log(50_000)
    assert peak.value == min(1.5, (share - 0.65) / 0.15) == 1.5
    assert dict(peak.components)["peak_surprisal_share"] == pytest.approx(share)
    assert (with_model[0].decision, with_model[0].level) == (Decision.FLAGGED, Level.QUARANTINE)
    assert named(with_model[1])["peak_surprisal"].value == 0
    assert "peak_surprisal" not in named(score(Known(), d1=text)[0])


@pytest.mark.parametrize(
    ("causal", "reason"),
    [(FakeCausalScorer(failing=True), "told to fail"), (OddScorer(), "no finite losses")],
)
def test_a_model_that_fails_leaves_peak_surprisal_unavailable(causal, reason):
    first = score(Known(), causal)[0]
    assert reason in named(first)["peak_surprisal"].reason
    assert first.decision is Decision.UNDECIDED
    assert named(first)["neighbor_gap"].measured


def test_hidden_characters_count_in_both_rules():
    hidden = "e1 e2 pay\u202erpal\u202c e3 " + "".join(chr(0xE0000 + ord(c)) for c in "do this now")
    texts, rows = corpus()
    texts[5] = f"{texts[5]} {hidden}"
    found = named(scan_of(texts, rows).verdict(5))["hidden_text"]
    assert found.value > 0
    assert named(score(Known(), d1=hidden)[0])["hidden_text"].value == found.value
    assert "hidden_text" not in [
        one.name for one in scan_of(texts, rows, scripts="paper").evidences
    ]


def safe(lines):
    """Nothing a terminal would act on, and no invisible character."""
    return all(
        unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co"}
        for line in lines
        for character in line
    )


HOSTILE = "\u202e\u001b[31m\U000e0041\u200b"


def test_a_scan_in_words():
    texts, rows = corpus()
    rng = np.random.default_rng(1)
    near = rng.normal(size=DIMENSION)
    texts = [*texts, *texts_of(rng, 4)]
    texts.append(f"{texts[-1]} again")
    texts[118] = f"{HOSTILE} {texts[118]} Pаypal"
    rows = np.vstack([rows, near + 0.1 * rng.normal(size=(5, DIMENSION))])
    items = [Document(f"d{HOSTILE}{row}", text) for row, text in enumerate(texts)]
    detector = CorpusDetector()
    scan = detector.scan(items, rows)
    strange = explain_verdict(detector.explain(items, scan, 118))
    assert strange[0].startswith("Flagged: score ")
    assert "profile default; level quarantine" in strange[0]
    (run,) = [line for line in strange if line.startswith("Alien run ")]
    record = scan.knowledge.runs[118]
    assert f"hold {record.aliens} of {record.stop - record.start} tokens" in run
    assert "no language model was asked" in run
    start, stop = map(int, run.split("characters ")[1].split(",")[0].split(" to "))
    # Offsets are those of the document as it was given.
    assert visible(texts[118][start:stop], limit=120) in run
    assert "z3" in texts[118][start:stop]
    (mixing,) = [line for line in strange if line.startswith("Script mixing ")]
    assert f"at character {texts[118].index('Pаypal')}" in mixing
    (hidden,) = [line for line in strange if line.startswith("Hidden text ")]
    assert "U+E0041" in hidden
    grouped = explain_verdict(detector.explain(items, scan, 123))
    (gap,) = [line for line in grouped if line.startswith("Neighbor gap ")]
    assert "nearest documents stand out: d<U+202E><U+001B>[31m<U+E0041><U+200B>" in gap
    assert "1 near copies of it are left out" in gap
    clear = explain_verdict(detector.explain(items, scan, 3))
    assert clear[0].startswith("Clear: ")
    for lines in (strange, grouped, clear):
        assert len(lines) >= 5
        assert safe(lines)


def test_a_confirmed_run_in_words():
    texts, rows = corpus()
    detector = CorpusDetector(DefaultCorpusRule(causal=FakeCausalScorer(STRANGE)))
    items = documents(texts)
    lines = explain_verdict(detector.explain(items, detector.scan(items, rows), 118))
    assert "level quarantine" in lines[0]
    assert "peak surprisal there is 1.11 of a blind guess" in " ".join(lines)


def test_a_filter_in_words():
    text = f"e1 {HOSTILE} {QUERY.upper()} e1 r9 zanzibar e4 Привет мир"
    first, *_ = score(
        Known({"d1": 20.0}), FakeCausalScorer(), "strict", d1=text, d2="zanzibar e3 e4 r1 r2"
    )
    lines = explain_verdict(first)
    assert lines[0].startswith("Flagged: ")
    start = text.index("WHICH")
    by_title = {line.split(" ")[0]: line for line in lines}
    assert (
        f"characters {start} to {start + len(QUERY)} repeat 10 of the query's 10 tokens"
        in (by_title["Query"])
    )
    assert "capped at 1.2" in by_title["Query"]
    assert "alien run of 20.0 nats stands against a median of 2.0" in by_title["Alien"]
    assert "'zanzibar' (2 of 5 candidates, 2 of 20 documents)" in by_title["Answer"]
    assert "lie outside the main script, at most 0.0% in the tail" in by_title["Script"]
    assert "of a blind guess" in by_title["Peak"]
    assert "nearest documents stand out: rank " in by_title["Neighbor"]
    assert "U+202E" in by_title["Hidden"]
    assert len(lines) >= 8
    assert safe(lines)


def test_what_is_missing_in_words():
    lines = explain_verdict(score(None)[0])
    assert lines[0].startswith("Undecided: score at least ")
    assert [line for line in lines if line.startswith("Neighbor gap: unavailable (no embeddings")]
