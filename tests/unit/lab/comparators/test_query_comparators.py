"""RAGuard, query overlap, perplexity, EcoSafeRAG and RAGMask against figures worked out by hand."""

from __future__ import annotations

import difflib
import math

import numpy as np
import pytest

from builders import ranking, sentence
from ragsieve.detectors.query import QueryDetector
from ragsieve.errors import ConfigError
from ragsieve.lab.comparators._text import common_subsequence, halves, rouge_l, sentences
from ragsieve.lab.comparators.base import CleanPair
from ragsieve.lab.comparators.ecosafe import BAITS, EcoSafe, with_baits
from ragsieve.lab.comparators.overlap import QueryOverlap, best_ratio
from ragsieve.lab.comparators.perplexity import Perplexity
from ragsieve.lab.comparators.ragmask import RagMask, RagMaskConfig, masked_texts
from ragsieve.lab.comparators.raguard import Raguard, RaguardConfig, RaguardReference
from ragsieve.records import Decision


def reference(size=40, similarity=None):
    ordered = np.arange(size, dtype=float)
    near = ordered if similarity is None else similarity
    return RaguardReference(ordered - 20, ordered, near)


def only(found):
    return [row[0] for row in found]


class TestText:
    def test_sentences_end_with_marks_or_lines(self):
        assert sentences("One. Two?\nThree! 3.5 is four") == [
            "One.",
            "Two?",
            "Three!",
            "3.5 is four",
        ]

    def test_the_first_half_has_the_odd_word(self):
        assert halves("a b c") == ("a b", "c")
        assert halves("a") == ("a", "")

    @pytest.mark.parametrize("seed", range(20))
    def test_common_subsequence_is_that_of_the_textbook(self, seed):
        rng = np.random.default_rng(seed)
        left, right = (list(rng.choice(list("abcd"), size=rng.integers(0, 90))) for _ in range(2))
        table = np.zeros((len(left) + 1, len(right) + 1), dtype=int)
        for i, a in enumerate(left, start=1):
            for j, b in enumerate(right, start=1):
                same = table[i - 1, j - 1] + 1
                table[i, j] = same if a == b else max(table[i - 1, j], table[i, j - 1])
        assert common_subsequence(left, right) == table[-1, -1]

    def test_rouge_l_agrees_with_the_library(self):
        from rouge_score import rouge_scorer, tokenizers

        texts = ["The rivers were running to the sea", "A river runs past the old sea wall", "x"]
        tokenizer = tokenizers.DefaultTokenizer(use_stemmer=True)
        scorer = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)
        for left in texts:
            for right in texts:
                own = rouge_l(tokenizer.tokenize(left), tokenizer.tokenize(right))
                assert own == pytest.approx(scorer.score(left, right)["rougeL"].fmeasure)
        assert rouge_l([], ["a"]) == 0.0


