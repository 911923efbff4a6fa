"""Characters that are not seen: those that reorder, split or carry text where nothing needs them."""

from __future__ import annotations

import bisect
import dataclasses
import enum
from collections.abc import Sequence

import regex

from ragsieve.records import Detail

# Scripts whose letters join or split by ZWJ and ZWNJ, and those that mark a break by ZWSP.
_JOINING = (
    "Arabic Syriac Mandaic Nko Adlam Mongolian Phags_Pa Devanagari Bengali Gurmukhi Gujarati "
    "Oriya Tamil Telugu Kannada Malayalam Sinhala Khmer Myanmar Thai Lao Tibetan Javanese "
    "Balinese Sundanese Tai_Tham Meetei_Mayek Chakma Newa Tirhuta Grantha Hanifi_Rohingya Tifinagh"
)
_UNSPACED = (
    "Han Hiragana Katakana Bopomofo Hangul Thai Lao Khmer Myanmar Tibetan Tai_Le New_Tai_Lue "
    "Tai_Tham Tai_Viet Javanese Balinese Yi"
)


def _scripts(names: str) -> str:
    return "".join(rf"\p{{Script={name}}}" for name in names.split())


_JOINER = regex.compile(rf"[{_scripts(_JOINING)}]")
_BREAKING = regex.compile(rf"[{_scripts(_UNSPACED)}\u3000-\u303F\uFF00-\uFFEF]")
_RIGHT_TO_LEFT = regex.compile(r"[[\p{Bidi_Class=R}\p{Bidi_Class=AL}]--[\u200F\u061C]]", regex.V1)
_LEFT_TO_RIGHT = regex.compile(r"[[\p{Bidi_Class=L}\p{Bidi_Class=EN}]--[\u200E]]", regex.V1)
_PICTURE = regex.compile(r"[\p{Extended_Pictographic}\p{Emoji_Modifier}]")
_LETTER = regex.compile(r"\p{L}")
_TWO_LETTERS = regex.compile(r"\p{L}{2}")
_MARK = regex.compile(r"\p{M}")
_IDEOGRAPH = regex.compile(r"[\p{Script=Han}]")
_STYLED = regex.compile(r"[\p{Emoji}\p{Extended_Pictographic}\p{S}\p{Po}\u3030\u303D]")
_VARIED = regex.compile(
    r"[0\p{S}\p{Script=Han}\p{Script=Myanmar}\p{Script=Phags_Pa}\p{Script=Manichaean}"
    r"\u3000-\u303F\uFF00-\uFFEF]"
)
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]")

_SELECTOR = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_CANDIDATE = regex.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    f"\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f{_SELECTOR}]"
)
_FLAG = regex.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")
# Three selectors in a row mean nothing to a glyph; they are read as bytes.
_CHANNEL = regex.compile(f"[{_SELECTOR}]{{3,}}")
# A hyphenation point after each single letter spells a word apart.
_SPELLED = regex.compile("(?:\u00ad\\p{L}){3,}\u00ad")

_SOFT_HYPHEN, _ZWSP, _ZWJ, _BOM = "\u00ad\u200b\u200d\ufeff"
_RIGHT_OVERRIDE, _OVERRIDES = "\u202e", frozenset("\u202d\u202e")
_POP, _POP_ISOLATE, _ISOLATES = "\u202c", "\u2069", frozenset("\u2066\u2067\u2068")
_DIRECTIONAL = regex.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_IDLE = regex.compile(
    r"(?<![\p{L}\p{M}\p{N}\p{Cf}])\u200e(?!\p{Cf})|(?<!\p{Cf})\u200e(?![\p{L}\p{M}\p{N}\p{Cf}])"
)
_LINE_ENDS = frozenset("\n\r\x1c\x1d\x1e\x85\u2029")
_STRUCTURE = regex.compile("[\u202a-\u202e\u2066-\u2069\n\r\x1c-\x1e\x85\u2029]")
_OVERRIDE_END = regex.compile("[\u202c\n\r\x1c-\x1e\x85\u2029]")
_REORDERED_LETTERS = 2
_GRAPHEME_JOINER, _JOINERS = "\u034f", frozenset("\u200c\u200d")
_SPACING = frozenset("\u00ad\u200b\u2060\ufeff\u034f")
_OPERATORS = range(0x2061, 0x2065)
_SELECTORS = regex.compile(f"[{_SELECTOR}]")
_TEXT_STYLE, _IDEOGRAPHIC = 0xFE0E, 0xE0100
# Joiners, fillers and variation marks, in place beside letters of their scripts.
_AT_HOME = {
    range(0x200C, 0x200E): _JOINER,
    range(0x115F, 0x1161): regex.compile(r"[\u1100-\u11FF]"),
    range(0x3164, 0x3165): regex.compile(r"[\u3131-\u318E]"),
    range(0xFFA0, 0xFFA1): regex.compile(r"[\uFFA1-\uFFDC]"),
    range(0x17B4, 0x17B6): regex.compile(r"\p{Script=Khmer}"),
    range(0x180B, 0x1810): regex.compile(r"\p{Script=Mongolian}"),
}
_TAG_BASE, _FIRST_TAG, _LAST_TAG = 0xE0000, 0xE0020, 0xE007E

