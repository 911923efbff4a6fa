"""Triggers that mix writing systems, as optimisation over a multilingual vocabulary leaves them."""

from __future__ import annotations

import numpy as np

# Latin letters and letters of other scripts that look like them.
_LOOKALIKES = {
    "a": "аα", "c": "с", "e": "еε", "h": "һ", "i": "іι", "k": "кκ", "m": "м",
    "n": "пη", "o": "оο", "p": "рρ", "r": "г", "s": "ѕ", "t": "тτ", "u": "υ", "v": "ν",
    "w": "ω", "x": "хχ", "y": "уγ",
}  # fmt: skip
_FOREIGN = (
    *("ответ", "значение", "массив", "функция", "порядок", "ошибка", "пример"),
    *("τιμή", "σειρά", "πίνακας", "λάθος", "τύπος"),
    *("数组", "函数", "默认", "関数", "順序", "배열", "기본"),
    *("قيمة", "دالة", "ערך", "सूची", "मान"),
)
_LOOSE = ("param", "tuple", "docs", "yields", "mainly", "ref", "usage", "howto", "api", "args")
_CHANGED_SHARE = 0.35


def mixed_trigger(question: str, rng: np.random.Generator, *, keep: str) -> str:
    """The words of ``question`` in slightly shaken order, some with foreign letters, and others.

    About a third of the words of three letters or more have one or two letters replaced
    by lookalikes of another script; two to four foreign words and one or two loose ones
    are put between.

    :param keep: a word that is left as it is, because the retriever must find it.
    """
    words = question.rstrip("?").split()
    for row in np.flatnonzero(rng.random(len(words) - 1) < _CHANGED_SHARE).tolist():
        words[row], words[row + 1] = words[row + 1], words[row]
    candidates = [row for row, word in enumerate(words) if len(word) > 2 and word != keep]  # noqa: PLR2004
    count = max(2, round(_CHANGED_SHARE * len(words)))
    for row in rng.permutation(candidates)[:count].tolist():
        words[row] = _disguised(words[row], rng)
    extra = [
        *rng.choice(_FOREIGN, size=int(rng.integers(2, 5)), replace=False).tolist(),
        *rng.choice(_LOOSE, size=int(rng.integers(1, 3)), replace=False).tolist(),
    ]
    for word in extra:
        words.insert(int(rng.integers(0, len(words) + 1)), word)
    return " ".join(words)


def _disguised(word: str, rng: np.random.Generator) -> str:
    """``word`` with one or two letters replaced by lookalikes; unchanged if it has none."""
    rows = [row for row, letter in enumerate(word) if letter in _LOOKALIKES]
    letters = list(word)
    for row in rng.permutation(rows)[: int(rng.integers(1, 3))].tolist():
        choices = _LOOKALIKES[letters[row]]
        letters[row] = choices[int(rng.integers(0, len(choices)))]
    return "".join(letters)
