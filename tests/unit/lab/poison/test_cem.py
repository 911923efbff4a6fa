import numpy as np
import pytest

from ragsieve.errors import ConfigError, InputError
from ragsieve.lab.poison.cem import REDUCED, Cem, CemConfig, scatter
from ragsieve.lab.poison.payloads import payloads_for
from unit.lab.poison.fakes import TARGET, workshop

PAYLOADS = payloads_for(TARGET, 3, np.random.default_rng(1)).texts
TINY = CemConfig(samples=40, iterations=6)


def crafted(config=TINY, *, scattered=False, seed=0, shop=None):
    shop = shop or workshop()
    return Cem(config, scattered=scattered).craft(
        TARGET, PAYLOADS, shop, np.random.default_rng(seed)
    )


@pytest.mark.parametrize(
    "payload", [*PAYLOADS, "one", "two words", " odd  spacing\nand a line ", ""]
)
def test_scattered_words_come_out_again(payload):
    words = "a b c d e f g h i j".split()
    made = scatter(payload, words)
    assert made.without_inserted() == payload
    inserted = [made.text[start:stop].strip() for start, stop in made.inserted]
    assert inserted == words
    assert scatter(payload, []).text == payload


def test_scattered_words_are_spread():
    made = scatter(" ".join(["w"] * 20), ["x"] * 10)
    assert "x x" not in made.text


def test_siblings_share_the_trigger_and_d_takes_that_of_c():
    contiguous, dispersed = crafted(), crafted(scattered=True)
    triggers = {" ".join(text.split()[:10]) for text in contiguous.texts}
    assert len(triggers) == 1
    trigger = triggers.pop()
    for text, payload in zip(contiguous.texts, PAYLOADS, strict=True):
        assert text == f"{trigger} {payload}"
    for text, payload in zip(dispersed.texts, PAYLOADS, strict=True):
        assert text == scatter(payload, trigger.split()).text
    assert dict(dispersed.faithfulness.checks)["payload is left without the trigger"]
    assert dict(contiguous.faithfulness.checks)["trigger shared"]


def test_the_search_comes_closer_than_its_first_draw():
    early = crafted(CemConfig(samples=40, iterations=1))
    late = crafted(CemConfig(samples=200, iterations=12))
    assert late.faithfulness.similarity > early.faithfulness.similarity


def test_the_best_ever_seen_is_kept():
    values = [
        crafted(CemConfig(samples=40, iterations=t)).faithfulness.similarity for t in (1, 2, 4, 8)
    ]
    assert values == sorted(values)


def test_same_seed_same_texts():
    assert crafted(seed=3).texts == crafted(seed=3).texts
    assert crafted(seed=3).texts != crafted(seed=4).texts


def test_a_smaller_budget_is_declared_in_flag_and_name():
    assert not CemConfig().reduced
    assert Cem().name == "CEM-C"
    assert Cem(scattered=True).name == "CEM-D"
    for smaller in (TINY, REDUCED, CemConfig(length=9), CemConfig(averaged=1)):
        assert smaller.reduced
    made = crafted()
    assert made.reduced
    assert made.attack == "CEM-C-reduced"


def test_a_shortlist_holds_the_words_nearest_to_the_question():
    shop = workshop()
    config = CemConfig(samples=60, iterations=4, shortlist=6, averaged=1)
    text = crafted(config, shop=shop).texts[0]
    words = Cem(config)._pool(shop, __import__("ragsieve").lab.poison._finish.Meter())[0]
    near = (
        shop.embedder.embed_documents(words) @ shop.embedder.embed_queries([TARGET.query.text])[0]
    )
    nearest = {words[row] for row in np.argsort(-near)[:6]}
    assert set(text.split()[:10]) <= nearest


def test_without_a_vocabulary_the_corpus_gives_the_words():
    import dataclasses

    shop = dataclasses.replace(workshop(), gradients=None)
    words = {word.strip(".").lower() for d in shop.dataset.documents for word in d.text.split()}
    assert set(crafted(shop=shop).texts[0].split()[:10]) <= words
    with pytest.raises(InputError, match="expected words"):
        crafted(shop=dataclasses.replace(workshop(documents=()), gradients=None))


def test_impossible_constants():
    for bad in ({"samples": 0}, {"elite": 0.0}, {"smoothing": 1.5}, {"averaged": 0}):
        with pytest.raises(ConfigError):
            CemConfig(**bad)
