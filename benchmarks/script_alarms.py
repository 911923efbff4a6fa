"""How often clean and planted text is flagged for its writing systems and hidden characters.

    python benchmarks/script_alarms.py [--fetch | --manpages DIR] [--bench DIR]

Rows: passages written for this project, Debian's translated manual pages (``--manpages`` names
an unpacked tree that holds ``usr/share/man``; ``--fetch`` downloads the packages with apt-get
into a temporary folder), and a corpus with its attacks (``corpus.jsonl``, ``attacks/*.jsonl``).
Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import regex

from ragsieve.evidence.hidden import hidden_text
from ragsieve.evidence.scripts import script_profile
from ragsieve.evidence.writing import mixed_tokens, writing_profile
from ragsieve.files.corpus import read_corpus
from ragsieve.lab.datasets import read_attacks
from script_texts import PASSAGES

LANGUAGES = ("de", "fr", "es", "pt-br", "ru", "uk", "el", "pl", "sr", "mk", "ja", "zh", "vi", "tr")
PAGES = 400
WORDS, CHARACTERS = 50, 300
LONGEST = 2000
_TOKEN = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_MACRO = re.compile(r"^[.'].*$", re.MULTILINE)
_ESCAPE = re.compile(r"\\f(?:\[\w*\]|\(..|.)|\\s[-+]?\d|\\\*(?:\[\w*\]|\(..|.)|\\[&|^/,%:]|\\\(..")


@dataclasses.dataclass
class Row:
    """Counts of one kind of text."""

    passages: int = 0
    paper: int = 0
    naive: int = 0
    released: int = 0
    hidden: int = 0

    def add(self, text: str) -> None:
        self.passages += 1
        self.paper += script_profile(text).violates_integrity
        self.naive += any_mixed(text)
        self.released += bool(mixed_tokens(text))
        self.hidden += hidden_text(text).value > 0


def any_mixed(text: str) -> bool:
    """Whether any word holds two writing systems, for whatever reason."""
    if text.isascii():
        return False
    return any(len(writing_profile(word).counts) > 1 for word in _TOKEN.findall(text))


def passages(page: str) -> Iterator[str]:
    """The running text of a troff page in pieces of 50 words (300 characters) and more."""
    text = _MACRO.sub("", page).replace("\\-", "-").replace("\\e", "\\")
    collected = ""
    for paragraph in re.split(r"\n\s*\n", _ESCAPE.sub("", text)):
        collected = f"{collected}\n{paragraph.strip()}".strip()
        unspaced = sum(ord(character) > 0x2E80 for character in collected) > CHARACTERS
        if len(collected.split()) >= WORDS or unspaced:
            yield collected[:LONGEST]
            collected = ""


def manual_pages(root: Path) -> Iterator[tuple[str, list[str]]]:
    for folder in sorted((root / "usr/share/man").iterdir()):
        files = sorted(path for path in folder.rglob("*.gz") if path.is_file())
        step = max(1, len(files) // PAGES)
        found: dict[str, None] = {}
        for path in files[::step]:
            page = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
            found.update(dict.fromkeys(passages(page)))
        yield f"man {folder.name}", list(found)


def fetch(folder: Path) -> None:
    for language in LANGUAGES:
        package = f"manpages-{language}"
        done = subprocess.run(  # noqa: S603 -- fixed names
            ["apt-get", "download", package],  # noqa: S607
            cwd=folder,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            print(f"{package}: not downloaded")
    for archive in sorted(folder.glob("*.deb")):
        unpack = ["dpkg-deb", "-x", str(archive), str(folder)]
        subprocess.run(unpack, check=True)  # noqa: S603 -- fixed names


def bench(root: Path) -> Iterator[tuple[str, list[str]]]:
    yield "corpus", [document.content for document in read_corpus(root / "corpus.jsonl")]
    for path in sorted((root / "attacks").glob("*.jsonl")):
        planted = [document for target in read_attacks(path) for document in target.documents]
        yield f"attack {path.stem}", [document.content for document in planted]


def microseconds(measure: Callable[[str], object], texts: Iterable[str]) -> float:
    """Time for 1,000 characters, the best of three rounds after one to warm up."""
    sample = list(texts)
    rounds = []
    for _ in range(4):
        start = time.perf_counter()
        for text in sample:
            measure(text)
        rounds.append(time.perf_counter() - start)
    return min(rounds[1:]) * 1e9 / sum(map(len, sample))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--manpages", type=Path)
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--bench", type=Path)
    parser.add_argument("--show", action="store_true", help="print what the released rule found")
    options = parser.parse_args()

    kinds = [(f"own {name}", list(texts)) for name, texts in PASSAGES.items()]
    if options.fetch:
        with tempfile.TemporaryDirectory() as name:
            fetch(Path(name))
            kinds += manual_pages(Path(name))
    if options.manpages:
        kinds += manual_pages(options.manpages)
    if options.bench:
        kinds += bench(options.bench)

    print("| text | passages | paper | naive | released | hidden | µs |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for kind, texts in kinds:
        row = Row()
        for text in texts:
            row.add(text)
        counts = " | ".join(str(value) for value in dataclasses.astuple(row))
        print(f"| {kind} | {counts} | {microseconds(mixed_tokens, texts):.0f} |")
        if options.show:
            for text in texts:
                for token in mixed_tokens(text):
                    print(f"    {token.reason} {token.scripts} {token.text!a} {token.text}")


if __name__ == "__main__":
    main()
