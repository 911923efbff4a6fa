"""The ingestion gate: judge new documents against a corpus that was scanned before."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.corpus import judged
from ragsieve.detectors.default_corpus import ALIEN_RUN, DefaultCorpusRule
from ragsieve.errors import EmbeddingError, InputError
from ragsieve.evidence.knn import cosine_knn, joined_graph, unit_rows
from ragsieve.features.knowledge import CorpusKnowledge, Snapshot, SnapshotFeatures
from ragsieve.features.learning import measure_newcomers
from ragsieve.features.statistics import VERSION
from ragsieve.features.text import TextFeatures
from ragsieve.features.vocabulary import Vocabulary
from ragsieve.records import Document, DocumentFeatures, Scan


class IngestGate:
    """Judges batches of documents against a snapshot; keeps nothing between calls.

    :param rule: of profile ``default``, with the constants that scanned the snapshot.
    """

    def __init__(self, rule: DefaultCorpusRule) -> None:
        self._rule = rule

    def snapshot(self, scan: Scan, embeddings: npt.ArrayLike, encoder: str = "") -> Snapshot:
        """What later judgements need of a scan.

        :param embeddings: the rows the scan was made from.
        :param encoder: their encoder's identity.
        :raises InputError: when the scan was made by a rule that keeps no knowledge.
        """
        knowledge = scan.knowledge
        if not isinstance(knowledge, CorpusKnowledge) or scan.earlier_ids:
            raise InputError("only a whole scan of profile default can be kept as a state")
        return Snapshot(
            document_ids=scan.document_ids,
            embeddings=unit_rows(embeddings),
            graph=scan.graph,
            knowledge=knowledge,
            encoder=encoder,
            constants=self._rule.constants(),
        )

    def features(
        self,
        snapshot: Snapshot,
        documents: Sequence[Document] = (),
        embeddings: npt.ArrayLike = (),
    ) -> SnapshotFeatures:
        """What the query rule needs, by document id.

        :param documents: further documents; those that the snapshot does not hold are judged
            against it.
        :param embeddings: their rows.
        :raises InputError: when the snapshot was made with other constants.
        :raises EmbeddingError: for rows that do not fit.
        """
        self._check(snapshot)
        surroundings = self._rule.surroundings(snapshot.knowledge.statistics)
        known = set(snapshot.document_ids)
        places = [place for place, one in enumerate(documents) if one.id not in known]
        if not places:
            return SnapshotFeatures(snapshot, surroundings)
        vectors = _vectors(documents, embeddings)
        rows = unit_rows(vectors[places])
        scan = self.judge(snapshot, [documents[place] for place in places], rows)
        runs = dict(scan.column(ALIEN_RUN).components)["alien_run_nats"].tolist()
        more = {
            name: DocumentFeatures(row, run)
            for name, row, run in zip(scan.document_ids, rows, runs, strict=True)
        }
        return SnapshotFeatures(snapshot, surroundings, more)

    def judge(
        self,
        snapshot: Snapshot,
        documents: Sequence[Document],
        embeddings: npt.ArrayLike,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Scan:
        """Judge new documents by the snapshot's statistics, which stay as they are.

        Neighbours are sought among the old documents and the batch.

        :param embeddings: rows of the new documents, by the snapshot's encoder.
        :returns: the scan of the new documents alone.
        :raises InputError: for an id the snapshot holds already, or no document.
        :raises EmbeddingError: for rows that do not fit.
        """
        rows = self._joined(snapshot, documents, embeddings)
        contents, features, _ = self._read(snapshot, documents)
        old = len(snapshot)
        graph = cosine_knn(
            rows, self._rule.neighbors, rows=np.arange(old, len(rows)), progress=progress
        )
        knowledge = measure_newcomers(
            features,
            snapshot.knowledge.statistics,
            graph,
            old,
            pair_weight=self._rule.config.pair_weight,
        )
        measured = self._rule.judge(contents, knowledge)
        scan = judged(self._rule, _ids(documents), graph, measured, self._excess(documents))
        return dataclasses.replace(scan, earlier_ids=snapshot.document_ids)

    def extend(
        self, snapshot: Snapshot, documents: Sequence[Document], embeddings: npt.ArrayLike
    ) -> tuple[Scan, Snapshot]:
        """Take new documents into the corpus and judge them as a scan of all would.

        :returns: the scan of the new documents, and the snapshot of old and new.
        :raises InputError: for an id the snapshot holds already, or no document.
        :raises EmbeddingError: for rows that do not fit.
        """
        rows = self._joined(snapshot, documents, embeddings)
        contents, features, vocabulary = self._read(snapshot, documents)
        old = len(snapshot)
        graph = joined_graph(rows, snapshot.graph, self._rule.neighbors)
        counts = snapshot.knowledge.statistics.counts.extended(
            vocabulary.tokens, features.tokens.rows(old, len(features))
        )
        everything = self._rule.learn(features, counts, graph)
        measured = self._rule.judge(contents, everything.of_last(len(documents)))
        fresh = dataclasses.replace(
            graph, indices=graph.indices[old:], similarities=graph.similarities[old:]
        )
        scan = judged(self._rule, _ids(documents), fresh, measured, self._excess(documents))
        peaks = [snapshot.knowledge.peaks]
        if isinstance(measured.knowledge, CorpusKnowledge):
            peaks.append(measured.knowledge.peaks)
        grown = Snapshot(
            document_ids=snapshot.document_ids + _ids(documents),
            embeddings=rows,
            graph=graph,
            knowledge=dataclasses.replace(everything, peaks=np.concatenate(peaks)),
            encoder=snapshot.encoder,
            constants=snapshot.constants,
        )
        return dataclasses.replace(scan, earlier_ids=snapshot.document_ids), grown

    def _joined(
        self, snapshot: Snapshot, documents: Sequence[Document], embeddings: npt.ArrayLike
    ) -> npt.NDArray[np.float32]:
        self._check(snapshot)
        if not documents:
            raise InputError("expected at least one new document, found none")
        known = set(snapshot.document_ids).intersection(_ids(documents))
        if known:
            raise InputError(
                f"document {min(known)!r} is in the state already ({len(known)} of the batch are); "
                "leave known documents out, or scan the whole corpus again"
            )
        repeated = len(documents) - len(set(_ids(documents)))
        if repeated:
            twice = next(
                one for one, times in collections.Counter(_ids(documents)).items() if times > 1
            )
            raise InputError(
                f"document {twice!r} stands more than once in the batch; ids must differ"
            )
        fresh = unit_rows(_vectors(documents, embeddings))
        if fresh.shape[1] != snapshot.embeddings.shape[1]:
            raise EmbeddingError(
                f"the new rows have dimension {fresh.shape[1]}, those of the state "
                f"{snapshot.embeddings.shape[1]}; embed both with one encoder"
            )
        return np.concatenate([snapshot.embeddings, fresh])

    def _check(self, snapshot: Snapshot) -> None:
        if snapshot.constants != self._rule.constants():
            raise InputError(
                "the state was made with other constants of profile default; scan the corpus again "
                "with these, or use the configuration it was made with"
            )
        if snapshot.knowledge.statistics.version != VERSION:
            raise InputError(
                f"the state holds statistics of version {snapshot.knowledge.statistics.version}, "
                f"this release makes version {VERSION}; scan the corpus again"
            )

    def _read(
        self, snapshot: Snapshot, documents: Sequence[Document]
    ) -> tuple[list[str], TextFeatures, Vocabulary]:
        limit = self._rule.max_characters
        contents = [document.content[:limit] for document in documents]
        vocabulary = Vocabulary(snapshot.knowledge.statistics.counts.vocabulary)
        declared = [document.provenance for document in documents]
        fresh = self._rule.read(contents, vocabulary, declared)
        return contents, snapshot.knowledge.features.followed_by(fresh), vocabulary

    def _excess(self, documents: Sequence[Document]) -> npt.NDArray[np.int64]:
        limit = self._rule.max_characters
        return np.array([max(0, len(one.content) - limit) for one in documents], dtype=np.int64)


def _vectors(documents: Sequence[Document], embeddings: npt.ArrayLike) -> npt.NDArray[np.floating]:
    vectors: npt.NDArray[np.floating] = np.asarray(embeddings)
    rows = vectors.shape[0] if vectors.ndim else 0
    if rows != len(documents):
        raise EmbeddingError(
            f"expected one embedding row a document ({len(documents)}), found {rows}"
        )
    return vectors


def _ids(documents: Sequence[Document]) -> tuple[str, ...]:
    return tuple(document.id for document in documents)
