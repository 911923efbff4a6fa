"""Laws of the three rings: a minority stays one, names move nothing, votes are counted once."""

from __future__ import annotations

import json

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragsieve import Document, Provenance, Query, RankedDocument, Ranking
from ragsieve.defense.pipeline import Flow, Pipeline
from ragsieve.records import ChatReply
from ragsieve.trishield.ballots import MemberReply, count
from ragsieve.trishield.consensus import Member, Panel
from ragsieve.trishield.ingest_guard import IngestGuard, IngestGuardConfig, IngestGuardStage
from ragsieve.trishield.orchestrator import Shield
from ragsieve.trishield.policy import ConsensusConfig, ShieldConfig
from ragsieve.trishield.provenance_policy import ProvenancePolicy, SourceRule
from ragsieve.trishield.reading import explain_trace
from ragsieve.trishield.replies import Standing, agree
from ragsieve.trishield.retrieval_scorer import RetrievalScorer, RetrievalScorerConfig
from ragsieve.trishield.retrieved import RetrievedBefore
from ragsieve.trishield.trace import trace_fields
from ragsieve.trishield.trust import consistencies
from ragsieve.trishield.words import voices

some = settings(max_examples=120, deadline=None)
few = settings(max_examples=40, deadline=None)

WORDS = st.sampled_from(
    "river stone bridge market winter archive lantern orchard who built".split()
)
sentences = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
similarities = st.one_of(st.none(), st.floats(-1, 1))
FEWEST = 3


@st.composite
def floods(draw, *, minority):
    """A retrieved set in which identical payloads stand anywhere, with any similarities."""
    others = draw(st.lists(sentences, min_size=2 if minority else 1, max_size=9))
    payload = draw(sentences)
    most = len(others) - 1 if minority else 2 * len(others) + 3
    copies = draw(st.integers(1 if minority else len(others) + 1, most))
    documents = [Document(f"other{n}", text) for n, text in enumerate(others)]
    documents += [Document(f"payload{n}", payload) for n in range(copies)]
    order = draw(st.permutations(documents))
    entries = tuple(
        RankedDocument(one, rank, draw(similarities)) for rank, one in enumerate(order, start=1)
    )
    return Ranking("q", "who built the bridge", entries)


def counts(entries):
    payloads = sum(entry.document.id.startswith("payload") for entry in entries)
    return payloads, len(entries) - payloads


@some
@given(
    floods(minority=True),
    st.sampled_from(["overlap", "voices", "paper"]),
    st.sampled_from(["retrieved", "trust"]),
)
def test_identical_payloads_in_the_minority_stay_there_at_every_cut(ranking, consistency, order):
    contents = [one.content for one in ranking.documents]
    groups = voices(contents)
    # The others are documents of their own.
    payload = {
        g for g, one in zip(groups, ranking.documents, strict=True) if one.id.startswith("p")
    }
    rest = [g for g, one in zip(groups, ranking.documents, strict=True) if one.id.startswith("o")]
    assume(len(set(rest)) == len(rest) and not payload & set(rest))
    stage = RetrievalScorer(RetrievalScorerConfig(consistency=consistency, order=order))
    for size in range(FEWEST, len(ranking) + 1):
        outcome = Pipeline([stage], context_size=size).run(ranking)
        payloads, others = counts(outcome.kept)
        assert others > payloads
    assert not any("more than half" in step.reason for step in outcome.trace)


@some
@given(floods(minority=True))
def test_even_among_copies_of_one_another_a_minority_never_takes_most_seats(ranking):
    groups = voices([one.content for one in ranking.documents])
    payload = {
        g for g, one in zip(groups, ranking.documents, strict=True) if one.id.startswith("p")
    }
    rest = [g for g, one in zip(groups, ranking.documents, strict=True) if one.id.startswith("o")]
    assume(not payload & set(rest))
    for size in range(2, len(ranking) + 1):
        payloads, others = counts(
            Pipeline([RetrievalScorer()], context_size=size).run(ranking).kept
        )
        assert others >= payloads


@some
@given(floods(minority=False))
def test_identical_payloads_in_the_majority_are_said(ranking):
    flow = RetrievalScorer().run([Flow(ranking, ranking)])[0]
    assert flow.partial
    assert any("more than half of what was retrieved" in step.reason for step in flow.trace)


