"""Hostile text as safe markup: what cannot be seen stands as a badge that no text can imitate."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable

import regex
from markupsafe import Markup, escape

from ragsieve.display import visible
from ragsieve.evidence.hidden import hidden_text
from ragsieve.evidence.tokens import token_spans
from ragsieve.evidence.writing import MixedToken, mixed_tokens
from ragsieve.records import Verdict

SHOWN_CHARACTERS = 20_000
_MOST_MARKS = 4
_TOWER = regex.compile(rf"[\p{{Mn}}\p{{Me}}]{{{_MOST_MARKS + 1},}}")
_MISPLACED = "misplaced"
_CATEGORIES = {
    "Cc": "control character",
    "Cf": "format character",
    "Cs": "half of a surrogate pair",
    "Co": "private use character",
    "Cn": "unassigned character",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a text that is marked.

    :param stop: exclusive.
    :param kind: class of its style.
    :param title: what is said of it.
    """

    start: int
    stop: int
    kind: str
    title: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class MarkedText:
    """A text as it is shown.

    :param characters: of the whole text.
    :param shown: of them that are shown.
    """

    markup: Markup
    characters: int
    shown: int

    @property
    def cut(self) -> bool:
        """Whether the end is not shown."""
        return self.shown < self.characters


def marked(
    text: str, stretches: Iterable[Stretch] = (), *, limit: int = SHOWN_CHARACTERS
) -> MarkedText:
    """A text with its stretches marked and every invisible character as a badge.

    A badge is an element of its own, which no text can make: text is escaped. Line breaks and
    tabs stay; of marks heaped on one letter the first four stay and the rest are counted.
    """
    shown = text[:limit]
    pieces = [*_badges(shown), *_towers(shown)]
    begins: dict[int, list[Stretch]] = {}
    ends: dict[int, list[Stretch]] = {}
    edges = {0, len(shown)}
    for one in stretches:
        if one.start < min(one.stop, len(shown)):
            begins.setdefault(one.start, []).append(one)
            ends.setdefault(min(one.stop, len(shown)), []).append(one)
            edges |= {one.start, min(one.stop, len(shown))}
    badges = {start: (stop, badge, title) for start, stop, badge, title in pieces}
    for start, (stop, _, _) in badges.items():
        edges |= {start, stop}
    order = sorted(edges)
    active: dict[int, Stretch] = {}
    out: list[Markup] = []
    written = 0
    for start, stop in itertools.pairwise(order):
        for one in ends.get(start, ()):
            active.pop(id(one), None)
        active |= {id(one): one for one in begins.get(start, ())}
        if start < written:
            # Inside of what one badge stands for.
            continue
        badge = badges.get(start)
        if badge is None:
            out.append(_plain(shown[start:stop], active.values()))
        else:
            written = badge[0]
            out.append(_badge(badge[1], badge[2], active.values()))
    return MarkedText(Markup("").join(out), len(text), len(shown))


def badged(text: str | None, limit: int = 500) -> Markup:
    """A short hostile string, isolated from what stands around it."""
    found = marked((text or "").replace("\n", " "), limit=limit)
    return Markup('<bdi class="hostile">{}{}</bdi>').format(found.markup, "…" if found.cut else "")


def findings_in(text: str, verdict: Verdict | None = None) -> tuple[Stretch, ...]:
    """What is suspicious in a text by its characters alone, and the remarks of its verdict."""
    shown = text[:SHOWN_CHARACTERS]
    found = [
        Stretch(one.offset, one.offset + 1, _MISPLACED, "nothing in the text asks for it")
        for one in hidden_text(shown).characters
    ]
    for token in mixed_tokens(shown):
        said = f"{' and '.join(token.scripts)} in one word: {token.reason}"
        found.append(Stretch(token.start, token.stop, "mixed", said))
        found += _confusable(token)
    for remark in verdict.annotations if verdict else ():
        title = f"remark, outside the score: {visible(remark.name)}"
        found.append(Stretch(remark.start, remark.stop, "stretch", title))
    return tuple(found)


def words_in(text: str, theirs: frozenset[str], *, limit: int) -> tuple[Stretch, ...]:
    """Every word of a text, as one that is shared with ``theirs`` or as one that is not."""
    found = []
    for span in token_spans(text[:limit], limit):
        word = text[span.start : span.stop]
        if any(character.isalnum() for character in word):
            kind = "shared" if word.casefold() in theirs else "own"
            found.append(Stretch(span.start, span.stop, kind))
    return tuple(found)


def _confusable(token: MixedToken) -> Iterable[Stretch]:
    """The letters of a word that are not of its main script, each with its name."""
    names = [_script(character) for character in token.text]
    counts = Counter(name for name in names if name)
    if not counts:
        return
    main = max(counts, key=lambda name: (counts[name], name == "LATIN"))
    for place, (character, name) in enumerate(zip(token.text, names, strict=True)):
        if name and name != main:
            start = token.start + place
            yield Stretch(start, start + 1, "confusable", _name(character))


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def _badges(text: str) -> Iterable[tuple[int, int, str, str]]:
    for place, character in enumerate(text):
        if character in "\n\t" or (character == "\r" and text[place + 1 : place + 2] == "\n"):
            continue
        if character == "\r" or _is_unseen(character):
            yield place, place + 1, f"U+{ord(character):04X}", _name(character)


def _towers(text: str) -> Iterable[tuple[int, int, str, str]]:
    for found in _TOWER.finditer(text):
        start, stop = found.start() + _MOST_MARKS, found.end()
        if not any(_is_unseen(character) for character in text[start:stop]):
            count = stop - start
            yield start, stop, f"+{count} marks", f"{count} more combining marks on one letter"


@functools.lru_cache(maxsize=4096)
def _is_unseen(character: str) -> bool:
    return visible(character) != character


def _name(character: str) -> str:
    kind = _CATEGORIES.get(unicodedata.category(character), "character")
    return unicodedata.name(character, kind)


def _badge(words: str, title: str, active: Iterable[Stretch]) -> Markup:
    bad = " misplaced" if any(one.kind == _MISPLACED for one in active) else ""
    return Markup('<span class="badge{}" title="{}">{}</span>').format(bad, title, words)


def _plain(text: str, active: Iterable[Stretch]) -> Markup:
    kinds = list(dict.fromkeys(one.kind for one in active))
    safe = escape(text.replace("\r\n", "\n"))
    if not kinds:
        return safe
    title = "; ".join(dict.fromkeys(one.title for one in active if one.title))
    if title:
        return Markup('<span class="{}" title="{}">{}</span>').format(" ".join(kinds), title, safe)
    return Markup('<span class="{}">{}</span>').format(" ".join(kinds), safe)
