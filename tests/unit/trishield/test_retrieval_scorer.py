"""Ring 2: every equation by hand, option by option; order, drops, copies."""

from __future__ import annotations

import dataclasses

import pytest

from builders import ranking
from ragsieve import Action, ConfigError, Document, Pipeline, Provenance, RankedDocument
from ragsieve.defense.pipeline import Flow
from ragsieve.trishield.provenance_policy import ProvenancePolicy, SourceRule
from ragsieve.trishield.retrieval_scorer import RetrievalScorer, RetrievalScorerConfig
from ragsieve.trishield.trust import consistencies, relevance_of, trust_of
from ragsieve.trishield.words import voices

ALPHA = "alpha beta gamma delta"
OTHER = "alpha beta epsilon zeta"


@pytest.mark.parametrize(
    ("option", "contents", "expected"),
    [
        ("overlap", ["a b c", "A, b! d", "e f g"], [2 / 3, 2 / 3, 0.0]),
        ("overlap", ["a a b", "a c c"], [1 / 3, 1 / 3]),
        ("overlap", ["a a a", "a", "a"], [2 / 3, 1.0, 1.0]),
        ("overlap", [ALPHA, ALPHA, OTHER], [1.0, 1.0, 0.5]),
        ("voices", [ALPHA, ALPHA, OTHER], [0.5, 0.5, 0.5]),
        # The copies are one voice that says "a" as often as the copy that says it most.
        ("voices", ["a a b c", "a b c", "a a a x y z"], [0.5, 1 / 3, 2 / 6]),
        ("paper", ["a", "b c d e"], [0.25, 1.0]),
        ("paper", ["a b c", "a b d", "e f"], [1.0, 1.0, 2 / 4]),
        ("paper", ["a b"], [1.0]),
        ("paper", ["a", "...", "b"], [1.0, None, 1.0]),
        ("overlap", ["a b"], [None]),
        ("overlap", ["", "a"], [None, 0.0]),
        ("voices", [], []),
        ("paper", [], []),
    ],
)
def test_consistency(option, contents, expected):
    found = consistencies(contents, option)
    assert [one is None for one in found] == [one is None for one in expected]
    assert [one for one in found if one is not None] == pytest.approx(
        [one for one in expected if one is not None]
    )


@pytest.mark.parametrize(
    ("option", "parts", "trust"),
    [
        ("paper", (0.5, 0.4, 0.8), 0.6),
        ("paper", (0.9, 0.4, 0.8), 0.44),
        ("paper", (0.9, 0.4, None), 0.4),
        ("paper", (0.9, None, 0.8), 0.8),
        ("paper", (1.0, None, 0.8), None),
        ("paper", (0.5, None, None), None),
        ("released", (0.5, 0.4, 0.8), 0.225 + 0.14 + 0.16),
        ("released", (0.5, 0.4, None), (0.225 + 0.14) / 0.8),
        ("released", (0.5, None, None), 0.5),
    ],
)
def test_trust(option, parts, trust):
    found = trust_of(*parts, option)
    assert found is trust if trust is None else found == pytest.approx(trust)


@pytest.mark.parametrize(
    ("similarity", "relevance"),
    [(0.3, 0.3), (-0.2, 0.0), (12.5, 1.0), (None, None), (float("nan"), None)],
)
def test_relevance(similarity, relevance):
    assert relevance_of(similarity) == relevance


def test_near_copies_are_groups_that_nothing_ties_together():
    long = " ".join(f"w{n}" for n in range(20))
    version = " ".join([*(f"w{n}" for n in range(19)), "new"])
    other = " ".join(f"v{n}" for n in range(20))
    assert voices([long, version, other, long]) == (0, 0, 1, 0)
    # Half of each: contained in neither. All of both: they are less than half of it each.
    both = f"{long} {other} more words of its own"
    assert len(set(voices([long, other, both]))) == 3
    # A few words that stand in all of them are a copy of none.
    assert voices([long, "w1 w2", f"{other} w1 w2"]) == (0, 1, 2)
    assert voices(["", "", "..."]) == (0, 0, 1)


def flow(entries):
    return Flow(entries, entries)


def ids(found):
    return [entry.document.id for entry in found.ranking.entries]


def components(found):
    return {step.document_id: dict(step.components) for step in found.trace if step.document_id}


def test_by_default_the_order_is_the_retrievers_and_copies_go_behind():
    texts = [ALPHA, ALPHA, ALPHA, "one two three four", "five six seven eight"]
    (found,) = RetrievalScorer().run([flow(ranking(texts))])
    assert ids(found) == ["d1", "d4", "d5", "d2", "d3"]
    assert [entry.rank for entry in found.ranking.entries] == [1, 2, 3, 4, 5]
    assert found.removed_ids == ()
    assert components(found)["d3"]["seat"] == 3
    assert components(found)["d3"]["copies"] == 3


