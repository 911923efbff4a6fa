"""Chroma in a folder."""

from __future__ import annotations

from stores.makers import Maker


def create(folder, rows):
    import chromadb

    path = folder / "chroma"
    client = chromadb.PersistentClient(str(path))
    collection = client.create_collection("docs", embedding_function=None)
    for start in range(0, len(rows), 1_000):
        part = rows[start : start + 1_000]
        collection.add(
            ids=[row.id for row in part],
            embeddings=[row.vector for row in part],
            documents=[row.text for row in part],
            metadatas=[dict(row.metadata) for row in part],
        )
    client.close()
    return f"chroma://{path}?collection=docs"


def native_search(connector, vector, depth, filtered):
    found = connector.collection.query(query_embeddings=[vector], n_results=depth, where=filtered)
    return found["ids"][0]


MAKERS = [Maker("chroma", create, native_search)]
