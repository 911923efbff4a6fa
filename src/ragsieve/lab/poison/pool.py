"""Candidates for detector-aware choices: payloads in many carriers, embedded once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison._finish import Meter
from ragsieve.lab.poison._texts import content_words, with_question
from ragsieve.lab.poison.cem import scatter
from ragsieve.lab.poison.faithfulness import clean_floor
from ragsieve.lab.poison.payloads import payloads_for
from ragsieve.lab.poison.woven import weave
from ragsieve.ports import TextEmbedder
from ragsieve.records import FloatArray

_LARGEST = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Carriers:
    """Which carriers stand in a pool.

    :param question: the question in front.
    :param plain: the payload alone.
    :param woven: frames that fold the question's subject in.
    :param spread: the question's words scattered evenly.
    """

    question: bool = True
    plain: bool = True
    woven: bool = True
    spread: bool = True


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Distinct candidates against one target.

    :param rows: unit rows, shape (n, d).
    :param scores: cosine to the question, shape (n,).
    :param floor: what a candidate must exceed to be retrieved among five.
    """

    texts: tuple[str, ...]
    rows: FloatArray
    scores: FloatArray
    floor: float

    @property
    def order(self) -> list[int]:
        """All candidates, the most similar first."""
        return [int(row) for row in np.argsort(-self.scores, kind="stable")]

    @property
    def reaching(self) -> list[int]:
        """Those above the floor, the most similar first; all when there is none."""
        above = [row for row in self.order if self.scores[row] > self.floor]
        return above or self.order

    def cosines(self, chosen: Sequence[int]) -> npt.NDArray[np.float64]:
        """Largest cosine of each candidate to those chosen, shape (n,); -1 with none chosen."""
        if not chosen:
            return np.full(len(self.texts), -1.0)
        return np.asarray((self.rows @ self.rows[list(chosen)].T).max(axis=1), dtype=np.float64)

    def closest_pair(self, chosen: Sequence[int]) -> float:
        """Largest cosine among those chosen; -1 for fewer than two."""
        near = np.asarray(self.rows[list(chosen)] @ self.rows[list(chosen)].T, dtype=np.float64)
        np.fill_diagonal(near, -1.0)
        return float(near.max(initial=-1.0))


def build_pool(
    target: Target,
    payloads: Sequence[str],
    embedder: TextEmbedder,
    clean_rows: FloatArray,
    rng: np.random.Generator,
    meter: Meter,
    *,
    carriers: Carriers = Carriers(),
    paraphrases: int = 5,
    margin: float = 0.0,
) -> Pool:
    """Every carrier around every payload and some paraphrases from the templates.

    :param clean_rows: of the corpus, for the floor.
    :param paraphrases: payloads from the templates beside those given.
    :param margin: added to the similarity of the fifth clean document.
    """
    bare = dataclasses.replace(target, payloads=())
    more = payloads_for(bare, paraphrases, rng).texts if paraphrases else ()
    bodies = list(dict.fromkeys([*payloads, *more]))
    texts: list[str] = []
    if carriers.plain:
        texts += bodies
    if carriers.question:
        texts += [with_question(target.query.text, body) for body in bodies]
    if carriers.spread:
        words = content_words(target.query.text)
        texts += [scatter(body, words).text for body in bodies]
    if carriers.woven:
        texts += weave(target, bodies)
    texts = list(dict.fromkeys(texts))[:_LARGEST]
    rows = np.asarray(embedder.embed_documents(texts), dtype=np.float32)
    question = np.asarray(embedder.embed_queries([target.query.text])[0], dtype=np.float32)
    meter.encodes += len(texts) + 1
    floor = clean_floor(clean_rows, question)
    return Pool(tuple(texts), rows, rows @ question, floor + margin)
