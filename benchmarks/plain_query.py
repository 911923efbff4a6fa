"""The filter of retrievals written down plainly: loops, one character at a time, nothing remembered.

What ``query_cost.py`` measures the package against. Both profiles follow the published rule and
the documented departures of profile ``default`` in the order they are stated; no numpy, no sets
cut at once, no early end. Invisible characters are read by the package's own function, and the
remark on direct answers is left out, both in favour of this file.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Sequence

import regex

from ragsieve.evidence.hidden import hidden_text

Row = Sequence[float]
Words = Sequence[str]
Inner = Callable[[Row, Row], float]

CANDIDATES = 5
PAPER_DEPTH, DEFAULT_DEPTH = 20, 40

NAMED = ("LATIN", "CYRILLIC", "ARABIC", "HEBREW", "DEVANAGARI", "BENGALI",
         "THAI", "ARMENIAN", "GEORGIAN", "GREEK")  # fmt: skip
EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")

SINGLE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}"
TOKEN = regex.compile(rf"[{SINGLE}]|[[\p{{L}}\p{{N}}\p{{M}}]--[{SINGLE}]]+|[^\s_]", regex.VERSION1)
MERGED = ("Han", "Hiragana", "Katakana", "Bopomofo", "Hangul")
SCRIPTS = (
    "Latin Greek Cyrillic Armenian Georgian Cherokee Coptic Glagolitic Gothic Ogham Runic Hebrew "
    "Arabic Syriac Thaana Samaritan Mandaic Nko Adlam Hanifi_Rohingya Mongolian Devanagari "
    "Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam Sinhala Meetei_Mayek Ol_Chiki "
    "Chakma Limbu Lepcha Syloti_Nagri Saurashtra Thai Lao Khmer Myanmar Tibetan Tai_Le New_Tai_Lue "
    "Tai_Tham Tai_Viet Javanese Balinese Sundanese Buginese Batak Cham Yi Ethiopic Tifinagh Vai "
    "Osmanya Canadian_Aboriginal Han Hiragana Katakana Bopomofo Hangul"
).split()
SCRIPT = regex.compile("|".join(rf"(\p{{Script={name}}})" for name in SCRIPTS))
NO_SYSTEM = regex.compile(r"[\p{N}\p{Script=Common}\p{Script=Inherited}ªºˈˌːˑˠˤ]")
WRITTEN = regex.compile(r"[\p{L}\p{M}]")
COMMON = {"\u0640": "Arabic", "\u30fc": "East Asian", "\uff70": "East Asian"}


@dataclasses.dataclass(frozen=True, slots=True)
class PlainVerdict:
    """One candidate's score; flagged at 1 and above."""

    score: float

    @property
    def flagged(self) -> bool:
        """Whether the score reaches the threshold."""
        return self.score >= 1.0


def judge_paper(
    query: str,
    texts: Sequence[str],
    losses: Sequence[Row],
    states: Sequence[Sequence[Row]],
    asked: Sequence[Row],
    inner: Inner | None = None,
) -> list[PlainVerdict]:
    """Profile ``paper`` on one ranking.

    :param texts: of the first twenty documents.
    :param losses: of each candidate's tokens, in nats.
    :param states: token states of every document, unit rows.
    :param asked: those of the query.
    :param inner: how to multiply two of them; in Python by default.
    """
    candidates, tail = range(CANDIDATES), range(CANDIDATES, len(texts))
    words = [paper_words(text) for text in texts]
    anchors = anchor_evidence(paper_words(query), words, paper_admits)
    shares = [paper_share(text) for text in texts]
    jumps = [jump(document, asked, inner or dot) for document in states]
    smallest = math.log10(2 * (len(tail) + 1))
    verdicts = []
    for i in candidates:
        script = -math.log10(mid_rank(shares[i], [shares[r] for r in tail])) / smallest
        p = mid_rank(jumps[i], [jumps[r] for r in tail])
        aligned = max(0.0, math.log(0.05 / p) / math.log(1 / 0.05))
        verdicts.append(PlainVerdict(anchors[i] + script + surprisal(losses[i]) + aligned))
    return verdicts