class TestRaguard:
    def test_a_statistic_beyond_the_clean_quantile_is_flagged(
        self, view_of, word_losses, table_embedder
    ):
        # Means of the halves: losses of "x b" is [1], of "c d" [9]: difference -8, maximum 9.
        causal = word_losses({"d": 9.0})
        embedder = table_embedder({"q": (1, 0, 0), "x b c d": (1, 0, 0)})
        clean = reference(similarity=np.linspace(0, 0.9, 40))
        rule = Raguard(clean, causal, embedder)
        evidence = only(rule.measure([view_of(["x b c d"])])[0])[0]
        # The similarity, 1, is above all clean ones.
        assert evidence.value == 1.0
        assert rule.threshold == 0.975

    def test_ranks_by_hand(self, view_of, word_losses, table_embedder):
        causal = word_losses({"d": 9.0})
        embedder = table_embedder({"q": (1, 0, 0), "x b c d": (0, 1, 0)})
        rule = Raguard(reference(similarity=np.linspace(0.1, 0.9, 40)), causal, embedder)
        evidence = only(rule.measure([view_of(["x b c d"])])[0])[0]
        # Of -20..19, the values above -8 are 27 of 40; below it 12; maximum 9 of 40; cosine 0 none.
        assert evidence.value == 27 / 40

    @pytest.mark.parametrize("alpha", [0.025, 0.05, 0.1])
    def test_the_threshold_is_the_empirical_quantile(self, alpha):
        ordered = np.sort(np.random.default_rng(0).normal(size=80))
        upper = np.quantile(ordered, 1 - alpha, method="inverted_cdf")
        for value in [*ordered, *(ordered + 1e-9), *np.linspace(-3, 3, 50)]:
            rank = np.searchsorted(ordered, value, side="left") / ordered.size
            assert (rank >= 1 - alpha) == (value > upper)

    def test_the_reference_holds_sorted_statistics(self, word_losses, table_embedder):
        embedder = table_embedder({"q": (1, 0, 0), "a b c d": (0.6, 0.8, 0), "e f": (1, 0, 0)})
        pairs = [CleanPair("q", "a b c d"), CleanPair("q", "a b c dd"), CleanPair("q", "e f")]
        found = RaguardReference.of(pairs, word_losses({"d": 3.0}), embedder)
        # "e f" halves into single words, which have no loss: it is left out.
        assert found.difference.tolist() == [-2.0, 0.0]
        assert found.highest.tolist() == [1.0, 3.0]
        assert found.similarity.tolist() == [0.0, 0.6]

    def test_a_short_text_is_unavailable_and_so_is_all_when_the_model_fails(
        self, view_of, word_losses, table_embedder
    ):
        embedder = table_embedder({})
        rule = Raguard(reference(), word_losses(), embedder)
        short, whole = only(rule.measure([view_of(["one", "a b c d"])])[0])
        assert short.value is None
        assert whole.measured
        broken = Raguard(reference(), word_losses(failing=True), embedder)
        evidence = only(broken.measure([view_of(["a b c d"])])[0])[0]
        assert evidence.value is None
        assert "told to fail" in evidence.reason

    def test_too_small_a_reference_is_refused(self, word_losses, table_embedder):
        with pytest.raises(ConfigError, match="at least 40 clean passages, found 39"):
            Raguard(reference(39), word_losses(), table_embedder({}))
        with pytest.raises(ConfigError):
            RaguardConfig(alpha=0.5)


class TestOverlap:
    def test_the_query_inside_is_one(self):
        assert best_ratio("Who built it", "So, WHO BUILT IT? A mason.") == 1.0
        assert best_ratio("", "x") == best_ratio("x", "") == 0.0

    def test_by_hand(self):
        # "abcd" against "abxd": three of four characters match in order.
        assert best_ratio("abcd", "zzabxdzz") == pytest.approx(2 * 3 / 8)
        # A text shorter than the query is one stretch.
        assert best_ratio("abcd", "ab") == pytest.approx(2 * 2 / 6)

    @pytest.mark.parametrize("seed", range(10))
    def test_the_bound_skips_nothing(self, seed):
        rng = np.random.default_rng(seed)
        query, text = sentence(rng, 3), sentence(rng, 12)
        size = len(query)
        every = [
            difflib.SequenceMatcher(None, query, text[at : at + size]).ratio()
            for at in range(len(text) - size + 1)
        ]
        assert best_ratio(query, text) == pytest.approx(max(every))

    def test_it_runs_in_the_detector_on_a_ranking_without_a_tail(self):
        verdicts = QueryDetector(QueryOverlap()).score(
            ranking(
                ["who built the bridge? a mason", "no word of it"], query="who built the bridge"
            )
        )
        assert [one.decision for one in verdicts] == [Decision.FLAGGED, Decision.CLEAR]
        assert verdicts[0].evidences[0].name == "query-overlap"


class TestPerplexity:
    def test_the_exponential_of_the_mean(self, view_of, word_losses):
        rule = Perplexity(word_losses({"odd": 7.0}))
        found = only(rule.measure([view_of(["a b odd", "word", "a b c"])])[0])
        assert found[0].value == pytest.approx(math.exp(4.0))
        assert found[1].value is None
        assert found[2].value == pytest.approx(math.e)

    def test_a_failing_model_leaves_it_unavailable(self, view_of, word_losses):
        found = only(Perplexity(word_losses(failing=True)).measure([view_of(["a b"])])[0])
        assert found[0].value is None

    def test_no_loss_overflows(self, view_of, word_losses):
        rule = Perplexity(word_losses({"b": 5000.0}))
        assert only(rule.measure([view_of(["a b"])])[0])[0].value == pytest.approx(math.exp(700))


