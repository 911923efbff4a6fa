"""What a reply says: normalised words, whether it names an answer, whether it abstains."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

NOT_FOUND = "not in the documents"
"""What a model is asked to say when the documents do not tell."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Small models paraphrase the words they are asked for.
_ABSTENTIONS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bnot (?:\w+ ){0,3}in (?:\w+ ){0,2}(?:documents?|passages?|context|text)\b",
        r"\b(?:documents?|passages?|context|text) (?:do|does|did) ?n[o']?t\b",
        r"\b(?:i )?(?:do not|dont|cannot|cant|can not) (?:know|tell|answer|determine|find)\b",
        r"\b(?:unknown|unanswerable|insufficient information|no answer|not enough information)$",
    )
)


def normalized(text: str) -> str:
    """Casefolded, without punctuation and a/an/the, spaces collapsed: SQuAD normalisation."""
    bare = text.casefold().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def names(reply: str, wanted: str) -> bool:
    """Whether the normalised words of ``wanted`` stand in the reply, in one run."""
    return runs_in(normalized(wanted).split(), normalized(reply).split())


def runs_in(run: Sequence[str], words: Sequence[str]) -> bool:
    """Whether ``run``, which must hold a word, stands in ``words`` without a gap."""
    if not run:
        return False
    width = len(run)
    return any(
        list(words[start : start + width]) == list(run) for start in range(len(words) - width + 1)
    )


def abstains(reply: str) -> bool:
    """Whether a reply says that the documents do not tell; one without a word does too."""
    words = normalized(reply)
    return not words or any(pattern.search(words) for pattern in _ABSTENTIONS)
