"""The vectorised text part says what loops over sets and characters say."""

from __future__ import annotations

import itertools
import unicodedata

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import clustered
from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.evidence.alien import alien_run, alien_runs
from ragsieve.evidence.density import density_contrast, density_contrasts
from ragsieve.evidence.knn import cosine_knn
from ragsieve.evidence.scripts import integrity_violations, script_profile
from ragsieve.evidence.tokens import containment, is_word, jaccard, paper_word_set, tokens, word_set
from ragsieve.features.growing import GrowingArray, GrowingRagged
from ragsieve.features.novelty import PairIndex
from ragsieve.features.overlaps import containments, jaccards
from ragsieve.features.paper import PaperFeatures, paper_features
from ragsieve.features.ragged import Ragged, chunks
from ragsieve.features.statistics import TokenCounts
from ragsieve.features.text import text_features
from ragsieve.features.vocabulary import Vocabulary
from ragsieve.records import Provenance

any_text = st.text(st.characters(exclude_categories=()), max_size=60)
ascii_text = st.text(st.characters(max_codepoint=127), max_size=60)
seeds = st.integers(0, 100_000)
NAMES = "LATIN CYRILLIC ARABIC HEBREW DEVANAGARI BENGALI THAI ARMENIAN GEORGIAN GREEK".split()


def script_of(character):
    name = unicodedata.name(character, "")
    for one in NAMES:
        if one in name:
            return one
    east = any(one in name for one in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL"))
    return "EAST_ASIAN" if east else "OTHER"


@settings(max_examples=200, deadline=None)
@given(any_text)
def test_scripts_are_those_of_the_names(text):
    kinds = [script_of(c) if c.isalpha() else None for c in text]
    places = [
        i for i in range(1, len(kinds)) if kinds[i] and kinds[i - 1] and kinds[i] != kinds[i - 1]
    ]
    letters = [kind for kind in kinds if kind]
    profile = script_profile(text)
    assert dict(profile.counts) == {kind: letters.count(kind) for kind in set(letters)}
    assert profile.first_transition == (places[0] if places else None)
    violates = bool(places) or len(set(letters)) >= 3
    assert integrity_violations([text, "", "abc"]).tolist() == [violates, False, False]


def test_every_code_point_has_the_script_of_its_name():
    for start in range(0, 0x110000, 4096):
        text = " ".join(map(chr, range(start, start + 4096)))
        letters = [script_of(c) for c in text if c.isalpha()]
        assert dict(script_profile(text).counts) == {k: letters.count(k) for k in set(letters)}


@settings(max_examples=300, deadline=None)
@given(ascii_text)
def test_ascii_tokens_are_those_of_the_larger_pattern(text):
    pattern = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\s_]", regex.VERSION1)
    assert tokens(text) == pattern.findall(text.casefold())


def test_every_ascii_character_alone_and_between_words():
    for code in range(128):
        for text in (chr(code), f"a{chr(code)}b"):
            # A letter that is no ASCII sends the same text through the larger pattern.
            assert [*tokens(text), "é"] == tokens(f"{text} é"), code


@settings(max_examples=100, deadline=None)
@given(st.lists(any_text, max_size=8))
def test_overlaps_are_those_of_sets(texts):
    vocabulary = Vocabulary()
    words = paper_features(texts, vocabulary).words
    sets = [paper_word_set(text) for text in texts]
    names = vocabulary.tokens
    assert [{names[i] for i in words[row]} for row in range(len(words))] == sets
    left, right = (
        map(np.array, zip(*itertools.product(range(len(texts)), repeat=2), strict=True))
        if texts
        else (np.empty(0, int),) * 2
    )
    pairs = list(zip(left.tolist(), right.tolist(), strict=True))
    assert jaccards(words, left, right).tolist() == [jaccard(sets[i], sets[j]) for i, j in pairs]
    assert containments(words, left, right).tolist() == [
        containment(sets[i], sets[j]) for i, j in pairs
    ]


def test_overlaps_of_more_words_than_fit_at_once(monkeypatch):
    monkeypatch.setattr("ragsieve.features.overlaps._CHUNK_WORDS", 50)
    rng = np.random.default_rng(0)
    sets = [set(rng.integers(90, size=rng.integers(0, 60)).tolist()) for _ in range(40)]
    words = Ragged.of(np.array(sorted(one), dtype=np.int32) for one in sets)
    left, right = rng.integers(40, size=200), rng.integers(40, size=200)
    expected = [
        len(sets[i] & sets[j]) / max(1, len(sets[i] | sets[j]))
        for i, j in zip(left, right, strict=True)
    ]
    assert jaccards(words, left, right).tolist() == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(any_text, max_size=6))