def test_larger_groups_take_their_second_seats_first():
    texts = ["p q r s", ALPHA, "p q r s", ALPHA, ALPHA]
    (found,) = RetrievalScorer().run([flow(ranking(texts))])
    assert ids(found) == ["d1", "d2", "d4", "d3", "d5"]


def test_ranked_by_trust_as_published():
    config = RetrievalScorerConfig(consistency="overlap", order="trust", copies="equal")
    policy = ProvenancePolicy((SourceRule(1.0, source="good"),))
    entries = ranking(["a b", "c d", "a b"])
    last = entries.entries[2]
    document = dataclasses.replace(last.document, provenance=Provenance("good"))
    placed = entries.renumbered(
        [*entries.entries[:2], dataclasses.replace(last, document=document)]
    )
    (found,) = RetrievalScorer(config, policy).run([flow(placed)])
    # d3: 1 * 1; d1: .5 * 1 + .5 * .999; d2: .5 * 0 + .5 * .998.
    assert ids(found) == ["d3", "d1", "d2"]
    known = components(found)
    assert known["d3"]["trust"] == pytest.approx(1.0)
    assert known["d3"]["provenance_rule"] == 1
    assert known["d1"]["trust"] == pytest.approx(0.9995)
    assert known["d2"]["trust"] == pytest.approx(0.499)
    assert known["d2"]["drop_below"] is None


def test_the_released_code_drops():
    config = RetrievalScorerConfig(consistency="overlap", trust="released", order="trust")
    policy = ProvenancePolicy((SourceRule(0.2, source="bad"),))
    entries = tuple(
        RankedDocument(Document(f"d{n}", text, provenance=Provenance(source)), n, 0.5)
        for n, (text, source) in enumerate(
            [("a b", None), ("c d", "bad"), ("a b e f", None)], start=1
        )
    )
    rank = dataclasses.replace(ranking([]), entries=entries)
    (found,) = RetrievalScorer(config, policy).run([flow(rank)])
    # d2: .45 * .2 + .35 * 0 + .2 * .5 = .19.
    assert found.removed_ids == ("d2",)
    (step,) = [one for one in found.trace if one.action is Action.REMOVED]
    assert "trust below 0.35: trust 0.190" in step.reason
    assert components(found)["d3"]["trust"] == pytest.approx(0.225 + 0.35 * 0.5 + 0.1)
    kept = RetrievalScorer(dataclasses.replace(config, drop_below=0.19), policy)
    assert kept.run([flow(rank)])[0].removed_ids == ()


def test_what_was_not_measured_is_never_dropped():
    entries = tuple(RankedDocument(Document(f"d{n}", "..."), n, None) for n in (1, 2))
    rank = dataclasses.replace(ranking([]), entries=entries)
    config = RetrievalScorerConfig(drop_below=1.0, order="trust")
    (found,) = RetrievalScorer(config).run([flow(rank)])
    assert ids(found) == ["d1", "d2"]
    assert components(found)["d1"]["trust"] is None
    assert "trust not measured" in found.trace[0].reason


def test_the_rest_of_the_ranking_stays_behind():
    config = RetrievalScorerConfig(order="trust", consistency="overlap", examined=3)
    (found,) = RetrievalScorer(config).run([flow(ranking(["x y", "a b", "a b", "a b", "q"]))])
    assert ids(found) == ["d2", "d1", "d3", "d4", "d5"]
    assert set(components(found)) == {"d1", "d2", "d3"}


@pytest.mark.parametrize(
    ("copies", "others", "holds"), [(3, 2, False), (2, 3, True), (2, 2, True), (1, 0, True)]
)
def test_the_trace_says_when_most_of_the_retrieved_is_one_text(copies, others, holds):
    texts = [ALPHA] * copies + [f"p{n} q{n} r{n}" for n in range(others)]
    (found,) = RetrievalScorer().run([flow(ranking(texts))])
    (note,) = [step for step in found.trace if step.document_id is None]
    assert ("more than half of what was retrieved" in note.reason) is not holds
    assert found.partial is not holds
    assert dict(note.components)["examined"] == copies + others


def test_an_empty_ranking_passes():
    (found,) = RetrievalScorer().run([flow(ranking([]))])
    assert found.trace == ()


def test_a_document_that_moves_up_says_who_scored_it():
    outcome = Pipeline([RetrievalScorer()], context_size=2).run(ranking([ALPHA, ALPHA, "x y"]))
    (step,) = [one for one in outcome.trace if one.action is Action.REFILLED]
    assert step.document_id == "d3"
    assert "scored by retrieval-scorer alone" in step.reason


@pytest.mark.parametrize(
    "wrong",
    [{"consistency": "x"}, {"trust": "x"}, {"order": "x"}, {"copies": "x"}, {"drop_below": 1.5},
     {"examined": 0}],
)  # fmt: skip
def test_impossible_configurations_are_refused(wrong):
    with pytest.raises(ConfigError, match="retrieval scorer"):
        RetrievalScorerConfig(**wrong)
