"""What the rules read off a text without a model, in a form that can be stored.

Tokens hold no white space, so lists of them are stored as lines.
"""

from __future__ import annotations

import dataclasses
import struct
import unicodedata
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import regex

from ragsieve.evidence.hidden import hidden_text
from ragsieve.evidence.scripts import ScriptProfile, script_profile
from ragsieve.evidence.tokens import is_word, opens_with_question, paper_word_set, tokens
from ragsieve.evidence.writing import mixed_tokens, writing_profile
from ragsieve.featurestore.codecs import Codec
from ragsieve.featurestore.records import Space

TEXT = "text"
VERSION = 1
"""Part of every fingerprint: raise it when the same text starts to give other facts."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class PaperText:
    """What profile ``paper`` reads.

    :param words: the distinct paper words.
    """

    words: frozenset[str]
    scripts: ScriptProfile


@dataclasses.dataclass(frozen=True, slots=True)
class DefaultText:
    """What profile ``default`` reads.

    :param tokens: the first tokens, in order.
    :param words: the distinct tokens of the whole text that hold a letter or digit, in order of
        first appearance.
    :param question: whether the first sentence ends in a question mark.
    :param mixing: whether writing systems are mixed without a reason.
    :param hidden: evidence of invisible characters, in [0, 1].
    :param minority_share: share of letters outside the most frequent writing system.
    """

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    question: bool
    mixing: bool
    hidden: float
    minority_share: float


class Reading(Codec[T], Protocol, Generic[T]):
    """A way to read texts, and to store what was read."""

    @property
    def space(self) -> Space:
        """Kind and fingerprint of what it reads."""
        ...

    def read(self, texts: Sequence[str]) -> list[T]:
        """What each text shows."""
        ...


class PaperReading:
    """Reads for profile ``paper``: words and scripts."""

    name = "paper-text/1"

    @property
    def space(self) -> Space:
        """Kind and fingerprint: the profile and the Unicode data of both libraries in use."""
        return _space("paper")

    def read(self, texts: Sequence[str]) -> list[PaperText]:
        """Words and scripts of each text."""
        return [PaperText(paper_word_set(text), script_profile(text)) for text in texts]

    def encode(self, value: PaperText) -> bytes | None:
        """As bytes."""
        scripts = value.scripts
        first = -1 if scripts.first_transition is None else scripts.first_transition
        head = _PAPER.pack(scripts.minority_share, first, len(scripts.counts), len(value.words))
        counts = [f"{name} {count}" for name, count in scripts.counts]
        return head + _lines([*counts, *sorted(value.words)])

    def decode(self, raw: bytes) -> PaperText:
        """Back from bytes.

        :raises ValueError: when they are no such text.
        """
        (share, first, scripts, words), lines = _parsed(_PAPER, raw)
        if len(lines) != scripts + words:
            raise ValueError("a stored text has another number of words")
        counts = tuple((name, int(count)) for name, count in map(str.split, lines[:scripts]))
        profile = ScriptProfile(counts, share, None if first < 0 else first)
        return PaperText(frozenset(lines[scripts:]), profile)


class DefaultReading:
    """Reads for profile ``default``: tokens, words, opening, mixing, hidden characters.

    :param tokens_examined: how many of the first tokens are kept in order.
    """

    name = "default-text/1"

    def __init__(self, tokens_examined: int) -> None:
        self._tokens_examined = tokens_examined

    @property
    def space(self) -> Space:
        """Kind and fingerprint: as in :class:`PaperReading`, and how many tokens are kept."""
        return _space("default", f" tokens={self._tokens_examined}")

    def read(self, texts: Sequence[str]) -> list[DefaultText]:
        """What each text shows."""
        return [self._read(text) for text in texts]

    def _read(self, text: str) -> DefaultText:
        found = tokens(text)
        return DefaultText(
            tokens=tuple(found[: self._tokens_examined]),
            words=tuple(filter(is_word, dict.fromkeys(found))),
            question=opens_with_question(text),
            mixing=bool(mixed_tokens(text)),
            hidden=hidden_text(text).value,
            minority_share=writing_profile(text).minority_share,
        )

    def encode(self, value: DefaultText) -> bytes | None:
        """As bytes."""
        head = _DEFAULT.pack(
            value.question,
            value.mixing,
            value.hidden,
            value.minority_share,
            len(value.tokens),
            len(value.words),
        )
        return head + _lines([*value.tokens, *value.words])

    def decode(self, raw: bytes) -> DefaultText:
        """Back from bytes.

        :raises ValueError: when they are no such text.
        """
        (question, mixing, hidden, share, count, words), lines = _parsed(_DEFAULT, raw)
        if len(lines) != count + words:
            raise ValueError("a stored text has another number of tokens")
        return DefaultText(
            tuple(lines[:count]), tuple(lines[count:]), question, mixing, hidden, share
        )


_PAPER = struct.Struct("<dqII")
_DEFAULT = struct.Struct("<??ddII")


def _space(profile: str, more: str = "") -> Space:
    # Which characters are letters, and how they fold, depends on the Unicode data in use.
    unicode = f"unicode={unicodedata.unidata_version} regex={regex.__version__}"
    return Space(TEXT, f"profile={profile} version={VERSION} {unicode}{more}")


def _lines(words: Sequence[str]) -> bytes:
    return "\n".join(words).encode("utf-8", "surrogatepass")


def _parsed(head: struct.Struct, raw: bytes) -> tuple[tuple[Any, ...], list[str]]:
    if len(raw) < head.size:
        raise ValueError("a stored text ends early")
    body = raw[head.size :].decode("utf-8", "surrogatepass")
    return head.unpack_from(raw), body.split("\n") if body else []
