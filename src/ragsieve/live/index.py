"""An index whose documents come and go, and whose verdicts are those of a scan of all of them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.corpus import check_graph, judged
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.paper_corpus import PaperCorpusRule
from ragsieve.display import visible
from ragsieve.errors import ConfigError, EmbeddingError, InputError
from ragsieve.evidence.knn import unit_rows
from ragsieve.features.growing import GrowingArray
from ragsieve.features.statistics import CorpusStatistics
from ragsieve.live.default import DefaultJudge
from ragsieve.live.judging import LiveJudge, PaperJudge
from ragsieve.live.neighbors import LiveNeighbors
from ragsieve.records import Document, NeighborGraph, Scan, Verdict

SPARE_NEIGHBORS = 8
DRIFT_SHARE = 0.05
# Documents that left keep their place in memory until they are this share of all places.
_MOST_EMPTY = 0.25
_SHOWN_CHARACTERS = 80

Rule = PaperCorpusRule | DefaultCorpusRule
Rows = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """What one change did.

    :param added: documents that came; an updated one leaves and comes.
    :param removed: documents that left.
    :param touched: documents whose neighbours are others now, those that came among them.
    :param searched: documents whose neighbours were searched for among all.
    :param drift: documents that came or left since the statistics were estimated, over those
        they were estimated from; 0 right after an estimate and for profile ``paper``.
    :param estimated: whether the statistics were estimated anew.
    :param compacted: whether places of documents that left were given back.
    """

    added: int
    removed: int
    touched: int
    searched: int
    drift: float
    estimated: bool
    compacted: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Moved:
    """A change by slots, as storage needs it; ``left`` are the ids of ``gone``."""

    left: tuple[str, ...]
    gone: Rows
    fresh: Rows
    touched: Rows


class LiveIndex:
    """Keeps a corpus judged while documents come and go.

    Documents stand in the order they came; one that is updated leaves and comes anew, at the
    end. :meth:`scan` then gives the scan of all documents in that order: for profile
    ``paper`` the same to the last bit, for ``default`` the same under the statistics in
    force (:attr:`statistics`), which are estimated anew once the documents that came or left
    since are more than ``drift_share`` of those they were estimated from. Not safe to change
    from two threads at once.

    :param rule: of profile ``paper``, or of ``default`` without a language model.
    :param drift_share: in (0, 1].
    :param spare: neighbours kept beyond the rule's.
    :raises ConfigError: for a rule that asks a language model, or an impossible value.
    """

    def __init__(
        self, rule: Rule, *, drift_share: float = DRIFT_SHARE, spare: int = SPARE_NEIGHBORS
    ) -> None:
        if isinstance(rule, DefaultCorpusRule) and rule.confirms:
            raise ConfigError(
                "a live index keeps no texts to show a language model; use a rule without one"
            )
        if not 0 < drift_share <= 1 or spare < 0:
            raise ConfigError(
                "live: drift_share must lie in (0, 1] and spare must not be negative, found "
                f"{drift_share} and {spare}"
            )
        self.rule, self.drift_share, self.spare = rule, drift_share, spare
        self.neighbors = LiveNeighbors(rule.neighbors, spare)
        self.judge: LiveJudge = (
            PaperJudge(rule) if isinstance(rule, PaperCorpusRule) else DefaultJudge(rule)
        )
        self._slots: dict[str, int] = {}
        self._excess = GrowingArray(np.int64)
        self.changed = 0
        self.moved: Moved | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, document_id: str) -> bool:
        return document_id in self._slots

    @property
    def document_ids(self) -> tuple[str, ...]:
        """In the order of the scan."""
        return tuple(self._slots)

    @property
    def statistics(self) -> CorpusStatistics | None:
        """The estimate in force, without counts; None for ``paper`` and before any document."""
        return self.judge.statistics

    @property
    def drift(self) -> float:
        """Documents that came or left since the estimate, over those it was made from."""
        if self.judge.statistics is None:
            return 0.0
        return self.changed / max(1, self.judge.statistics.documents)

    def add(
        self,
        documents: Sequence[Document],
        embeddings: npt.ArrayLike,
        *,
        graph: NeighborGraph | None = None,
    ) -> Change:
        """Take new documents in.

        :param embeddings: their rows, by the encoder of those that are there.
        :param graph: into an empty index, the neighbours a scan of these documents found.
        :raises InputError: for an id that is there already or twice in the batch, no document,
            or a graph that does not fit.
        :raises EmbeddingError: for rows that do not fit; nothing has changed then.
        """
        rows = self._checked(documents, embeddings)
        known = [one.id for one in documents if one.id in self._slots]
        if known:
            raise InputError(
                f"document {_shown(min(known))} is in the index already ({len(known)} of the "
                "batch are); use update for those"
            )
        if graph is not None:
            if self.neighbors.slots:
                raise InputError("a graph can be taken over into an empty index only")
            check_graph(graph, len(documents))
            if graph.k != min(self.rule.neighbors, len(documents) - 1):
                raise InputError(
                    f"expected a graph of {self.rule.neighbors} neighbours, found {graph.k}"
                )
        return self._change((), documents, rows, graph)

    def remove(self, document_ids: Sequence[str]) -> Change:
        """Let documents go.

        :raises InputError: for an id that is not there or is given twice, or no id.
        """
        if not document_ids:
            raise InputError("expected at least one document id, found none")
        self._check_known(document_ids)
        nothing = np.empty((0, 1), dtype=np.float32)
        return self._change(document_ids, (), nothing)

    def update(self, documents: Sequence[Document], embeddings: npt.ArrayLike) -> Change:
        """Replace documents by new texts, rows and provenance under their ids.

        :raises InputError: for an id that is not there or is given twice, or no document.
        :raises EmbeddingError: for rows that do not fit; nothing has changed then.
        """
        rows = self._checked(documents, embeddings)
        self._check_known([one.id for one in documents])
        return self._change([one.id for one in documents], documents, rows)

    def estimate(self) -> None:
        """Estimate the statistics of profile ``default`` now; nothing for ``paper``."""
        self.judge.estimate(self.neighbors)
        self.changed = 0

    def scan(self) -> Scan:
        """The judgement on every document, as a scan of all of them gives it.

        :raises InputError: when there is none.
        """
        if not self._slots:
            raise InputError("the index holds no document; add some first")
        alive = self.neighbors.alive
        found = judged(
            self.rule,
            self.document_ids,
            self.neighbors.graph(),
            self.judge.measure(self.neighbors),
            self._excess.view[alive],
        )
        statistics = self.judge.statistics
        if statistics is None:
            return found
        note = (
            f"statistics: estimate {statistics.estimate}, from {statistics.documents} documents; "
            f"{self.changed} came or left since ({self.drift:.1%})"
        )
        return dataclasses.replace(found, notes=(*found.notes, note))

    @property
    def verdicts(self) -> Iterator[Verdict]:
        """The verdict on every document, in the order of the scan."""
        return iter(self.scan())

    @property
    def excess(self) -> Rows:
        """By slot, characters at a document's end that were not examined."""
        return self._excess.view

    def restore(
        self, left: Sequence[str], came: Sequence[str], first: int, excess: Rows, changed: int
    ) -> None:
        """Repeat what a stored change did to ids.

        :param first: the slot of the first that came.
        :param changed: documents that came or left since the estimate.
        """
        for name in left:
            del self._slots[name]
        self._enrol(came, first)
        self._excess.append(excess)
        self.changed = changed

    def _checked(
        self, documents: Sequence[Document], embeddings: npt.ArrayLike
    ) -> npt.NDArray[np.float32]:
        if not documents:
            raise InputError("expected at least one document, found none")
        twice = [name for name, times in Counter(one.id for one in documents).items() if times > 1]
        if twice:
            raise InputError(
                f"document {_shown(twice[0])} stands more than once in the batch; ids must differ"
            )
        vectors = np.asarray(embeddings)
        count = vectors.shape[0] if vectors.ndim else 0
        if count != len(documents):
            raise EmbeddingError(
                f"expected one embedding row a document ({len(documents)}), found {count}"
            )
        rows = unit_rows(vectors)
        self.neighbors.check(rows)
        return rows

    def _check_known(self, document_ids: Sequence[str]) -> None:
        missing = [name for name in document_ids if name not in self._slots]
        if missing:
            raise InputError(
                f"document {_shown(min(missing))} is not in the index ({len(missing)} of the "
                "batch are not); use add for new documents"
            )
        if len(set(document_ids)) < len(document_ids):
            raise InputError("an id stands more than once in the batch; ids must differ")

    def _change(
        self,
        leaving: Sequence[str],
        documents: Sequence[Document],
        rows: npt.NDArray[np.float32],
        graph: NeighborGraph | None = None,
    ) -> Change:
        gone = np.array([self._slots.pop(name) for name in leaving], dtype=np.int64)
        fresh = self._enrol([one.id for one in documents], self.neighbors.slots)
        limit = self.rule.max_characters
        self._excess.append([max(0, len(one.content) - limit) for one in documents])
        self.judge.read(documents)
        lists = self.neighbors
        touched = lists.change(gone, rows) if graph is None else lists.adopt(rows, graph)
        self.judge.settle(gone, fresh, touched.slots, self.neighbors)
        self.moved = Moved(tuple(leaving), gone, fresh, touched.slots)
        self.changed += gone.size + fresh.size
        estimated = self._due()
        if estimated:
            self.estimate()
        compacted = len(self) < (1 - _MOST_EMPTY) * self.neighbors.slots
        if compacted:
            self.compact()
        return Change(
            added=len(documents),
            removed=len(leaving),
            touched=touched.slots.size,
            searched=touched.searched,
            drift=self.drift,
            estimated=estimated,
            compacted=compacted,
        )

    def compact(self) -> None:
        """Give back the places of documents that left."""
        kept = self.neighbors.compact()
        self.judge.compact(kept)
        excess = self._excess.view[kept]
        self._excess = GrowingArray(np.int64)
        self._excess.append(excess)
        names = list(self._slots)
        self._slots = {}
        self._enrol(names, 0)
        self.moved = None

    def _enrol(self, names: Sequence[str], first: int) -> Rows:
        """Give documents the slots from ``first`` on."""
        fresh = range(first, first + len(names))
        self._slots.update(zip(names, fresh, strict=True))
        return np.array(fresh, dtype=np.int64)

    def _due(self) -> bool:
        if isinstance(self.judge, PaperJudge) or not self._slots:
            return False
        return self.judge.statistics is None or self.drift > self.drift_share


def _shown(name: str) -> str:
    return repr(visible(name, limit=_SHOWN_CHARACTERS))
