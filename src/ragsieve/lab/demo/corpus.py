"""A corpus of real documents that every installation has: docstrings, one document an object.

Which documents remain, in this order:

1. objects whose prose (see ``_prose``) has at least 12 words;
2. of one id, the first in the order of ``_objects``;
3. of texts whose word sets are equal or nearly so, the preferred one: inherited and copied
   docstrings stay once, and families that repeat one template, such as the distributions
   of ``scipy.stats``, do not dominate;
4. at most 3,300, the preferred ones.

Preferred are well-known modules before others, names of fewer components (modules and
functions before methods) before longer ones, then alphabetical order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from ragsieve.lab.demo._objects import DocumentedObject, documented_objects
from ragsieve.lab.demo._prose import prose_of, words_of
from ragsieve.records import Document, Provenance

LEAST_WORDS = 12
MOST_WORDS = 120
MOST_DOCUMENTS = 3300
# Word sets with a Jaccard index of at least this are the same text for a reader.
SAME_WORDS = 0.8

_LESS_KNOWN = (
    *("tkinter", "turtle", "xmlrpc", "imaplib", "poplib", "bdb", "encodings", "wsgiref", "pydoc"),
    *("pickletools", "ntpath", "zipimport", "curses", "ctypes.macholib", "numpy.f2py"),
    *("numpy.chararray", "numpy.char.chararray", "numpy.matrix", "numpy.matlib", "scipy.fftpack"),
    *("scipy.odr", "importlib.metadata", "importlib.resources", "importlib.readers", "xml.dom"),
    *("email.contentmanager", "numpy.Repository", "numpy.distutils", "pyclbr", "modulefinder"),
    *("numpy.dtypes", "scipy.io.arff", "scipy.io.matlab", "optparse", "multiprocessing.dummy"),
)


def docstring_corpus() -> tuple[Document, ...]:
    """The documents, ordered by id; the same for the same Python, numpy and scipy.

    The id and the title are the object's qualified name; the declared source is the package.

    :raises InputError: when numpy's or scipy's sources are not installed as files.
    """
    documents = _first_of_id(_document(item) for item in documented_objects())
    preferred = sorted(documents, key=lambda document: _preference(document.id))
    chosen = _distinct(preferred)[:MOST_DOCUMENTS]
    return tuple(sorted(chosen, key=lambda document: document.id))


def _document(item: DocumentedObject) -> Document:
    text = prose_of(item.docstring, limit=MOST_WORDS)
    return Document(item.name, text, item.name, Provenance(source=item.package))


def _preference(name: str) -> tuple[bool, int, str]:
    return _less_known(name), name.count("."), name


def _less_known(name: str) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in _LESS_KNOWN)


def _first_of_id(documents: Iterable[Document]) -> list[Document]:
    kept: dict[str, Document] = {}
    for document in documents:
        if len(document.text.split()) >= LEAST_WORDS:
            kept.setdefault(document.id, document)
    return list(kept.values())


def _distinct(documents: Sequence[Document]) -> list[Document]:
    """The documents without those whose word set is nearly, or just, that of an earlier one.

    Exact, and cheap: two sets with a Jaccard index >= t share at least one of the
    ``|x| - ceil(t |x|) + 1`` rarest words of either, so only those are looked up.
    """
    sets = [frozenset(words_of(document.text)) for document in documents]
    frequency = Counter(word for words in sets for word in words)
    seen: defaultdict[str, list[int]] = defaultdict(list)
    kept = []
    for row, words in enumerate(sets):
        # A relative slack keeps rounding from shortening the prefix.
        length = len(words) - int(SAME_WORDS * len(words) - 1e-9)
        rare = sorted(words, key=lambda word: (frequency[word], word))[:length]
        earlier = {other for word in rare for other in seen[word]}
        if any(_jaccard(words, sets[other]) >= SAME_WORDS for other in earlier):
            continue
        kept.append(documents[row])
        for word in rare:
            seen[word].append(row)
    return kept


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    common = len(first & second)
    return common / max(1, len(first) + len(second) - common)
