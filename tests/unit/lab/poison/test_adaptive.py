import dataclasses

import numpy as np
import pytest

from ragsieve.errors import ConfigError
from ragsieve.evidence.density import EDGE_COSINE
from ragsieve.evidence.scripts import script_profile
from ragsieve.evidence.tokens import jaccard, paper_word_set
from ragsieve.lab.poison._texts import asks_verbatim, contains
from ragsieve.lab.poison.adaptive_corpus import ChoiceConfig, decoys_needed
from ragsieve.lab.poison.adaptive_query import aliases
from ragsieve.lab.poison.adaptive_rings import Fraction, fraction_sweep
from ragsieve.lab.poison.own_scores import Judge
from ragsieve.lab.poison.payloads import payloads_for
from ragsieve.lab.poison.registry import construction
from ragsieve.testing import FakeCausalScorer
from unit.lab.poison.fakes import QUESTION, TARGET, TARGETS, workshop

PAYLOADS = payloads_for(TARGET, 5, np.random.default_rng(1)).texts
CHOICES = ("R1", "R2", "R3", "R4", "R5", "R6", "R7", "R9", "R10", "R11", "T1", "T2", "T3")


def crafted(name, target=TARGET, payloads=PAYLOADS, **arguments):
    shop = workshop(causal=arguments.pop("causal", FakeCausalScorer()), **arguments)
    return construction(name).craft(target, payloads, shop, np.random.default_rng(0))


def closest(texts):
    rows = workshop().embedder.embed_documents(texts)
    return (rows @ rows.T - 2 * np.eye(len(rows))).max()


@pytest.mark.parametrize("name", CHOICES)
def test_every_variant_is_seeded_bounded_and_named(name):
    made = crafted(name)
    assert made.attack == name
    assert 1 <= len(made.texts) <= len(PAYLOADS)
    assert made.texts == crafted(name).texts
    assert made.faithfulness.checks
    assert len(set(made.texts)) == len(made.texts)
    assert crafted(name, payloads=()).texts == ()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.query.id)
def test_r1_ends_below_the_edge(target):
    payloads = payloads_for(target, 5, np.random.default_rng(2)).texts
    made = crafted("R1", target, payloads)
    assert len(made.texts) > 1
    assert closest(made.texts) < EDGE_COSINE
    assert dict(made.faithfulness.checks)["siblings below the edge"]
    assert dict(made.faithfulness.checks)["all above the clean floor"]


def test_r2_pairs_are_near_copies():
    sets = [paper_word_set(text) for text in crafted("R2").texts]
    assert len(sets) == 5
    assert min(jaccard(a, b) for a in sets for b in sets) > 0.6


def test_r3_writes_two_at_most():
    made = crafted("R3")
    assert len(made.texts) == 2
    assert closest(made.texts) < EDGE_COSINE
    assert len(crafted("R3", payloads=PAYLOADS[:1]).texts) == 1


def test_r4_sits_where_documents_are():
    rows = workshop().rows

    def background(texts):
        near = np.sort(workshop().embedder.embed_documents(texts) @ rows.T, axis=1)[:, -16]
        return near.mean()

    assert background(crafted("R4").texts) > background(crafted("R1").texts)


def test_r5_decoys_are_flagged_by_script_and_hold_no_lie():
    made = crafted("R5")
    assert made.texts[0].startswith(QUESTION)
    for decoy in made.texts[1:]:
        assert script_profile(decoy).violates_integrity
        assert not contains(decoy, TARGET.target_answer)
    assert decoys_needed(1_000, 10) == 6
    added = 10 * decoys_needed(1_000, 10)
    assert added / (1_000 + 10 + added) >= 0.05
    with pytest.raises(ConfigError):
        decoys_needed(100, 0)


def test_r6_spreads_names_and_words():
    made = crafted("R6")
    assert aliases("Thomas Telford") == ("Thomas Telford", "Telford", "T. Telford", "Thomas")
    assert aliases("1934") == ("1934",)
    assert sum(contains(text, "Thomas Telford") for text in made.texts) < len(made.texts)
    sets = [paper_word_set(text) for text in made.texts]
    plain = [paper_word_set(text) for text in crafted("T3").texts]

    def shared(found):
        return np.mean([jaccard(a, b) for i, a in enumerate(found) for b in found[:i]])

    assert shared(sets) < shared(plain)


def test_r7_takes_as_many_as_it_may():
    payloads = payloads_for(TARGET, 15, np.random.default_rng(1)).texts
    made = crafted("R7", payloads=payloads)
    assert len(made.texts) == 15
    assert dict(made.faithfulness.checks)["reaches into the tail"]


def test_r9_needs_and_obeys_the_language_model():
    made = crafted("R9", causal=FakeCausalScorer())
    assert dict(made.faithfulness.checks)["below both gates"]
    with pytest.raises(ConfigError, match="R9: expected a causal language model"):
        crafted("R9", causal=None)


def test_r10_and_r11_never_ask():
    for name in ("R10", "R11"):
        assert not any(asks_verbatim(text, QUESTION) for text in crafted(name).texts)
    words = crafted("R10").texts[0].split()
    assert words[0] == "designed"
    assert "designed iron" not in " ".join(words)
    assert {"iron", "bridge", "river"} <= set(words)


def test_r11_lowers_the_own_scores():
    shop = workshop()
    question = shop.embedder.embed_queries([QUESTION])[0]

    def worst(texts):
        rows = shop.embedder.embed_documents(texts)
        return Judge().scores(TARGET, texts, rows, question, shop).worst

    evading = crafted("R11", causal=None)
    assert len(evading.texts) <= 2
    assert worst(evading.texts) < worst(crafted("T3").texts)
    assert dict(evading.faithfulness.checks)["siblings below the edge"]


def test_t2_sweeps_shares():
    sweep = fraction_sweep()
    assert [one.name for one in sweep] == ["T2", "T2-0.4", "T2-0.6", "T2-0.8", "T2-1"]
    sizes = [
        len(one.craft(TARGET, PAYLOADS, workshop(), np.random.default_rng(0)).texts)
        for one in sweep
    ]
    assert sizes == [1, 2, 3, 4, 5]
    assert len({one.fingerprint() for one in sweep}) == 5
    with pytest.raises(ConfigError):
        Fraction(0.0)


def test_t3_borrows_an_origin():
    made = crafted("T3")
    shop = workshop()
    question = shop.embedder.embed_queries([QUESTION])[0]
    nearest = shop.dataset.documents[int(np.argmax(shop.rows @ question))]
    assert made.origins == (nearest.provenance,) * 5


def test_configuration_changes_the_fingerprint():
    rule = construction("R1")
    other = type(rule)(dataclasses.replace(ChoiceConfig(), margin=0.2))
    assert rule.fingerprint() == construction("R1").fingerprint() != other.fingerprint()
    with pytest.raises(ConfigError):
        ChoiceConfig(most=0)