def judge_default(
    query: str,
    texts: Sequence[str],
    rows: Sequence[Row],
    runs: Sequence[float],
    gap_threshold: float | None,
    cap: float,
) -> list[PlainVerdict]:
    """Profile ``default`` on one ranking, without a language model.

    :param texts: of the first forty documents.
    :param rows: their embeddings, unit rows.
    :param runs: their alien runs at ingest, in nats.
    :param gap_threshold: t_g of the ingest scan.
    :param cap: of a copied query.
    """
    size = len(texts)
    read = [default_tokens(text) for text in texts]
    words = [[token for token in distinct(own) if holds_word(token)] for own in read]
    folded = [distinct(["0" if word.isdecimal() else word for word in own]) for own in words]
    low, high = (0.55, 0.80)
    if gap_threshold is not None:
        low, high = 0.74 * gap_threshold, 1.08 * gap_threshold
    copies = [
        [j for j in range(size) if j != i and contained(folded[i], folded[j]) > 0.9]
        for i in range(CANDIDATES)
    ]
    copied = [j for own in copies for j in own]
    siblings, topology = list(copied), []
    for i in range(CANDIDATES):
        near = sorted(
            (-dot(rows[i], rows[j]), j) for j in range(size) if j != i and j not in copies[i]
        )
        g, r = gap([-s for s, _ in near])
        top = sum(j < CANDIDATES or j in copied for _, j in near[:r])
        share = min(1.0, top / min(r, CANDIDATES - 1)) if r else 1.0
        value = min(1.5, max(0.0, (g - low) / (high - low)))
        topology.append(min(1.0, share / 0.5) * value)
        if r and g >= 0.4:
            # Rounding must not tell equal similarities apart.
            siblings += [j for s, j in near if s <= near[r - 1][0] + 1e-12]
    tail = [j for j in range(CANDIDATES, size) if j not in siblings]
    if len(tail) < 5:
        tail = list(range(CANDIDATES, size))
    sample = tail[:15]
    asked = default_tokens(query)
    anchors = anchor_evidence(
        distinct(asked), [words[i] for i in (*range(CANDIDATES), *sample)], default_admits
    )
    questions = sum(opens_with_question(texts[j]) for j in sample) / len(sample)
    copied_runs = [longest_run(asked, own[:600]) for own in read]
    free = max(4, *(copied_runs[j] for j in tail))
    start = max(7.0, 1.5 * median([runs[j] for j in tail]))
    shares = [unicode_share(text) for text in texts]
    highest = max(0.01, *(shares[j] for j in tail))
    unit = 0.4 * max(1, len(asked))
    verdicts = []
    for i in range(CANDIDATES):
        evidences = (
            topology[i],
            min(1.5, max(0.0, (anchors[i] - 0.35) / 0.65)),
            min(1.5, max(0.0, runs[i] - start) / 8),
            max(0.0, min(cap, (copied_runs[i] - free) / unit)) * (1 - questions),
            0.5 if shares[i] > highest else 0.0,
            hidden_text(texts[i]).value,
        )
        verdicts.append(PlainVerdict(math.sqrt(sum(value * value for value in evidences))))
    return verdicts


def distinct(found: Sequence[str]) -> list[str]:
    """Each token once, in order."""
    return list(dict.fromkeys(found))


def paper_words(text: str) -> list[str]:
    """Distinct paper words."""
    return distinct(re.findall(r"[a-z0-9]+", text.casefold()))


def default_tokens(text: str) -> list[str]:
    """All tokens of profile ``default``."""
    return list(TOKEN.findall(text.casefold()))


def holds_word(token: str) -> bool:
    """Whether a token holds a letter or digit."""
    return regex.search(r"[\p{L}\p{N}]", token) is not None


def paper_admits(word: str) -> bool:
    """Which words may be anchors in profile ``paper``."""
    return len(word) >= 3 or word.isdigit()


def default_admits(word: str) -> bool:
    """Which words may be anchors in profile ``default``."""
    return paper_admits(word) or regex.fullmatch(rf"[{SINGLE}]", word) is not None


def anchor_evidence(
    asked: Words, words: Sequence[Words], admits: Callable[[str], bool]
) -> list[float]:
    """``E_a`` of each candidate before the profile's own scale."""
    k, n = CANDIDATES, len(words)
    evidence = []
    for own in words[:k]:
        probabilities = []
        for word in own:
            if word in asked or not admits(word):
                continue
            hits = sum(word in other for other in words[:k])
            if hits < 2:
                continue
            held = sum(word in other for other in words)
            ways = sum(
                math.comb(held, x) * math.comb(n - held, k - x)
                for x in range(hits, min(held, k) + 1)
            )
            probabilities.append(ways / math.comb(n, k))
        combined = 1.0
        for rank, p in enumerate(sorted(probabilities), start=1):
            combined = min(combined, len(probabilities) / rank * p)
        evidence.append(-math.log10(combined) / math.log10(math.comb(n, k)))
    return evidence


