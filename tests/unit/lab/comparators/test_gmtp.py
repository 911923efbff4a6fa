"""GMTP: influential tokens, where they stand, how likely they are, and both of its models."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragsieve.errors import BackendError, ConfigError, ModelFilesError
from ragsieve.evidence.tokens import Span
from ragsieve.lab.comparators.base import CleanPair
from ragsieve.lab.comparators.gmtp import (
    CAUSAL_DECLARATION,
    CausalLeftModel,
    Gmtp,
    GmtpConfig,
    GmtpParts,
    influential,
    piece_spans,
    reference_probability,
)
from ragsieve.lab.comparators.masked import TransformersMaskedModel

WORDS = ["who", "built", "zzz", "stone", "bridge", "of"]


class TableGradients:
    """Words are tokens; a gradient's length is the word's number in the table."""

    identity = "gradients"
    vocabulary = WORDS

    def __init__(self, norms):
        self.norms = norms

    def token_ids(self, text):
        return [WORDS.index(word) for word in text.split()]

    def encode_ids(self, batch):
        return np.ones((len(batch), 3)) / math.sqrt(3)

    def gradient(self, ids, objective):
        assert objective.shape == (3,)
        return np.array([[self.norms.get(WORDS[one], 0.0), 0.0] for one in ids])


class TableMasked:
    identity = "masked"

    def __init__(self, table, failing=False):
        self.table, self.failing = table, failing

    def probabilities(self, text, spans):
        if self.failing:
            raise BackendError("told to fail")
        return [self.table[text[span.start : span.stop]] for span in spans]


GRADIENTS = TableGradients({"zzz": 5.0, "bridge": 3.0, "stone": 1.0, "of": 1.0})
MASKED = TableMasked(
    {"zzz": 0.01, "bridge": 0.5, "stone": 0.3, "of": 0.9, "who": 0.2, "built": 0.2}
)


def test_the_least_likely_of_the_influential(view_of):
    parts = GmtpParts(GRADIENTS, MASKED)
    rule = Gmtp(parts, 0.4, GmtpConfig(unlikely=2))
    # Norms 5, 3, 1, 1 have the mean 2.5: zzz and bridge are kept, (0.01 + 0.5) / 2.
    assert rule.scores(view_of(["zzz bridge stone of"], query="who")) == [pytest.approx(0.745)]
    assert rule.threshold == pytest.approx(0.96)


def test_flagged_where_the_probability_is_a_tenth_of_the_clean_one(view_of):
    rule = Gmtp(GmtpParts(GRADIENTS, MASKED), 0.4, GmtpConfig(influential=1))
    low, high = rule.scores(view_of(["zzz bridge", "bridge stone"], query="who"))
    assert low >= rule.threshold > high


def test_the_clean_mean_has_no_gate():
    pairs = [CleanPair("who", "stone of"), CleanPair("who", "bridge stone of")]
    parts = GmtpParts(GRADIENTS, MASKED)
    expected = ((0.3 + 0.9) / 2 + (0.3 + 0.5 + 0.9) / 3) / 2
    assert reference_probability(pairs, parts) == pytest.approx(expected)
    with pytest.raises(ConfigError, match="clean pairs"):
        reference_probability([], parts)


def test_no_token_above_the_mean_is_no_probability(view_of):
    rule = Gmtp(GmtpParts(TableGradients({"of": 1.0, "stone": 1.0}), MASKED), 0.4)
    assert rule.scores(view_of(["of stone"], query="who")) == [1.0]


def test_a_failing_model_or_an_empty_text_leaves_it_unavailable(view_of):
    rule = Gmtp(GmtpParts(GRADIENTS, TableMasked({}, failing=True)), 0.4)
    assert rule.measure([view_of(["zzz of"], query="who")])[0][0][0].value is None
    rule = Gmtp(GmtpParts(GRADIENTS, MASKED), 0.4)
    assert rule.measure([view_of([""], query="who")])[0][0][0].value is None


def test_influential_ties_go_by_place():
    norms = np.array([1.0, 3.0, 3.0, 1.0])
    assert influential(norms, 3, gated=False) == [1, 2, 0]
    assert influential(norms, 3, gated=True) == [1, 2]


def test_pieces_are_found_from_left_to_right():
    text = "The thinker, thinking"
    spans = piece_spans(text, ["the", "think", "##er", ",", "Ġthink", "ing", "[UNK]", "é"])
    assert [text[one.start : one.stop] if one else None for one in spans] == [
        "The", "think", "er", ",", "think", "ing", None, None,
    ]  # fmt: skip
    assert spans[4] == Span(13, 18)


class TestLeftContext:
    def test_by_hand(self, word_losses):
        model = CausalLeftModel(word_losses({"c": 2.0}))
        text = "a b c"
        found = model.probabilities(text, [Span(0, 1), Span(2, 3), Span(4, 5)])
        assert math.isnan(found[0])
        assert found[1:] == pytest.approx([math.exp(-1), math.exp(-2)])

    def test_a_word_of_several_tokens_has_their_geometric_mean(self):
        class Letters:
            identity, vocabulary_size = "letters", 26

            def losses(self, texts):
                return [np.arange(1.0, len(text.replace(" ", ""))) for text in texts]

        # "ab cde" has losses 1..4; the last word's three letters have 2, 3 and 4.
        found = CausalLeftModel(Letters()).probabilities("ab cde", [Span(4, 5)])
        assert found == [pytest.approx(math.exp(-3))]

    def test_only_so_many_words_are_read(self):
        class Recorder:
            identity, vocabulary_size = "recorder", 26

            def __init__(self):
                self.seen = []

            def losses(self, texts):
                self.seen += texts
                return [np.ones(len(text.split()) - 1) for text in texts]

        causal = Recorder()
        model = CausalLeftModel(causal, words=2)
        model.probabilities("a b c d", [Span(6, 7)])
        assert causal.seen == ["a", "a d", "b c d"]
        # A word's tokens are counted once.
        model.probabilities("c d", [Span(2, 3)])
        assert causal.seen == ["a", "a d", "b c d", "c d"]

    def test_the_variant_never_calls_itself_gmtp(self, word_losses):
        parts = GmtpParts(GRADIENTS, CausalLeftModel(word_losses()), CAUSAL_DECLARATION)
        assert Gmtp(parts, 0.4).profile == "gmtp-causal-variant"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A BERT with a masked-word head, and one without."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast

    from ragsieve.backends._edges import quiet_transformers

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    unknown = {"unk_token": "[UNK]"}
    raw = Tokenizer(models.WordLevel({w: i for i, w in enumerate(names)}, **unknown))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = unknown | {"pad_token": "[PAD]", "mask_token": "[MASK]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, **special)
    config = BertConfig(
        vocab_size=len(names), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=16, initializer_range=0.5,
    )  # fmt: skip
    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("masked")
    with quiet_transformers():
        for kind, name in ((BertForMaskedLM, "whole"), (BertModel, "headless")):
            kind(config).eval().save_pretrained(root / name)
            tokenizer.save_pretrained(root / name)
    return root


class TestMaskedModel:
    def test_each_token_is_hidden_alone(self, folders):
        import torch

        model = TransformersMaskedModel(str(folders / "whole"))
        text = "who built stone"
        found = model.probabilities(text, [Span(4, 9), Span(10, 15), Span(4, 6)])
        ids = [2, 5, 6, 8, 3]
        for place, value in ((2, found[0]), (3, found[1])):
            hidden = [*ids]
            hidden[place] = 4
            with torch.inference_mode():
                logits = model._model(input_ids=torch.tensor([hidden])).logits[0, place]
            expected = torch.softmax(logits, dim=-1)[ids[place]].item()
            assert value == pytest.approx(expected, rel=1e-5)
        assert found[2] == found[0]

    def test_beyond_what_it_reads_there_is_no_number(self, folders):
        model = TransformersMaskedModel(str(folders / "whole"))
        text = " ".join(["stone"] * 30)
        assert math.isnan(model.probabilities(text, [Span(len(text) - 5, len(text))])[0])

    def test_a_checkpoint_without_its_head_is_refused(self, folders):
        with pytest.raises(ModelFilesError, match="lacks"):
            TransformersMaskedModel(str(folders / "headless"))

    def test_a_model_that_is_not_here_is_not_fetched(self, tmp_path):
        with pytest.raises(ModelFilesError, match="expected a masked language model"):
            TransformersMaskedModel(str(tmp_path / "nowhere"))
