"""Tokens by number."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt


class _Numbers(dict[str, int]):
    """A number for every token asked for; new ones get the next."""

    def __missing__(self, token: str) -> int:
        number = self[token] = len(self)
        return number


class Vocabulary:
    """Tokens by number, in order of first appearance; grows as texts are read.

    :param known: tokens of an earlier corpus, in their order.
    """

    def __init__(self, known: Sequence[str] = ()) -> None:
        self._ids = _Numbers((token, place) for place, token in enumerate(known))
        if len(self._ids) != len(known):
            raise ValueError("a vocabulary holds each token once")
        self._tokens = list(known)

    def __len__(self) -> int:
        return len(self._ids)

    def numbers(self, found: Iterable[str]) -> list[int]:
        """The numbers of tokens; new ones are added."""
        return list(map(self._ids.__getitem__, found))

    def ids(self, found: Iterable[str]) -> npt.NDArray[np.int32]:
        """:meth:`numbers` as an array."""
        return np.array(self.numbers(found), dtype=np.int32)

    def known(self, found: Iterable[str]) -> list[int]:
        """The numbers of those tokens that have one."""
        return [self._ids[token] for token in found if token in self._ids]

    def token(self, number: int) -> str:
        """The token of a number."""
        self._catch_up()
        return self._tokens[number]

    def since(self, first: int) -> list[str]:
        """The tokens from number ``first`` on."""
        self._catch_up()
        return self._tokens[first:]

    def only(self, numbers: npt.NDArray[np.int32]) -> tuple[Vocabulary, npt.NDArray[np.int32]]:
        """A vocabulary of some tokens, in their order, and the new number of each old one.

        :returns: the vocabulary, and shape (len(self),), -1 for a token that was left out.
        """
        kept = np.unique(numbers)
        self._catch_up()
        moved = np.full(len(self), -1, dtype=np.int32)
        moved[kept] = np.arange(kept.size, dtype=np.int32)
        return Vocabulary([self._tokens[number] for number in kept.tolist()]), moved

    @property
    def tokens(self) -> tuple[str, ...]:
        """Every token, by number."""
        return tuple(self._ids)

    def _catch_up(self) -> None:
        missing = len(self._ids) - len(self._tokens)
        if missing:
            # A dictionary keeps its order, so the newest stand at its end.
            newest = list(itertools.islice(reversed(self._ids), missing))
            self._tokens.extend(reversed(newest))
