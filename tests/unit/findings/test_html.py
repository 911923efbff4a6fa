from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragsieve.cases import Opinion, Place, QueryContext
from ragsieve.display import visible
from ragsieve.errors import MissingExtraError
from ragsieve.findings import html
from ragsieve.findings.export import Format, export
from ragsieve.records import Evidence
from unit.findings.strategies import HOSTILE, UNSHRUNK, incident, incidents

VOID = {"meta", "br"}
KNOWN = set(
    "html head meta title style body h1 h2 p table thead tbody tr th td b br code ul li "
    "dl dt dd span svg rect line".split()
)
QUIET = set(
    "lang charset http-equiv content name class scope role width height viewbox x1 x2 y1 y2".split()
)


class Page(HTMLParser):
    """The elements of a page, in order, with attributes; fails on a page that is not nested."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def page(found):
    return Page("".join(export(found, Format.HTML)))


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=UNSHRUNK
)
@given(found=st.lists(incidents, max_size=2))
def test_whatever_is_found_the_page_has_only_its_own_elements(found):
    text = "".join(export(found, Format.HTML))
    text.encode("utf-8")
    seen = Page(text)
    assert {tag for tag, _ in seen.elements} <= KNOWN
    assert {name for _, attributes in seen.elements for name in attributes} <= QUIET
    assert visible(text) == text.replace("\n", " ")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "place",
    [
        lambda text: {"title": text, "excerpt": text, "campaign": text, "reviewer": text},
        lambda text: {"place": Place(text, text, text), "scan_id": text, "id": text},
        lambda text: {"evidences": (Evidence(text, 1.0), Evidence("x", None, reason=text))},
        lambda text: {"context": QueryContext(text, text, ()), "profile": text},
    ],
)
def test_hostile_text_is_shown_and_does_nothing(text, place):
    seen = page([incident(**place(text))])
    assert {tag for tag, _ in seen.elements} <= KNOWN
    if "\u202e" in text:
        assert "<U+202E>" in seen.text
    if "script" in text:
        assert "<script>alert(1)</script>" in seen.text


def test_the_page_needs_and_runs_nothing():
    text = "".join(export([incident()], Format.HTML))
    (policy,) = [one for one in page([incident()]).all("meta") if "http-equiv" in one]
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert "default-src 'none'" in policy["content"]
    assert "script-src" not in policy["content"]
    assert not re.search(r"<script|javascript:|\son\w+=|https?://|url\(|@import|<link|src=", text)


def test_it_says_what_a_score_is_with_and_without_findings():
    for found in ([], [incident()]):
        assert "never a verdict on whether it is true" in page(found).text
    assert "There are no findings" in page([]).text


def test_findings_stand_by_campaign_and_the_strongest_first():
    found = [
        incident(id="1", campaign="small", score=2.0, place=Place("s", "one")),
        incident(id="2", score=9.0, place=Place("s", "alone")),
        incident(id="3", campaign="big", score=1.0, place=Place("s", "three")),
        incident(id="4", campaign="big", score=5.0, place=Place("s", "four")),
    ]
    text = page(found).text
    order = [
        text.index(word)
        for word in (
            "Campaign big (2)",
            "four in s",
            "three in s",
            "Campaign small (1)",
            "one in s",
        )
    ]
    order += [text.index("Findings that stand alone (1)"), text.index("alone in s")]
    assert order == sorted(order)


def widths(evidences, threshold=1.0):
    seen = page([incident(evidences=evidences, threshold=threshold)])
    bars = [one for one in seen.all("rect") if one["class"] != "track"]
    return [(one["class"], float(one["width"])) for one in bars]


def test_each_evidence_is_a_bar_against_the_threshold():
    values = (0.0, 0.5, 1.0, 2.0, 1e300)
    bars = widths(tuple(Evidence("alien_run", value) for value in values))
    half = html.BAR_PIXELS / 2
    assert bars == [
        ("under", 0.0),
        ("under", half / 2),
        ("over", half),
        ("over", half * 2),
        ("over", half * 2),
    ]
    seen = page([incident()])
    assert {one["x1"] for one in seen.all("line")} == {f"{half:g}"}


def test_a_bar_is_measured_by_the_threshold_of_its_finding():
    assert widths((Evidence("topology_score", 0.5),), threshold=0.5) == [("over", 80.0)]
    assert widths((Evidence("topology_score", 0.5),), threshold=0.0) == [("over", 160.0)]


def test_what_could_not_be_measured_has_words_and_no_bar():
    seen = page([incident(evidences=(Evidence("surprisal", None, reason="no model"),))])
    assert seen.all("svg") == []
    assert "surprisal: unavailable (no model)" in seen.text
    assert "Score at least 1.250" in seen.text


def test_decision_review_and_rollback_are_shown():
    seen = page([incident(opinion=Opinion.CONFIRMED, reviewer="ann")])
    assert "confirmed, ann" in seen.text
    assert "cd" * 32 in seen.text
    assert "scan-1" in seen.text
    assert "2026-03-01 12:30:00 UTC" in seen.text
    assert "AML.T0070 RAG Poisoning" in seen.text


def test_without_jinja_it_says_what_to_install(monkeypatch):
    def missing(module, *, extra):
        raise MissingExtraError(f"pip install 'ragsieve[{extra}]'")

    monkeypatch.setattr(html, "require", missing)
    with pytest.raises(MissingExtraError, match=r"ragsieve\[ledger\]"):
        export([incident()], Format.HTML)