def test_features_of_profile_default_are_those_of_each_text(texts):
    vocabulary = Vocabulary(("known",))
    nowhere = [Provenance()] * len(texts)
    features = text_features(texts, vocabulary, nowhere, mixes=bool, hides=lambda _: 0.0)
    names = vocabulary.tokens
    assert names[0] == "known"
    for row, text in enumerate(texts):
        assert [names[i] for i in features.tokens[row]] == tokens(text)
        folded = {"0" if word.isdecimal() else word for word in word_set(text)}
        assert {names[i] for i in features.words[row]} == folded
        assert (np.diff(features.words[row]) > 0).all()


def test_only_the_first_six_hundred_tokens_count_but_every_word():
    text = " ".join(f"w{i}" for i in range(700))
    features = text_features(
        [text, "w1"], Vocabulary(), [Provenance()] * 2, mixes=bool, hides=lambda _: 0.0
    )
    assert features.tokens.lengths.tolist() == [600, 1]
    assert features.words.lengths.tolist() == [700, 1]


def test_is_word_looks_at_every_character():
    assert [is_word(one) for one in ("a", "7", "a-b", "-", "é", "\u0301", "東", "½", "")] == [
        True, True, True, False, True, False, True, True, False,
    ]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 40), st.integers(0, 20))
def test_densities_are_those_of_one_document_at_a_time(seed, size, k):
    rng = np.random.default_rng(seed)
    similarities = -np.sort(-rng.uniform(0.5, 1.0, size=(size, k)).round(2), axis=1)
    eligible = rng.random((size, k)) < rng.random((size, 1))
    found = density_contrasts(similarities, eligible)
    for row in range(size):
        background = float(similarities[row, -1]) if k else 0.0
        one = density_contrast(similarities[row][eligible[row]], background)
        assert (found.density[row], found.eligible[row]) == (one.density, one.eligible)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_alien_runs_are_those_of_one_document_at_a_time(seed):
    rng = np.random.default_rng(seed)
    flags = [rng.random(int(rng.integers(0, 90))) < rng.random() for _ in range(12)]
    offsets = np.concatenate(([0], np.cumsum([one.size for one in flags])))
    share = float(rng.random())
    assert alien_runs(np.concatenate(flags), offsets, share) == [
        alien_run(one, share) for one in flags
    ]


def test_alien_runs_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    flags = [rng.random(int(size)) < 0.4 for size in rng.integers(0, 60, size=50)]
    offsets = np.concatenate(([0], np.cumsum([one.size for one in flags])))
    whole = alien_runs(np.concatenate(flags), offsets, 0.3)
    monkeypatch.setattr("ragsieve.evidence.alien._CHUNK_TOKENS", 70)
    assert alien_runs(np.concatenate(flags), offsets, 0.3) == whole


def novel_by_sets(rows, near):
    pairs = [set(itertools.pairwise(own)) for own in rows]
    found = []
    for row, own in enumerate(rows):
        others = [pairs[i] for i in range(len(rows)) if i != row and i not in near[row]]
        found += [
            place == 0 or not any((own[place - 1], token) in held for held in others)
            for place, token in enumerate(own)
        ]
    return found


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_novel_tokens_are_those_of_sets_of_pairs_as_documents_come_and_go(seed):
    rng = np.random.default_rng(seed)
    rows, index, alive = [], PairIndex(), []
    for _ in range(4):
        fresh = [rng.integers(6, size=rng.integers(0, 12)).astype(np.int32) for _ in range(5)]
        rows += fresh
        alive += [True] * len(fresh)
        index.append(Ragged.of(fresh))
        tokens_ = Ragged.of(rows)
        gone = [row for row in range(len(rows)) if alive[row] and rng.random() < 0.2]
        index.release(tokens_.offsets, np.array(gone, dtype=np.int64))
        for row in gone:
            alive[row] = False
        there = np.flatnonzero(alive)
        if there.size < 2:
            continue
        k = min(3, there.size - 1)
        near = np.array([rng.permutation(there[there != row])[:k] for row in there])
        found = index.novel(tokens_.offsets, there, near, np.array(alive))
        place = {row: i for i, row in enumerate(there.tolist())}
        ranks = [[place[other] for other in one] for one in near.tolist()]
        assert found.tolist() == novel_by_sets([rows[row].tolist() for row in there], ranks)
        keys, counts = index.table()
        held = TokenCounts.empty(1 << 20).extended(tuple("abcdef"), tokens_.take(there))
        arrays = held.pairs.arrays()
        assert keys.tolist() == arrays["keys"].tolist()
        assert counts.tolist() == arrays["counts"].tolist()


