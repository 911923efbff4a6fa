"""Whether a quicker way to ask the models changes a decision, on many rankings of real passages.

    python benchmarks/model_precision.py --bench DIR [--rankings 1000] [--passages 800]
        [--speeds N] [--models-dir DIR] [--json]

Four ways to decide profile ``paper`` are compared, with the embedded models:

- *plain*: ``plain_query.py`` on losses and states of ``plain_models.py``, one text at a time;
- *full* and *decision* mode in float32, as the package asks the models;
- *bfloat16*: decision mode with the language model in bfloat16.

What a screen could save is counted too: had bfloat16 answered first, with three times the largest
difference seen as its margin, so many candidates would still need float32.

A pool of ``--passages`` texts (five parts of the corpus, three of planted documents, one part
for each attack) is read once by each model. A ranking is one question over its own random half of
the pool, by the cosines of the embedded retriever, so that many rankings cost few passages.

``--speeds N`` also times the models on N passages: seconds of processor time, one thread is
advised. The program fails when full mode or decision mode decides otherwise than the plain side.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import plain_query as plain
from bench import ATTACKS, embedded, load_bench, published_documents
from plain_models import PlainModels
from query_models import Answers, embedded_models
from ragsieve.backends.batches import tokenize
from ragsieve.backends.causal import HubCausalScorer
from ragsieve.backends.installed import model_path
from ragsieve.backends.loading import LoadOptions, ModelSource
from ragsieve.backends.presets import EMBEDDED_CAUSAL
from ragsieve.detectors.paper_query import ANSWER_ANCHOR, SCRIPT_INTEGRITY
from ragsieve.detectors.query import QueryDetector
from ragsieve.evidence.alignment import LEVEL
from ragsieve.evidence.surprisal import surprisal_evidence
from ragsieve.evidence.tails import excess_evidence
from ragsieve.lab.datasets import read_attacks
from ragsieve.outcomes import Ruling
from ragsieve.ports import CausalScorer
from ragsieve.records import Document, Query, Ranking, Verdict
from ragsieve.retrieval import rank
from ragsieve.settings import load_settings

DOCUMENT_TOKENS, QUERY_TOKENS = 256, 64
TIMES_LARGEST = 3.0
"""Margin of a screen, in largest differences seen."""


@dataclasses.dataclass(frozen=True, slots=True)
class Speed:
    """One way to ask the language model; tokens a second of processor time."""

    way: str
    tokens_per_second: float


@dataclasses.dataclass(frozen=True, slots=True)
class Precision:
    """The whole run.

    :param full_different: decisions of full mode other than the plain side's, of ``decisions``.
    :param decision_different: of decision mode.
    :param bfloat16_different: with the language model in bfloat16 alone.
    :param losses_mean: mean difference of a loss between bfloat16 and float32, in nats.
    :param evidence_largest: largest difference of a passage's surprisal evidence.
    :param evidence_p999: the same, its 99.9th percentile.
    :param screen_open: seats whose decision bfloat16 with that margin leaves open.
    :param float32_largest: between the plain side and the package, both in float32.
    """

    rankings: int
    passages: int
    candidates: int
    tokens: int
    decisions: int
    full_different: int
    decision_different: int
    bfloat16_different: int
    losses_mean: float
    losses_largest: float
    evidence_largest: float
    evidence_p999: float
    float32_largest: float
    screen_margin: float
    screen_open: int
    speeds: tuple[Speed, ...]


def pool(options: argparse.Namespace) -> tuple[list[Query], list[Document], np.ndarray, np.ndarray]:
    """Questions and passages with their vectors."""
    bench = load_bench(options)
    rng = np.random.default_rng(0)
    part = options.passages // (5 + len(ATTACKS))
    rows = rng.permutation(len(bench.corpus))[: options.passages - part * len(ATTACKS)]
    documents, vectors = [bench.corpus[row] for row in rows], [bench.rows[rows]]
    queries = list(bench.queries())
    for attack in ATTACKS:
        targets = read_attacks(bench.folder / "attacks" / f"{attack}.jsonl")
        planted = [(one, document) for one in targets for document in published_documents(one)]
        planted = planted[:part]
        asked = {one.query_id: Query(one.query_id, one.query) for one, _ in planted}
        # Attacked questions come first: they are asked more often than the others.
        queries = [*asked.values(), *queries]
        own = [document for _, document in planted]
        documents += own
        vectors.append(embedded(bench.embedder, own, bench.cache))
    queries = list({query.text: query for query in queries}.values())
    return queries, documents, bench.asked(queries), np.concatenate(vectors)


def drawn(options: argparse.Namespace) -> list[Ranking]:
    """One question each over a random half of the pool."""
    queries, documents, asked, vectors = pool(options)
    rng = np.random.default_rng(1)
    found = []
    for number in range(options.rankings):
        place = number % len(queries)
        half = rng.permutation(len(documents))[: len(documents) // 2]
        half.sort()
        own = [documents[row] for row in half]
        (one,) = rank([queries[place]], own, asked[[place]], vectors[half], depth=plain.PAPER_DEPTH)
        found.append(one)
    return found


def scorer(models_dir: Path | None, dtype: str, batch_tokens: int | None = None) -> HubCausalScorer:
    """The embedded language model on the CPU, without a memory."""
    folder = model_path(load_settings(models_dir=models_dir).models_dir, EMBEDDED_CAUSAL.model)
    options = LoadOptions(device="cpu", dtype=dtype)
    return HubCausalScorer(ModelSource(str(folder)), options=options, batch_tokens=batch_tokens)


def plain_flags(ranking: Ranking, answers: Answers) -> list[bool]:
    """The plain rule; inner products of token states by numpy, or this would take hours."""
    texts = [document.content for document in ranking.documents]
    states = [one.astype(np.float64) for one in answers.states(texts, max_tokens=DOCUMENT_TOKENS)]
    (asked,) = answers.states([ranking.query], max_tokens=QUERY_TOKENS)
    losses = answers.losses(texts[: plain.CANDIDATES])
    verdicts = plain.judge_paper(
        ranking.query,
        texts,
        [one.astype(np.float64).tolist() for one in losses],
        states,
        asked.astype(np.float64),
        np.dot,
    )
    return [one.flagged for one in verdicts]


def flags(judged: Sequence[Sequence[Ruling]]) -> list[bool]:
    """Of every candidate."""
    return [one.flagged for own in judged for one in own]


def differing(one: Sequence[bool], other: Sequence[bool]) -> int:
    """How many differ, place by place."""
    return sum(a != b for a, b in zip(one, other, strict=True))


def compared(options: argparse.Namespace, note: Callable[[str], None]) -> Precision:
    """Judge all rankings in every way."""
    rankings = drawn(options)
    texts = list(
        dict.fromkeys(
            document.content
            for ranking in rankings
            for document in ranking.documents[: plain.CANDIDATES]
        )
    )
    plainly = Answers(PlainModels(options.models_dir), PlainModels(options.models_dir))
    exact = Answers(*embedded_models(options.models_dir))
    rough = Answers(scorer(options.models_dir, "bfloat16"), exact)
    for name, answers in (("plain", plainly), ("float32", exact), ("bfloat16", rough)):
        start = time.perf_counter()
        answers.losses(texts)
        note(f"{name}: {len(texts)} passages in {time.perf_counter() - start:.0f} s")
    expected = [flag for ranking in rankings for flag in plain_flags(ranking, plainly)]
    note("judged plainly")
    verdicts = QueryDetector("paper", causal=exact, encoder=exact).score_many(rankings)
    full = [one.flagged for own in verdicts for one in own]
    decision = flags(QueryDetector("paper", causal=exact, encoder=exact).decide_many(rankings))
    alone = flags(QueryDetector("paper", causal=rough, encoder=exact).decide_many(rankings))
    pairs = list(zip(plainly.losses(texts), exact.losses(texts), rough.losses(texts), strict=True))
    moved = np.concatenate([abs(quick - own) for _, own, quick in pairs])
    evidence = np.array(
        [[surprisal_evidence(trace).evidence for trace in traces] for traces in pairs]
    )
    largest = float(abs(evidence[:, 2] - evidence[:, 1]).max())
    return Precision(
        rankings=len(rankings),
        passages=options.passages,
        candidates=len(texts),
        tokens=int(moved.size),
        decisions=len(full),
        full_different=differing(full, expected),
        decision_different=differing(decision, expected),
        bfloat16_different=differing(alone, full),
        losses_mean=float(moved.mean()),
        losses_largest=float(moved.max()),
        evidence_largest=largest,
        evidence_p999=float(np.quantile(abs(evidence[:, 2] - evidence[:, 1]), 0.999)),
        float32_largest=float(abs(evidence[:, 0] - evidence[:, 1]).max()),
        screen_margin=TIMES_LARGEST * largest,
        screen_open=left_open(
            verdicts,
            rankings,
            dict(zip(texts, evidence[:, 2], strict=True)),
            TIMES_LARGEST * largest,
        ),
        speeds=speeds(options, texts[: options.speeds]) if options.speeds else (),
    )


def left_open(
    verdicts: Sequence[Sequence[Verdict]],
    rankings: Sequence[Ranking],
    rough: Mapping[str, float],
    margin: float,
) -> int:
    """Candidates that need the language model and whose decision its bounds leave open.

    :param rough: a screen's surprisal evidence, by text.
    """
    left = 0
    for ranking, own in zip(rankings, verdicts, strict=True):
        aligned = excess_evidence(0.5 / (len(ranking) - len(own) + 1), LEVEL)
        for document, verdict in zip(ranking.documents, own, strict=False):
            cheap = sum(
                one.value or 0.0
                for one in verdict.evidences
                if one.name in {ANSWER_ANCHOR, SCRIPT_INTEGRITY}
            )
            value = rough[document.content]
            sure = cheap + max(0.0, value - margin) >= 1.0
            left += cheap < 1.0 <= cheap + value + margin + aligned and not sure
    return left


def speeds(options: argparse.Namespace, texts: Sequence[str]) -> tuple[Speed, ...]:
    """The language model in several ways, in turns, medians of three."""
    folder = model_path(
        load_settings(models_dir=options.models_dir).models_dir, EMBEDDED_CAUSAL.model
    )
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    tokens = sum(map(len, tokenize(tokenizer, texts, max_tokens=EMBEDDED_CAUSAL.max_tokens)))
    ways: dict[str, CausalScorer] = {"plain, float32": PlainModels(options.models_dir)}
    for dtype in ("float32", "bfloat16"):
        for budget in (256, 512, 2048):
            ways[f"batches of {budget}, {dtype}"] = scorer(options.models_dir, dtype, budget)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(4):
        for way, model in ways.items():
            start = time.process_time()
            model.losses(texts)
            if turn:  # the first loads the model
                seconds[way].append(time.process_time() - start)
    return tuple(Speed(way, tokens / float(np.median(own))) for way, own in seconds.items())


def show(found: Precision) -> None:
    """Print the tables."""
    print(
        f"{found.rankings} rankings, {found.decisions} decisions; {found.candidates} different "
        f"candidates of {found.passages} passages, {found.tokens} losses\n"
        f"differ from the plain side: full mode {found.full_different}, decision mode "
        f"{found.decision_different} (evidence moves by {found.float32_largest:.1e} at most)\n"
        f"bfloat16 alone: {found.bfloat16_different} differ from float32; losses move by "
        f"{found.losses_mean:.3f} nats on average, {found.losses_largest:.2f} at most; evidence "
        f"by {found.evidence_largest:.4f} at most, {found.evidence_p999:.4f} for 99.9%"
    )
    print(
        f"a screen of margin {found.screen_margin:.3f} would leave {found.screen_open} of "
        f"{found.decisions} seats to float32"
    )
    for speed in found.speeds:
        print(f"{speed.way}: {speed.tokens_per_second:.0f} tokens a second")


def main() -> None:
    parser = argparse.ArgumentParser(description="Decisions with the embedded models.")
    parser.add_argument("--bench", type=Path, required=True, help="folder of the set")
    parser.add_argument("--rankings", type=int, default=1000)
    parser.add_argument("--passages", type=int, default=800)
    parser.add_argument("--speeds", type=int, default=0, help="passages to time")
    parser.add_argument("--models-dir", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/benchmarks"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.encoder = "embedded"
    found = compared(options, lambda line: print(line, file=sys.stderr))
    if options.json:
        print(json.dumps(dataclasses.asdict(found), indent=1))
    else:
        show(found)
    if found.full_different or found.decision_different:
        sys.exit("decisions differ")


if __name__ == "__main__":
    main()
