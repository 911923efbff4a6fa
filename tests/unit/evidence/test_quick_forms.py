"""Forms made for speed give what the plain ones give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsieve.evidence.alignment import alignment_jump, alignment_trace
from ragsieve.evidence.anchors import anchor_evidence, answer_anchors, is_anchor
from ragsieve.evidence.corroboration import read_sentences, uncorroborated

SETS = st.frozensets(st.sampled_from(["a", "7", "abc", "abcd", "river", "東", "of", "the"]))


@settings(max_examples=200, deadline=None)
@given(SETS, st.lists(SETS, min_size=1, max_size=5), st.lists(SETS, min_size=1, max_size=9))
def test_anchors_without_details(query, candidates, tail):
    full = answer_anchors(query, candidates, tail, admit=is_anchor)
    quick = anchor_evidence(query, candidates, tail, admit=is_anchor)
    assert quick == tuple((one.probability, one.evidence) for one in full)
    for words, one in zip(candidates, full, strict=True):
        assert {anchor.word for anchor in one.anchors} <= words - query
        for anchor in one.anchors:
            assert anchor.in_candidates == sum(anchor.word in own for own in candidates)
            assert anchor.in_ranking == sum(anchor.word in own for own in (*candidates, *tail))


def test_anchors_need_both_sides():
    for candidates, tail in (([], [{"a"}]), ([{"a"}], [])):
        with pytest.raises(ValueError, match="at least one candidate"):
            anchor_evidence((), candidates, tail)


def unit(rng, rows, dimension, dtype):
    states = rng.normal(size=(rows, dimension)) + 0.3
    return (states / np.linalg.norm(states, axis=1, keepdims=True)).astype(dtype)


def plain_trace(document, query):
    cosines = document.astype(np.float64) @ query.astype(np.float64).T
    size = len(document)
    starts = list(range(0, max(1, size - 31), 16))
    if size > 32 and starts[-1] != size - 32:
        starts.append(size - 32)
    trace = []
    for start in starts:
        window = cosines[start : start + 32]
        p, r = window.max(axis=1).mean(), window.max(axis=0).mean()
        trace.append(2 * p * r / max(p + r, 1e-8))
    return trace


@pytest.mark.parametrize("size", [1, 15, 31, 32, 33, 47, 48, 49, 63, 64, 200, 256])
@pytest.mark.parametrize("asked", [1, 14, 64])
def test_traces_in_blocks(size, asked):
    rng = np.random.default_rng(size + asked)
    for dtype in (np.float32, np.float64):
        document, query = unit(rng, size, 96, dtype), unit(rng, asked, 96, dtype)
        found = alignment_trace(document, query)
        assert found == pytest.approx(plain_trace(document, query), abs=1e-12)
        # Equal states must tie exactly: a rank is read off the jumps.
        again = alignment_trace(np.concatenate([document, document])[:size].copy(), query)
        assert alignment_jump(again) == alignment_jump(found)


def test_sentences_hold_what_a_text_says():
    text = "One two. Three?\nFour ... 東京。 !"
    found = read_sentences(text)
    assert [sorted(one.words) for one in found] == [
        ["one", "two"], ["three"], ["four"], sorted("東京"),
    ]  # fmt: skip
    assert [text[one.span.start : one.span.stop].strip() for one in found] == [
        "One two", "Three", "Four", "東京",
    ]  # fmt: skip


def test_a_tail_is_read_only_as_far_as_it_matters():
    read = []

    def sentences(text):
        read.append(text)
        return read_sentences(text)

    tail = ["Nothing here.", "Who built the bridge of Ulm?", "Never read."]
    query = "Who built the bridge of Ulm"
    candidates = ["The bridge of Ulm was built by Anna Brand.", ""]
    plain = uncorroborated(query, candidates, tail)
    assert uncorroborated(query, candidates, tail, sentences=sentences) == plain == (None, None)
    assert tail[2] not in read
    found = {
        order: uncorroborated(query, candidates, list(order), sentences=sentences)
        for order in itertools.permutations(tail)
    }
    assert set(found.values()) == {(None, None)}
