"""What a ranking costs with its features in memory, in the store, and nowhere.

    python benchmarks/feature_store.py [--texts N] [--others N] [--repeats N] [--models-dir DIR]

Texts are the beginnings of numpy's docstrings (600 characters). Losses and token states come from
the embedded models in float32; the store holds those of N texts and, so that it is not a toy, the
losses of as many other texts as said. A ranking is 25 of the N, drawn anew for every repeat. *In
memory* is the layer in front of the store, *in the store* a store opened anew (its file is in the
system's cache, as that of a running service is), *nowhere* the models themselves, once. Reading a
text without a model is compared in the same way. Medians; the arrays of one ranking are compared
with those the models give.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ragsieve.backends.memo import MemoCausalScorer, MemoTokenEncoder
from ragsieve.featurestore.models import LOSSES, StoredCausalScorer, StoredTokenEncoder
from ragsieve.featurestore.reader import StoredReader
from ragsieve.featurestore.records import Space
from ragsieve.featurestore.store import FeatureStore
from ragsieve.featurestore.texts import DefaultReading, PaperReading
from ragsieve.ports import CausalScorer, TokenEncoder
from ragsieve.settings import load_settings

RANKING, CHARACTERS, TOKENS = 25, 600, 256
SEED = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--others", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--models-dir", type=Path)
    chosen = parser.parse_args()
    texts = docstrings(chosen.texts)
    scorer, encoder = models(chosen.models_dir)
    draw = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.sqlite"
        started = time.perf_counter()
        with FeatureStore(path) as store:
            fill(store, chosen.others)
            for one in stored(store, scorer, encoder):
                one.ensure(texts)
        seconds = time.perf_counter() - started
        rankings = [
            [texts[row] for row in draw.choice(len(texts), RANKING, replace=False)]
            for _ in range(chosen.repeats)
        ]
        rows = measure(path, rankings, scorer, encoder)
        size = path.stat().st_size / 1e6
    print(
        f"{len(texts)} texts and {chosen.others:,} others, {size:.0f} MB, built in {seconds:.0f} s\n"
    )
    print(f"| {RANKING} texts, ms | in memory | in the store | nowhere |\n|---|---|---|---|")
    for name, times in rows.items():
        print(f"| {name} | " + " | ".join(f"{1000 * one:.2f}" for one in times) + " |")


def docstrings(count: int) -> list[str]:
    found = (inspect.getdoc(getattr(np, name)) or "" for name in sorted(vars(np)))
    return list(dict.fromkeys(text[:CHARACTERS] for text in found if len(text) > CHARACTERS))[
        :count
    ]


def models(models_dir: Path | None) -> tuple[CausalScorer, TokenEncoder]:
    from ragsieve import assembly

    settings = load_settings(profile="paper", models_dir=models_dir)
    scorer, encoder = assembly._hub_scorer(settings), assembly._hub_encoder(settings)
    if scorer is None or encoder is None:
        raise SystemExit("the embedded models are not here; run `ragsieve models pull`")
    return scorer, encoder


def fill(store: FeatureStore, count: int) -> None:
    space, value = Space(LOSSES, "others"), bytes(600)
    store.keep(space, dict.fromkeys(space.keys([str(row) for row in range(count)]), value))


def stored(store: FeatureStore, scorer: CausalScorer, encoder: TokenEncoder):
    return (
        StoredCausalScorer(scorer, store),
        StoredTokenEncoder(encoder, store, document_tokens=TOKENS),
        StoredReader(PaperReading(), store),
        StoredReader(DefaultReading(600), store),
    )


def measure(
    path: Path, rankings: list[list[str]], scorer: CausalScorer, encoder: TokenEncoder
) -> dict[str, tuple[float, float, float]]:
    def losses(one, texts):
        return one.losses(texts)

    def states(one, texts):
        return one.states(texts, max_tokens=TOKENS)

    def read(one, texts):
        return one.read(texts)

    fresh, paper, default = FeatureStore(path), PaperReading(), DefaultReading(600)
    kept_scorer, kept_encoder, kept_paper, kept_default = stored(fresh, scorer, encoder)
    found = {}
    for name, ask, plain, kept, front in (
        ("losses", losses, scorer, kept_scorer, MemoCausalScorer(kept_scorer)),
        ("token states", states, encoder, kept_encoder, MemoTokenEncoder(kept_encoder)),
        ("words and scripts (paper)", read, paper, None, kept_paper),
        ("tokens and words (default)", read, default, None, kept_default),
    ):
        nowhere = timed(rankings[:1], lambda texts, a=ask, m=plain: a(m, texts))
        if kept is None:
            reading = plain
            from_store = timed(
                rankings,
                lambda texts, r=reading: StoredReader(r, fresh).read(texts),
            )
        else:
            from_store = timed(rankings, lambda texts, a=ask, m=kept: a(m, texts))
            compare(ask(kept, rankings[0]), ask(plain, rankings[0]), name)
        for texts in rankings:
            ask(front, texts)
        in_memory = timed(rankings, lambda texts, a=ask, m=front: a(m, texts))
        found[name] = (in_memory, from_store, nowhere)
    if fresh.report().misses:
        raise SystemExit("something was not in the store")
    return found


def compare(kept: list[np.ndarray], plain: list[np.ndarray], name: str) -> None:
    # A model itself differs in the last bits between batches of different padding.
    worst = max(float(np.abs(one - two).max()) for one, two in zip(kept, plain, strict=True))
    if worst > 1e-3:
        raise SystemExit(f"{name}: stored and computed values differ by {worst}")


def timed(rankings: list[list[str]], action: Callable[[list[str]], object]) -> float:
    times = []
    for texts in rankings:
        started = time.perf_counter()
        action(texts)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


if __name__ == "__main__":
    main()
