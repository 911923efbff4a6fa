"""What the options of rings 1 and 2 do, with no model asked.

    python benchmarks/rings.py --bench DIR [--encoder light] [--json]

Ring 1: share of clean and of planted documents each option blocks, the centre fitted on the corpus.
Ring 2: for the first five of a retrieval 40 deep, planted documents left in the context, and contexts
that hold a correct answer word for word, over the clean index and with five documents a target
planted: as published (``pr_b``, ``natural``), or one payload five times (``copies``).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

import numpy as np

from bench import Bench, Poison, load_bench, shared_options
from ragsieve.chat.answers import names
from ragsieve.defense.pipeline import Pipeline
from ragsieve.lab.corpora.layouts import load
from ragsieve.records import Document, FloatArray
from ragsieve.retrieval import rank
from ragsieve.trishield.ingest_guard import IngestGuard, IngestGuardConfig
from ragsieve.trishield.retrieval_scorer import RetrievalScorer, RetrievalScorerConfig

DEPTH, CONTEXT = 40, 5
ATTACKS = ("pr_b", "natural", "pr_w_contriever")
GUARDS = {
    "default": IngestGuardConfig(),
    "outlier paper": IngestGuardConfig(outlier="paper"),
    "lexical paper-text": IngestGuardConfig(lexical="paper-text"),
}
SCORERS = {
    "none": None,
    "default": RetrievalScorerConfig(),
    "order trust, examined 10": RetrievalScorerConfig(order="trust", examined=10),
    "overlap, order trust, examined 10": RetrievalScorerConfig(
        consistency="overlap", order="trust", copies="equal", examined=10
    ),
    "released as published, examined 5": RetrievalScorerConfig(
        consistency="overlap", trust="released", order="trust", copies="equal", examined=5
    ),
    "released as published, examined 10": RetrievalScorerConfig(
        consistency="overlap", trust="released", order="trust", copies="equal", examined=10
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Contexts:
    """Over the targets: planted documents a context, contexts that hold a correct answer."""

    planted: float
    answered: float


def blocked(guard: IngestGuard, documents: Sequence[Document], rows: FloatArray) -> float:
    return float(np.mean([one.blocked for one in guard.assess_many(documents, rows)]))


def ring_one(bench: Bench, attacks: dict[str, tuple[Poison, ...]]) -> dict:
    found: dict = {}
    for name, config in GUARDS.items():
        guard = IngestGuard(config).fit(bench.rows)
        found[name] = {"clean": blocked(guard, bench.corpus, bench.rows)}
        for attack, poison in attacks.items():
            documents = [one for target in poison for one in target.documents]
            rows = np.concatenate([target.rows for target in poison])
            found[name][attack] = blocked(guard, documents, rows)
    return found


def contexts(
    bench: Bench,
    scorer: RetrievalScorerConfig | None,
    poison: Sequence[Poison],
    asked: FloatArray,
    planted: Sequence[tuple[tuple[Document, ...], FloatArray]],
    answers: Mapping[str, Sequence[str]],
) -> Contexts:
    stages = [] if scorer is None else [RetrievalScorer(scorer)]
    pipeline = Pipeline(stages, context_size=CONTEXT)
    left, held = [], []
    for place, one in enumerate(poison):
        documents, rows = planted[place]
        [ranking] = rank(
            [one.query], [*bench.corpus, *documents], asked[place : place + 1],
            np.concatenate([bench.rows, rows]), depth=DEPTH,
        )  # fmt: skip
        kept = [entry.document for entry in pipeline.run(ranking).kept]
        own = {document.id for document in documents}
        left.append(sum(document.id in own for document in kept))
        right = answers.get(one.query.id, ())
        held.append(any(names(document.content, word) for document in kept for word in right))
    return Contexts(float(np.mean(left)), float(np.mean(held)))


def ring_two(bench: Bench, attacks: dict[str, tuple[Poison, ...]]) -> dict:
    poison = attacks["natural"]
    loaded = load(bench.folder).attacks["natural"].targets
    answers = {one.query.id: one.correct_answers for one in loaded}
    asked = bench.asked([one.query for one in poison])
    nothing = [((), np.empty((0, bench.rows.shape[1])))] * len(poison)
    cases = {
        "clean": (poison, asked, nothing),
        "copies": (poison, asked, [copied(one) for one in poison]),
    }
    for name in ("pr_b", "natural"):
        own = attacks[name]
        cases[name] = (
            own, bench.asked([one.query for one in own]), [(one.documents, one.rows) for one in own]
        )  # fmt: skip
    return {
        name: {
            case: dataclasses.asdict(contexts(bench, scorer, *of_case, answers))
            for case, of_case in cases.items()
        }
        for name, scorer in SCORERS.items()
    }


def copied(one: Poison) -> tuple[tuple[Document, ...], FloatArray]:
    """The first planted document of a target five times, under ids of their own."""
    first = one.documents[0]
    documents = tuple(dataclasses.replace(first, id=f"{first.id}:{row}") for row in range(5))
    return documents, np.repeat(one.rows[:1], 5, axis=0)


def main() -> None:
    parser = shared_options(__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    bench = load_bench(options)
    attacks = {name: bench.poison(name, 5) for name in ATTACKS}
    result = {"ring 1, share blocked": ring_one(bench, attacks), "ring 2": ring_two(bench, attacks)}
    if options.json:
        print(json.dumps(result))
        return
    for name, shares in result["ring 1, share blocked"].items():
        print(f"ring 1, {name}: " + ", ".join(f"{key} {one:.3f}" for key, one in shares.items()))
    for name, cases in result["ring 2"].items():
        words = ", ".join(
            f"{case} {one['planted']:.2f} planted, {one['answered']:.3f} answered"
            for case, one in cases.items()
        )
        print(f"ring 2, {name}: {words}")


if __name__ == "__main__":
    main()