class TestEcoSafe:
    def test_dbscan_is_that_of_the_library(self):
        from sklearn.cluster import DBSCAN

        rng = np.random.default_rng(3)
        rows = rng.normal(size=(40, 3))
        rows[20:30] = rows[30] + 0.05 * rng.normal(size=(10, 3))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        groups = DBSCAN(eps=0.3, min_samples=4).fit_predict(rows)
        hostile = set(groups[-10:]) - {-1}
        assert with_baits(rows, 10, 0.3, 4).tolist() == [one in hostile for one in groups[:-10]]
        assert with_baits(rows, 10, 0.3, 4).any()

    def test_the_share_of_candidate_sentences_that_are_flagged(self, view_of, table_embedder):
        near, bait = (0.8, 0.6, 0.0), (0.0, 0.0, 1.0)
        embedder = table_embedder(
            {
                "q": (1, 0, 0),
                "Same.": (1, 0, 0),
                "Near.": near,
                "Far.": (0, 1, 0),
                "Calm.": (0, 1, 0),
            }
            | {"Order.": bait},
            other=bait,
        )
        # Of the first, "Near." is a candidate, its context "Order." lies with the baits.
        # Of the second, "Near." stands beside "Calm."; "Same." of the third is a copy.
        found = EcoSafe(embedder).scores(
            view_of(["Near. Order.", "Near. Calm.", "Same. Far.", "Far.", "Same."])
        )
        assert found == [1.0, 0.0, 1.0, 0.0, 1.0]

    def test_one_of_two_candidate_sentences(self, view_of, table_embedder):
        embedder = table_embedder(
            {"q": (1, 0, 0), "Same.": (1, 0, 0), "Near.": (0.85, 0.5267827, 0)}
        )
        # Contexts are the other sentence, near the query and far from the baits.
        assert EcoSafe(embedder).scores(view_of(["Same. Near."])) == [0.5]

    def test_the_tail_sets_the_relative_threshold(self, view_of, table_embedder):
        embedder = table_embedder(
            {
                "q": (1, 0, 0),
                "Weak.": (0.3, 0.954, 0),
                "Best.": (0.9, 0.436, 0),
                "Order.": (0, 0, 1),
            }
        )
        assert EcoSafe(embedder).scores(view_of(["Weak. Order."])) == [1.0]
        assert EcoSafe(embedder).scores(view_of(["Weak. Order."], tail=["Best."])) == [0.0]

    def test_texts_without_a_sentence(self, view_of, table_embedder):
        assert EcoSafe(table_embedder({})).scores(view_of(["", " "])) == [0.0, 0.0]

    def test_there_are_four_baits_of_each_kind(self):
        assert len(BAITS) == len(set(BAITS)) == 16


class TestRagMask:
    def test_the_largest_fall(self, view_of, table_embedder):
        embedder = table_embedder(
            {"q": (1, 0, 0), "a b c d": (0.8, 0.6, 0), "c d": (0.1, 0.995, 0), "a b": (1, 0, 0)}
        )
        rule = RagMask(embedder, RagMaskConfig(width=2))
        found = only(rule.measure([view_of(["a b c d", "a b"])])[0])
        assert found[0].value == pytest.approx(0.7, abs=1e-3)
        assert found[1].value is None

    def test_runs_are_bounded_and_masked_words_are_replaced(self):
        text = " ".join(str(number) for number in range(100))
        assert len(masked_texts(text, RagMaskConfig(runs=8))) == 8
        assert masked_texts("a b c", RagMaskConfig(width=2, mask="_")) == ["_ _ c", "a b _"]

    def test_a_rising_similarity_is_no_evidence(self, view_of, table_embedder):
        embedder = table_embedder({"q": (1, 0, 0), "a b": (0, 1, 0)}, other=(1, 0, 0))
        assert RagMask(embedder, RagMaskConfig(width=1)).scores(view_of(["a b"])) == [0.0]