@some
@given(st.lists(sentences, max_size=8), st.randoms())
def test_consistency_is_a_share_and_the_order_moves_nothing(texts, random):
    order = list(range(len(texts)))
    random.shuffle(order)
    for option in ("overlap", "voices", "paper"):
        found = consistencies(texts, option)
        assert all(one is None or 0 <= one <= 1 for one in found)
        moved = consistencies([texts[row] for row in order], option)
        assert moved == [found[row] for row in order]


class Reads:
    """Answers with the first word of the context, so that what it reads shows."""

    def __init__(self, place):
        self.identity = f"reads {place}"
        self._place = place

    def reply(self, messages, *, max_tokens):
        lines = [line for line in messages[-1].content.splitlines() if not line.startswith("[")]
        return ChatReply(" ".join(lines[0].split()[: self._place]))


def story(documents):
    """What was decided, without any name."""
    entries = tuple(
        RankedDocument(one, rank, 1 - rank / 50) for rank, one in enumerate(documents, 1)
    )
    ranking = Ranking("q", "who built the bridge", entries)
    policy = ProvenancePolicy((SourceRule(0.9, source="trusted/*"),))
    guard = IngestGuard(IngestGuardConfig(watched_questions=("who built",)))
    panel = Panel(
        [Member("a", Reads(1)), Member("b", Reads(2))],
        ConsensusConfig(gate="always", on_disagreement="majority"),
    )
    run = Shield(
        RetrievedBefore([ranking]),
        [IngestGuardStage(guard), RetrievalScorer(RetrievalScorerConfig(order="trust"), policy)],
        panel,
        ShieldConfig(context_size=4, depth=12),
        clock=lambda: 0.0,
    )
    trace = run.answer(Query("q", "who built the bridge"))
    places = [
        [(one.rank, one.place, [(step.stage, step.action, step.components) for step in one.steps])
         for one in attempt.documents]
        for attempt in trace.attempts
    ]  # fmt: skip
    assert json.dumps(trace_fields(trace), allow_nan=False)
    assert explain_trace(trace)
    return trace.answer, trace.status, trace.agreed, places


@few
@given(st.lists(sentences, min_size=1, max_size=9), st.data())
def test_names_move_nothing_but_what_the_policy_declares(texts, data):
    names = st.lists(
        st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8),
        min_size=len(texts), max_size=len(texts), unique=True,
    )  # fmt: skip
    trusted = data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts)))

    def corpus():
        ids, words = data.draw(names), data.draw(names)
        return [
            Document(name, text, provenance=Provenance(
                f"trusted/{len(word)}" if good else f"other/{word}", word, word, word, word))
            for name, word, text, good in zip(ids, words, texts, trusted, strict=True)
        ]  # fmt: skip

    assert story(corpus()) == story(corpus())


ASKED = frozenset("which city is it".split())
answers = st.lists(
    st.lists(st.sampled_from("madrid rome is not or john smith brown 7".split()), min_size=1, max_size=4),
    min_size=1, max_size=6,
)  # fmt: skip


@some
@given(answers, st.data())
def test_every_vote_is_counted_once_and_the_panels_order_moves_only_ties(replies, data):
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(replies), max_size=len(replies)))
    broken = data.draw(st.lists(st.booleans(), min_size=len(replies), max_size=len(replies)))
    cast = [
        MemberReply(
            f"m{n}", "model", float(weight),
            Standing.FAILED if failed else Standing.ANSWERED, 0.0,
            " ".join(words), () if failed else tuple(words),
        )
        for n, (words, weight, failed) in enumerate(zip(replies, weights, broken, strict=True))
    ]  # fmt: skip
    ballot = count(cast, "which city is it", 2 / 3)
    voted = [name for group in ballot.groups for name in group.members]
    assert sorted(voted) == sorted(one.member for one in cast if one.standing is Standing.ANSWERED)
    assert sum(group.weight for group in ballot.groups) <= ballot.asked_weight == sum(weights)
    for group in ballot.groups:
        words = [one.words for one in cast if one.member in group.members]
        assert all(agree(one, other, ASKED) for one in words for other in words)
    order = data.draw(st.permutations(cast))
    moved = count(order, "which city is it", 2 / 3)
    assert {frozenset(one.members) for one in moved.groups} == {
        frozenset(one.members) for one in ballot.groups
    }
    assert moved.agreement == ballot.agreement
    working = {one.content for one in cast if one.standing is Standing.ANSWERED}
    assert ballot.answer in working if working else ballot.answer is None
