"""What is read off texts is read once, kept within bounds, and is what it replaces."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsieve.detectors.query_runs import QueryRuns
from ragsieve.detectors.readings import near_copies, read_for_default, read_for_paper
from ragsieve.detectors.text_memo import TextCache, TextMemo
from ragsieve.evidence.copying import copied_run
from ragsieve.evidence.scripts import script_profile
from ragsieve.evidence.tokens import (
    containment,
    fold_number,
    is_word,
    paper_word_set,
    tokens,
    word_set,
)
from ragsieve.evidence.writing import writing_profile

WORDS = st.sampled_from([*"abcd", "7", "12", "?", ".", "東", "the", "river"])
TOKENS = st.lists(WORDS, max_size=14)


def test_a_text_is_read_once():
    read = []
    memo = TextMemo(lambda text: read.append(text) or len(text), lambda _: 1, max_bytes=10_000)
    assert memo.many(["ab", "c", "ab", ""]) == [2, 1, 2, 0]
    assert memo("ab") == 2
    assert read == ["ab", "c", ""]
    memo.cache.clear()
    assert memo("ab") == 2
    assert read == ["ab", "c", "", "ab"]


def test_memory_is_bounded_and_the_least_recently_used_go_first():
    memo = TextMemo(str.upper, len, max_bytes=1200)
    memo.many(["a", "b", "c"])
    assert memo.cache.used_bytes <= 1200
    memo("a")
    memo("d" * 300)
    assert memo.cache.used_bytes <= 1200
    assert set(memo.cache.known(["a", "b", "c", "d" * 300])) == {"a", "d" * 300}
    # Larger than everything there is room for: given, not kept.
    assert memo("e" * 5000) == "E" * 5000
    assert set(memo.cache.known(["a", "e" * 5000])) == {"a"}


def test_no_room_at_all():
    cache = TextCache(lambda _: 1, max_bytes=0)
    cache.keep({"a": 1})
    assert len(cache) == cache.used_bytes == 0


def test_threads_may_share_a_memo():
    memo = TextMemo(lambda text: int(text) ** 2, lambda _: 100, max_bytes=6_000)
    wrong = []

    def work(start):
        for i in range(400):
            number = (start + i * 7) % 60
            if memo.many([str(number), str(number + 1)]) != [number**2, (number + 1) ** 2]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert 0 < memo.cache.used_bytes <= 6_000


@pytest.mark.parametrize("text", ["", " _ ", "\ud800 a", "東京 x 12 a_b İ ẞ", "Who? 1 2 3." * 300])
def test_a_reading_says_what_the_text_says(text):
    one = read_for_default(text)
    assert one.tokens == tuple(tokens(text)[:600])
    assert one.words == word_set(text)
    assert one.folded == frozenset(map(fold_number, one.words))
    assert read_for_paper(text).words == paper_word_set(text)
    assert read_for_paper(text).script == script_profile(text)
    assert one.script_share == writing_profile(text).minority_share
    assert one.question == text.startswith("Who?")


@settings(max_examples=200, deadline=None)
@given(st.lists(TOKENS, min_size=1, max_size=6))
def test_near_copies_are_those_that_contain_each_other(texts):
    read = [read_for_default(" ".join(words)) for words in texts]
    expected = tuple(
        tuple(
            other
            for other in range(len(read))
            if other != place and containment(read[place].folded, read[other].folded) > 0.9
        )
        for place in range(len(read))
    )
    assert near_copies(read, range(len(read))) == expected


def test_the_last_word_a_copy_may_lack():
    long = [f"w{i}" for i in range(101)]
    for lacking, copies in ((9, True), (10, True), (11, False)):
        kept = [*long[lacking:], *[f"v{i}" for i in range(lacking)], "more"]
        pair = [read_for_default(" ".join(words)) for words in (long, kept)]
        assert (near_copies(pair, range(1)) == ((1,),)) is copies


@settings(max_examples=300, deadline=None)
@given(TOKENS, TOKENS)
def test_the_longest_run_is_the_one_it_replaces_and_its_bound_holds(query, document):
    runs = QueryRuns(query, set(filter(is_word, query)))
    found = runs.longest(document)
    assert found == copied_run(query, document)
    words = frozenset(filter(is_word, document))
    assert runs.bound(words) >= found.length
    assert runs.longest_of([(document, words), ([], frozenset())]) == found.length
