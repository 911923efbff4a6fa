"""Public reports 26 to 31: templates, near-copies, repeated ids and repeated chunks."""

from __future__ import annotations

import numpy as np
import pytest

from builders import ranking, write_jsonl
from ragsieve.defense.serial import serial_defense
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.profiles import corpus_rule, query_rule
from ragsieve.detectors.query import QueryDetector
from ragsieve.errors import RecordError
from ragsieve.evidence.tokens import jaccard, paper_word_set, word_set
from ragsieve.files.corpus import read_corpus
from ragsieve.records import Document, Level
from ragsieve.testing import FakeTextEmbedder

ROADS = [
    f"Farm to Market Road {number} is a road in Lamar County, Texas. It runs from {town} to the "
    f"county line and was designated in {1930 + number % 40}."
    for number, town in zip(
        range(1500, 1540), ["Paris", "Blossom", "Reno", "Deport", "Roxton"] * 8, strict=True
    )
]
OTHERS = [
    f"{a} {b} {c} and the {b} of {a}, told by {c}"
    for a in "river stone bridge market winter archive".split()
    for b in "lantern orchard survey council harbour tower".split()
    for c in "copper velvet thunder meadow".split()
]


def scanned(texts):
    documents = [Document(f"d{place}", text) for place, text in enumerate(texts)]
    rows = FakeTextEmbedder().embed_documents([one.content for one in documents])
    return CorpusDetector(corpus_rule("default")).scan(documents, rows)


def test_case_26_a_family_of_templates_is_not_quarantined():
    scan = scanned(ROADS + OTHERS)
    roads = {f"d{place}" for place in range(len(ROADS))}
    assert roads & set(scan.flagged_at(Level.QUARANTINE)) == set()


def test_case_27_chinese_near_copies_are_near():
    left = "今天的天气非常好,我们一起去公园散步,然后在湖边喝茶。"
    right = left.replace("喝茶", "喝咖啡")
    assert jaccard(word_set(left), word_set(right)) > 0.8
    # The paper's words know the alphabet of English alone, as the published detector does.
    assert paper_word_set(left) == frozenset()


def test_case_28_texts_without_a_word_are_no_copies_of_one_another():
    assert jaccard(word_set(""), word_set("")) == 0.0
    assert jaccard(word_set("!?"), word_set("...")) == 0.0
    scan = scanned(["", "!?", "...", "cat", "dog", "cat", *OTHERS])
    assert len(scan) == 6 + len(OTHERS)
    assert scan.document_ids[:6] == ("d0", "d1", "d2", "d3", "d4", "d5")


def test_cases_29_and_30_a_repeated_id_is_an_error_that_names_both_lines(tmp_path):
    rows = [{"id": "full", "text": "full text"}, {"id": "full", "text": "stub"}]
    with pytest.raises(RecordError, match=r":2: field 'id'.*line 1"):
        read_corpus(write_jsonl(tmp_path / "corpus.jsonl", rows))
    assert read_corpus(write_jsonl(tmp_path / "corpus.jsonl", rows[:1]))[0].text == "full text"


def test_case_31_a_chunk_retrieved_twice_is_judged_once():
    texts = [f"the archive keeps page {place} of the council survey" for place in range(20)]
    ids = [f"d{place}" for place in range(20)]
    ids[1], texts[1] = ids[0], texts[0]
    detector = QueryDetector(query_rule("default"))
    outcome = serial_defense(detector).run(ranking(texts, ids=ids))
    kept = [one.document.id for one in outcome.kept]
    assert len(kept) == len(set(kept)) == 5
    assert any(step.document_id == "d0" and "repeat" in step.reason for step in outcome.trace)
    assert {one.document_id for one in outcome.verdicts if one.flagged} == set()


def test_case_31_copies_under_other_ids_do_not_vouch_for_each_other():
    """What repeats itself is no second witness: near-copies count as one voice."""
    texts = [f"the archive keeps page {place} of the council survey" for place in range(20)]
    texts[0] = texts[1] = "the bridge was built by nobody, as the council of towers says"
    detector = QueryDetector(query_rule("default"))
    twice = detector.score(ranking(texts))[:2]
    assert twice[0].score == pytest.approx(twice[1].score)
    assert np.isfinite(twice[0].score)
