"""The indexes an experiment judges: clean, and with poison; the labels go another way."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ragsieve.evidence.knn import cosine_knn
from ragsieve.lab.corpora.records import Dataset, Label, Poisoning, Target
from ragsieve.lab.experiments.needs import Parts, Written
from ragsieve.lab.experiments.outcome import UnavailableError
from ragsieve.lab.experiments.spec import Attack, Cell, Experiment, Part, Unpoisoned
from ragsieve.lab.experiments.variants import deeper, thinned_graph, thinned_ranking
from ragsieve.lab.qa import recall_at
from ragsieve.records import Document, FloatArray, NeighborGraph, Query, Ranking
from ragsieve.retrieval import rank

_SEARCH_SEED = 7_919  # added to the experiment's seed: which neighbours a search misses


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One index and the questions put to it. Nothing here says what was planted.

    :param key: names it among the cases of an experiment.
    :param rows: shape (len(documents), d), unit length.
    :param rankings: of ``queries``, in their order.
    :param recall: of the simulated search; None for exact search.
    """

    key: str
    documents: tuple[Document, ...]
    rows: FloatArray
    queries: tuple[Query, ...]
    rankings: tuple[Ranking, ...]
    recall: float | None
    seed: int

    def graph(self, neighbors: int) -> NeighborGraph:
        """Neighbours of every document, as this case's search finds them."""
        if self.recall is None or self.recall >= 1:
            return cosine_knn(self.rows, neighbors)
        exact = cosine_knn(self.rows, deeper(neighbors, self.recall))
        rng = np.random.default_rng(self.seed + _SEARCH_SEED)
        return thinned_graph(exact, neighbors, self.recall, rng)


@dataclasses.dataclass(frozen=True, slots=True)
class Staged:
    """A poisoned index, the unpoisoned one beside it, and apart from both what was planted.

    :param labels: by id of a planted document.
    :param targets: query ids of the questions under attack.
    :param written: how the documents were made.
    """

    poisoned: Case
    unpoisoned: Case
    labels: Mapping[str, Label]
    targets: tuple[str, ...]
    written: Written


