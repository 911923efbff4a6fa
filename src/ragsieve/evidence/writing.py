"""Writing systems by Unicode script, and the words that mix two of them without a reason."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import regex

from ragsieve.records import Detail

_SCRIPTS = tuple(
    """
    Latin Greek Cyrillic Armenian Georgian Cherokee Coptic Glagolitic Gothic Ogham Runic Hebrew
    Arabic Syriac Thaana Samaritan Mandaic Nko Adlam Hanifi_Rohingya Mongolian Devanagari Bengali
    Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam Sinhala Meetei_Mayek Ol_Chiki Chakma
    Limbu Lepcha Syloti_Nagri Saurashtra Thai Lao Khmer Myanmar Tibetan Tai_Le New_Tai_Lue Tai_Tham
    Tai_Viet Javanese Balinese Sundanese Buginese Batak Cham Yi Ethiopic Tifinagh Vai Osmanya
    Canadian_Aboriginal Han Hiragana Katakana Bopomofo Hangul
    """.split()
)
LATIN, EAST_ASIAN, OTHER = "Latin", "East Asian", "Other"
_MERGED = frozenset({"Han", "Hiragana", "Katakana", "Bopomofo", "Hangul"})
_UNSPACED = frozenset(
    "Thai Lao Khmer Myanmar Tibetan Tai_Le New_Tai_Lue Tai_Tham Tai_Viet Javanese Balinese Yi".split()
) | {EAST_ASIAN}

# Classes of code points: 0 ends a word, 1 belongs to a word of any system, 2 is a phonetic
# mark or ordinal sign, from 3 on a letter or dependent sign of a system.
_NEUTRAL, _MODIFIER, _FIRST, _UNKNOWN = 1, 2, 3, 255
_SYSTEMS = tuple(
    dict.fromkeys(EAST_ASIAN if name in _MERGED else name for name in (*_SCRIPTS, OTHER))
)
_CODES = {name: code for code, name in enumerate(_SYSTEMS, start=_FIRST)}
# Of Script=Common, yet written in one system alone: the tatweel and the kana length marks.
_COMMON = {0x0640: "Arabic", 0x30FC: EAST_ASIAN, 0xFF70: EAST_ASIAN}

# Letters that pass for one of another alphabet. A run counts when all its letters do.
_LOOK_ALIKE = {
    LATIN: frozenset("ABCEHIJKMNOPSTXYZacehijkopsuvxy"),
    "Cyrillic": frozenset("АВЕЗЅІЈКМНОРСТУХҮҺԌԚԜЁЇаеорсухѕіјһԁԛԝѵүӏкгпёї"),
    "Greek": frozenset("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγικνορυωςϲϳϹ"),
    "Armenian": frozenset("ՕՏՍԼՈոսօցհքյզգւ"),
    "Cherokee": frozenset("ᎠᎡᎢᎥᎪᎫᎬᎳᎷᎻᎽᏀᏃᏎᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᏴᏻ"),
}
# Latin letters at home in Cyrillic words: accented vowels that mark the stress, the Ossetian
# ae, and I typed for the palochka of the Caucasian languages.
_IN_CYRILLIC = frozenset("ÁÉÍÓÚÝÀÈÌÒÙáéíóúýàèìòùÆæI")

# Greek letters as symbols: beside a unit or a short variable, after an acronym, before a term,
# in phonetics.
_SUBSCRIPT, _ACRONYM = 3, 2
_PREFIX = frozenset("αβγδλμπωΓΔΘΛΞΠΣΦΨΩ")
_NO_SYMBOL = frozenset("ΑΒΕΖΗΙΚΜΝΟΤΥΧοιυς")
_IN_PHONETICS = frozenset("βθχ")

_MIXED, _WORD_LETTERS, _AFFIX, _LOOK_ALIKE_LETTERS = 2, 2, 6, 3
_CODE_RUN, _CODE_LETTERS = 2, 4
_LIVING_WORDS, _LIVING_LETTERS, _REPEATED = 2, 4, 3

_ORDINALS, _PHONETIC_MARKS, _TRANSCRIPTION = "ªº", "ˈˌːˑˠˤ", 60
_ORDINAL = regex.compile(r"^\p{Ll}{3,}[ªº]$|(?<!\p{N})[ªº]\p{L}{2}")
_PHONETIC = regex.compile(r"[\u0250-\u02AF]")
_WORD = regex.compile(r"[\p{L}\p{M}]{2,}|\p{Script=Greek}")
# Vowels and finals of Hangul, and marks, with nothing to stand on, not even a table's cell.
_UNBASED = regex.compile(r"(?<![\p{L}\p{M}\p{Cf}\u00A0\u25CC\t|])[\p{M}\u1160-\u11FF]")


class MixingReason(enum.StrEnum):
    """Why a mixed word is suspicious.

    LOOK_ALIKE: letters of one alphabet stand in for those of another. FRAGMENT: it carries
    letters of a system the document does not otherwise write. ORPHAN: a dependent sign of such
    a system stands without its letter. MARK: a phonetic mark or an ordinal sign sits on an
    ordinary word.
    """

    LOOK_ALIKE = "look-alike"
    FRAGMENT = "fragment"
    ORPHAN = "orphan"
    MARK = "mark"


@dataclasses.dataclass(frozen=True, slots=True)
class WritingProfile(Detail):
    """The writing systems of a text.

    :param counts: letters and dependent signs of each system, most frequent first.
    :param minority_share: share of them outside the most frequent system, in [0, 1].
    """

    counts: tuple[tuple[str, int], ...]
    minority_share: float


@dataclasses.dataclass(frozen=True, slots=True)
class MixedToken(Detail):
    """A word that mixes writing systems, or uses a sign of one, without a reason.

    :param text: ``document[start:stop]``.
    :param scripts: its systems in the order of their first letter.
    """

    text: str
    start: int
    stop: int
    scripts: tuple[str, ...]
    reason: MixingReason


@dataclasses.dataclass(frozen=True, slots=True)
class MixingDetail(Detail):
    """The words of a document that mix writing systems without a reason, in order."""

    found: tuple[MixedToken, ...]


def writing_profile(text: str) -> WritingProfile:
    """Count the letters of a text by Unicode script property.

    Common and Inherited are left out; Han, kana, Bopomofo and Hangul are one system.

    :param text: any string; lone surrogates count as non-letters.
    """
    classes = _classes(text)
    totals = np.bincount(classes[classes >= _FIRST] - _FIRST, minlength=len(_SYSTEMS))
    order = sorted(np.flatnonzero(totals), key=lambda code: (-totals[code], _SYSTEMS[code]))
    counts = tuple((_SYSTEMS[code], int(totals[code])) for code in order)
    share = 1.0 - counts[0][1] / int(totals.sum()) if counts else 0.0
    return WritingProfile(counts, share)


def mixed_tokens(text: str) -> tuple[MixedToken, ...]:
    """The words of a text that mix writing systems without a reason, in order.

    A word is a maximal run of letters, digits and combining marks. A system lives in a text
    that writes two words of two letters in it (unspaced systems: four letters in runs of
    two). A word that joins a living system with another or with Latin is a name with an
    affix or a missing space; units, formulas, codes, and runs the text also writes alone or
    joins three times are reasons too. Letters that pass for another alphabet's are suspicious
    unless an ending or one of fewer than three slips of the keyboard, and so is a dependent
    sign without its letter, unless three of its system make a table.

    :param text: any string; offsets in the result are code points of it.
    """
    if text.isascii():
        return ()
    return tuple(_Words(text).findings())


class _Run(NamedTuple):
    """A maximal stretch of one system in a word."""

    system: str
    text: str


class _Words:
    """The words of one text, and which systems live in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._classes = _classes(text)
        outside = self._classes == 0
        self._gaps = np.flatnonzero(outside)
        self._places = np.flatnonzero(self._classes > _NEUTRAL)
        self._word_of = np.cumsum(outside)[self._places]
        self._code_of = self._classes[self._places]

    def findings(self) -> Iterator[MixedToken]:
        """One for each word, whatever the number of its reasons."""
        found = {}
        for start, stop in map(self._bounds, self._orphans()):
            found[start, stop] = MixingReason.ORPHAN
        for start, stop in self._suspects():
            if reason := self._suspicion(start, stop):
                found[start, stop] = reason
        for (start, stop), reason in sorted(found.items()):
            scripts = dict.fromkeys(run.system for run in self._runs(start, stop))
            yield MixedToken(self._text[start:stop], start, stop, tuple(scripts), reason)

    def _bounds(self, place: int) -> tuple[int, int]:
        index = int(np.searchsorted(self._gaps, place))
        start = int(self._gaps[index - 1]) + 1 if index else 0
        return start, int(self._gaps[index]) if index < len(self._gaps) else len(self._text)

    def _suspects(self) -> Iterator[tuple[int, int]]:
        """Bounds of every word with two systems, one of them foreign here or imitable."""
        word, code = self._word_of, self._code_of
        joined = np.flatnonzero((code[1:] != code[:-1]) & (word[1:] == word[:-1]))
        living = self._living if joined.size else frozenset()
        at_home = {_CODES[name] for name in living - set(_LOOK_ALIKE) | {LATIN}}
        previous = -1
        for place in joined.tolist():
            pair = {int(code[place]), int(code[place + 1])}
            if word[place] != previous and not pair <= at_home:
                previous = word[place]
                yield self._bounds(int(self._places[place]))

    def _orphans(self) -> list[int]:
        """Places of dependent signs with no letter before them, of systems that do not live."""
        places = [match.start() for match in _UNBASED.finditer(self._text)]
        codes = self._classes[places].tolist() if places else []
        listed = Counter(
            code for code, _ in {*zip(codes, map(self._text.__getitem__, places), strict=True)}
        )
        return [
            place
            for place, code in zip(places, codes, strict=True)
            if code >= _FIRST
            and listed[code] < _REPEATED
            and _SYSTEMS[code - _FIRST] not in self._living
        ]

    def _runs(self, start: int, stop: int) -> list[_Run]:
        codes = enumerate(self._classes[start:stop].tolist(), start=start)
        return _grouped(
            (_SYSTEMS[code - _FIRST], self._text[place]) for place, code in codes if code >= _FIRST
        )

    def _suspicion(self, start: int, stop: int) -> MixingReason | None:
        word, runs = self._text[start:stop], _without_guests(self._runs(start, stop))
        plain = _without_symbols(runs)
        if len({run.system for run in plain}) > 1 and not _is_code(word, runs):
            if plain == runs and self._imitates(runs):
                return MixingReason.LOOK_ALIKE
            if self._is_fragment(plain):
                return MixingReason.FRAGMENT
        return MixingReason.MARK if runs and self._is_marked(word, start) else None

    def _imitates(self, runs: list[_Run]) -> bool:
        """Look-alikes that are neither an ending nor, in a word of a living system, a slip."""
        imitating = _imitating(runs)
        if imitating == {LATIN} and {run.system for run in runs} & self._living - {LATIN}:
            return sum(_imitating(word) == {LATIN} for word in self._joins) >= _REPEATED
        return bool(imitating) and not self._is_inflected(runs)

    def _is_fragment(self, runs: list[_Run]) -> bool:
        """Whether a run belongs to a system that does not live here and is used only here."""
        return any(
            run.system != LATIN
            and run.system not in self._living
            and run.text not in self._alone
            and sum(run in word for word in self._joins) < _REPEATED
            for run in runs
        )

    def _is_inflected(self, runs: list[_Run]) -> bool:
        """A Latin name with an ending of a system that lives here, as in a declined loan word."""
        stem, ending = runs[0], runs[-1]
        named = len(runs) == _MIXED and stem.system == LATIN and ending.system in self._living
        if not named or len(stem.text) < _WORD_LETTERS or len(ending.text) > _AFFIX:
            return False
        return len(stem.text) >= len(ending.text) or stem.text.isupper() or not _passes(stem)

    @functools.cached_property
    def _joins(self) -> list[list[_Run]]:
        """The runs of every different word that joins systems."""
        words = {self._text[start:stop]: (start, stop) for start, stop in self._suspects()}
        return [_without_guests(self._runs(*bounds)) for bounds in words.values()]

    @functools.cached_property
    def _living(self) -> frozenset[str]:
        """The systems the text writes in words of their own."""
        plain = self._code_of >= _FIRST
        word, code = self._word_of[plain], self._code_of[plain]
        change = (word[1:] != word[:-1]) | (code[1:] != code[:-1])
        run = np.flatnonzero(np.append(True, change))
        size = np.diff(np.append(run, code.size))
        _, place, joined = np.unique(word[run], return_inverse=True, return_counts=True)
        long = size >= _WORD_LETTERS
        words = np.bincount(code[run[long & (joined[place] == 1)]], minlength=_UNKNOWN)
        letters = np.bincount(code[run], weights=size * long, minlength=_UNKNOWN)
        return frozenset(
            name
            for name, index in _CODES.items()
            if words[index] >= _LIVING_WORDS
            or (name in _UNSPACED and letters[index] >= _LIVING_LETTERS)
        )

    @functools.cached_property
    def _alone(self) -> frozenset[str]:
        """The words of the text, of two letters or a Greek one."""
        return frozenset(_WORD.findall(self._text))

    def _is_marked(self, word: str, start: int) -> bool:
        """A phonetic mark or ordinal sign without sound or number around it."""
        if not any(mark in word for mark in _PHONETIC_MARKS):
            return _ORDINAL.search(word) is not None
        line = self._text[max(0, start - _TRANSCRIPTION) : start]
        return not ("/" in line or "[" in line or _PHONETIC.search(self._text))


