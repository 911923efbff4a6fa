"""Turn a docstring into prose: what an object is and does, in whole sentences.

Kept: the summary, the description before the first section, and the Notes. Dropped:
every other numpydoc section (parameters, returns, references, examples and the rest),
Sphinx fields, doctests with their output, signature lines, literal and math blocks,
directives with their bodies (of a note or a warning only the marker), tables, underlines,
the marks of references and string placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_HEADINGS = frozenset(
    (
        *("parameters", "other parameters", "returns", "yields", "receives", "raises", "warns"),
        *("warnings", "see also", "attributes", "methods", "examples", "example", "references"),
        *("notes", "note", "arguments", "options", "class attributes", "input", "output"),
    )
)
_UNDERLINE = re.compile(r"^\s*([-=~^*+#])\1{2,}\s*$")
_DIRECTIVE = re.compile(r"^(\s*)\.\. *(\[?[\w-]+\]?|\|.*\|)")
_ADMONITION = re.compile(r"^\s*\.\. *(note|warning|caution|tip|important)::\s*", re.IGNORECASE)
_FIELD = re.compile(r"^(\s*):(param|type|return|returns|rtype|raises?|keyword|arg)\b.*")
_CALL = re.compile(r"[\w.]+\(")
_SIGNATURE = re.compile(r"^[\w.]+\([^)]*\)\s*((->|=).*)?$|^.{0,100}\)\s*->\s*[\w\[\], .|()]+$")
_PLACEHOLDER = re.compile(r"%\([a-z_ ]+\)s", re.IGNORECASE)
_ROLE = re.compile(r":(?:[a-z]+:)?[a-z]+:`~?([^`<]*?)(?:\s*<[^`]*>)?`|:math:")
_LINK = re.compile(r"`~?([^`<]+?)\s*<[^`>]+>`_*")
_CITATION = re.compile(r"\[([\w.]{1,12})\]_")
_TABLE = re.compile(r"^\s*(\+[-=+]+|\|.*|[-=]{2,}( +[-=]{2,})+)\s*$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(]|[-*] )")
_WORD = re.compile(r"[a-z0-9]+")


def prose_of(docstring: str, *, limit: int) -> str:
    """The prose of a docstring on one line, at most ``limit`` words, cut at a sentence where possible.

    :param limit: in words, as white space separates them.
    """
    lines = list(_wanted(_undirected(_unsigned(docstring.expandtabs().splitlines()))))
    text = " ".join(" ".join(lines).split())
    text = _PLACEHOLDER.sub("", _CITATION.sub(r"[\1]", _LINK.sub(r"\1", _ROLE.sub(r"\1", text))))
    text = " ".join(text.replace("`~", "").replace("`", "").replace("**", "").split())
    return _capped(text, limit)


def sentences_of(text: str) -> list[str]:
    """The sentences of a prose, by a rule of thumb."""
    return _SENTENCE_END.split(text)


def words_of(text: str) -> list[str]:
    """The lower-case ASCII words and numbers of a text, in order, with repetitions."""
    return _WORD.findall(text.lower())


def _capped(text: str, limit: int) -> str:
    """At most ``limit`` words; a sentence is cut only if little would stand without it."""
    kept: list[str] = []
    for sentence in sentences_of(text):
        words = sentence.split()
        if len(kept) + len(words) > limit:
            return " ".join(kept if len(kept) > limit // 3 else [*kept, *words][:limit])
        kept += words
    return " ".join(kept)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _unsigned(lines: list[str]) -> list[str]:
    """The lines after a first paragraph that is a signature, however many lines it has."""
    end = next((row for row, line in enumerate(lines) if line.strip() in {"", "--"}), len(lines))
    first = " ".join(line.strip() for line in lines[:end]).partition(" -> ")[0]
    return lines[end + 1 :] if _CALL.match(first) and first.endswith(")") else lines


def _undirected(lines: Sequence[str]) -> Iterator[str]:
    """The lines outside directives, literal blocks and doctests."""
    body = -1  # lines further right than this belong to what is being dropped
    doctest = False
    for line in lines:
        if not line.strip():
            doctest = False
            yield ""
            continue
        if line.lstrip().startswith(">>>"):
            doctest = True
        if doctest or (body >= 0 and _indent(line) > body):
            continue
        body = -1
        if _ADMONITION.match(line):
            yield _ADMONITION.sub("", line)
        elif _TABLE.match(line):
            continue
        elif _DIRECTIVE.match(line) or _FIELD.match(line):
            body = _indent(line)
        elif line.rstrip().endswith("::"):
            body = _indent(line)
            yield line.rstrip().removesuffix("::").rstrip() + "."
        else:
            yield line


def _wanted(lines: Iterator[str]) -> Iterator[str]:
    """The lines of the description and the notes, without headings and signatures."""
    held: str | None = None
    wanted = True
    for line in lines:
        if _UNDERLINE.match(line):
            heading = (held or "").strip().lower().rstrip(":")
            held = None
            if heading in _HEADINGS:
                wanted = heading == "notes"
            continue
        if held is not None and wanted and not _SIGNATURE.match(held.strip()):
            yield held
        held = line
    if held is not None and wanted and not _SIGNATURE.match(held.strip()):
        yield held
