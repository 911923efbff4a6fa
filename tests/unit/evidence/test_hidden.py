"""Invisible characters: in place where a script asks for them, found where it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsieve.evidence.hidden import HiddenCharacter, HiddenKind, HiddenText, hidden_text

BIDI, ZERO_WIDTH, TAG = HiddenKind.BIDI, HiddenKind.ZERO_WIDTH, HiddenKind.TAG


def tags(words):
    return "".join(chr(0xE0000 + ord(character)) for character in words)


def selectors(data):
    return "".join(chr(0xFE00 + byte if byte < 16 else 0xE0100 + byte - 16) for byte in data)


IN_PLACE = {
    "nothing": "",
    "ascii": "plain\x00text",
    "surrogate": "\ud800x\udfff",
    "family": "👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈 👩🏽\u200d💻",
    "flag": "🏴" + tags("gbsct") + "\U000e007f",
    "keycap": "1\ufe0f\u20e3 #\ufe0f\u20e3 ©\ufe0f ☎\ufe0e ‼\ufe0f",
    "persian": "می\u200cخواهم PDF\u200cها و کتاب\u200cها",
    "persian before a space": "PDF\u200c را در فایل",
    "hindi": "क\u094d\u200dष और क\u094d\u200cष",
    "malayalam": "ന\u0d4d\u200d",
    "sinhala": "ක\u0dca\u200dය",
    "bengali": "র\u200d\u09cdয",
    "khmer": "ខ្មែរ\u200bភាសា",
    "thai": "ภาษา\u200bไทย \u200bดี",
    "lao": "ລາວ\u200bດີ",
    "burmese": "မြန်မာ\u200bစာ",
    "tibetan": "བོད་\u200bཡིག",
    "japanese": "東京\u200b都、\u200b大阪",
    "mongolian": "ᠮᠣᠩ\u180bᠭᠣᠯ\u202fᠤ\u180eᠨ",
    "jamo": "\u1100\u1160 \u115f\u1161",
    "byte order mark": "\ufeffTitle\n\n\ufeffBody",
    "hebrew mark": "\u200fשלום C++\u200f ועוד",
    "arabic mark": "سعر 10\u061c ريال",
    "isolate": "שלום \u2067abc\u2069 ועוד",
    "nested": "שלום \u202bאב \u2066c d\u2069 ג\u202c",
    "idle left-to-right mark": "Urdu: \u200e ; born",
    "soft hyphen": "Donau\u00addampf\u00adschiff",
    "soft hyphen at a line end": "Donau\u00ad\ndampf",
    "soft hyphen as itself": "173\tAD\t\u00ad\tSOFT HYPHEN",
    "word joiner": "10\u2060–\u206020 C\u2060++ 東\u2060京",
    "ideographic variant": "葛\U000e0100城",
    "slashed zero": "0\ufe00 ∩\ufe00",
    "mathematics": "f\u2061(x) = 2\u2062x + a\u2062b",
}

OUT_OF_PLACE = [
    ("ig\u200bnore", [(2, ZERO_WIDTH)]),
    ("ig\u200cno\u200dre", [(2, ZERO_WIDTH), (5, ZERO_WIDTH)]),
    ("ig\u2060nore 1\ufeff2", [(2, ZERO_WIDTH), (9, ZERO_WIDTH)]),
    ("слово\u200bслово", [(5, ZERO_WIDTH)]),
    ("می\u200c\u200c\u200cخواهم", [(3, ZERO_WIDTH)]),
    (
        "i\u00adg\u00adn\u00ado\u00adre",
        [(1, ZERO_WIDTH), (3, ZERO_WIDTH), (5, ZERO_WIDTH), (7, ZERO_WIDTH)],
    ),
    ("ig\u2062nore", [(2, ZERO_WIDTH)]),
    ("ab\ufe0fcd", [(2, ZERO_WIDTH)]),
    ("a\U000e0100", [(1, ZERO_WIDTH)]),
    ("a\u034fb", [(1, ZERO_WIDTH)]),
    ("a\u3164b", [(1, ZERO_WIDTH)]),
    ("👩\u200dx", [(1, ZERO_WIDTH)]),
    ("ig\u200enore", [(2, BIDI)]),
    ("abc\u200f def", [(3, BIDI)]),
    ("abc \u2067def\u2069", [(4, BIDI), (8, BIDI)]),
    ("שלום \u2067abc", [(5, BIDI)]),
    ("שלום \u2067abc\nאב\u2069", [(5, BIDI), (12, BIDI)]),
    ("שלום \u202c", [(5, BIDI)]),
    ("\u202eשלום\u202c", [(0, BIDI)]),
]


@pytest.mark.parametrize("text", IN_PLACE.values(), ids=IN_PLACE.keys())
def test_what_the_script_asks_for_is_not_counted(text):
    assert hidden_text(text) == HiddenText(())
    assert hidden_text(text).value == 0.0


@pytest.mark.parametrize(("text", "expected"), OUT_OF_PLACE, ids=ascii)
def test_what_nothing_asks_for_is_found_where_it_is(text, expected):
    found = hidden_text(text)
    assert [(one.offset, one.kind) for one in found.characters] == expected
    assert all(text[one.offset] == chr(one.code_point) for one in found.characters)
    assert (found.value, found.message, found.reorders) == (0.5, "", False)


def test_tags_outside_a_flag_are_a_message():
    found = hidden_text("hi" + tags("say yes") + "\U000e007f!")
    assert found.message == "say yes"
    assert found.characters[0] == HiddenCharacter(2, 0xE0073, TAG)
    assert len(found.characters) == 8
    assert found.value == 1.0


def test_a_flag_that_is_no_flag_carries_a_message():
    assert hidden_text("🏴" + tags("ignore all") + "\U000e007f").message == "ignore all"
    assert hidden_text("🏴" + tags("gbsct")).value == 1.0


def test_runs_of_variation_selectors_are_bytes():
    found = hidden_text("😀" + selectors("trust é".encode()) + " ok")
    assert found.message == "trust é"
    assert {one.kind for one in found.characters} == {TAG}
    assert found.value == 1.0


def test_bytes_that_are_no_text_do_not_fail():
    assert hidden_text("x" + selectors(b"\xff\xfe\x00")).message == "\ufffd\ufffd\x00"


@pytest.mark.parametrize(
    ("text", "reorders"),
    [
        ("abc \u202egnp.exe", True),
        ("abc \u202e12\u202c", True),
        ("\u202dשלום\u202c", True),
        ("\u202eשלום\u202c abc", False),
        ("\u202e\nabc", False),
        ("\u202dabc\u202c", False),
    ],
    ids=ascii,
)
def test_overrides_that_turn_letters(text, reorders):
    found = hidden_text(text)
    assert found.reorders is reorders
    assert found.value == (1.0 if reorders else 0.5)


HOSTILE = "a1ب א ไ 水 😀\n\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202c\u202e\u2060\u2066\u2069\ufe0f\ufeff\U000e0041\U000e0100\ud800"


@given(
    st.text(alphabet=st.sampled_from(HOSTILE), max_size=40),
    st.text(alphabet=st.characters(max_codepoint=0x7F), max_size=40),
)
def test_more_ascii_lines_create_no_finding(text, more):
    before = hidden_text(text).characters
    assert set(hidden_text(f"{text}\n{more}").characters) <= set(before)
    shift = len(more) + 1
    after = {one.offset - shift for one in hidden_text(f"{more}\n{text}").characters}
    assert after <= {one.offset for one in before}


@given(st.text(alphabet=st.characters(max_codepoint=0x7F)))
def test_ascii_hides_nothing(text):
    assert hidden_text(text) == HiddenText(())


@given(st.text(max_size=80))
def test_any_text_is_measured(text):
    found = hidden_text(text)
    assert found.value in {0.0, 0.5, 1.0}
    assert (found.value == 0.0) is (not found.characters)
    offsets = [one.offset for one in found.characters]
    assert offsets == sorted(set(offsets))
