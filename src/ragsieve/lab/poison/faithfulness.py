"""The figures by which every construction shows that it did what it claims."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ragsieve.evidence.scripts import script_profile
from ragsieve.evidence.surprisal import peak_surprisal
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison.base import Faithfulness, Workshop
from ragsieve.records import Document, FloatArray

DEPTH = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """Where texts stand for a question, by the retriever's own vectors.

    :param rows: unit rows of the texts, shape (n, d).
    :param similarities: to the question, shape (n,).
    :param ranks: from 1, with all texts planted at once, shape (n,).
    """

    rows: FloatArray
    similarities: FloatArray
    ranks: FloatArray


def contents(texts: Sequence[str], titles: Sequence[str] = ()) -> list[str]:
    """What is embedded of each text, its title included where there is one."""
    named = titles or [""] * len(texts)
    return [Document("", text, title).content for text, title in zip(texts, named, strict=True)]


def standing(target: Target, embedded: Sequence[str], workshop: Workshop) -> Standing:
    """Embed texts as the retriever would and rank them in the corpus.

    A tie goes to the corpus.
    """
    rows = np.asarray(workshop.embedder.embed_documents(embedded), dtype=np.float32)
    question = np.asarray(workshop.embedder.embed_queries([target.query.text])[0], np.float32)
    own = rows @ question
    clean = np.asarray(workshop.rows, dtype=np.float32) @ question
    ahead = np.array([(clean >= value).sum() for value in own])
    siblings = (own[None, :] > own[:, None]).sum(axis=1) if own.size else np.zeros(0)
    return Standing(rows, own, ahead + siblings + 1)


def clean_floor(clean_rows: FloatArray, question: FloatArray, depth: int = DEPTH) -> float:
    """Similarity of the ``depth``-th clean document, which a text must exceed; -1 without one.

    :param clean_rows: unit rows of the corpus, shape (V, d).
    :param question: shape (d,).
    """
    clean = np.asarray(clean_rows, dtype=np.float32) @ np.asarray(question, dtype=np.float32)
    if clean.size < depth:
        return -1.0
    return float(np.partition(clean, clean.size - depth)[clean.size - depth])


def faithfulness(
    target: Target,
    texts: Sequence[str],
    workshop: Workshop,
    checks: Sequence[tuple[str, bool]] = (),
    titles: Sequence[str] = (),
) -> Faithfulness:
    """The shared figures of the texts made for one target; zeros when there is none.

    :param checks: what the construction found out about itself.
    :raises BackendError: when a model fails.
    """
    named = tuple((name, bool(holds)) for name, holds in checks)
    if not texts:
        return Faithfulness(0.0, 0.0, 0.0, None, named)
    read = contents(texts, titles)
    place = standing(target, read, workshop)
    return Faithfulness(
        similarity=float(place.similarities.mean()),
        in_top_5=float((place.ranks <= DEPTH).mean()),
        mixed_scripts=float(np.mean([len(script_profile(text).counts) > 1 for text in read])),
        peak_surprisal_share=_peak(read, workshop),
        checks=named,
    )


def _peak(texts: Sequence[str], workshop: Workshop) -> float | None:
    if workshop.causal is None:
        return None
    size = workshop.causal.vocabulary_size
    losses = workshop.causal.losses(texts)
    return float(np.mean([peak_surprisal(trace, size).share for trace in losses]))
