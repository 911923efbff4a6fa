"""The text part of a scan as the specification reads: loops over documents, words, characters.

Written from the formulas alone: a script is looked for in a character's Unicode name each time it
is met, word sets are made anew for every pair, nothing is kept. Both profiles start from the same
neighbour graph; profile ``default`` is measured with the published rule of mixed scripts, its
own having no short plain form.
"""

from __future__ import annotations

import math
import re
import unicodedata

import numpy as np

NAMES = (
    "LATIN", "CYRILLIC", "ARABIC", "HEBREW", "DEVANAGARI", "BENGALI", "THAI", "ARMENIAN",
    "GEORGIAN", "GREEK",
)  # fmt: skip
EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")
UNSPACED = (
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "HIRAGANA LETTER",
    "KATAKANA LETTER",
    "HANGUL SYLLABLE",
)
WINDOWS = (8, 10, 12, 16, 20, 24, 32)


def plain_paper_text(texts, indices, similarities):
    """Density contrast and script violation of every document, over a graph of its neighbours."""
    density = []
    for row in range(len(texts)):
        kept = []
        for neighbor, similarity in zip(indices[row], similarities[row], strict=True):
            if similarity >= 0.85 and _jaccard(texts[row], texts[neighbor]) <= 0.60:
                kept.append(float(similarity))
        background = float(similarities[row][-1])
        density.append(_density(kept, background))
    return density, [_mixes(text) for text in texts]


def plain_paper_scores(measured):
    """Scores of profile ``paper`` from what its text part measured."""
    density, violations = measured
    budget = max(0.0, 0.05 - sum(violations) / len(violations))
    scores = []
    for row, own in enumerate(density):
        at_least = 0
        for other in density:
            at_least += np.float32(other) >= np.float32(own)
        topology = min(1.0, 0.5 * budget / (at_least / (len(density) + 1)))
        scores.append(max(topology, float(violations[row])))
    return scores


def plain_default(texts, indices, similarities):
    """Scores of profile ``default`` over a graph of its neighbours."""
    size = len(texts)
    gaps, flags = [], []
    frequency = {}
    for text in texts:
        for token in set(_tokens(text)[:600]):
            frequency[token] = frequency.get(token, 0) + 1
    glue = set(sorted(frequency, key=lambda token: (-frequency[token], token))[:100])
    holders = {}
    for row, text in enumerate(texts):
        for pair in _pairs(text):
            holders.setdefault(pair, set()).add(row)
    for row in range(size):
        near = list(zip(indices[row].tolist(), similarities[row].tolist(), strict=True))
        kept = [s for other, s in near if not _is_copy(texts[row], texts[other])]
        gaps.append(_gap(kept))
        excluded = {row, *(other for other, _ in near[:8])}
        own = _tokens(texts[row])[:600]
        alien = []
        for place, token in enumerate(own):
            novel = place == 0 or not holders[own[place - 1], token] - excluded
            alien.append(novel and token not in glue)
        flags.append(alien)
    total = sum(len(one) for one in flags)
    share = sum(sum(one) for one in flags) / total if total else 0.0
    runs = [_run(one, share) for one in flags]
    gap_threshold = _threshold(gaps, 0.6, 2.0, 0.30)
    run_threshold = _threshold(runs, 15.0, 2.75, 7.0)
    scores = []
    for row, text in enumerate(texts):
        gap = max(0.0, (gaps[row] - gap_threshold / 2) / (gap_threshold / 2))
        run = max(0.0, (runs[row] - run_threshold / 2) / (run_threshold / 2))
        scores.append(math.sqrt(gap**2 + run**2 + (0.5 * _mixes(text)) ** 2))
    return scores


def _words(text):
    return set(re.findall(r"[a-z0-9]+", text.casefold()))


def _jaccard(left, right):
    together = len(_words(left) | _words(right))
    return len(_words(left) & _words(right)) / together if together else 0.0


def _density(kept, background):
    if not kept:
        return 0.0
    top = sorted(kept, reverse=True)[:4]
    lift = (sum(top) / len(top) - background) / max(1e-6, 1.0 - background)
    return min(1.0, len(kept) / 2) * min(1.0, max(0.0, lift))


def _script(character):
    name = unicodedata.name(character, "")
    for one in NAMES:
        if one in name:
            return one
    return "EAST ASIAN" if any(one in name for one in EAST_ASIAN) else "OTHER"


def _mixes(text):
    found, before, touching = set(), None, False
    for character in text:
        own = _script(character) if character.isalpha() else None
        if own is not None:
            found.add(own)
            touching = touching or (before is not None and before != own)
        before = own
    return touching or len(found) >= 3


def _tokens(text):
    found, run = [], ""
    for character in text.casefold():
        category = unicodedata.category(character)
        alone = unicodedata.name(character, "").startswith(UNSPACED)
        if category[0] in "LNM" and not alone:
            run += character
            continue
        if run:
            found.append(run)
            run = ""
        if not character.isspace() and character != "_":
            found.append(character)
    return [*found, run] if run else found


def _pairs(text):
    own = _tokens(text)[:600]
    return {(own[place - 1], own[place]) for place in range(1, len(own))}


def _is_copy(left, right):
    one, other = _content_words(left), _content_words(right)
    return bool(one and other) and len(one & other) / min(len(one), len(other)) > 0.9


def _content_words(text):
    words = {t for t in _tokens(text) if any(unicodedata.category(c)[0] in "LN" for c in t)}
    # Tables that differ in their figures alone are versions of one another.
    return {"0" if word.isdecimal() else word for word in words}


def _gap(similarities):
    best = 0.0
    for group in range(1, 9):
        below = similarities[group : group + 8]
        if not below:
            break
        floor = _median(below)
        mean = sum(similarities[:group]) / group
        weight = 0.85 if group == 1 else 1.0
        value = weight * (mean - floor) / max(1e-6, 1.0 - floor)
        best = value if group == 1 else max(best, value)
    return best


def _run(flags, share):
    size, total, best = len(flags), sum(flags), 0.0
    for window in WINDOWS:
        if window > size or window > max(12, size / 2):
            continue
        for start in range(size - window + 1):
            hits = sum(flags[start : start + window])
            rest = (total - hits + 5 * share) / (size - window + 5)
            q, p = min(0.999, max(0.001, rest)), hits / window
            if p > q:
                ratio = hits * math.log(p / q)
                if hits < window:
                    ratio += (window - hits) * math.log((1 - p) / (1 - q))
                best = max(best, ratio)
    return best


def _median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _quantile(values, share):
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _threshold(values, ceiling, spread, floor):
    below = [value for value in values if value < ceiling]
    if not below:
        return floor
    middle = _quantile(below, 0.5)
    return max(floor, middle + spread * (_quantile(below, 0.9) - middle))
