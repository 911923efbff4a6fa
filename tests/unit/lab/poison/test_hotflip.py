import numpy as np
import pytest

from ragsieve.errors import ConfigError
from ragsieve.evidence.scripts import script_profile
from ragsieve.lab.poison._finish import Meter
from ragsieve.lab.poison.hotflip import HotFlip, HotFlipConfig, banned_tokens, favoured, flip
from ragsieve.lab.poison.payloads import payloads_for
from unit.lab.poison.fakes import OTHER, QUESTION, TARGET, TARGETS, FakeGradientEncoder, workshop

PAYLOADS = payloads_for(TARGET, 3, np.random.default_rng(1)).texts
SMALL = HotFlipConfig(steps=40, candidates=5)


def search(seed=0, config=SMALL):
    shop = workshop(texts=PAYLOADS)
    encoder = shop.gradients
    goal = shop.embedder.embed_queries([QUESTION])[0]
    start, suffix = encoder.token_ids("stone market lantern"), encoder.token_ids(PAYLOADS[0])
    meter = Meter()
    rng = np.random.default_rng(seed)
    banned = banned_tokens(encoder)
    found = flip(encoder, start, suffix, goal, config, rng, banned=banned, meter=meter)
    return found, encoder, suffix, meter, goal


def test_similarity_never_falls_and_rises():
    found, encoder, suffix, _, goal = search()
    assert np.all(np.diff(found.trace) >= 0)
    assert found.trace[-1] > found.trace[0] + 0.1
    assert len(found.trace) == SMALL.steps + 1
    np.testing.assert_allclose(
        encoder.encode_ids([[*found.prefix, *suffix]])[0] @ goal, found.trace[-1]
    )


def test_every_evaluated_sequence_ends_with_the_payload_and_holds_nothing_banned():
    _, encoder, suffix, meter, _ = search()
    assert meter.encodes == len(encoder.encoded) > SMALL.candidates
    for ids in encoder.encoded:
        assert ids[3:] == suffix
        assert not {encoder.vocabulary[row] for row in ids} & {"[CLS]", "[SEP]", "[unused0]"}


def test_an_evaluated_place_is_not_evaluated_again_for_the_same_prefix():
    # At most one round of candidates a place and prefix: 3 places, 1 + improvements prefixes.
    found, _, _, meter, _ = search()
    prefixes = 1 + int((np.diff(found.trace) > 0).sum())
    assert meter.encodes <= 1 + 3 * prefixes * SMALL.candidates
    assert meter.gradients <= prefixes


def test_favoured_tokens_are_those_of_the_largest_product():
    encoder = FakeGradientEncoder(["a b c d e f"])
    slope = np.random.default_rng(3).normal(size=32)
    banned = banned_tokens(encoder)
    gains = {row: encoder.embeddings[row] @ slope for row in np.flatnonzero(~banned) if row != 4}
    expected = sorted(gains, key=lambda row: -gains[row])
    assert favoured(encoder, slope, 3, banned, 4) == expected[:3]
    assert favoured(encoder, slope, 99, banned, 4) == expected
    assert favoured(encoder, slope, 3, np.ones_like(banned), 4) == []


def test_what_is_banned():
    encoder = FakeGradientEncoder(["word слово [MASK] <extra_id_7> ## ▁ ["])
    banned = {t for t, b in zip(encoder.vocabulary, banned_tokens(encoder), strict=True) if b}
    assert banned == {"[CLS]", "[SEP]", "[unused0]", "[MASK]", "<extra_id_7>", "##", "▁"}
    latin = banned_tokens(encoder, script_of="plain words")
    assert latin[encoder.token_ids("слово")].all()
    assert not latin[encoder.token_ids("word [")].any()


def test_documents_are_prefix_and_payload_and_beat_the_plain_prefix():
    shop = workshop(texts=PAYLOADS)
    made = HotFlip(SMALL).craft(TARGET, PAYLOADS, shop, np.random.default_rng(0))
    assert made.reduced
    assert made.attack == "PR-W-reduced"
    assert all(text.endswith(f" {body}") for text, body in zip(made.texts, PAYLOADS, strict=True))
    assert dict(made.faithfulness.checks) == {
        "payload untouched": True,
        "prefix changed": True,
        "at least as similar as PR-B": True,
    }
    again = HotFlip(SMALL).craft(TARGET, PAYLOADS, shop, np.random.default_rng(0))
    assert again.texts == made.texts


def test_the_published_budget_is_not_called_reduced():
    assert not HotFlipConfig().reduced
    assert HotFlip().name == "PR-W"
    assert HotFlip(HotFlipConfig(candidates=99)).config.reduced


def test_one_script():
    payloads = payloads_for(TARGET, 2, np.random.default_rng(1)).texts
    shop = workshop(texts=[*payloads, "мост река кто железный построил над"])
    config = HotFlipConfig(steps=30, candidates=100, one_script=True)
    made = HotFlip(config, name="R8").craft(TARGET, payloads, shop, np.random.default_rng(0))
    assert made.attack == "R8"
    assert all(len(script_profile(text).counts) == 1 for text in made.texts)


def test_needs_the_gradients_of_the_retriever():
    import dataclasses

    shop = dataclasses.replace(workshop(), gradients=None)
    with pytest.raises(ConfigError, match="PR-W: expected an encoder with gradients"):
        HotFlip().craft(OTHER, PAYLOADS, shop, np.random.default_rng(0))

    class Wide(FakeGradientEncoder):
        def encode_ids(self, batch):
            return np.ones((len(batch), 7))

    wide = Wide([target.query.text for target in TARGETS])
    shop = dataclasses.replace(shop, gradients=wide)
    with pytest.raises(ConfigError, match="found an encoder of dimension 7"):
        HotFlip().craft(TARGET, PAYLOADS, shop, np.random.default_rng(0))
    with pytest.raises(ConfigError, match="at least 1"):
        HotFlipConfig(steps=0)
