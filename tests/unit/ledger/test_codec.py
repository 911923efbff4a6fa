"""Records come back from text exactly as they were."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql, sqlite

from ragsieve.cases import Place, QueryContext, RiskTier, Seen, Standing
from ragsieve.evidence.hidden import hidden_text
from ragsieve.ledger import codec
from ragsieve.ledger.columns import Escaped
from ragsieve.records import Annotation, Decision, Evidence, Level, Provenance, Verdict
from unit.ledger.building import place, sha, verdict

TEXTS = st.text(st.characters(exclude_categories=()), max_size=12)
NUMBERS = st.floats(0, allow_nan=False)
MAYBE = st.none() | TEXTS
EVIDENCES = st.builds(
    Evidence,
    name=TEXTS,
    value=st.none() | NUMBERS,
    probability=st.none() | st.floats(0, 1),
    reason=MAYBE,
    components=st.lists(st.tuples(TEXTS, NUMBERS | st.integers())).map(tuple),
    optional=st.booleans(),
)
VERDICTS = st.builds(
    Verdict,
    document_id=TEXTS,
    score=NUMBERS,
    threshold=NUMBERS,
    decision=st.sampled_from(Decision),
    level=st.sampled_from(Level),
    evidences=st.lists(EVIDENCES, max_size=3).map(tuple),
    profile=TEXTS,
    fingerprint=TEXTS,
    rank=st.none() | st.integers(1),
    truncated_characters=st.integers(0),
    annotations=st.lists(
        st.builds(Annotation, TEXTS, TEXTS, st.integers(0), st.integers(0)), max_size=2
    ).map(tuple),
)


@given(VERDICTS)
def test_verdicts(one):
    back = codec.verdict_of(codec.verdict_text(one))
    assert back == one
    assert [[type(number) for _, number in evidence.components] for evidence in back.evidences] == [
        [type(number) for _, number in evidence.components] for evidence in one.evidences
    ]


@given(
    st.builds(
        Standing,
        st.builds(Provenance, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE),
        MAYBE,
        st.none() | st.floats(0, 1),
        MAYBE,
        st.sampled_from(RiskTier),
    )
)
def test_standings(one):
    assert codec.standing_of(codec.standing_text(one)) == one


@given(
    st.builds(
        QueryContext,
        TEXTS,
        MAYBE,
        st.lists(st.builds(Seen, TEXTS, st.integers(1), st.none() | st.floats(-1, 1))).map(tuple),
    )
)
def test_contexts(one):
    assert codec.context_of(codec.context_text(one)) == one


@given(TEXTS)
def test_any_text_is_stored_as_text_every_database_takes(one):
    column = Escaped()
    for dialect in (sqlite.dialect(), postgresql.dialect()):
        stored = column.process_bind_param(one, dialect)
        assert "\x00" not in stored
        assert stored.encode("utf-8").decode("utf-8") == stored
        assert column.process_result_value(stored, dialect) == one


@given(st.tuples(TEXTS, TEXTS, MAYBE), st.tuples(TEXTS, TEXTS, MAYBE))
def test_keys_tell_places_apart(one, other):
    assert (codec.place_key(Place(*one)) == codec.place_key(Place(*other))) == (one == other)


def test_numbers_of_numpy_are_numbers():
    one = verdict(
        score=np.float64(0.1),
        evidences=(Evidence("density", np.float32(0.5), components=(("near", np.int64(3)),)),),
    )
    back = codec.verdict_of(codec.verdict_text(one))
    assert back == one
    assert type(back.evidences[0].components[0][1]) is int


def test_what_is_no_number_or_text_is_refused():
    with pytest.raises(TypeError, match="cannot hold"):
        codec.verdict_text(verdict(evidences=(Evidence("density", object()),)))


def test_the_detail_behind_an_explanation_is_not_kept():
    found = Evidence("hidden", 1.0, detail=hidden_text("a\u202eb"))
    back = codec.verdict_of(codec.verdict_text(verdict(evidences=(found,))))
    assert back.evidences == (dataclasses.replace(found, detail=None),)


def test_a_verdict_has_one_key_in_a_scan():
    keys = {
        codec.verdict_key(scan, where, content)
        for scan in ("s1", "s2")
        for where in (place("a"), place("b"), place("a", "acme"))
        for content in (sha("1"), sha("2"))
    }
    assert len(keys) == 12