def paper_script(character: str) -> str:
    """The coarse script of a letter, by its Unicode name."""
    name = unicodedata.name(character, "")
    for script in NAMED:
        if script in name:
            return script
    return "EAST ASIAN" if any(script in name for script in EAST_ASIAN) else "OTHER"


def paper_share(text: str) -> float:
    """Share of letters outside the most frequent script."""
    return outside([paper_script(character) for character in text if character.isalpha()])


def unicode_share(text: str) -> float:
    """Share of letters and dependent signs outside the most frequent writing system."""
    systems = []
    for character in text:
        if character in COMMON:
            systems.append(COMMON[character])
        elif WRITTEN.match(character) and not NO_SYSTEM.match(character):
            match = SCRIPT.match(character)
            name = "Other" if match is None else SCRIPTS[match.lastindex - 1]
            systems.append("East Asian" if name in MERGED else name)
    return outside(systems)


def outside(systems: Sequence[str]) -> float:
    """Share outside the most frequent; 0 of nothing."""
    if not systems:
        return 0.0
    return 1.0 - max(systems.count(name) for name in set(systems)) / len(systems)


def mid_rank(value: float, reference: Sequence[float]) -> float:
    """Upper tail of a value among a few others."""
    above = sum(other > value for other in reference)
    equal = sum(other == value for other in reference)
    return (0.5 + above + 0.5 * equal) / (len(reference) + 1)


def mean(values: Row) -> float:
    """Arithmetic mean."""
    return sum(values) / len(values)


def median(values: Row) -> float:
    """Mean of the two middle values, or the middle one."""
    ordered, size = sorted(values), len(values)
    return (ordered[(size - 1) // 2] + ordered[size // 2]) / 2


def surprisal(losses: Row) -> float:
    """``E_p`` of one trace."""
    highest = 0.0
    for w in (8, 16):
        if not losses:
            continue
        size = len(losses)
        means = [mean(losses[i : i + w]) for i in range(max(1, size - w + 1))]
        burst = max(means) - sorted(means)[(len(means) - 1) // 2]
        change = 0.0
        if size >= 2 * w:
            for b in range(w, size - w + 1, w // 2):
                change = max(change, abs(mean(losses[b - w : b]) - mean(losses[b : b + w])))
        highest = max(highest, max(burst, change) / (5 * math.log(2) * math.sqrt(16 / w)))
    return max(0.0, highest - 1.0)


def dot(left: Row, right: Row) -> float:
    """Inner product."""
    return sum(a * b for a, b in zip(left, right, strict=True))


def jump(document: Sequence[Row], asked: Sequence[Row], inner: Inner) -> float:
    """Largest step of the alignment between neighbouring windows of 32 tokens, stride 16."""
    size = len(document)
    if not size or not len(asked):
        return 0.0
    cosines = [[inner(token, other) for other in asked] for token in document]
    starts = list(range(0, max(1, size - 31), 16))
    if size > 32 and starts[-1] != size - 32:
        starts.append(size - 32)
    trace = []
    for start in starts:
        window = cosines[start : start + 32]
        precision = mean([max(row) for row in window])
        recall = mean([max(row[j] for row in window) for j in range(len(asked))])
        trace.append(2 * precision * recall / max(precision + recall, 1e-8))
    return max((abs(b - a) for a, b in itertools.pairwise(trace)), default=0.0)


def contained(left: Sequence[str], right: Sequence[str]) -> float:
    """Share of the smaller word list that the other holds."""
    if not left or not right:
        return 0.0
    held = set(right)
    return sum(word in held for word in left) / min(len(left), len(right))


def gap(similarities: Row) -> tuple[float, int]:
    """``g`` and the number of neighbours that stand out, among at most ten."""
    best, group = 0.0, 0
    for r in range(1, 11):
        behind = similarities[r : r + 8]
        if not behind:
            break
        floor = median(behind)
        weight = 0.85 if r == 1 else 1.0
        value = weight * (mean(similarities[:r]) - floor) / max(1e-6, 1 - floor)
        if group == 0 or value > best:
            best, group = value, r
    return best, group


def longest_run(asked: Sequence[str], document: Sequence[str]) -> int:
    """Longest run of tokens that both hold."""
    best = 0
    before = [0] * (len(document) + 1)
    for token in asked:
        row = [0] * (len(document) + 1)
        for j, other in enumerate(document):
            if token == other:
                row[j + 1] = before[j] + 1
                best = max(best, row[j + 1])
        before = row
    return best


def opens_with_question(text: str) -> bool:
    """Whether the first end mark of a text asks."""
    for character in text:
        if character in ".!?？؟":
            return character in "?？؟"
    return False
