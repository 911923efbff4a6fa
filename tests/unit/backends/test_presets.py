import dataclasses

import pytest

from ragsieve.backends.presets import (
    EMBEDDED_TOKENS,
    PAPER_CAUSAL,
    PAPER_TOKENS,
    RETRIEVERS,
    Pooling,
    retriever_preset,
)
from ragsieve.errors import ConfigError


@pytest.mark.parametrize("preset", RETRIEVERS, ids=lambda preset: preset.alias)
def test_found_by_hub_name_and_by_alias(preset):
    assert retriever_preset(preset.model) is preset
    assert retriever_preset(preset.alias) is preset
    assert retriever_preset(preset.alias.upper()) is preset
    assert preset.max_tokens == 512


def test_pooling_and_prefixes_are_the_models_own():
    assert retriever_preset("bge-m3").pooling is Pooling.CLS
    e5 = retriever_preset("e5-large-v2")
    assert (e5.pooling, e5.query_prefix, e5.passage_prefix) == (
        Pooling.MEAN,
        "query: ",
        "passage: ",
    )
    assert retriever_preset("all-minilm-l6-v2").query_prefix == ""
    assert retriever_preset("all-mpnet-base-v2").pooling is Pooling.MEAN


def test_paper_and_embedded_models():
    assert (PAPER_CAUSAL.model, PAPER_CAUSAL.max_tokens) == ("Qwen/Qwen3-0.6B-Base", 512)
    assert (PAPER_TOKENS.model, PAPER_TOKENS.layer) == ("bert-base-uncased", 9)
    assert (EMBEDDED_TOKENS.model, EMBEDDED_TOKENS.layer) == ("all-minilm-l6-v2", 4)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"bge-m3.*found 'bert'"):
        retriever_preset("bert")


def test_presets_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RETRIEVERS[0].model = "other"
