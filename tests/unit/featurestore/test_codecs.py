"""What is stored comes back, every bit the same; what is not a stored value is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ragsieve.evidence.tokens import word_set
from ragsieve.featurestore.codecs import ArrayCodec
from ragsieve.featurestore.texts import DefaultReading, DefaultText, PaperReading

FLOATS = st.sampled_from(["<f2", "<f4", "<f8", ">f4", ">f8"])
SHAPES = hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=9)
# Any string, lone surrogates and separators included.
TEXTS = st.text(st.characters(), max_size=200)
READINGS = [PaperReading(), DefaultReading(600), DefaultReading(3)]
HOSTILE = [
    "", " ", "\n", "\ud800 lone", "a\x1cb\x1d\x1e\x1f", "\u2028line\u2029\x85", "Δv = 5μm",
    "词 word词", "х" * 50 + "paypаl", "\u202egnp.exe", "\u200b", "1 22 333?", "ﬀ İ ß", "_" * 9,
]  # fmt: skip


@given(hnp.arrays(FLOATS, SHAPES, elements={"allow_nan": False, "allow_infinity": False}))
def test_arrays_come_back_bit_for_bit(array):
    raw = ArrayCodec().encode(array)
    found = ArrayCodec().decode(raw)
    native = array.dtype.newbyteorder("=")
    assert found.dtype == native
    assert found.shape == array.shape
    # By bytes: zeros have signs.
    assert found.tobytes() == array.astype(native).tobytes()
    assert found.flags.aligned
    assert not found.flags.writeable


def test_a_view_of_columns_is_stored_as_its_values():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2]
    assert np.array_equal(ArrayCodec().decode(ArrayCodec().encode(array)), array)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.0, np.nan]),
        np.array([np.inf], dtype=np.float32),
        np.array([1, 2]),
        np.float64(3.0).reshape(()),
        np.zeros((2, 2, 2)),
        np.array([1j]),
    ],
)
def test_what_is_not_a_finite_array_of_floats_is_not_stored(array):
    assert ArrayCodec().encode(array) is None


@given(st.binary(max_size=80))
def test_no_bytes_pass_for_an_array_by_accident(raw):
    with pytest.raises(ValueError, match="array"):
        ArrayCodec().decode(raw)


@given(hnp.arrays("<f4", SHAPES), st.data())
def test_cut_or_lengthened_bytes_are_refused(array, data):
    raw = ArrayCodec().encode(np.nan_to_num(array))
    cut = data.draw(st.integers(0, len(raw) - 1))
    for changed in (raw[:cut], raw + b"\0"):
        with pytest.raises(ValueError, match="array"):
            ArrayCodec().decode(changed)


@given(TEXTS)
def test_readings_come_back_equal(text):
    for reading in READINGS:
        (found,) = reading.read([text])
        assert reading.decode(reading.encode(found)) == found


@pytest.mark.parametrize("text", HOSTILE)
def test_readings_of_hostile_texts_come_back_equal(text):
    for reading in READINGS:
        (found,) = reading.read([text])
        assert reading.decode(reading.encode(found)) == found


@given(st.binary(max_size=60), st.sampled_from(READINGS))
def test_bytes_are_a_reading_or_refused(raw, reading):
    try:
        found = reading.decode(raw)
    except ValueError:
        return
    assert reading.decode(reading.encode(found)) == found


def test_a_reading_without_one_word_is_refused():
    for reading in READINGS:
        raw = reading.encode(reading.read(["one two three"])[0])
        with pytest.raises(ValueError, match="stored text"):
            reading.decode(raw + b"\nfour")
        with pytest.raises(ValueError, match="ends early"):
            reading.decode(raw[:10])


def test_what_is_read_is_what_the_rules_read():
    text = "Who built 12 bridges? The crown built 12. Παρά " + "word " * 700
    (found,) = DefaultReading(600).read([text])
    assert found.tokens[:4] == ("who", "built", "12", "bridges")
    assert len(found.tokens) == 600
    assert set(found.words) == word_set(text)
    assert found.words.index("built") < found.words.index("crown")
    assert found.question
    assert 0 < found.minority_share < 0.1
    (paper,) = PaperReading().read([text])
    assert paper.words == {"who", "built", "12", "bridges", "the", "crown", "word"}


def test_stored_facts_are_pinned_to_their_version():
    # When this fails the rules read texts in another way: raise texts.VERSION, then this.
    text = "Who paid the 3 wardens? Ten pаy, Δv."
    (found,) = DefaultReading(600).read([text])
    words = ("who", "paid", "the", "3", "wardens", "ten", "pаy", "δv")
    tokens = ("who", "paid", "the", "3", "wardens", "?", "ten", "pаy", ",", "δv", ".")
    assert found == DefaultText(tokens, words, True, True, 0.0, 1 - 23 / 25)
    (paper,) = PaperReading().read([text])
    assert paper.words == {"who", "paid", "the", "3", "wardens", "ten", "p", "y", "v"}
    assert paper.scripts.counts == (("LATIN", 23), ("CYRILLIC", 1), ("GREEK", 1))
    assert paper.scripts.first_transition == 29
    assert "version=1 " in DefaultReading(600).space.fingerprint
