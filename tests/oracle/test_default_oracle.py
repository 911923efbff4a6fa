"""Plain loops, written from the formulas of profile default alone, agree with the product."""

from __future__ import annotations

import itertools
import math
import unicodedata

import numpy as np
import pytest

from builders import clustered, documents, ranking
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusConfig, DefaultCorpusRule
from ragsieve.detectors.default_query import DefaultQueryConfig, DefaultQueryRule
from ragsieve.detectors.query import QueryDetector
from ragsieve.records import Decision, DocumentFeatures, Surroundings

SCRIPTS = "LATIN CYRILLIC ARABIC HEBREW DEVANAGARI BENGALI THAI ARMENIAN GEORGIAN GREEK".split()
SINGLE = (
    "CJK UNIFIED IDEOGRAPH",
    "HIRAGANA LETTER",
    "KATAKANA LETTER",
    "HANGUL SYLLABLE",
)


def is_single(character):
    return unicodedata.name(character, "").startswith(SINGLE)


def is_inner(character):
    return unicodedata.category(character)[0] in "LNM" and not is_single(character)


def tokens(text):
    found, run = [], ""
    for character in text.casefold():
        if is_inner(character):
            run += character
            continue
        if run:
            found.append(run)
            run = ""
        if not character.isspace() and character != "_":
            found.append(character)
    return [*found, run] if run else found


def words(text):
    return {t for t in tokens(text) if any(unicodedata.category(c)[0] in "LN" for c in t)}


def is_copy(left, right):
    a, b = words(left), words(right)
    return bool(a and b) and len(a & b) / min(len(a), len(b)) > 0.9


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def quantile(values, share):
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def threshold(values, ceiling, spread, floor):
    below = [value for value in values if value < ceiling]
    if not below:
        return floor
    middle = quantile(below, 0.5)
    return max(floor, middle + spread * (quantile(below, 0.9) - middle))


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(x * x for x in b))


def gap(similarities, largest):
    """The largest gap and the group that makes it."""
    best, group = 0.0, 0
    for r in range(1, largest + 1):
        below = similarities[r : r + 8]
        if not below:
            break
        floor = median(below)
        mean = sum(similarities[:r]) / r
        value = (0.85 if r == 1 else 1.0) * (mean - floor) / max(1e-6, 1 - floor)
        if value > best + 1e-12 or not group:
            best, group = value, r
    return best, group


def run_ratio(flags, pi):
    n, total, best = len(flags), sum(flags), 0.0
    for w in (8, 10, 12, 16, 20, 24, 32):
        if w > n or w > max(12, n / 2):
            continue
        for start in range(n - w + 1):
            k = sum(flags[start : start + w])
            q = min(0.999, max(0.001, (total - k + 5 * pi) / (n - w + 5)))
            p = k / w
            if p > q:
                rest = (w - k) * math.log((1 - p) / (1 - q)) if k < w else 0.0
                best = max(best, k * math.log(p / q) + rest)
    return best


