"""FAISS: an index and a JSON-lines file beside it."""

from __future__ import annotations

import json

import numpy as np

from stores.makers import Maker

FIRST = 100


def build(folder, rows, description="Flat", *, numbered=False, nested=True):
    """Write both files; the address for `open_store`."""
    import faiss

    vectors = np.stack([row.vector for row in rows])
    index = faiss.index_factory(vectors.shape[1], description)
    index.train(vectors)
    ids = np.arange(FIRST, FIRST + len(rows))
    if numbered:
        index.add_with_ids(vectors, ids)
    else:
        index.add(vectors)
    folder.mkdir(parents=True, exist_ok=True)
    path, texts = folder / "docs.faiss", folder / "docs.jsonl"
    faiss.write_index(index, str(path))
    with texts.open("w", encoding="utf-8") as handle:
        for number, row in zip(ids, rows, strict=True):
            line = {"id": row.id, "text": row.text}
            line |= {"metadata": dict(row.metadata)} if nested else dict(row.metadata)
            line |= {"faiss_id": int(number)} if numbered else {}
            handle.write(json.dumps(line, ensure_ascii=False) + "\n")
    return f"faiss://{path}?texts={texts}"


def maker(scheme, description, *, numbered=False, nested=True, lossless=True):
    def create(folder, rows):
        return build(folder, rows, description, numbered=numbered, nested=nested)

    return Maker(scheme, create, native_search, lossless=lossless)


def native_search(connector, vector, depth, filtered):
    """As a user would, with ids looked up in the file of texts."""
    index = connector.index
    _, numbers = index.search(vector[None], depth, params=filtered)
    with connector.files.texts.open(encoding="utf-8") as handle:
        lines = [json.loads(line) for line in handle]
    ids = {line.get("faiss_id", at): line["id"] for at, line in enumerate(lines)}
    return [ids[number] for number in numbers[0].tolist() if number >= 0]


MAKERS = [
    maker("faiss", "Flat"),
    maker("faiss-idmap", "IDMap,Flat", numbered=True, nested=False),
    # One list: what is probed of several is not what the contract is about.
    maker("faiss-ivf", "IVF1,Flat", numbered=True),
    maker("faiss-sq8", "IDMap2,SQ8", numbered=True, lossless=False),
]
