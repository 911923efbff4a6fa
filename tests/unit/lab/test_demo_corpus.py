"""The corpus of docstrings: how prose is made, how objects are named, which documents stay."""

from __future__ import annotations

import inspect
import itertools
import re

import pytest

from ragsieve.lab.demo import _objects
from ragsieve.lab.demo._prose import prose_of, words_of
from ragsieve.lab.demo.corpus import (
    LEAST_WORDS,
    MOST_DOCUMENTS,
    MOST_WORDS,
    SAME_WORDS,
    _distinct,
    docstring_corpus,
)
from ragsieve.records import Document

DOCSTRING = """
    frobnicate(a, b=(),
               c=None) -> out

    Frobnicate the ``input`` [1]_ with :func:`numpy.add`.

    It is done twice.

    .. versionadded:: 1.2
       Somewhere.

    .. note:: Never at night.

    Parameters
    ----------
    a : int
        Not wanted here.

    Notes
    -----
    +-----+-----+
    | a   | b   |
    +-----+-----+
    Called as::

        frobnicate(1)

    Also :math:`a < b` holds.

    Examples
    --------
    >>> frobnicate(1)
    7
"""


@pytest.fixture(scope="module")
def corpus():
    return docstring_corpus()


def test_prose_keeps_description_and_notes_only():
    assert prose_of(inspect.cleandoc(DOCSTRING), limit=100) == (
        "Frobnicate the input [1] with numpy.add. It is done twice. Never at night. "
        "Called as. Also a < b holds."
    )


def test_doctests_in_running_text_go_with_their_output():
    text = "Give two.\n\n>>> two()\n2\n\nAnd no more.\n:param x: nothing\n    of it\n"
    assert prose_of(text, limit=100) == "Give two. And no more."


def test_prose_is_cut_at_a_sentence_where_that_leaves_enough():
    text = "One two three. Four five six. Seven eight."
    assert prose_of(text, limit=7) == "One two three. Four five six."
    assert prose_of("word " * 50, limit=7) == " ".join(["word"] * 7)
    assert prose_of("A. " + "word " * 50, limit=9) == "A. " + " ".join(["word"] * 8)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("scipy", "optimize", "_minimize"), "scipy.optimize"),
        (("scipy", "optimize", "_lsq", "least_squares"), "scipy.optimize"),
        (("scipy", "stats", "_mstats_basic"), "scipy.stats.mstats"),
        (("numpy", "_core", "fromnumeric"), "numpy"),
        (("numpy", "core", "fromnumeric"), "numpy"),
        (("numpy", "_core", "defchararray"), "numpy.char"),
        (("numpy", "lib", "_function_base_impl"), "numpy"),
        (("numpy", "lib", "function_base"), "numpy"),
        (("numpy", "lib", "recfunctions"), "numpy.lib.recfunctions"),
        (("numpy", "linalg", "linalg"), "numpy.linalg"),
        (("numpy", "polynomial", "polynomial"), "numpy.polynomial"),
        (("asyncio", "tasks"), "asyncio"),
        (("unittest", "mock"), "unittest.mock"),
        (("_pydecimal",), "decimal"),
        (("_private",), None),
    ],
)
def test_objects_are_named_where_a_reader_looks(path, place):
    assert _objects._public_place(path) == place


def test_only_public_objects_are_read_and_nothing_is_executed(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        '"""Module."""\n'
        '__all__ = ["shown", "Shown"]\n'
        "raise SystemExit('imported')\n"
        'def shown():\n    """One."""\n'
        'def left_out():\n    """Two."""\n'
        "try:\n"
        '    class Shown:\n        """Three."""\n'
        '        def method(self):\n            """Four."""\n'
        '        def _hidden(self):\n            """Five."""\n'
        "except ImportError:\n    pass\n"
        'add_newdoc("x", "added", """Six.""")\n'
        'add_newdoc("x", "added", ("member", "Seven."))\n'
        'add_newdoc("x", "_added", ("member", "Eight."))\n'
        'add_newdoc("x", "computed", 2 * text)\n'
    )
    private = list(_objects._docstrings(module, "place", whole=False))
    assert private == [
        ("place.shown", "One."),
        ("place.Shown", "Three."),
        ("place.Shown.method", "Four."),
        ("place.added", "Six."),
        ("place.added.member", "Seven."),
    ]
    public = list(_objects._docstrings(module, "place", whole=True))
    assert public[0] == ("place", "Module.")
    assert ("place.left_out", "Two.") in public


def test_the_corpus_is_as_described(corpus):
    assert 3000 <= len(corpus) <= MOST_DOCUMENTS
    ids = [document.id for document in corpus]
    assert ids == sorted(set(ids))
    assert {"numpy.linspace", "scipy.optimize.minimize", "shutil.which"} <= set(ids)
    for document in corpus:
        assert LEAST_WORDS <= len(document.text.split()) <= MOST_WORDS
        assert document.title == document.id
        assert ">>>" not in document.text
        assert not re.search(r"(^|\s)\.\. \w+::", document.text)
        assert not any(part.startswith("_") for part in document.id.split("."))
        assert document.id.split(".")[0] not in {"test", "idlelib", "lib2to3"}
        assert not hasattr(document, "label")


def test_the_corpus_does_not_depend_on_the_order_of_the_file_system(corpus, monkeypatch):
    listed = _objects.Path.iterdir
    monkeypatch.setattr(_objects.Path, "iterdir", lambda path: reversed(list(listed(path))))
    assert docstring_corpus() == corpus


def test_near_duplicates_are_those_a_double_loop_finds(corpus):
    family = [one for one in corpus if one.id.startswith("scipy.stats.")]
    family += [Document(f"copy-{one.id}", one.text + " More.") for one in family[::7]]
    family += [Document(f"half-{one.id}", " ".join(one.text.split()[::2])) for one in family[::5]]
    sets = [set(words_of(one.text)) for one in family]
    kept: list[int] = []
    for row, words in enumerate(sets):
        if all(len(words & sets[j]) < SAME_WORDS * len(words | sets[j]) for j in kept):
            kept.append(row)
    assert 0 < len(kept) < len(family)
    assert [one.id for one in _distinct(family)] == [family[row].id for row in kept]


def test_no_template_family_dominates(corpus):
    sample = [set(words_of(one.text)) for one in corpus[::9]]
    close = sum(
        len(one & two) >= SAME_WORDS * len(one | two)
        for one, two in itertools.combinations(sample, 2)
    )
    assert close == 0
