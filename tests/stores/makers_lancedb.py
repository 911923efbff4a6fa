"""LanceDB in a folder."""

from __future__ import annotations

import numpy as np

from stores.makers import Maker


def create(folder, rows):
    import lancedb
    import pyarrow as pa

    vectors = pa.array(np.concatenate([row.vector for row in rows]))
    columns = {
        "id": [row.id for row in rows],
        "text": [row.text for row in rows],
        "vector": pa.FixedSizeListArray.from_arrays(vectors, len(rows[0].vector)),
    }
    for key in rows[0].metadata:
        columns[key] = [row.metadata[key] for row in rows]
    path = folder / "lance"
    lancedb.connect(str(path)).create_table("docs", pa.table(columns))
    return f"lancedb://{path}?table=docs"


def native_search(connector, vector, depth, filtered):
    found = connector.table.search(vector).where(filtered, prefilter=True).limit(depth)
    return found.to_arrow().column("id").to_pylist()


MAKERS = [Maker("lancedb", create, native_search)]
