import numpy as np
import pytest

from ragsieve.backends.memo import MemoCausalScorer, MemoTokenEncoder
from ragsieve.errors import ConfigError
from ragsieve.ports import CausalScorer, TokenEncoder


class CountingScorer:
    identity = "counting"
    vocabulary_size = 10

    def __init__(self):
        self.calls = []

    def losses(self, texts):
        self.calls.append(list(texts))
        return [np.arange(len(text), dtype=np.float32) for text in texts]


class CountingEncoder:
    identity = "counting"
    vocabulary_size = 10

    def __init__(self):
        self.calls = []

    def states(self, texts, *, max_tokens):
        self.calls.append((list(texts), max_tokens))
        return [np.ones((min(len(text), max_tokens), 2), dtype=np.float32) for text in texts]


def lengths(arrays):
    return [len(array) for array in arrays]


def test_a_batch_with_repeats_is_one_call_with_each_text_once():
    scorer = CountingScorer()
    memo = MemoCausalScorer(scorer)
    assert lengths(memo.losses(["a", "bb", "a", "ccc", "bb"])) == [1, 2, 1, 3, 2]
    assert scorer.calls == [["a", "bb", "ccc"]]


def test_only_what_is_missing_is_asked_for():
    scorer = CountingScorer()
    memo = MemoCausalScorer(scorer)
    memo.losses(["a", "bb"])
    assert lengths(memo.losses(["bb", "dddd", "a"])) == [2, 4, 1]
    memo.losses(["a", "bb", "dddd"])
    assert scorer.calls == [["a", "bb"], ["dddd"]]


def test_max_tokens_is_part_of_the_key():
    encoder = CountingEncoder()
    memo = MemoTokenEncoder(encoder)
    assert lengths(memo.states(["aaaa"], max_tokens=2)) == [2]
    assert lengths(memo.states(["aaaa"], max_tokens=3)) == [3]
    assert lengths(memo.states(["aaaa"], max_tokens=2)) == [2]
    assert encoder.calls == [(["aaaa"], 2), (["aaaa"], 3)]


def test_the_least_recently_used_goes_first():
    scorer = CountingScorer()
    memo = MemoCausalScorer(scorer, max_bytes=2 * (4 * 10 + 256))
    one, two, three = "1" * 10, "2" * 10, "3" * 10
    memo.losses([one, two])
    memo.losses([one])
    memo.losses([three])
    memo.losses([one, three])
    assert scorer.calls == [[one, two], [three]]
    memo.losses([two])
    assert scorer.calls[-1] == [two]


def test_a_batch_larger_than_the_memory_is_still_answered():
    scorer = CountingScorer()
    memo = MemoCausalScorer(scorer, max_bytes=0)
    assert lengths(memo.losses(["a", "bb", "a"])) == [1, 2, 1]
    memo.losses(["a"])
    assert scorer.calls == [["a", "bb"], ["a"]]


def test_what_is_shared_cannot_be_written_to():
    array = MemoCausalScorer(CountingScorer()).losses(["abc"])[0]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 7


def test_wrappers_are_ports_with_the_wrapped_identity():
    scorer, encoder = MemoCausalScorer(CountingScorer()), MemoTokenEncoder(CountingEncoder())
    assert isinstance(scorer, CausalScorer)
    assert isinstance(encoder, TokenEncoder)
    assert scorer.identity == encoder.identity == "counting"


def test_no_texts_no_call():
    scorer = CountingScorer()
    assert MemoCausalScorer(scorer).losses([]) == []
    assert scorer.calls == []


def test_a_failure_is_not_remembered():
    class Failing(CountingScorer):
        def losses(self, texts):
            super().losses(texts)
            if len(self.calls) == 1:
                raise RuntimeError("once")
            return [np.zeros(1)] * len(texts)

    memo = MemoCausalScorer(Failing())
    with pytest.raises(RuntimeError, match="once"):
        memo.losses(["a"])
    assert lengths(memo.losses(["a"])) == [1]


def test_negative_memory():
    with pytest.raises(ConfigError, match="found -1"):
        MemoCausalScorer(CountingScorer(), max_bytes=-1)