def _grouped(pieces: Iterable[tuple[str, str]]) -> list[_Run]:
    return [
        _Run(system, "".join(text for _, text in group))
        for system, group in itertools.groupby(pieces, key=lambda piece: piece[0])
    ]


def _without_guests(runs: list[_Run]) -> list[_Run]:
    """The runs with Latin letters that Cyrillic orthographies borrow counted as Cyrillic."""
    if not any(run.system == "Cyrillic" for run in runs):
        return runs
    return _grouped(
        ("Cyrillic", run.text) if set(run.text) <= _IN_CYRILLIC else run for run in runs
    )


def _is_code(word: str, runs: list[_Run]) -> bool:
    """Part numbers and measures: digits with few letters, none of them a word."""
    sizes = [len(run.text) for run in runs]
    few = max(sizes) <= _CODE_RUN and sum(sizes) <= _CODE_LETTERS
    return few and any(map(str.isdigit, word))


def _imitating(runs: list[_Run]) -> set[str]:
    """The systems with the fewest letters of a word, where look-alikes are all they have.

    Latin ones in a word of another alphabet are as a rule a slip of the keyboard.
    """
    totals: Counter[str] = Counter()
    for run in runs:
        totals[run.system] += len(run.text)
    known = len(totals) > 1 and totals.keys() <= _LOOK_ALIKE.keys()
    if not known or totals.total() < _LOOK_ALIKE_LETTERS:
        return set()
    others = {run.system for run in runs if not _passes(run)}
    return {name for name, count in totals.items() if count == min(totals.values())} - others