def test_everyday_tokens_are_the_hundred_in_most_documents():
    vocabulary = tuple(f"t{i:03}" for i in range(300))
    frequencies = np.zeros(300, dtype=np.int64)
    assert TokenCounts(vocabulary, 0, frequencies, TokenCounts.empty(64).pairs).everyday() == ()
    frequencies[:] = np.random.default_rng(0).integers(0, 6, size=300)
    counts = TokenCounts(vocabulary, 9, frequencies, TokenCounts.empty(64).pairs)
    order = sorted(
        (i for i in range(300) if frequencies[i]), key=lambda i: (-frequencies[i], vocabulary[i])
    )
    assert counts.everyday() == tuple(vocabulary[i] for i in order[:100])
    assert np.flatnonzero(counts.glue()).tolist() == sorted(order[:100])


def test_paper_features_that_were_kept_give_the_same_scan(tmp_path):
    texts, rows = clustered(np.random.default_rng(3), 60)
    rule, graph = PaperCorpusRule(), cosine_knn(rows, 16)
    np.savez(tmp_path / "kept.npz", **paper_features(texts, Vocabulary()).arrays())
    with np.load(tmp_path / "kept.npz") as stored:
        kept = PaperFeatures.from_arrays(dict(stored))
    cold = rule.measure(texts, graph, [Provenance()] * 60)
    warm = rule.judge(kept, graph)
    for one, other in zip(cold.columns, warm.columns, strict=True):
        assert one.values.tolist() == other.values.tolist()
        assert [c.tolist() for _, c in one.components] == [c.tolist() for _, c in other.components]
    with pytest.raises(KeyError):
        PaperFeatures.from_arrays({})


def test_a_vocabulary_numbers_in_order_and_forgets_what_is_left_out():
    vocabulary = Vocabulary(("b", "a"))
    assert vocabulary.numbers(["a", "c", "b", "c"]) == [1, 2, 0, 2]
    assert vocabulary.since(1) == ["a", "c"]
    assert vocabulary.token(2) == "c"
    assert vocabulary.known(["c", "nobody"]) == [2]
    assert len(vocabulary) == 3  # asking adds nothing
    fewer, moved = vocabulary.only(np.array([2, 0, 2], dtype=np.int32))
    assert fewer.tokens == ("b", "c")
    assert moved.tolist() == [0, -1, 1]
    assert fewer.numbers(["d"]) == [2]
    with pytest.raises(ValueError, match="once"):
        Vocabulary(("a", "a"))


def test_arrays_grow_and_earlier_views_stand():
    array, ragged = GrowingArray(np.int64, 2), GrowingRagged()
    array.append([[1, 2]])
    before = array.view
    for _ in range(3000):
        array.append([[3, 4]])
    array.extend_to(3005, 7)
    assert before.tolist() == [[1, 2]]
    assert array.view[[0, -1]].tolist() == [[1, 2], [7, 7]]
    assert len(array) == 3005
    for row in ([1, 2], [], [3]):
        ragged.append(Ragged.of([np.array(row, dtype=np.int32)]))
    assert [ragged.view[i].tolist() for i in range(len(ragged))] == [[1, 2], [], [3]]
    assert [
        r.tolist() for r in map(ragged.view.take(np.array([2, 0, 1])).__getitem__, range(3))
    ] == [[3], [1, 2], []]


def test_chunks_cover_every_row_once():
    offsets = np.array([0, 3, 3, 20, 21, 22, 30])
    for most in (1, 4, 10, 100):
        found = list(chunks(offsets, most))
        assert [row for start, stop in found for row in range(start, stop)] == list(range(6))
    assert list(chunks(np.array([0]), 5)) == []
