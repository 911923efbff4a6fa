"""The longest run of a query's tokens in documents, and a bound on it that costs next to nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ragsieve.evidence.copying import CopiedRun

_NOTHING = CopiedRun(0, 0, 0)


class QueryRuns:
    """A query's tokens by place, to be found in many documents.

    :param query: its tokens, in order.
    :param words: those that hold a letter or digit.
    """

    def __init__(self, query: Sequence[str], words: Collection[str]) -> None:
        self._places: dict[str, list[int]] = {}
        for place, token in enumerate(query):
            self._places.setdefault(token, []).append(place)
        # None stands for a token that is no word and may stand anywhere.
        self._words = [token if token in words else None for token in query]

    def bound(self, words: Collection[str]) -> int:
        """No document with these words holds a longer run of the query's tokens."""
        longest = run = 0
        for token in self._words:
            if token is None or token in words:
                run += 1
            else:
                longest = max(longest, run)
                run = 0
        return max(longest, run)

    def longest(self, document: Sequence[str]) -> CopiedRun:
        """As :func:`ragsieve.evidence.copying.copied_run`: the earliest of the longest runs."""
        asked = self._places
        best = _NOTHING
        length, start, before = 0, 0, -1
        ending: dict[int, int] = {}
        for place in [place for place, token in enumerate(document) if token in asked]:
            if place != before + 1:
                ending = {}
            before = place
            ending = {at: ending.get(at - 1, 0) + 1 for at in asked[document[place]]}
            for at, run in ending.items():
                begin = at - run + 1
                if run > length or (run == length and begin < start):
                    length, start = run, begin
                    best = CopiedRun(run, begin, place - run + 1)
        return best

    def longest_of(
        self, documents: Iterable[tuple[Sequence[str], Collection[str]]], least: int = 0
    ) -> int:
        """The longest run any of several documents holds, in tokens; ``least`` if none is longer.

        :param documents: tokens and words of each.
        """
        longest = least
        for tokens, words in documents:
            if self.bound(words) > longest:
                longest = max(longest, self.longest(tokens).length)
        return longest
