"""Rankings that are already there, as a retriever."""

from __future__ import annotations

from collections.abc import Sequence

from ragsieve.errors import BackendError
from ragsieve.records import Query, Ranking


class RetrievedBefore:
    """A :class:`ragsieve.ports.Retriever` over rankings of a file; they are as deep as they are.

    :param rankings: one a query; of two with the same query id the first counts.
    """

    def __init__(self, rankings: Sequence[Ranking]) -> None:
        self._rankings: dict[str, Ranking] = {}
        for ranking in rankings:
            self._rankings.setdefault(ranking.query_id, ranking)

    def retrieve(
        self, query: Query, *, depth: int, without: frozenset[str] = frozenset()
    ) -> Ranking:
        """The first ``depth`` documents of the query's ranking that are not left out.

        :raises BackendError: for a query no ranking belongs to.
        """
        found = self._rankings.get(query.id)
        if found is None:
            raise BackendError(f"no ranking belongs to query {query.id!r}; retrieve for it first")
        left = [entry for entry in found.entries if entry.document.id not in without]
        return found.renumbered(left[:depth])
