"""Hostile text at the desk: badges that no text can forge, marks at the right letters, no markup."""

from __future__ import annotations

import html
import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsieve.display import visible
from ragsieve.records import Annotation
from ragsieve.service.desk.texts import Stretch, badged, findings_in, marked, words_in
from unit.service.reviewed import verdict_on

TAG = re.compile(r"<[^>]*>")
ALLOWED = re.compile(r'<span class="[a-z ]+"(?: title="[^"<>]*")?>|</span>')


def tags(markup):
    return TAG.findall(str(markup))


def plain(markup):
    """What a reader sees, badges aside."""
    without = re.sub(r'<span class="badge[^>]*>[^<]*</span>', "", str(markup))
    return html.unescape(TAG.sub("", without))


def badges(markup):
    return re.findall(r'<span class="badge[^"]*" title="[^"]*">([^<]*)</span>', str(markup))


@given(st.text(), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=5))
def test_any_text_with_any_marks_is_only_our_markup(text, spans):
    stretches = [Stretch(min(s), max(s), "stretch", text[:5]) for s in spans]
    found = marked(text, stretches).markup
    assert all(ALLOWED.fullmatch(tag) for tag in tags(found))
    shown = plain(found)
    assert all(visible(one) == one or one in "\n\t" for one in shown)


@given(st.text(alphabet=st.characters(exclude_categories=["Mn", "Me"])))
def test_every_character_is_either_shown_or_a_badge(text):
    found = marked(text).markup
    unseen = [
        one for one in text.replace("\r\n", "\n") if one not in "\n\t" and (visible(one) != one)
    ]
    assert badges(found) == [f"U+{ord(one):04X}" for one in unseen]
    kept = [one for one in text.replace("\r\n", "\n") if one in "\n\t" or visible(one) == one]
    assert plain(found) == "".join(kept)


@pytest.mark.parametrize(
    "forged",
    [
        "<U+202E>",
        "[badge] U+202E",
        '<span class="badge" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>',
        '"><span class=badge>U+202E</span>',
        "&lt;span class=&quot;badge&quot;&gt;",
        "</div></textarea></script><script>alert(1)</script>",
    ],
)
def test_a_text_cannot_forge_a_badge(forged):
    found = marked(forged).markup
    assert badges(found) == []
    assert tags(found) == []
    assert html.unescape(str(found)) == forged
    assert badges(marked(forged + "\u202e").markup) == ["U+202E"]


def test_badges_say_what_they_stand_for():
    found = str(marked("a\u202eb\x00c\ud800d\u200be\ue000f\rg").markup)
    assert badges(found) == ["U+202E", "U+0000", "U+D800", "U+200B", "U+E000", "U+000D"]
    for title in ("RIGHT-TO-LEFT OVERRIDE", "half of a surrogate pair", "private use character"):
        assert f'title="{title}"' in found


def test_line_breaks_stay_and_marks_on_one_letter_are_counted():
    found = marked("one\r\ntwo\nthree a" + "\u0301" * 500 + " end").markup
    assert badges(found) == ["+496 marks"]
    assert plain(found) == "one\ntwo\nthree a" + "\u0301" * 4 + " end"
    assert badges(marked(unicodedata.normalize("NFD", "Việt Nam ố")).markup) == []


def test_confusable_letters_are_marked_and_named():
    text = "Log in at pаypal today, or write to Москва."
    found = str(marked(text, findings_in(text)).markup)
    assert "CYRILLIC SMALL LETTER A" in found
    assert found.count("confusable") == 1
    assert "Latin and Cyrillic" in found


def test_ordinary_writing_is_not_marked():
    text = "Δv und Σ, 5 μm; Москва и Пекин 北京, नमस्ते"
    assert findings_in(text) == ()
    assert tags(marked(text, findings_in(text)).markup) == []


def test_misplaced_characters_differ_from_those_in_place():
    text = "family \U0001f468\u200d\U0001f469 and gr\u200beat"
    found = str(marked(text, findings_in(text)).markup)
    assert found.count('class="badge"') == 1
    assert found.count('class="badge misplaced"') == 1


def test_remarks_are_marked_where_they_stand():
    import dataclasses

    verdict = dataclasses.replace(
        verdict_on("d"), annotations=(Annotation("single_source", "was opened", 4, 14),)
    )
    found = str(marked("It  was opened late", findings_in("It  was opened late", verdict)).markup)
    assert (
        '<span class="stretch" title="remark, outside the score: single_source">was opened</span>'
        in found
    )


def test_shared_and_differing_words_are_told_apart_in_any_script():
    text = "The Bridge, 北京 x"
    found = words_in(text, frozenset({"bridge", "北"}), limit=100)
    by_kind = {
        kind: [text[s.start : s.stop] for s in found if s.kind == kind]
        for kind in ("shared", "own")
    }
    assert by_kind == {"shared": ["Bridge", "北"], "own": ["The", "京", "x"]}


def test_ten_megabytes_are_cut_and_said_to_be():
    found = marked("x" * 10_000_000)
    assert (found.cut, found.shown, found.characters) == (True, 20_000, 10_000_000)
    assert len(found.markup) == 20_000


def test_short_strings_are_isolated():
    found = str(badged('a"b\u202e<i>\nc', 100))
    assert found.startswith('<bdi class="hostile">')
    assert "<i>" not in found
    assert "\n" not in found
    assert str(badged(None)) == '<bdi class="hostile"></bdi>'
    assert "…" in str(badged("x" * 600))


def test_one_long_word_of_two_alphabets_costs_no_square():
    word = "\u0430a" * 10_000
    begun = time.process_time()
    found = findings_in(word)
    assert time.process_time() - begun < 2
    assert sum(one.kind == "confusable" for one in found) == 10_000
