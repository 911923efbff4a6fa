import numpy as np

from ragsieve.backends.batches import (
    CPU_BATCH_TOKENS,
    batch_budget,
    length_sorted_batches,
    padded,
)


def test_every_text_is_in_one_batch_within_the_budget():
    lengths = [3, 50, 1, 7, 7, 2, 0, 31]
    batches = list(length_sorted_batches(lengths, token_budget=32))
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[row] for row in batch)
        assert len(batch) == 1 or len(batch) * longest <= 32
    assert batches[0].tolist() == [1]


def test_no_texts_no_batches():
    assert list(length_sorted_batches([], token_budget=8)) == []


def test_padding_is_on_the_right_and_masked():
    ids, mask = padded([np.array([5, 6, 7]), np.array([8])], pad_id=9)
    assert ids.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_a_batch_is_as_large_as_asked_or_as_suits_the_device():
    assert batch_budget(None, "cpu", 8_192) == CPU_BATCH_TOKENS < 8_192
    assert batch_budget(None, "cuda", 8_192) == 8_192
    assert batch_budget(70, "cpu", 8_192) == batch_budget(70, "cuda", 8_192) == 70
