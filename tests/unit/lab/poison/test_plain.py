"""The constructions that cost next to nothing, CamoDocs, and the payloads of all."""

import dataclasses
import re

import numpy as np
import pytest

from ragsieve.errors import ConfigError, InputError
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison import camodocs
from ragsieve.lab.poison._bm25 import Bm25
from ragsieve.lab.poison._choice import best_first, farthest_first
from ragsieve.lab.poison._texts import (
    asks_verbatim,
    clause_of,
    contains,
    holds_truth,
    kind_of_answer,
    parts_of,
    topic_of,
)
from ragsieve.lab.poison.camodocs import CamoConfig, CamoDocs, dispersion
from ragsieve.lab.poison.corrupt import CorruptAs
from ragsieve.lab.poison.numeric import NumericTampering
from ragsieve.lab.poison.payloads import PayloadSource, payload_problem, payloads_for, with_payloads
from ragsieve.lab.poison.prefixed import Prefixed
from ragsieve.lab.poison.rings import AuthorityTemplate, FormatOnly
from ragsieve.lab.poison.woven import CpaLite, CpaRag, construction_for, weave
from ragsieve.records import Query
from ragsieve.testing import FakeCausalScorer
from unit.lab.poison.fakes import OTHER, QUESTION, TARGET, TARGETS, THIRD, FakeChat, workshop

PAYLOADS = payloads_for(TARGET, 5, np.random.default_rng(1)).texts


def rng():
    return np.random.default_rng(0)


def test_payloads_hold_the_lie_and_not_the_truth():
    for target in TARGETS:
        found = payloads_for(target, 30, rng())
        assert len(set(found.texts)) == 30
        assert set(found.sources) == {PayloadSource.TEMPLATE}
        for text in found.texts:
            assert contains(text, target.target_answer)
            assert not holds_truth(text, target.correct_answers, target.target_answer)
            assert 10 <= len(text.split()) <= 45


def test_payloads_of_a_file_are_checked_and_the_rest_is_filled_in():
    good = "In truth Thomas Telford drew the plans."
    file = (good, "Thomas Telford helped Abraham Darby.", "No name at all.", good)
    found = payloads_for(dataclasses.replace(TARGET, payloads=file), 3, rng())
    assert found.texts[0] == good
    assert found.sources == (PayloadSource.FILE, PayloadSource.TEMPLATE, PayloadSource.TEMPLATE)
    assert found.discarded == 3
    assert (
        payload_problem("Thomas Telford helped Abraham  darby!", TARGET)
        == "contains a correct answer"
    )
    assert payload_problem("Thomas Telfordson drew it.", TARGET) == "lacks the target answer"


def test_a_truth_inside_the_lie_is_no_slip():
    target = Target(Query("q", "where was it"), ("Paris",), "Paris, Texas")
    assert payload_problem("It was in Paris, Texas.", target) is None
    assert payload_problem("Not Paris but Paris, Texas.", target) is not None


def test_payloads_of_a_chat_model():
    chat = FakeChat(
        lambda _, turn: f'"Version {turn}: Thomas Telford drew it."' if turn % 2 else "no"
    )
    found = payloads_for(TARGET, 3, rng(), chat)
    assert found.texts[0] == "Version 1: Thomas Telford drew it."
    assert set(found.sources) == {PayloadSource.CHAT}
    assert len(chat.requests) == len(set(chat.requests)) == 5
    silent = payloads_for(TARGET, 2, rng(), FakeChat(lambda *_: "I cannot."))
    assert set(silent.sources) == {PayloadSource.TEMPLATE}


def test_payloads_that_cannot_be_written():
    target = Target(Query("q", "was the bridge iron"), ("iron",), "stone")
    with pytest.raises(InputError, match="supply payloads"):
        payloads_for(target, 200, rng())


def test_all_constructions_get_the_same_payloads():
    filled = with_payloads(TARGETS, 4, seed=7)
    assert [len(target.payloads) for target in filled] == [4, 4, 4]
    assert with_payloads(TARGETS[::-1], 4, seed=7)[::-1] == filled
    assert with_payloads(TARGETS, 4, seed=8) != filled


def test_topics_and_kinds():
    assert topic_of(QUESTION) == "designed the iron bridge over the river"
    assert topic_of("How many arches does it have?") == "arches does it have"
    assert topic_of("Name the capital of France") == "the capital of France"
    assert topic_of("Telford") == "Telford"
    assert clause_of("When did the tower fall?") == "When the tower fall"
    assert clause_of(QUESTION) == "the person that designed the iron bridge over the river"
    assert parts_of("designed the iron bridge") == (
        "designed the iron bridge",
        "iron bridge",
        "designed and bridge",
    )
    assert parts_of("Telford") == ("Telford",)
    kinds = [kind_of_answer(q) for q in (QUESTION, "how many arches", "when did it", "name it")]
    assert kinds == ["the person", "the number", "the date", "the answer"]


