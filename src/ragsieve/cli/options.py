"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Documents = Annotated[Path, typer.Option(help="Corpus, one JSON object a line.")]
Embeddings = Annotated[
    Path, typer.Option(help="Embeddings (.npy), one row a document in corpus order.")
]
Output = Annotated[Path, typer.Option(help="File to write; replaced only when complete.")]
Profile = Annotated[str | None, typer.Option(help="Detector profile: default or paper.")]
State = Annotated[
    Path | None, typer.Option(help="State that `scan --state` keeps: features and statistics.")
]
Config = Annotated[Path | None, typer.Option(help="TOML settings; unknown keys are errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
ModelsDir = Annotated[
    Path | None, typer.Option(help="Where `ragsieve models pull` put the embedded models.")
]
Encoder = Annotated[
    str | None,
    typer.Option(
        help="Retriever: auto, light, embedded, bge-m3, e5-large-v2, all-minilm-l6-v2 or all-mpnet-base-v2."
    ),
]
EncoderPath = Annotated[
    str | None, typer.Option(help="Local folder of the retriever; else its hub cache.")
]
CausalModel = Annotated[
    str | None,
    typer.Option(help="Causal LM: auto, none, embedded, paper, or a folder or hub name."),
]
TokenModel = Annotated[
    str | None,
    typer.Option(help="Token encoder: auto, none, embedded, paper, or a folder or hub name."),
]
TokenLayer = Annotated[
    int | None, typer.Option(help="Hidden layer of a token encoder named by folder or hub name.")
]
Features = Annotated[
    Path | None,
    typer.Option(help="Feature store (.sqlite): what models say of a document is kept there."),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or auto.")]