class Materials:
    """Builds the cases of an experiment; what cells share is made once.

    :param note: called with one line about work that takes a while.
    """

    def __init__(
        self, experiment: Experiment, parts: Parts, note: Callable[[str], None] = lambda _: None
    ) -> None:
        self._experiment = experiment
        self._parts = parts
        self._note = note
        self._written: dict[tuple[Attack, int], Written] = {}
        self._cases: dict[tuple[object, ...], Case] = {}
        self._last: tuple[tuple[object, ...], Staged] | None = None

    @functools.cached_property
    def dataset(self) -> Dataset:
        """The clean corpus with its questions."""
        return self._parts.dataset(self._experiment.dataset, self._experiment.payloads)

    @functools.cached_property
    def rows(self) -> FloatArray:
        """Embeddings of the clean corpus."""
        return self._parts.rows(self.dataset, self._experiment.retriever)

    def staged(self, cell: Cell) -> Staged:
        """The indexes of a cell.

        :raises UnavailableError: when the construction cannot be made, or there are too few targets.
        """
        key = (cell.attack, cell.count, cell.seed, cell.share, cell.recall)
        if self._last is None or self._last[0] != key:
            self._last = (key, self._staged(cell))
        return self._last[1]

    def _staged(self, cell: Cell) -> Staged:
        written = self._texts(cell.attack, cell.seed)
        planted = self._planted(written, cell)
        targets = tuple(dict.fromkeys(label.query_id for label in planted.labels.values()))
        asked = self._asked(written, targets)
        documents = (*self.dataset.documents, *planted.documents)
        new = self._parts.embedded(
            [document.content for document in planted.documents], self._experiment.retriever
        )
        rows = np.concatenate([self.rows, new])
        poisoned = self._case(f"{cell.attack.name}-{cell.count}", documents, rows, asked, cell)
        return Staged(poisoned, self._clean(asked, cell), planted.labels, targets, written)

    def _clean(self, asked: tuple[Query, ...], cell: Cell) -> Case:
        everybody = self._experiment.unpoisoned is Unpoisoned.ALL
        queries = self.dataset.queries if everybody else asked
        # The same questions over the same index: what was judged on it once is kept by case.
        key = (queries, cell.recall, cell.seed if cell.recall is not None else None)
        if key not in self._cases:
            self._cases = {
                key: self._case("unpoisoned", self.dataset.documents, self.rows, queries, cell)
            }
        return self._cases[key]

    def _case(
        self,
        key: str,
        documents: Sequence[Document],
        rows: FloatArray,
        queries: Sequence[Query],
        cell: Cell,
    ) -> Case:
        depth, recall = self._experiment.depth, cell.recall
        vectors = self._parts.asked([query.text for query in queries], self._experiment.retriever)
        approximate = recall is not None and recall < 1
        searched = deeper(depth, recall) if recall is not None and approximate else depth
        rankings = rank(queries, documents, vectors, rows, depth=searched)
        if recall is not None and approximate:
            rng = np.random.default_rng(cell.seed + _SEARCH_SEED)
            rankings = [thinned_ranking(one, depth, recall, rng) for one in rankings]
        return Case(key, tuple(documents), rows, tuple(queries), tuple(rankings), recall, cell.seed)

    def _asked(self, written: Written, targets: Sequence[str]) -> tuple[Query, ...]:
        """The questions of targets, as their attack words them."""
        known = {target.query.id: target.query for target in written.targets}
        return tuple(known[name] for name in targets)

    def recalls(self, case: Case) -> dict[str, float]:
        """Recall@5 on the clean index by query id, where somebody judged."""
        found = {
            ranking.query_id: recall_at(
                [document.id for document in ranking.documents],
                self.dataset.relevant.get(ranking.query_id, frozenset()),
            )
            for ranking in case.rankings
        }
        return {name: value for name, value in found.items() if value is not None}

    def _texts(self, attack: Attack, seed: int) -> Written:
        """What is at hand to plant, made once for all counts, for the chosen targets alone."""
        key = (dataclasses.replace(attack, counts=(), published=None), seed)
        if key not in self._written:
            if attack.file is not None:
                found = self._parts.file_attack(self._experiment.dataset, attack.file)
                chosen = self._chosen(found.targets, attack)
                self._written[key] = dataclasses.replace(found, targets=chosen)
            else:
                self._note(f"writing the documents of {attack.name}")
                chosen = self._chosen(self.dataset.targets, attack)
                self._written[key] = self._parts.crafted(
                    attack, chosen, self.dataset, self.rows, self._experiment, seed
                )
        return self._written[key]

    def _chosen(self, targets: Sequence[Target], attack: Attack) -> tuple[Target, ...]:
        part, half = self._experiment.part, len(targets) // 2
        chosen = targets
        if part is Part.FIRST_HALF:
            chosen = targets[:half]
        elif part is Part.SECOND_HALF:
            chosen = targets[half:]
        limits = [limit for limit in (self._experiment.targets, attack.targets) if limit]
        return tuple(chosen[: min(limits)] if limits else chosen)

    def _planted(self, written: Written, cell: Cell) -> Poisoning:
        """The first documents of the chosen targets, as many as the cell asks for."""
        targets = written.targets
        if cell.share is not None:
            targets = self._shared(targets, cell.count, cell.share)
        of_target: dict[str, list[Document]] = {target.query.id: [] for target in targets}
        known = written.poisoning.labels
        for document in sorted(written.poisoning.documents, key=lambda one: known[one.id].member):
            own = of_target.get(known[document.id].query_id)
            if own is not None and len(own) < cell.attack.write:
                own.append(document)
        labels: dict[str, Label] = {}
        documents: list[Document] = []
        for query_id, own in of_target.items():
            for member, document in enumerate(_prefix(own, cell.count, cell.attack.write)):
                documents.append(document)
                labels[document.id] = Label(query_id, cell.attack.name, member)
        if not documents:
            raise UnavailableError(f"{cell.attack.name}: no document was written for any target")
        return Poisoning(tuple(documents), labels)

    def _shared(self, targets: tuple[Target, ...], count: int, share: float) -> tuple[Target, ...]:
        clean = len(self.dataset.documents)
        wanted = max(1, round(share * clean / ((1 - share) * count)))
        if wanted > len(targets):
            raise UnavailableError(
                f"a share of {share:.0%} needs {wanted} targets with {count} documents each, "
                f"there are {len(targets)}"
            )
        return targets[:wanted]


def _prefix(documents: Sequence[Document], count: int, written: int) -> list[Document]:
    """The first ``count``; beyond what was asked for the same again under new ids, as published.

    A construction that wrote fewer than it was asked for meant to.
    """
    if count <= written or not documents:
        return list(documents[:count])
    return [
        documents[place]
        if place < len(documents)
        else dataclasses.replace(
            documents[place % len(documents)],
            id=f"{documents[place % len(documents)].id}:again{place // len(documents)}",
        )
        for place in range(count)
    ]