def test_prefixed_documents_open_with_the_question():
    made = Prefixed().craft(TARGET, PAYLOADS, workshop(), rng())
    assert made.texts[0] == f"{QUESTION}. {PAYLOADS[0]}"
    asked = Prefixed().craft(THIRD, ["York keeps it."], workshop(), rng())
    assert asked.texts == ("where is the winter archive kept? York keeps it.",)
    assert all(holds for _, holds in made.faithfulness.checks)
    assert made.faithfulness.in_top_5 == 1
    assert made.faithfulness.peak_surprisal_share is None
    assert made.faithfulness.mixed_scripts == 0


def test_figures_use_the_language_model_where_there_is_one():
    loud = FakeCausalScorer(surprising=["Telford"])
    made = Prefixed().craft(TARGET, ["Thomas Telford"], workshop(causal=loud), rng())
    losses = loud.losses(made.texts)[0]
    expected = losses.mean() / np.log(loud.vocabulary_size)
    assert made.faithfulness.peak_surprisal_share == pytest.approx(expected)
    assert Prefixed().craft(TARGET, (), workshop(), rng()).faithfulness.similarity == 0


def test_no_woven_text_holds_the_question():
    for target in TARGETS:
        payloads = payloads_for(target, 5, rng()).texts
        pool = weave(target, payloads)
        assert len(pool) > 60
        assert not any(asks_verbatim(text, target.query.text) for text in pool)
        made = CpaLite().craft(target, payloads, workshop(), rng())
        assert not any(asks_verbatim(text, target.query.text) for text in made.texts)
        rows = workshop().embedder.embed_documents(made.texts)
        near = rows @ rows.T - 2 * np.eye(len(rows))
        assert len(made.texts) >= 1
        assert near.max() < 0.9
        assert all(payload_problem(text, target) is None for text in made.texts)


def test_cpa_with_a_chat_model():
    def answer(request, turn):
        if request.startswith("Answer in a few words"):
            return "Thomas Telford, it seems."
        return f"The bridge of iron, version {turn * 'x'}{turn}, came from Thomas Telford."

    chat = FakeChat(answer)
    made = CpaRag().craft(TARGET, PAYLOADS[:2], workshop(chat=chat), rng())
    assert 1 <= len(made.texts) <= 2
    assert made.cost.chat_calls == len(chat.requests) == 2 * 6 + 12
    assert isinstance(construction_for(chat), CpaRag)
    assert isinstance(construction_for(None), CpaLite)
    with pytest.raises(ConfigError, match="CPA-RAG: expected a chat model"):
        CpaRag().craft(TARGET, PAYLOADS, workshop(), rng())
    stubborn = FakeChat(
        lambda request, _: "Abraham Darby." if "few words" in request else "Thomas Telford"
    )
    assert CpaRag().craft(TARGET, PAYLOADS, workshop(chat=stubborn), rng()).texts == ()


def test_corrupt_writes_one_document_with_both_answers():
    made = CorruptAs().craft(TARGET, PAYLOADS, workshop(), rng())
    assert len(made.texts) == 1
    assert made.texts[0].startswith(QUESTION)
    assert all(holds for _, holds in made.faithfulness.checks)
    assert {"Abraham Darby", "Thomas Telford"} <= set(
        re.findall("Abraham Darby|Thomas Telford", made.texts[0])
    )
    assert CorruptAs().craft(TARGET, (), workshop(), rng()).texts == ()


def test_numeric_tampering_changes_one_number_of_a_real_document():
    shop = workshop()
    made = NumericTampering().craft(TARGET, PAYLOADS, shop, rng())
    assert len(made.texts) == 5
    by_shape = {re.sub(r"[\d,]+", "#", d.text): d for d in shop.dataset.documents}
    for text, origin in zip(made.texts, made.origins, strict=True):
        real = by_shape[re.sub(r"[\d,]+", "#", text)]
        differing = [(a, b) for a, b in zip(real.text.split(), text.split(), strict=True) if a != b]
        assert len(differing) == 1
        assert origin == real.provenance
    assert re.sub(r"[\d,]+", "#", made.texts[0]) == re.sub(
        r"[\d,]+", "#", shop.dataset.documents[4].text
    )
    assert all(holds for _, holds in made.faithfulness.checks)


