"""A plain double loop, written from the formulas alone, agrees with the product."""

from __future__ import annotations

import itertools
import math
import re
import unicodedata

import numpy as np
import pytest

from builders import clustered, documents, ranking, sentence
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.query import QueryDetector
from ragsieve.records import Decision

NAMES = "LATIN CYRILLIC ARABIC HEBREW DEVANAGARI BENGALI THAI ARMENIAN GEORGIAN GREEK".split()


def script(character):
    name = unicodedata.name(character, "")
    for one in NAMES:
        if one in name:
            return one
    return "EAST" if any(x in name for x in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")) else "OTHER"


def integrity(text):
    kinds = [script(c) if c.isalpha() else None for c in text]
    touching = any(a and b and a != b for a, b in itertools.pairwise(kinds))
    return float(touching or len({kind for kind in kinds if kind}) >= 3)


def minority(text):
    kinds = [script(c) for c in text if c.isalpha()]
    return 0.0 if not kinds else 1.0 - max(map(kinds.count, set(kinds))) / len(kinds)


def words(text):
    return set(re.findall(r"[a-z0-9]+", text.casefold()))


def oracle_scan(texts, embeddings, k=16):
    size = len(texts)
    unit = [
        row / math.sqrt(sum(x * x for x in row))
        for row in embeddings.tolist()
        for row in [np.array(row)]
    ]
    density = []
    for i in range(size):
        near = sorted(
            ((float(unit[i] @ unit[j]), j) for j in range(size) if j != i),
            key=lambda p: (-p[0], p[1]),
        )[:k]
        background = near[-1][0] if near else 0.0
        kept = []
        for similarity, j in near:
            a, b = words(texts[i]), words(texts[j])
            overlap = len(a & b) / len(a | b) if a | b else 0.0
            if similarity >= 0.85 and overlap <= 0.60:
                kept.append(similarity)
        if not kept:
            density.append(0.0)
            continue
        mean = sum(kept[:4]) / len(kept[:4])
        lift = (mean - background) / max(1e-6, 1 - background)
        density.append(min(1.0, len(kept) / 2) * min(1.0, max(0.0, lift)))
    marks = [integrity(text) for text in texts]
    budget = max(0.0, 0.05 - sum(marks) / size)
    scores = []
    for i in range(size):
        above = sum(np.float32(d) >= np.float32(density[i]) for d in density)
        scores.append(max(min(1.0, 0.5 * budget / (above / (size + 1))), marks[i]))
    return scores


def test_five_hundred_documents():
    texts, rows = clustered(np.random.default_rng(7), 500, clusters=40)
    texts[3] = ""
    scan = CorpusDetector("paper").scan(documents(texts), rows)
    expected = oracle_scan(texts, rows)
    assert scan.scores.tolist() == pytest.approx(expected, abs=1e-5)
    assert [d is Decision.FLAGGED for d in scan.decisions] == [score >= 0.5 for score in expected]
    assert len({round(score, 6) for score in expected}) > 20


@pytest.mark.parametrize("size", [1, 2, 5, 17])
def test_tiny_corpora(size):
    texts, rows = clustered(np.random.default_rng(size), size, clusters=1)
    scan = CorpusDetector("paper").scan(documents(texts), rows)
    assert scan.k_used == min(16, size - 1)
    assert scan.scores.tolist() == pytest.approx(oracle_scan(texts, rows), abs=1e-5)


def oracle_anchor(query, candidates, tail):
    everything = candidates + tail
    n, k = len(everything), len(candidates)
    sets = [words(text) - words(query) for text in everything]
    tested = {}
    for word in set().union(*sets[:k]):
        hits = sum(word in s for s in sets[:k])
        if hits < 2 or (len(word) < 3 and not word.isdigit()):
            continue
        total = sum(word in s for s in sets)
        ways = sum(
            math.comb(total, x) * math.comb(n - total, k - x)
            for x in range(hits, min(total, k) + 1)
        )
        tested[word] = ways / math.comb(n, k)
    evidence = []
    for own in sets[:k]:
        p = sorted(tested[word] for word in own if word in tested)
        combined = min([1.0, *(len(p) / rank * value for rank, value in enumerate(p, 1))])
        evidence.append(-math.log10(combined) / math.log10(math.comb(n, k)))
    return evidence


def oracle_script(candidates, tail):
    shares = [minority(text) for text in tail]
    evidence = []
    for text in candidates:
        v = minority(text)
        p = (0.5 + sum(s > v for s in shares) + 0.5 * sum(s == v for s in shares)) / (len(tail) + 1)
        evidence.append(-math.log10(p) / math.log10(2 * (len(tail) + 1)))
    return evidence


@pytest.mark.parametrize("seed", range(20))
def test_text_evidence_of_random_rankings(seed):
    rng = np.random.default_rng(seed)
    texts = [
        sentence(rng, int(rng.integers(1, 9))) + (" Привет 7" if rng.random() < 0.2 else "")
        for _ in range(20)
    ]
    verdicts = QueryDetector("paper").score(ranking(texts))
    anchors = oracle_anchor("who built the bridge", texts[:5], texts[5:])
    scripts = oracle_script(texts[:5], texts[5:])
    assert [v.evidences[0].value for v in verdicts] == pytest.approx(anchors, abs=1e-9)
    assert [v.evidences[1].value for v in verdicts] == pytest.approx(scripts, abs=1e-9)
