"""Which models the paper used, and how each of them wants to be read."""

from __future__ import annotations

import dataclasses
import enum

from ragsieve.errors import ConfigError


class Pooling(enum.StrEnum):
    """How token states become one vector: the first token's, or the mean over real tokens."""

    CLS = "cls"
    MEAN = "mean"


@dataclasses.dataclass(frozen=True, slots=True)
class RetrieverPreset:
    """How a retriever's encoder turns a text into a vector.

    :param model: full hub name.
    :param query_prefix: put before a query, as the model was trained.
    :param passage_prefix: put before a document.
    :param max_tokens: truncation, special tokens and prefix included.
    """

    model: str
    pooling: Pooling
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 512

    @property
    def alias(self) -> str:
        """The short name: the hub name without its owner, in lower case."""
        return self.model.rpartition("/")[2].lower()


@dataclasses.dataclass(frozen=True, slots=True)
class CausalPreset:
    """A causal language model and how much of a text it is given, in tokens."""

    model: str
    max_tokens: int = 512


@dataclasses.dataclass(frozen=True, slots=True)
class TokenPreset:
    """An encoder and the index of the hidden state to take; 0 is the embeddings."""

    model: str
    layer: int


RETRIEVERS = (
    RetrieverPreset("BAAI/bge-m3", Pooling.CLS),
    RetrieverPreset(
        "intfloat/e5-large-v2",
        Pooling.MEAN,
        query_prefix="query: ",
        passage_prefix="passage: ",
    ),
    RetrieverPreset("sentence-transformers/all-MiniLM-L6-v2", Pooling.MEAN),
    RetrieverPreset("sentence-transformers/all-mpnet-base-v2", Pooling.MEAN),
)

PAPER_CAUSAL = CausalPreset("Qwen/Qwen3-0.6B-Base")
PAPER_TOKENS = TokenPreset("bert-base-uncased", layer=9)

# The embedded models are folders below the models directory, named as in the catalogue.
EMBEDDED_RETRIEVER = RetrieverPreset("all-minilm-l6-v2", Pooling.MEAN)
EMBEDDED_LIGHT = RetrieverPreset("all-minilm-l6-v2-int8", Pooling.MEAN)
EMBEDDED_CAUSAL = CausalPreset("smollm2-135m-instruct")
EMBEDDED_TOKENS = TokenPreset("all-minilm-l6-v2", layer=4)


def retriever_preset(name: str) -> RetrieverPreset:
    """The preset of a retriever, by full hub name or alias, upper and lower case alike.

    :raises ConfigError: when no preset has that name.
    """
    wanted = name.lower()
    for preset in RETRIEVERS:
        if wanted in {preset.model.lower(), preset.alias}:
            return preset
    known = ", ".join(preset.alias for preset in RETRIEVERS)
    raise ConfigError(
        f"retriever preset: expected one of {known} (or the full hub name), found {name!r}; "
        "for another model, state its pooling and prefixes"
    )
