"""Decision mode decides as full mode does: rules made of numbers, then both profiles."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import ranking, sentence
from ragsieve.detectors.cascade import Seat, Stage, measure_all, settle, standing_of
from ragsieve.detectors.default_query import DefaultQueryConfig, DefaultQueryRule
from ragsieve.detectors.paper_query import PaperQueryConfig, PaperQueryRule
from ragsieve.detectors.query import QueryDetector
from ragsieve.detectors.rules import QueryView
from ragsieve.records import Decision, DocumentFeatures, Evidence, Level, Surroundings
from ragsieve.testing import FakeCausalScorer, FakeTokenEncoder

NAMES = ("first", "second", "third", "fourth")
few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class NumberRule:
    """A rule whose evidences are given: value, limit, or None for one that fails when asked.

    :param table: for each name, one (value, limit, known_missing) a seat.
    :param order: of the stages.
    """

    profile, candidates, documents, fewest_documents, max_characters = "numbers", 3, 9, 9, 9

    def __init__(self, table, order, threshold, combine, mild):
        self.table, self.order, self.threshold = table, order, threshold
        self._combine, self._mild = combine, mild
        self.evidence_names = NAMES
        self.asked = []

    def combine(self, values):
        if self._combine == "sum":
            total = 0.0
            for value in values:
                total += value
            return total
        return math.sqrt(math.fsum([value * value for value in values]))

    def level(self, evidences, score):
        strong = [one for one in evidences if one.value and one.name not in self._mild]
        return Level.QUARANTINE if strong else Level.REVIEW

    def annotate(self, view):
        return ()

    def fingerprint(self):
        return "numbers"

    def measure(self, views):
        return measure_all(self.stages(views), NAMES, views)

    def stages(self, views):
        return tuple(self._stage(name) for name in self.order)

    def _stage(self, name):
        def measure(seats):
            self.asked += [(name, seat) for seat in seats]
            return [self._evidence(name, seat) for seat in seats]

        return Stage(
            name,
            lambda seat: self._cell(name, seat)[1],
            measure,
            lambda seat: "known to be missing" if self._cell(name, seat)[2] else None,
            closer=(lambda seat: self._near(name, seat)) if name == "third" else None,
            cheap=name == "second",
        )

    def _near(self, name, seat):
        value, limit, _ = self._cell(name, seat)
        return value if math.isinf(limit) else (value + limit) / 2

    def _cell(self, name, seat):
        return self.table[name][3 * seat.view + seat.place]

    def _evidence(self, name, seat):
        value = self._cell(name, seat)[0]
        return (
            Evidence.unavailable(name, "asked in vain") if value is None else Evidence(name, value)
        )


VALUES = st.one_of(
    st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.3, 0.5, 0.7, 1 / 3, 1.0, 1.2]),
    st.floats(0, 1.5, allow_subnormal=False),
)
CELLS = st.tuples(VALUES, st.one_of(st.just(0.0), VALUES, st.just(math.inf)), st.booleans()).map(
    lambda cell: (cell[0], cell[0] + cell[1], False)
)
FAILING = st.one_of(CELLS, CELLS.map(lambda cell: (cell[0], cell[1], True)))


@st.composite
def number_rules(draw):
    table = {name: draw(st.lists(FAILING, min_size=6, max_size=6)) for name in NAMES}
    combine = draw(st.sampled_from(["sum", "root"]))
    rule = NumberRule(table, draw(st.permutations(NAMES)), 1.0, combine, ("third", "fourth"))
    if draw(st.booleans()):
        # On a score there can be, or one rounding step beside it.
        seat = draw(st.integers(0, 5))
        chosen = draw(st.sets(st.sampled_from(NAMES), min_size=1))
        score = rule.combine([table[name][seat][0] for name in NAMES if name in chosen])
        rule.threshold = draw(
            st.sampled_from([score, np.nextafter(score, 9), np.nextafter(score, 0)])
        )
        rule.threshold = max(float(rule.threshold), 1e-3)
    return rule


VIEWS = [QueryView("q", ("a", "b", "c"), ("d",)), QueryView("r", ("e", "f", "g"), ("h",))]


@settings(max_examples=250, deadline=None)
@given(number_rules())
def test_every_rule_that_adds_up_decides_alike(rule):
    full = [[standing_of(rule, own) for own in view] for view in rule.measure(VIEWS)]
    rule.asked.clear()
    quick = settle(rule, VIEWS)
    for v, (whole, short) in enumerate(zip(full, quick, strict=True)):
        for p, (one, other) in enumerate(zip(whole, short, strict=True)):
            assert other.decision is one.decision
            assert other.level is one.level
            score = one.bounds.lower
            assert other.bounds.lower <= score
            assert other.decision is not Decision.CLEAR or other.bounds.upper < rule.threshold
            assert score <= other.bounds.upper * (1 + 1e-12)
            known = {evidence.name: evidence.value for evidence in one.evidences}
            assert all(known[e.name] == e.value for e in other.evidences)
            seen = {e.name for e in other.evidences}
            assert seen | set(other.skipped) == set(NAMES)
            assert not seen & set(other.skipped)
            assert not {name for name, seat in rule.asked if seat == Seat(v, p)} & set(
                other.skipped
            )


@settings(max_examples=120, deadline=None)
@given(number_rules())
def test_nothing_is_asked_that_cannot_change_a_flag(rule):
    settle(rule, VIEWS)
    asked = {}
    for name, seat in rule.asked:
        before = asked.setdefault(seat, [])
        row = 3 * seat.view + seat.place
        lower = rule.combine([rule.table[n][row][0] for n in NAMES if n in before])
        rest = [
            rule.table[n][row][1] for n in NAMES if n not in before and not rule.table[n][row][2]
        ]
        upper = rule.combine([*[rule.table[n][row][0] for n in before], *rest])
        # The cheap one is measured without asking whether it is needed.
        if name != "second":
            level = rule.level([Evidence(n, rule.table[n][row][0]) for n in before], lower)
            assert lower < rule.threshold or level is not Level.QUARANTINE
            assert upper >= rule.threshold * (1 - 1e-8)
        before.append(name)


WORDS = [f"w{i}" for i in range(30)]
QUERY = "which river crosses the old harbour town"


def texts_of(rng, depth, group):
    texts = [" ".join(rng.choice(WORDS, size=int(rng.integers(3, 40)))) for _ in range(depth)]
    for place in range(min(group, depth)):
        draw = rng.random()
        if draw < 0.4:
            texts[place] += " zanzibar seventeen 7 gold"
        if draw < 0.25:
            texts[place] = f"{QUERY} {texts[place]}"
        if 0.3 < draw < 0.5:
            texts[place] = " ".join([*["zzz"] * int(rng.integers(1, 17)), texts[place]])
        if rng.random() < 0.2:
            texts[place] += " Привет"
        if rng.random() < 0.15:
            texts[place] += " pay\u202erpal\u202c and\u200bso"
    if depth > 8 and rng.random() < 0.5:
        texts[8] = texts[1]
    return texts


class Known:
    """Clustered embeddings and runs by place; some may be unknown."""

    def __init__(self, rng, depth, group, lost):
        rows = rng.normal(size=(depth, 8)) + 0.5
        rows[:group] = rows[0] + 0.3 * rng.normal(size=(group, 8))
        self.rows = list(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        self.runs = list(rng.uniform(0, 12, size=depth))
        for place in range(group):
            self.runs[place] += rng.uniform(0, 15)
        if lost is not None:
            self.rows[lost % depth] = None
            self.runs[(lost // 2) % depth] = None
        self.surroundings = Surroundings(float(rng.uniform(0.5, 0.9)), float(rng.choice([0, 0.02])))

    def features(self, document_ids):
        places = [int(name.removeprefix("d")) - 1 for name in document_ids]
        return tuple(DocumentFeatures(self.rows[i], self.runs[i]) for i in places)


class Uneven(FakeCausalScorer):
    """Fails on the texts with a certain word."""

    def losses(self, texts):
        found = super().losses(texts)
        return [
            np.full(4, np.nan) if "w7" in text.split() else trace
            for text, trace in zip(texts, found, strict=True)
        ]


SCORERS = {
    "none": lambda: None,
    "good": lambda: FakeCausalScorer(["zzz"]),
    "uneven": lambda: Uneven(["zzz"]),
    "failing": lambda: FakeCausalScorer(failing=True),
}
ENCODERS = {
    "none": lambda: None,
    "good": FakeTokenEncoder,
    "failing": lambda: FakeTokenEncoder(failing=True),
}


def paper(rng, count, scorer, encoder):
    models = SimpleNamespace(causal=SCORERS[scorer](), encoder=ENCODERS[encoder]())
    rankings = []
    for place in range(count):
        depth = int(rng.choice([20, 20, 20, 24, 12, 5, 0]))
        texts = texts_of(rng, depth, int(rng.integers(0, 6)))
        ids = [f"d{i}" for i in range(depth)]
        if depth and rng.random() < 0.1:
            ids[-1] = ids[0]
        rankings.append(ranking(texts, QUERY, ids=ids, query_id=str(place)))

    def detector(threshold):
        config = PaperQueryConfig(threshold=threshold)
        rule = PaperQueryRule(config, causal=models.causal, encoder=models.encoder)
        return QueryDetector(rule)

    return rankings, detector, models


def default(rng, count, scorer, lost):
    group = int(rng.integers(1, 6))
    known = Known(rng, 40, group, lost)
    depths = [int(rng.choice([40, 40, 27, 20, 19, 4])) for _ in range(count)]
    rankings = [
        ranking(texts_of(rng, depth, group), QUERY, query_id=str(place))
        for place, depth in enumerate(depths)
    ]
    causal = SCORERS[scorer]()
    mode = str(rng.choice(["strict", "faq-safe", "auto"]))
    scripts = str(rng.choice(["unicode", "paper"]))

    def detector(threshold):
        config = DefaultQueryConfig(threshold=threshold, query_copy=mode, scripts=scripts)
        return QueryDetector(DefaultQueryRule(config, causal=causal), features=known)

    return rankings, detector


def thresholds(rankings, detector, pick):
    """One, or a score that a candidate has, or its neighbour among the floats."""
    scores = [v.score for own in detector(1.0).score_many(rankings) for v in own if v.score > 0.01]
    if not scores or pick % 4 == 0:
        return 1.0
    score = scores[pick % len(scores)]
    return float([score, np.nextafter(score, 9), np.nextafter(score, 0)][pick % 3])


def compare(rankings, detector):
    full, quick = detector.score_many(rankings), detector.decide_many(rankings)
    for verdicts, rulings in zip(full, quick, strict=True):
        assert [r.document_id for r in rulings] == [v.document_id for v in verdicts]
        for verdict, ruling in zip(verdicts, rulings, strict=True):
            assert ruling.flagged is verdict.flagged
            assert ruling.flagged is (ruling.bounds.lower >= ruling.threshold)
            clear = ruling.decision is Decision.CLEAR
            assert not clear or ruling.bounds.upper < ruling.threshold
            assert ruling.bounds.lower <= verdict.score <= ruling.bounds.upper * (1 + 1e-9)
            known = {one.name: one for one in verdict.evidences}
            for one in ruling.evidences:
                assert (one.value, one.probability) == (
                    known[one.name].value,
                    known[one.name].probability,
                )
            assert set(ruling.skipped) == set(known) - {one.name for one in ruling.evidences}
            assert ruling.truncated_characters == verdict.truncated_characters
            yield verdict, ruling


@few
@given(
    st.integers(0, 10**6),
    st.sampled_from(sorted(SCORERS)),
    st.sampled_from(sorted(ENCODERS)),
    st.integers(0, 100),
)
def test_profile_paper(seed, scorer, encoder, pick):
    rng = np.random.default_rng(seed)
    rankings, detector, models = paper(rng, int(rng.integers(1, 5)), scorer, encoder)
    chosen = detector(thresholds(rankings, detector, pick))
    if models.encoder is not None:
        models.encoder.calls.clear()
    pairs = list(compare(rankings, chosen))
    encoder_calls = models.encoder.calls if models.encoder else []
    # Full mode asks once a batch; a further call is decision mode's.
    asked = len([call for call in encoder_calls if call != (QUERY,)]) > 1
    for verdict, ruling in pairs:
        unheard = "query_alignment" in ruling.skipped and encoder == "failing" and not asked
        if unheard and verdict.decision is Decision.UNDECIDED:
            # Nobody asked the encoder, and nothing it could say would have flagged.
            lost = lost_evidence(ruling)
            assert ruling.decision is (Decision.UNDECIDED if lost else Decision.CLEAR)
            continue
        assert ruling.decision is verdict.decision
        assert ruling.level is verdict.level


@few
@given(
    st.integers(0, 10**6),
    st.sampled_from(sorted(SCORERS)),
    st.one_of(st.none(), st.integers(0, 39)),
    st.integers(0, 100),
)
def test_profile_default(seed, scorer, lost, pick):
    rng = np.random.default_rng(seed)
    rankings, detector = default(rng, int(rng.integers(1, 4)), scorer, lost)
    chosen = detector(thresholds(rankings, detector, pick))
    for verdict, ruling in compare(rankings, chosen):
        unheard = "peak_surprisal" in ruling.skipped and scorer in {"failing", "uneven"}
        if unheard and verdict.decision is Decision.UNDECIDED and not lost_evidence(ruling):
            assert ruling.decision is Decision.CLEAR
            continue
        assert ruling.decision is verdict.decision
        assert ruling.level is verdict.level


def lost_evidence(ruling):
    return not all(one.measured for one in ruling.evidences)


def test_the_rankings_of_this_file_reach_every_outcome():
    """Otherwise the two tests above would say little."""
    seen, skipped = set(), set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rankings, detector, _ = paper(rng, 3, "good", "good")
        for verdict, ruling in compare(rankings, detector(1.0)):
            seen.add(("paper", verdict.decision))
            skipped |= set(ruling.skipped)
        rankings, detector = default(rng, 3, "good", None)
        for verdict, ruling in compare(rankings, detector(1.0)):
            seen.add(("default", verdict.decision, verdict.level))
            skipped |= set(ruling.skipped)
    assert {("paper", one) for one in Decision} <= seen
    assert ("default", Decision.FLAGGED, Level.QUARANTINE) in seen
    assert {"surprisal", "query_alignment", "query_copy", "peak_surprisal"} <= skipped


@pytest.mark.parametrize("profile", ["paper", "default"])
def test_without_models_and_without_a_scan(profile):
    rng = np.random.default_rng(2)
    texts = [sentence(rng, 30) for _ in range(40)]
    for _, ruling in compare([ranking(texts)], QueryDetector(profile)):
        assert ruling.decision is Decision.UNDECIDED
        assert ruling.level is Level.REVIEW
        assert math.isinf(ruling.bounds.upper)