_OUT_OF_PLACE, _DECEPTIVE = 0.5, 1.0


class HiddenKind(enum.StrEnum):
    """What an invisible character does: reorder, split or join, or carry text."""

    BIDI = "bidi"
    ZERO_WIDTH = "zero_width"
    TAG = "tag"


@dataclasses.dataclass(frozen=True, slots=True)
class HiddenCharacter:
    """One invisible character that is out of place.

    :param offset: its place in the text, in code points.
    """

    offset: int
    code_point: int
    kind: HiddenKind


@dataclasses.dataclass(frozen=True, slots=True)
class HiddenText(Detail):
    """The invisible characters of a text that are out of place, in order.

    :param message: what tags and runs of variation selectors spell; hostile text.
    :param reorders: whether an override turns letters or digits around.
    """

    characters: tuple[HiddenCharacter, ...]
    message: str = ""
    reorders: bool = False

    @property
    def value(self) -> float:
        """0 when there are none, 0.5 for any, 1 when they carry text or reorder it."""
        if self.reorders or any(one.kind is HiddenKind.TAG for one in self.characters):
            return _DECEPTIVE
        return _OUT_OF_PLACE if self.characters else 0.0


def hidden_text(text: str) -> HiddenText:
    """The invisible characters of a text that its writing systems do not ask for.

    In place, and not counted: joiners in emoji and beside letters of joining scripts, breaks
    beside unspaced scripts, soft hyphens inside or at the end of a word, variation selectors
    on what takes them, flag sequences, a byte order mark at the start of a line, and
    balanced directional formatting in a text with right-to-left letters. A word joiner may
    bind punctuation, symbols and spaces; between two letters or digits, which never part, it
    only hides the word from a search.

    :param text: any string, lone surrogates included.
    """
    if text.isascii() or _CANDIDATE.search(text) is None:
        return HiddenText(())
    flags = {place for match in _FLAG.finditer(text) for place in range(*match.span())}
    carriers = _carriers(text, flags)
    directional, reorders = _directional(text)
    spelled = {place for match in _SPELLED.finditer(text) for place in range(*match.span())}
    joining = _JOINER.search(text) is not None
    found = []
    for match in _CANDIDATE.finditer(text):
        place, character = match.start(), match.group()
        if place in carriers:
            kind = HiddenKind.TAG
        elif place in directional:
            kind = HiddenKind.BIDI
        elif place in flags or _DIRECTIONAL.match(character):
            continue
        elif place in spelled or not _in_place(text, place, joining=joining):
            kind = HiddenKind.ZERO_WIDTH
        else:
            continue
        found.append(HiddenCharacter(place, ord(character), kind))
    return HiddenText(tuple(found), _message(carriers), reorders)


def _carriers(text: str, flags: set[int]) -> dict[int, int]:
    """Offset and byte of every tag and every selector in a run; -1 for a tag that has none."""
    carried = {}
    for match in _CANDIDATE.finditer(text):
        code, place = ord(match.group()), match.start()
        if _FIRST_TAG <= code <= _LAST_TAG + 1 or code == _TAG_BASE + 1:
            carried[place] = code - _TAG_BASE if _FIRST_TAG <= code <= _LAST_TAG else -1
    for place in flags & carried.keys():
        del carried[place]
    for match in _CHANNEL.finditer(text):
        for place, character in enumerate(match.group(), start=match.start()):
            code = ord(character)
            carried[place] = code - 0xFE00 if code < _TAG_BASE else code - 0xE0100 + 16
    return dict(sorted(carried.items()))


def _message(carriers: dict[int, int]) -> str:
    """Tags and selectors read as the bytes of UTF-8."""
    return bytes(value for value in carriers.values() if value >= 0).decode("utf-8", "replace")


def _directional(text: str) -> tuple[set[int], bool]:
    """Offsets of directional formatting out of place, and whether an override reorders."""
    places = [match.start() for match in _DIRECTIONAL.finditer(text)]
    if not places:
        return set(), False
    right_to_left = _RIGHT_TO_LEFT.search(text) is not None
    stray = _unbalanced(text) if right_to_left else set(places) - _idle(text)
    overrides = {place for place in places if text[place] in _OVERRIDES}
    return stray | overrides, bool(overrides) and _reorders(text, sorted(overrides))


