"""Writing systems of a text: which, how mixed, and where two of them touch."""

from __future__ import annotations

import dataclasses
import functools
import string
import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.evidence.tails import log_evidence, upper_tail
from ragsieve.records import Detail

# The released detector takes the first name in this order that occurs in the character's name.
_NAMED = (
    "LATIN", "CYRILLIC", "ARABIC", "HEBREW", "DEVANAGARI", "BENGALI",
    "THAI", "ARMENIAN", "GEORGIAN", "GREEK",
)  # fmt: skip
_EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")

MANY_SCRIPTS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class ScriptProfile(Detail):
    """The coarse scripts of a text.

    :param counts: alphabetic characters of each script, most frequent first.
    :param minority_share: share of them outside the most frequent script, in [0, 1].
    :param first_transition: offset of the first alphabetic character that directly
        follows one of another script; None when there is none.
    """

    counts: tuple[tuple[str, int], ...]
    minority_share: float
    first_transition: int | None

    @property
    def violates_integrity(self) -> bool:
        """RSG's ``I_i``: two scripts touch, or three or more occur."""
        return self.first_transition is not None or len(self.counts) >= MANY_SCRIPTS


@dataclasses.dataclass(frozen=True, slots=True)
class ScriptTail(Detail):
    """A candidate's minority share against those of the tail.

    :param probability: mid-rank upper tail, in (0, 1).
    :param evidence: ``-log10 p / log10(2 (m + 1))``, in [0, 1].
    """

    profile: ScriptProfile
    probability: float
    evidence: float
    tail_maximum: float


@dataclasses.dataclass(frozen=True, slots=True)
class ShareTail(Detail):
    """Share of letters outside the main script, against the largest in the tail; in [0, 1]."""

    share: float
    tail_maximum: float


def script_profile(text: str) -> ScriptProfile:
    """Count the coarse scripts of a text's alphabetic characters (``str.isalpha``).

    The paper's classes: ten named scripts, CJK with Hiragana, Katakana and Hangul as one
    (EAST_ASIAN), and OTHER. Neighbouring means adjacent code points.

    :param text: any string; lone surrogates count as non-letters.
    """
    if text.isascii():
        return _ascii_profile(text)
    codes = _classes(text)
    letters = codes[codes > 0]
    if letters.size == 0:
        return ScriptProfile((), 0.0, None)
    totals = np.bincount(letters, minlength=len(_CLASSES))
    order = sorted(np.flatnonzero(totals), key=lambda code: (-totals[code], _CLASSES[code]))
    counts = tuple((_CLASSES[code], int(totals[code])) for code in order)
    # The rounding of 1 - share is the released detector's, and decides exact ties.
    share = 1.0 - counts[0][1] / int(letters.size)
    touching = (codes[1:] > 0) & (codes[:-1] > 0) & (codes[1:] != codes[:-1])
    first = int(np.argmax(touching)) + 1 if bool(touching.any()) else None
    return ScriptProfile(counts, share, first)


def integrity_violations(texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    """RSG's ``I_i`` of many texts.

    :returns: shape (len(texts),).
    """
    # A text of one byte a character knows one script.
    return np.array(
        [not text.isascii() and script_profile(text).violates_integrity for text in texts],
        dtype=np.bool_,
    )


def script_integrity(profile: ScriptProfile, tail_shares: npt.NDArray[np.float64]) -> ScriptTail:
    """RSQ's script evidence of one candidate against m tail documents.

    ``p_i`` is the mid-rank upper tail of the minority share, and
    ``E_i = -log10(p_i) / log10(2 (m + 1))``.

    :param tail_shares: shape (m,), minority shares in [0, 1], m >= 1.
    :raises ValueError: when the tail is empty.
    """
    probability = upper_tail(profile.minority_share, tail_shares)
    smallest = 1.0 / (2 * (len(tail_shares) + 1))
    return ScriptTail(
        profile, probability, log_evidence(probability, smallest), float(np.max(tail_shares))
    )


_CLASSES = ("", *_NAMED, "EAST_ASIAN", "OTHER")


_LATIN = 1
_NO_CLASS = 255
_ASCII_LETTERS = string.ascii_letters.encode()


def _ascii_profile(text: str) -> ScriptProfile:
    data = text.encode("ascii")
    count = len(data) - len(data.translate(None, _ASCII_LETTERS))
    return ScriptProfile(((_CLASSES[_LATIN], count),) if count else (), 0.0, None)


def _class_of(code: int) -> int:
    character = chr(code)
    if not character.isalpha():
        return 0
    name = unicodedata.name(character, "")
    for index, script in enumerate(_NAMED, start=1):
        if script in name:
            return index
    if any(script in name for script in _EAST_ASIAN):
        return _CLASSES.index("EAST_ASIAN")
    return _CLASSES.index("OTHER")


@functools.cache
def _table() -> npt.NDArray[np.uint8]:
    # One byte a code point, filled as characters are met.
    return np.full(0x110000, _NO_CLASS, dtype=np.uint8)


def _classes(text: str) -> npt.NDArray[np.uint8]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    table = _table()
    found = table[codes]
    unknown = found == _NO_CLASS
    if unknown.any():
        for code in set(codes[unknown].tolist()):
            table[code] = _class_of(code)
        found = table[codes]
    return np.asarray(found, dtype=np.uint8)
