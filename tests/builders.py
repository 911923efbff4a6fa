"""Small builders of documents, rankings and clustered corpora for tests."""

from __future__ import annotations

import json

from ragsieve.records import Document, RankedDocument, Ranking

WORDS = (
    "river stone bridge market winter archive lantern orchard survey council harbour tower".split()
)


def documents(texts, prefix="d"):
    return [Document(f"{prefix}{row}", text) for row, text in enumerate(texts)]


def ranking(texts, query="who built the bridge", ids=None, query_id="q1"):
    names = ids or [f"d{place}" for place in range(1, len(texts) + 1)]
    entries = tuple(
        RankedDocument(Document(name, text), place, 1.0 - place / 1000)
        for place, (name, text) in enumerate(zip(names, texts, strict=True), start=1)
    )
    return Ranking(query_id, query, entries)


def sentence(rng, length=12):
    return " ".join(rng.choice(WORDS, size=length))


def clustered(rng, size, dimension=16, clusters=6, spread=0.15):
    """Texts and embeddings in tight clusters, some texts mixing scripts, some copies."""
    centres = rng.normal(size=(clusters, dimension))
    rows = centres[rng.integers(clusters, size=size)] + spread * rng.normal(size=(size, dimension))
    texts = []
    for row in range(size):
        text = sentence(rng, int(rng.integers(3, 15)))
        if row and rng.random() < 0.08:
            copied = int(rng.integers(row))
            text, rows[row] = texts[copied], rows[copied]
        elif rng.random() < 0.04:
            text += " word词 Привет"
        texts.append(text)
    return texts, rows


def write_jsonl(path, rows):
    path.write_bytes(b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows))
    return path