def _idle(text: str) -> set[int]:
    """Left-to-right marks that split no word: without effect, and left behind by extraction."""
    return {match.start() for match in _IDLE.finditer(text)}


def _unbalanced(text: str) -> set[int]:
    """Openings without an end in their paragraph, and ends without an opening."""
    stray: set[int] = set()
    opened: list[int] = []
    for match in _STRUCTURE.finditer(text):
        place, character = match.start(), match.group()
        if character in _LINE_ENDS:
            stray.update(opened)
            opened.clear()
        elif character not in {_POP, _POP_ISOLATE}:
            opened.append(place)
        elif opened and (text[opened[-1]] in _ISOLATES) is (character == _POP_ISOLATE):
            opened.pop()
        else:
            stray.add(place)
    return stray.union(opened)


def _reorders(text: str, overrides: Sequence[int]) -> bool:
    """Whether an override shows letters or digits against their own direction.

    In one pass over the text, however many overrides it holds.
    """
    ends = [match.start() for match in _OVERRIDE_END.finditer(text)]
    leftward = [match.start() for match in _RIGHT_TO_LEFT.finditer(text)]
    rightward = [match.start() for match in _LEFT_TO_RIGHT.finditer(text)]
    for place in overrides:
        after = bisect.bisect_right(ends, place)
        end = ends[after] if after < len(ends) else len(text)
        against = rightward if text[place] == _RIGHT_OVERRIDE else leftward
        inside = bisect.bisect_left(against, end) - bisect.bisect_right(against, place)
        if inside >= _REORDERED_LETTERS:
            return True
    return False


def _in_place(text: str, place: int, *, joining: bool) -> bool:
    """Whether the neighbours of a zero-width character give it something to do.

    :param joining: whether the text has letters of a script that joiners belong to.
    """
    character = text[place]
    before, after = text[place - 1 : place] if place else "", text[place + 1 : place + 2]
    if character in _SPACING:
        return _is_spacing(character, before, after)
    if character == _ZWJ and _joins_pictures(text, place):
        return True
    if character in _JOINERS and not (_is_word(before) and _is_word(after)):
        crowded = before in _JOINERS and after in _JOINERS
        return not crowded and joining
    code = ord(character)
    if code in _OPERATORS:
        return _is_operand(text, place)
    if _SELECTORS.match(character):
        return _takes(before, code)
    return any(
        code in codes and letters.search(before + after) is not None
        for codes, letters in _AT_HOME.items()
    )


def _is_spacing(character: str, before: str, after: str) -> bool:
    """Hyphenation point, break, byte order mark, word and grapheme joiner."""
    if character == _SOFT_HYPHEN:
        ends = not after or after.isspace()
        return (_is_word(before) and (ends or _is_word(after))) or (before.isspace() and ends)
    if character == _ZWSP:
        return _BREAKING.search(before + after) is not None
    if character == _GRAPHEME_JOINER:
        return _is_word(before) and _MARK.match(after) is not None
    return (character == _BOM and (not before or before in _LINE_ENDS)) or _binds(before, after)


def _is_word(character: str) -> bool:
    return _WORD.match(character) is not None


def _joins_pictures(text: str, place: int) -> bool:
    """A picture, with its modifier or selector, on the left and a picture on the right."""
    left = text[max(0, place - 2) : place].rstrip("\ufe0f")
    return bool(_PICTURE.match(left[-1:]) and _PICTURE.match(text[place + 1 : place + 2]))


def _binds(before: str, after: str) -> bool:
    """Whether a word joiner could have a break to prevent here."""
    if not before or not after:
        return False
    if _BREAKING.search(before + after):
        return True
    return not (_is_word(before) and _is_word(after))


def _is_operand(text: str, place: int) -> bool:
    """Invisible operators stand between variables of one letter, numbers and brackets."""
    left, right = text[max(0, place - 2) : place], text[place + 1 : place + 3]
    return bool(left and right) and not (
        _LETTER.fullmatch(left[-1:])
        and _LETTER.fullmatch(right[:1])
        and (_TWO_LETTERS.fullmatch(left) or _TWO_LETTERS.fullmatch(right))
    )


def _takes(base: str, code: int) -> bool:
    """Whether a variation selector changes the look of this base."""
    if code >= _IDEOGRAPHIC:
        return _IDEOGRAPH.match(base) is not None
    if code >= _TEXT_STYLE:
        return _STYLED.match(base) is not None
    return _VARIED.match(base) is not None