def script(character):
    name = unicodedata.name(character, "")
    for one in SCRIPTS:
        if one in name:
            return one
    return "EAST" if any(x in name for x in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")) else "OTHER"


def mixes(text):
    kinds = [script(c) if c.isalpha() else None for c in text]
    touching = any(a and b and a != b for a, b in itertools.pairwise(kinds))
    return touching or len({kind for kind in kinds if kind}) >= 3


def minority(text):
    kinds = [script(c) for c in text if c.isalpha()]
    return 0.0 if not kinds else 1.0 - max(map(kinds.count, set(kinds))) / len(kinds)


def oracle_scan(texts, rows):
    size = len(texts)
    read = [tokens(text)[:600] for text in texts]
    pairs = [set(itertools.pairwise(own)) for own in read]
    frequency = {}
    for own in read:
        for token in set(own):
            frequency[token] = frequency.get(token, 0) + 1
    glue = set(sorted(frequency, key=lambda token: (-frequency[token], token))[:100])
    gaps, flags = [], []
    for i in range(size):
        near = sorted(
            ((-cosine(rows[i], rows[j]), j) for j in range(size) if j != i),
        )[:24]
        kept = [-s for s, j in near if not is_copy(texts[i], texts[j])]
        gaps.append(gap(kept, 8)[0])
        excluded = {i, *(j for _, j in near[:8])}
        own = []
        for place, token in enumerate(read[i]):
            alien = token not in glue
            if alien and place:
                pair = (read[i][place - 1], token)
                alien = not any(pair in pairs[j] for j in range(size) if j not in excluded)
            own.append(alien)
        flags.append(own)
    total = sum(map(len, read))
    pi = sum(map(sum, flags)) / total if total else 0.0
    runs = [run_ratio(own, pi) for own in flags]
    t_g, t_l = threshold(gaps, 0.6, 2.0, 0.30), threshold(runs, 15, 2.75, 7.0)
    topology = [max(0.0, (g - t_g / 2) / (t_g / 2)) for g in gaps]
    alien = [max(0.0, (run - t_l / 2) / (t_l / 2)) for run in runs]
    mixing = [0.5 * mixes(text) for text in texts]
    scores = [math.sqrt(a * a + b * b + c * c) for a, b, c in zip(topology, alien, mixing)]  # noqa: B905
    return {
        "g": gaps, "l": runs, "t_g": t_g, "t_l": t_l,
        "topology": topology, "alien": alien, "mixing": mixing, "score": scores,
    }  # fmt: skip


def prose(rng, length, vocabulary=300):
    """Words of a skewed distribution, so that some are everyday words and most pairs are rare."""
    numbers = np.minimum(rng.zipf(1.35, size=length), vocabulary)
    return " ".join(f"w{number}" for number in numbers)


def noise(rng, length):
    return " ".join(f"q{rng.integers(10**6)}" for _ in range(length))


def corpus(rng, size, dimension=10):
    """Prose, stretches of noise, copies, foreign and empty texts over clustered embeddings."""
    _, rows = clustered(rng, size, dimension, clusters=max(1, size // 12), spread=0.3)
    # Only twins made here may coincide: cosines of unrelated documents then never tie.
    rows = rows + 0.05 * rng.normal(size=rows.shape)
    texts = [prose(rng, int(rng.integers(20, 90))) for _ in range(size)]
    odd = [
        "", "word", "...", "東京の天気は晴れです。", "안녕 서울", "Москва слово за слово",
        "pаypal привет Ωmega", "Straße ÄRGER İstanbul a_b", "नमस्ते दुनिया", " \n\t",
    ]  # fmt: skip
    for row in range(size):
        draw = rng.random()
        if draw < 0.08:
            texts[row] = odd[int(rng.integers(len(odd)))]
        elif draw < 0.16:
            texts[row] = f"{noise(rng, int(rng.integers(6, 20)))} {texts[row]}"
        elif draw < 0.26 and row:
            twin = int(rng.integers(row))
            texts[row], rows[row] = f"{texts[twin]} again", rows[twin]
    return texts, rows


def compare(texts, rows):
    rule = DefaultCorpusRule(DefaultCorpusConfig(scripts="paper"))
    scan = CorpusDetector(rule).scan(documents(texts), np.asarray(rows))
    expected = oracle_scan(texts, np.asarray(rows).tolist())
    statistics = scan.knowledge.statistics
    seen = {
        "g": scan.knowledge.gaps.gap.tolist(),
        "l": [run.ratio_nats for run in scan.knowledge.runs],
        "t_g": rule.gap_threshold(statistics),
        "t_l": rule.run_threshold(statistics),
        "topology": scan.column("neighbor_gap").values.tolist(),
        "alien": scan.column("alien_run").values.tolist(),
        "mixing": scan.column("script_mixing").values.tolist(),
        "score": scan.scores.tolist(),
    }
    for name, values in expected.items():
        assert seen[name] == pytest.approx(values, abs=1e-5), name
    flagged = [decision is Decision.FLAGGED for decision in scan.decisions]
    # A score on the threshold itself may fall to either side of it.
    for one, score in zip(flagged, expected["score"], strict=True):
        assert one == (score >= 1.0) or abs(score - 1.0) < 1e-5
    return expected


def test_three_hundred_documents():
    expected = compare(*corpus(np.random.default_rng(11), 300))
    assert len({round(value, 6) for value in expected["topology"]}) > 20
    assert len({round(value, 6) for value in expected["alien"]}) > 20
    assert sum(score >= 1 for score in expected["score"]) > 5
    assert expected["t_g"] > 0.30
    assert expected["t_l"] > 7.0


@pytest.mark.parametrize("seed", range(5))
def test_random_corpora(seed):
    rng = np.random.default_rng(seed)
    expected = compare(*corpus(rng, int(rng.integers(40, 90))))
    assert max(expected["topology"]) > 0
    assert max(expected["alien"]) > 0


@pytest.mark.parametrize("size", [1, 2, 5, 9, 25])
def test_tiny_corpora(size):
    expected = compare(*corpus(np.random.default_rng(100 + size), size))
    assert len(expected["score"]) == size


def test_the_tight_clusters_of_the_other_oracle():
    texts, rows = clustered(np.random.default_rng(4), 80, clusters=8)
    expected = compare(texts, rows)
    assert max(expected["topology"]) > 1
    # Twelve words in all: every token is an everyday one, so no text has an alien stretch.
    assert max(expected["l"][row] for row in range(80) if texts[row].isascii()) == 0


def test_texts_without_a_token():
    rows = np.random.default_rng(0).normal(size=(12, 5))
    expected = compare([""] * 6 + [" _ "] * 6, rows)
    assert expected["l"] == [0.0] * 12
    # Nothing is a copy of a text without words, so the topology still speaks.
    assert max(expected["g"]) > 0


def oracle_anchor(query, candidates, tail):
    k, n = len(candidates), len(candidates) + len(tail)
    sets = [words(text) - words(query) for text in candidates + tail]
    tested = {}
    for word in set().union(*sets[:k]):
        hits = sum(word in own for own in sets[:k])
        admitted = len(word) >= 3 or word.isdigit() or (len(word) == 1 and is_single(word))
        if hits >= 2 and admitted:
            total = sum(word in own for own in sets)
            ways = sum(
                math.comb(total, x) * math.comb(n - total, k - x)
                for x in range(hits, min(total, k) + 1)
            )
            tested[word] = ways / math.comb(n, k)
    evidence = []
    for own in sets[:k]:
        p = sorted(tested[word] for word in own if word in tested)
        combined = min([1.0, *(len(p) / rank * value for rank, value in enumerate(p, 1))])
        raw = math.log(combined) / math.log(1 / math.comb(n, k))
        evidence.append(min(1.5, max(0.0, (raw - 0.35) / 0.65)))
    return evidence


def longest_run(query, text):
    a, b = tokens(query), tokens(text)[:600]
    best = 0
    for i in range(len(a)):
        for j in range(len(b)):
            length = 0
            while i + length < len(a) and j + length < len(b) and a[i + length] == b[j + length]:
                length += 1
            best = max(best, length)
    return best


def asks(text):
    for character in text:
        if character in ".!?？؟":
            return character in "?？؟"
    return False


def oracle_query(query, texts, rows, runs, t_g, cap):
    """Evidences of the five candidates by name; ``rows`` is None without embeddings."""
    size = len(texts)
    g0, g1 = (0.55, 0.80) if t_g is None else (0.74 * t_g, 1.08 * t_g)
    copies = [{j for j in range(size) if j != i and is_copy(texts[i], texts[j])} for i in range(5)]
    siblings = set().union(*copies)
    # A group counts in full when at least half of those who could be at the top are.
    top, topology = siblings | set(range(5)), []
    for i in range(5 if rows is not None else 0):
        near = sorted(
            (-cosine(rows[i], rows[j]), j) for j in range(size) if j != i and j not in copies[i]
        )
        g, r = gap([-s for s, _ in near], 10)
        share = min(1, sum(j in top for _, j in near[:r]) / min(r, 4)) if r else 1
        topology.append(min(1, share / 0.5) * min(1.5, max(0.0, (g - g0) / (g1 - g0))))
        if g >= 0.4:
            siblings |= {j for s, j in near if s <= near[r - 1][0] + 1e-12}
    tail = [j for j in range(5, size) if j not in siblings]
    if len(tail) < 5:
        tail = list(range(5, size))
    phi = sum(asks(texts[j]) for j in tail[:15]) / len(tail[:15])
    free = max(4, *(longest_run(query, texts[j]) for j in tail))
    start = max(7, 1.5 * median([runs[j] for j in tail]))
    most = max(0.01, *(minority(texts[j]) for j in tail))
    unit = 0.4 * max(1, len(tokens(query)))
    return {
        "neighbor_gap": topology or [None] * 5,
        "answer_anchor": oracle_anchor(query, texts[:5], [texts[j] for j in tail[:15]]),
        "alien_run": [min(1.5, max(0, runs[i] - start) / 8) for i in range(5)],
        "query_copy": [
            max(0, min(cap, (longest_run(query, texts[i]) - free) / unit)) * (1 - phi)
            for i in range(5)
        ],
        "script_share": [0.5 if minority(texts[i]) > most else 0.0 for i in range(5)],
    }, tail


class Known:
    """Features by place, from arrays; a row of None has no embedding."""

    def __init__(self, rows, runs, t_g):
        self.rows, self.runs = rows, runs
        self.surroundings = Surroundings(t_g, None)

    def features(self, document_ids):
        places = [int(name.removeprefix("d")) - 1 for name in document_ids]
        return tuple(DocumentFeatures(self.rows[i], self.runs[i]) for i in places)


QUERY = "Which river crosses the old harbour town of W9, and where does it rise?"


def retrieved(rng, depth):
    """A ranking with a planted group at the top, copies and questions in the tail."""
    rows = rng.normal(size=(depth, 12)) + 1.0
    texts = [prose(rng, int(rng.integers(15, 60)), 120) for _ in range(depth)]
    runs = rng.uniform(0, 12, size=depth)
    group = int(rng.integers(1, 6))
    centre = rng.normal(size=12) + 1.0
    for i in range(group):
        rows[i] = centre + 0.25 * rng.normal(size=12)
        share = int(rng.integers(3, 14))
        texts[i] = f"{' '.join(QUERY.split()[:share])} {texts[i]} the answer is zanzibar 7 東京"
        runs[i] += rng.uniform(0, 25)
    for place in rng.choice(np.arange(5, depth), size=4, replace=False).tolist():
        twin = int(rng.integers(5))
        texts[place], rows[place] = texts[twin], rows[twin] + 0.02 * rng.normal(size=12)
    for place in range(depth):
        draw = rng.random()
        if draw < 0.15:
            texts[place] = f"Who knows? {texts[place]}"
        elif draw < 0.2:
            texts[place] += " Привет"
    return texts, rows, runs.tolist()


def judged(texts, rows, runs, t_g, mode="strict"):
    rule = DefaultQueryRule(DefaultQueryConfig(scripts="paper", query_copy=mode))
    detector = QueryDetector(rule, features=Known(rows, runs, t_g))
    return detector.score(ranking(texts, QUERY))


def agree(verdicts, expected):
    for name, values in expected.items():
        seen = [next(e.value for e in v.evidences if e.name == name) for v in verdicts]
        assert seen == (values if values[0] is None else pytest.approx(values, abs=1e-9)), name
    for i, verdict in enumerate(verdicts):
        measured = [values[i] for values in expected.values() if values[i] is not None]
        score = math.sqrt(sum(value * value for value in measured))
        assert verdict.score == pytest.approx(score, abs=1e-9)
        assert verdict.flagged == (score >= 1.0)


@pytest.mark.parametrize("depth", [40, 27, 20])
def test_random_rankings(depth):
    seen, shorter = set(), 0
    for seed in range(8):
        rng = np.random.default_rng(1000 * depth + seed)
        texts, rows, runs = retrieved(rng, depth)
        t_g = None if seed == 0 else float(rng.uniform(0.5, 0.9))
        mode, cap = ("strict", 1.2) if seed % 2 else ("faq-safe", 0.95)
        expected, tail = oracle_query(QUERY, texts, rows.tolist(), runs, t_g, cap)
        agree(judged(texts, rows, runs, t_g, mode), expected)
        seen |= {name for name, values in expected.items() if max(values) > 0}
        shorter += len(tail) < depth - 5
    # Otherwise these rankings would say little about the rule.
    assert len(seen) == 5
    assert shorter >= 4


def test_documents_behind_the_fortieth_are_not_looked_at():
    rng = np.random.default_rng(5)
    texts, rows, runs = retrieved(rng, 60)
    deep = judged(texts, rows, runs, 0.7)
    agree(deep, oracle_query(QUERY, texts[:40], rows[:40].tolist(), runs[:40], 0.7, 1.2)[0])
    assert deep[0].score > 0


def test_one_missing_embedding_leaves_the_gap_unavailable_and_the_rest_measured():
    rng = np.random.default_rng(6)
    texts, rows, runs = retrieved(rng, 40)
    known = [*rows[:30], None, *rows[31:]]
    verdicts = judged(texts, known, runs, 0.7)
    expected, _ = oracle_query(QUERY, texts, None, runs, 0.7, 1.2)
    agree(verdicts, expected)
    (reason,) = {v.evidences[0].reason for v in verdicts}
    assert "1 of 40 retrieved documents have no embedding" in reason


def test_fewer_than_five_left_give_the_whole_tail_back():
    rng = np.random.default_rng(7)
    texts, _, runs = retrieved(rng, 20)
    texts = [prose(rng, 40, 120) if place > 4 else text for place, text in enumerate(texts)]
    # Every pair is equally similar, so no document is a sibling through its gap.
    rows = np.eye(20) + 0.5
    for copies, left in ((10, 5), (11, 15)):
        texts[5 : 5 + copies] = [texts[0]] * copies
        expected, tail = oracle_query(QUERY, texts, rows.tolist(), runs, 0.7, 1.2)
        assert len(tail) == left
        agree(judged(texts, rows, runs, 0.7), expected)
