"""Tiny random models, saved to folders as real ones are: no download, a second to build."""

from __future__ import annotations

from pathlib import Path

import pytest

WORDS = ("alpha", "beta", "gamma", "delta", "one", "two", "three", "query", "passage", ":")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
POSITIONS = 64


def _tokenizer(*, with_specials: bool):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate((*SPECIAL, *WORDS))}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[1]))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    if with_specials:
        raw.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
        )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    if with_specials:
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=raw, **names)


def _save(model, tokenizer, folder: Path) -> Path:
    from ragsieve.backends._edges import quiet_transformers

    with quiet_transformers():
        model.eval().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory) -> Path:
    """A BERT of 3 layers and 16 dimensions, with [CLS] and [SEP]."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=POSITIONS,
        initializer_range=0.5,
    )
    folder = tmp_path_factory.mktemp("models") / "tiny-encoder"
    return _save(BertModel(config), _tokenizer(with_specials=True), folder)


@pytest.fixture(scope="session")
def causal_folder(tmp_path_factory) -> Path:
    """A Llama of 2 layers and 16 dimensions, whose tokenizer adds nothing."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(2)
    config = LlamaConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=32,
        max_position_embeddings=POSITIONS,
        initializer_range=0.5,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
    folder = tmp_path_factory.mktemp("models") / "tiny-causal"
    return _save(LlamaForCausalLM(config), _tokenizer(with_specials=False), folder)


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Unequal lengths, repeats, an empty text, and one beyond the tiny models' positions."""
    return ["alpha beta", "", "gamma " * 9, "one", "alpha beta", "delta two " * 90, "beta alpha"]
