"""Findings of every kind, with hostile text, for tests of what is exported."""

from __future__ import annotations

import datetime

from hypothesis import Phase
from hypothesis import strategies as st

from ragsieve.cases import (
    Incident,
    Measure,
    Opinion,
    Place,
    PolicyDecision,
    QueryContext,
    Remediation,
    RiskTier,
    Seen,
    Standing,
    Truth,
)
from ragsieve.findings.taxonomy import taxonomy
from ragsieve.records import Annotation, Decision, Evidence, Level, Provenance, Verdict

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "Access GRANTED \u202eDENIED \u202c",
    "zero\u200bwidth \U000e0041\U000e0042 tag",
    "half \ud800 and \udfff a pair",
    "[click](http://evil.example) {0} {{ 7*7 }} {% raw %}",
    "line\nbreak\r\n\u2028\u2029\u0085 \x1b[31m \x00",
    "\ufdd0\uffff private \ue000",
    "=cmd|' /C calc'!A0",
    "",
)
# Making a failing finding smaller takes minutes; any failing one says what is wrong.
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
KNOWN = tuple(name for name, _ in taxonomy().evidences)


def _paired(text):
    """Without a high surrogate right before a low one, which JSON reads as one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=()), max_size=40).map(_paired),
)
names = st.one_of(st.sampled_from(KNOWN), texts)
numbers = st.floats(min_value=0.0, allow_nan=False, allow_infinity=False)
maybe = lambda strategy: st.one_of(st.none(), strategy)  # noqa: E731
any_numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**20), 10**20)
)

measured = st.builds(
    Evidence,
    name=names,
    value=numbers,
    probability=maybe(st.floats(0.0, 1.0, exclude_min=True)),
    components=st.lists(st.tuples(texts, any_numbers), max_size=3).map(tuple),
    optional=st.booleans(),
)
unavailable = st.builds(
    Evidence, name=names, value=st.none(), reason=maybe(texts), optional=st.booleans()
)
annotations = st.builds(
    Annotation, name=texts, words=texts, start=st.integers(0, 99), stop=st.integers(0, 999)
)
verdicts = st.builds(
    Verdict,
    document_id=texts,
    score=numbers,
    threshold=st.one_of(st.just(0.5), st.just(1.0), numbers),
    decision=st.sampled_from(Decision),
    level=st.sampled_from(Level),
    evidences=st.lists(st.one_of(measured, unavailable), max_size=5).map(tuple),
    profile=texts,
    fingerprint=texts,
    rank=maybe(st.integers(1, 100)),
    truncated_characters=st.integers(0, 10**9),
    annotations=st.lists(annotations, max_size=2).map(tuple),
)
stores = st.one_of(
    st.sampled_from(
        [
            "chroma:///data/db?collection=docs",
            "qdrant://host:6333/docs",
            "corpus.jsonl",
            "sub dir/a#b?c:d.jsonl",
            "/abs/corpus.jsonl",
            "file:///abs/%41/corpus.jsonl",
            "file://",
            "C:\\data\\corpus.jsonl",
        ]
    ),
    texts,
)
zones = st.sampled_from(
    [datetime.UTC, datetime.timezone(datetime.timedelta(hours=-7, minutes=-30)), None]
)
moments = st.builds(
    # Which of two equal hours it is has no meaning under a fixed offset.
    lambda moment, zone: moment.replace(tzinfo=zone, fold=0),
    st.datetimes(datetime.datetime(1990, 1, 1), datetime.datetime(2200, 1, 1)),
    zones,
)
seen = st.builds(
    Seen,
    document_id=texts,
    rank=st.integers(1, 100),
    similarity=maybe(st.floats(-1.0, 1.0)),
)
contexts = st.builds(
    QueryContext,
    query_id=texts,
    query=maybe(texts),
    ranking=st.lists(seen, max_size=3).map(tuple),
)
provenances = st.builds(
    Provenance,
    source=maybe(texts),
    author=maybe(texts),
    tenant=maybe(texts),
    version=maybe(texts),
    created=maybe(texts),
)
standings = st.builds(
    Standing,
    provenance=provenances,
    acl=maybe(texts),
    source_trust=maybe(st.floats(0.0, 1.0)),
    document_version=maybe(texts),
    risk_tier=st.sampled_from(RiskTier),
)
policy_decisions = st.builds(
    PolicyDecision,
    measure=st.sampled_from(Measure),
    rule=texts,
    reason=texts,
    policy_sha256=st.just("ab" * 32),
)
incidents = st.builds(
    Incident,
    id=st.integers(0, 2**128 - 1).map("{:032x}".format),
    scan_id=texts,
    place=st.builds(Place, store=stores, document_id=texts, tenant=maybe(texts)),
    content_sha256=st.integers(0, 2**256 - 1).map("{:064x}".format),
    title=texts,
    excerpt=texts,
    verdict=verdicts,
    standing=standings,
    decision=policy_decisions,
    decided_at=moments,
    context=maybe(contexts),
    campaign=maybe(st.one_of(st.sampled_from(["c1", "c2"]), texts)),
    embedding_version=maybe(texts),
    index_version=maybe(texts),
    truth=st.sampled_from(Truth),
    remediation=st.sampled_from(Remediation),
    opinion=maybe(st.sampled_from(Opinion)),
    reviewer=maybe(texts),
)


def incident(**changed):
    """One plain finding; ``evidences``, ``score``, ``threshold``... go to its verdict."""
    inner = {
        "document_id": "d1",
        "score": 1.25,
        "threshold": 1.0,
        "decision": Decision.FLAGGED,
        "level": Level.REVIEW,
        "evidences": (
            Evidence("neighbor_gap", 1.1, probability=0.01, components=(("gap", 0.4),)),
            Evidence("script_mixing", 0.5),
            Evidence("hidden_text", 0.0),
            Evidence("provenance", None, reason="no metadata", optional=True),
        ),
        "profile": "default",
        "fingerprint": "f" * 8,
    }
    outer = {
        "id": "0" * 31 + "1",
        "scan_id": "scan-1",
        "place": Place("qdrant://host/docs", "d1"),
        "content_sha256": "ab" * 32,
        "title": "A title",
        "excerpt": "The beginning of it",
        "standing": Standing(),
        "decision": PolicyDecision(Measure.REVIEW, "otherwise", "look at it", "cd" * 32),
        "decided_at": datetime.datetime(2026, 3, 1, 12, 30, tzinfo=datetime.UTC),
    }
    for name, value in changed.items():
        judged = name in {*inner, "rank", "annotations"} and not isinstance(value, PolicyDecision)
        (inner if judged else outer)[name] = value
    return Incident(verdict=Verdict(**inner), **outer)