def _passes(run: _Run) -> bool:
    return set(run.text) <= _LOOK_ALIKE.get(run.system, frozenset())


def _without_symbols(runs: list[_Run]) -> list[_Run]:
    """The runs without Greek letters that are units, variables, phonetic or before a term."""
    if not any(run.system == "Greek" for run in runs):
        return runs
    phonetic = _PHONETIC.search("".join(run.text for run in runs))
    # A script without spaces beside a symbol is as good as a space.
    beside = ["", *("" if run.system in _UNSPACED else run.text for run in runs), ""]
    return [
        run
        for run, before, after in zip(runs, beside, beside[2:], strict=False)
        if run.system != "Greek"
        or not (_is_symbol(run.text, before, after) or (phonetic and run.text in _IN_PHONETICS))
    ]


def _is_symbol(letter: str, before: str, after: str) -> bool:
    if len(letter) > 1 or letter in _NO_SYMBOL:
        return False
    if max(len(before), len(after)) <= _SUBSCRIPT:
        return True
    acronym = not after and sum(map(str.isupper, before)) >= _ACRONYM
    return acronym or (not before and letter in _PREFIX)


@functools.cache
def _script_pattern() -> regex.Pattern[str]:
    return regex.compile("|".join(rf"(\p{{Script={name}}})" for name in _SCRIPTS))


def _class_of(code: int) -> int:
    character = chr(code)
    if character in _ORDINALS or character in _PHONETIC_MARKS:
        return _MODIFIER
    if code in _COMMON:
        return _CODES[_COMMON[code]]
    if not regex.match(r"[\p{L}\p{M}\p{N}]", character):
        return 0
    if regex.match(r"[\p{N}\p{Script=Common}\p{Script=Inherited}]", character):
        return _NEUTRAL
    found = _script_pattern().match(character)
    script = OTHER if found is None or found.lastindex is None else _SCRIPTS[found.lastindex - 1]
    return _CODES[EAST_ASIAN if script in _MERGED else script]


@functools.cache
def _table() -> npt.NDArray[np.uint8]:
    # One byte a code point, filled as characters are met.
    return np.full(0x110000, _UNKNOWN, dtype=np.uint8)


def _classes(text: str) -> npt.NDArray[np.uint8]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    table = _table()
    for code in set(codes[table[codes] == _UNKNOWN].tolist()):
        table[code] = _class_of(code)
    return np.asarray(table[codes], dtype=np.uint8)
