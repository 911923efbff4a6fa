"""Make hostile text safe to show: nothing invisible stays invisible, nothing reaches a terminal raw."""

from __future__ import annotations

import unicodedata

_NAMED = {"\n": " ", "\t": " ", "\r": " "}

# Letters and marks by category of which nothing is seen: the grapheme joiner, Hangul and Khmer
# fillers, variation selectors.
_BLANK = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF),
)  # fmt: skip


def visible(text: str, *, limit: int | None = None) -> str:
    """``text`` on one line with every control, format, surrogate and private character spelled out.

    Line breaks and tabs become spaces; U+202E becomes ``<U+202E>``, so a document can
    neither reorder nor hide what is shown, nor send escape sequences to a terminal.

    :param limit: at most this many characters of the original, an ellipsis marks a cut.
    """
    cut = limit is not None and len(text) > limit
    shown = text[:limit] if cut else text
    return "".join(_glyph(character) for character in shown) + ("…" if cut else "")


def _glyph(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    category = unicodedata.category(character)
    if category in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} or _is_blank(ord(character)):
        return f"<U+{ord(character):04X}>"
    return character


def _is_blank(code: int) -> bool:
    return any(first <= code <= last for first, last in _BLANK)
