"""What stands beside documents."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frameworks.planted import calm, campaign
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.integrations.marks import (
    ARRIVAL_KEYS,
    KEY,
    arrival_fields,
    content_id,
    declared,
    without_marks,
)
from ragsieve.records import Document, Provenance


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_equal_texts_have_equal_ids_and_others_have_not(one, other):
    assert (content_id(one) == content_id(other)) == (one == other)
    assert content_id(one).isascii()


def test_forged_marks_are_taken_away_and_what_hides_a_row_is_not():
    forged = dict.fromkeys((KEY, *ARRIVAL_KEYS), "clear") | {"a": 1, "ragsieve_quarantined": True}
    assert without_marks(forged) == {"a": 1, "ragsieve_quarantined": True}
    assert KEY in forged


def test_what_is_declared_is_read_where_it_is_text():
    found = declared({"source": "wiki", "author": 7, "created": "", "other": "x"})
    assert found == Provenance(source="wiki")


def test_arrival_fields_are_flat():
    rng = np.random.default_rng(0)
    (texts, rows), (more, near) = calm(rng), campaign(rng)
    documents = [Document(f"d{i}", text) for i, text in enumerate([*texts, *more])]
    scan = CorpusDetector().scan(documents, np.concatenate([rows, near]))
    for verdict in scan:
        fields = arrival_fields(verdict)
        assert set(fields) <= set(ARRIVAL_KEYS)
        assert all(isinstance(value, str | float) for value in fields.values())
        if verdict.flagged:
            assert fields["ragsieve_score"] >= fields["ragsieve_threshold"]
    assert scan.flagged_ids
