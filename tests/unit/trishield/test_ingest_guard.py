"""Ring 1: every equation by hand, what is not measured, where it blocks."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from builders import documents, ranking
from ragsieve import Action, ConfigError, Document, EmbeddingError, Pipeline
from ragsieve.records import DocumentFeatures, Surroundings
from ragsieve.trishield.ingest_guard import IngestGuard, IngestGuardConfig, IngestGuardStage
from ragsieve.trishield.ingest_scores import (
    Centre,
    asks_in_short,
    centre_of,
    combined_score,
    lexical_score,
    outlier_score,
)

CENTRE = Centre(np.array([1.0, 0.0]), median=0.2, deviation=0.1, rows=50)


@pytest.mark.parametrize(
    ("text", "default", "paper"),
    [
        ("one two three four five six seven", 0.0, 0.0),
        # Eight distinct words: rep 0, top 1/8.
        ("one two three four five six seven eight", 0.01, 0.125),
        # Five distinct of eight: rep 3/8, top 4/8: .6 * .375 + 2 * .38.
        ("The the THE the, one two three four", 0.985, 0.875),
        # Nine words, two of them twice: rep 2/9, top 2/9.
        ("a a b b c d e f g", 0.6 * 2 / 9 + 2 * (2 / 9 - 0.12), 4 / 9),
        ("no no no no no no no no", 1.0, 1.0),
        ("", 0.0, 0.0),
    ],
)
def test_the_lexical_score(text, default, paper):
    assert lexical_score(text) == pytest.approx(default)
    assert lexical_score(text, "paper-text") == pytest.approx(paper)


def test_a_top_share_of_exactly_the_free_one_costs_nothing():
    text = " ".join(["same"] * 3 + [f"w{n}" for n in range(22)])  # 3 / 25 = .12
    assert lexical_score(text) == pytest.approx(0.6 * 2 / 25)
    assert lexical_score(text, "paper-text") == pytest.approx(2 / 25)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Who built it? Nobody knows.", True),
        ("谁建了桥？没有人知道", True),
        ("Nobody knows.", False),
        ("See https://a.example/p?id=3 for more", False),
        ("???", False),
        ("Who built it? " + "x" * 386, False),  # 400 characters
        ("Who built it? " + "x" * 385, True),
    ],
)
def test_a_question_counts_in_a_short_text(text, asks):
    assert asks_in_short(text) is asks


def test_the_pattern_score_adds_what_is_configured_and_is_capped():
    config = IngestGuardConfig(
        watched_questions=("Who built the bridge?",), phrases=("the correct answer is",)
    )
    guard = IngestGuard(config)

    def pattern(text):
        found = guard.assess(Document("d", text))
        return found.question, found.watched, found.phrase, found.pattern

    assert pattern("Ask who built THE bridge, they say") == (0.0, 0.5, 0.0, 0.5)
    assert pattern("The correct answer is Rome") == (0.0, 0.0, 0.3, 0.3)
    assert pattern("Who built the bridge? The correct answer is Rome") == (0.4, 0.5, 0.3, 1.0)
    # Verbatim means whole words.
    assert pattern("who built the bridges") == (0.0, 0.0, 0.0, 0.0)


def test_what_is_not_configured_is_not_measured():
    found = IngestGuard().assess(Document("d", "Who built it? I did."))
    assert (found.watched, found.phrase, found.outlier) == (None, None, None)
    assert (found.pattern, found.combined) == (0.4, 0.4)
    assert not found.blocked
    assert [one.split(":")[0] for one in found.unmeasured] == ["watched", "phrase", "outlier"]
    assert dict(found.components)["watched"] is None


@pytest.mark.parametrize(
    ("row", "paper", "relative"),
    [([2.0, 0.0], 0.0, 0.0), ([0.0, 3.0], 1.0, 1.0), ([-1.0, 0.0], 1.0, 1.0),
     ([0.5, np.sqrt(0.75)], 0.5, 0.5), ([0.65, np.sqrt(1 - 0.65**2)], 0.35, 0.25)],
)  # fmt: skip
def test_the_outlier_score(row, paper, relative):
    assert outlier_score(row, CENTRE, "paper") == pytest.approx(paper)
    assert outlier_score(row, CENTRE) == pytest.approx(relative)


@pytest.mark.parametrize(
    ("scores", "combined"),
    [((0.2, 0.4, None), 0.4), ((0.6, 0.0, None), 0.6), ((0.0, 0.4, 0.5), 0.47),
     ((0.0, 0.0, 1.0), 0.7), ((0.9, 0.1, 0.2), 0.9)],
)  # fmt: skip
def test_the_combination(scores, combined):
    assert combined_score(*scores) == pytest.approx(combined)


def test_it_blocks_at_the_threshold_and_says_why():
    guard = IngestGuard(IngestGuardConfig(watched_questions=("Who built it",)))
    found = guard.assess(Document("d", "Tell me who built it"))
    assert found.combined == found.threshold == 0.5
    assert found.blocked
    assert found.reasons == ("pattern 0.500 reaches 0.5",)
    strict = IngestGuard(IngestGuardConfig(threshold=0.4))
    assert strict.assess(Document("d", "Who? Me.")).blocked


def test_an_outlier_alone_can_block_once_fitted():
    guard = IngestGuard(centre=CENTRE)
    found = guard.assess(Document("d", "plain words"), [0.0, 1.0])
    assert (found.outlier, found.blocked) == (1.0, True)
    assert found.combined == pytest.approx(0.7)
    assert "outlier" in found.reasons[0]
    assert not guard.assess(Document("d", "plain words")).blocked


def test_fitting_measures_the_index():
    rows = np.array([[1.0, 0.1], [1.0, -0.1], [5.0, 0.0], [1.0, 0.0]] * 6)
    centre = centre_of(rows)
    assert centre.direction == pytest.approx([1.0, 0.0])
    assert centre.rows == 24
    half = (1 - 1 / np.sqrt(1.01)) / 2
    assert centre.median == pytest.approx(half)
    assert centre.deviation == pytest.approx(max(1e-3, 1.4826 * half))
    fitted = IngestGuard().fit(rows)
    (found,) = fitted.assess_many(documents(["plain"]), [[1.0, 0.0]])
    assert found.outlier == 0.0


def test_a_small_index_has_no_spread():
    fitted = IngestGuard().fit(np.eye(3))
    found = fitted.assess(Document("d", "plain"), [1.0, 0.0, 0.0])
    assert found.outlier is None
    assert "the index holds 3 documents, 20 are needed" in found.unmeasured[-1]
    paper = IngestGuard(IngestGuardConfig(outlier="paper")).fit(np.eye(3))
    measured = paper.assess(Document("d", "plain"), [1.0, 0.0, 0.0]).outlier
    assert measured == pytest.approx(1 - 1 / np.sqrt(3))


@pytest.mark.parametrize(
    "rows", [np.zeros((0, 2)), [1.0, 2.0], [[0.0, 0.0]], [[np.nan, 1.0]], [[1.0, 0.0], [-1.0, 0.0]]]
)
def test_an_unusable_index_is_refused(rows):
    with pytest.raises(EmbeddingError, match="ingest guard"):
        IngestGuard().fit(rows)


def test_unusable_rows_are_refused():
    guard = IngestGuard(centre=CENTRE)
    with pytest.raises(EmbeddingError, match="encoder"):
        guard.assess(Document("d", "x"), [1.0, 0.0, 0.0])
    with pytest.raises(EmbeddingError, match="zero or not finite"):
        guard.assess(Document("d", "x"), [0.0, 0.0])
    with pytest.raises(EmbeddingError, match="one row for each of 2"):
        guard.assess_many(documents(["x", "y"]), [[1.0, 0.0]])


@pytest.mark.parametrize(
    "wrong",
    [{"lexical": "other"}, {"outlier": "other"}, {"threshold": 0}, {"threshold": 1.1},
     {"watched_questions": ("?!",)}, {"phrases": ("",)}],
)  # fmt: skip
def test_impossible_configurations_are_refused(wrong):
    with pytest.raises(ConfigError, match="ingest guard"):
        IngestGuardConfig(**wrong)


def test_settings_can_hold_the_configuration_and_unknown_keys_are_errors():
    adapter = TypeAdapter(IngestGuardConfig)
    assert adapter.validate_python({"phrases": ["it is a fact"]}).phrases == ("it is a fact",)
    with pytest.raises(ValidationError, match="watched"):
        adapter.validate_python({"watched": []})


class Known:
    surroundings = Surroundings()

    def features(self, document_ids):
        rows = {"d1": [1.0, 0.0], "d2": [0.0, 1.0]}
        return tuple(
            DocumentFeatures(np.array(rows[name]) if name in rows else None)
            for name in document_ids
        )


def test_as_a_proxy_it_takes_documents_out_of_the_whole_ranking():
    contents = ["plain words here"] * 6 + ["no " * 20]
    outcome = Pipeline([IngestGuardStage(IngestGuard(centre=CENTRE), Known())], context_size=5).run(
        ranking(contents)
    )
    assert outcome.removed_ids == ("d2", "d7")
    assert [one.document.id for one in outcome.kept] == ["d1", "d3", "d4", "d5", "d6"]
    steps = {one.document_id: one for one in outcome.trace if one.stage == "ingest-guard"}
    assert steps["d2"].action is Action.REMOVED
    assert dict(steps["d2"].components)["outlier"] == 1.0
    assert dict(steps["d3"].components)["outlier"] is None
    assert "the index at hand does not know the document" in steps["d3"].reason
    assert "lexical 1.000" in steps["d7"].reason
    assert len(steps) == 7