def test_numeric_tampering_puts_the_lie_where_the_truth_stood():
    from ragsieve.records import Document

    shop = workshop(
        documents=(Document("d1", "In 1899 work began and in 1911 the tower was finished."),)
    )
    made = NumericTampering().craft(OTHER, ["x"], shop, rng())
    assert made.texts == ("In 1899 work began and in 1934 the tower was finished.",)
    bare = workshop(documents=(Document("d1", "No number, version v2 aside."),))
    assert NumericTampering().craft(OTHER, ["x"], bare, rng()).texts == ()


def test_the_rings_template_and_format_only():
    template = AuthorityTemplate().craft(TARGET, PAYLOADS[:2], workshop(), rng())
    assert all(text.startswith(f"{QUESTION}. Official") for text in template.texts)
    bare = FormatOnly().craft(TARGET, PAYLOADS, workshop(), rng())
    assert bare.texts == PAYLOADS
    assert all(text.startswith(t) for t, text in zip(bare.titles, bare.texts, strict=True))
    assert not any(asks_verbatim(text, QUESTION) for text in bare.texts)


def test_bm25_by_hand():
    index = Bm25(["a a b", "b c", "d"])
    rare = np.log(1 + (3 - 1 + 0.5) / 1.5)
    norm = 1.5 * (0.25 + 0.75 * 3 / 2)
    assert index.scores("A x")[0] == pytest.approx(rare * 2 * 2.5 / (2 + norm))
    assert index.scores("a").tolist()[1:] == [0, 0]
    assert index.scores("b")[1] > index.scores("b")[0] > 0
    assert Bm25([]).scores("a").shape == (0,)


def test_camodocs_spreads_real_documents_around_whole_payloads():
    shop = workshop(texts=PAYLOADS)
    config = CamoConfig(iterations=6, candidates=12, kept=4)
    made = CamoDocs(config).craft(TARGET, PAYLOADS[:3], shop, rng())
    assert len(made.texts) == 3
    assert made.reduced
    assert made.attack == "CamoDocs-reduced"
    assert all(f" {payload} " in text for text, payload in zip(made.texts, PAYLOADS, strict=False))
    assert all(holds for _, holds in made.faithfulness.checks)
    assert made.texts == CamoDocs(config).craft(TARGET, PAYLOADS[:3], shop, rng()).texts
    assert not CamoConfig().reduced
    assert camodocs.REDUCED.reduced


def test_camodocs_carriers_hold_no_answer():
    from ragsieve.records import Document

    documents = (
        Document("d1", "the iron bridge over the river was designed by Abraham Darby long ago"),
        Document("d2", "an iron bridge over a river needs paint every few years or so"),
    )
    shop = workshop(documents=documents, texts=PAYLOADS)
    made = CamoDocs(CamoConfig(iterations=1, candidates=2, kept=1)).craft(
        TARGET, PAYLOADS, shop, rng()
    )
    assert len(made.texts) == 1
    assert "Darby" not in made.texts[0]


def test_camodocs_asks_the_language_model():
    odd = FakeCausalScorer(surprising=["orchard", "survey"])
    shop = workshop(texts=PAYLOADS, causal=odd)
    config = CamoConfig(iterations=3, candidates=12, kept=4)
    CamoDocs(config).craft(TARGET, PAYLOADS[:1], shop, rng())
    assert any(len(call) == 12 for call in odd.calls)


def test_dispersion_and_its_gradient():
    generator = np.random.default_rng(2)
    rows = generator.normal(size=(5, 4))
    step = 1e-6
    slope = camodocs._ascent(rows, 2)
    for axis in range(4):
        moved = rows.copy()
        moved[2, axis] += step
        assert (dispersion(moved) - dispersion(rows)) / step == pytest.approx(slope[axis], abs=1e-4)


def test_choices_stay_apart():
    generator = np.random.default_rng(4)
    rows = generator.normal(size=(40, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    scores = generator.random(40)
    open_to = [row for row in range(40) if row % 3]
    for choose in (best_first, farthest_first):
        chosen = choose(rows, scores, open_to, 4, below=0.5)
        assert chosen[0] == max(open_to, key=lambda row: scores[row])
        assert set(chosen) <= set(open_to)
        assert (rows[chosen] @ rows[chosen].T - 2 * np.eye(len(chosen))).max() < 0.5
        assert choose(rows, scores, open_to, 0, below=0.5) == []
        assert choose(rows, scores, [], 3, below=0.5) == []
        assert len(choose(rows, scores, open_to, 4, below=-1.0)) == 1
    assert len(farthest_first(rows, scores, open_to, 40, below=0.3)) >= 3
