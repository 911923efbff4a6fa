"""Writing systems, and the words that mix them: excused where text does so, found where planted."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsieve.evidence.writing import MixingReason, mixed_tokens, writing_profile

WRITTEN = [
    # a loan word with the document's own ending, prefix or particle
    "Обновете GNOMEът и Linuxта, после рестартирайте.",
    "Обнови Linuxа и открой PDFки в CMSке; PCный разъём не нужен.",
    "Отвори Bashа и покрени скрипту из терминала.",
    "Բացեք Wordը և Linuxի ձեռնարկը այստեղ։",
    "გახსენით Firefoxი და GNOMEში PDFები.",
    "התקנו את הLinux בServer החדש והפעלנו אותו.",
    "افتح الTerminal ثم الPDF من جديد.",
    "با VPNهای معمولی و Pythonی که هست.",
    "फ़ाइलें PDFमें सहेजें और USBसे खोलें।",
    "புதிய Linuxஇல் PDFகளைத் திறக்கவும்.",
    "Άνοιξε το GNOMEκαι το τερματικό του συστήματος.",
    # scripts without spaces
    "今日はLinuxiのようなカーネルをmakeする。",
    "升级Linux内核之后请重启Docker服务",
    "Linux를 업데이트하고 PDF가 열리는지 보세요.",
    "หลังจากอัปเดตLinuxแล้วเปิดFirefoxอีกครั้ง",
    "この機能はβ段階である。",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8 Linux\u1105\u1173\u11af".replace("Linux", " Linux"),
    # units, mathematics, biochemistry, phonetics, codes
    "10 μm, 4.7kΩ, Δx, 2πr, ΔTmax, λmax, 5μmol, χ2, μTorrent",
    "βlactam αtocopherol TNFα IFNγ NFκB β2microglobulin",
    "thing [θɪŋk], therapy [ˈθɛrəpi], bath /bɑːθ/",
    "Гайка М8x1 и труба 10x20 по чертежу.",
    "Преступлéние и наказáние; гIалгIай мотт",
    "Hawaiʻi, Qurʾān, L'Hôpital, Straße, œuvre, ﬁnal, Åland",
    "La 1ª vez, Mª Jesús, nº5, 25ºC, 2ºB, la 1ªplanta",
    # used on its own, or a habit
    "the letter εcrow uses ε as ε",
    "жzero жone жtwo",
    "Russian: МоскваMoscow, Москва и Казань",
    "हिन्दी में मात्रा ि लगती है",
    "D1\t\u0e31\tThai sign\nD2|\u0e34|Thai sign",
    "signs \u0e31 \u0e34 \u0e35 in a list",
    # a slip of the keyboard in a Cyrillic text
    "Настройка сети и cинергичным способом.",
    "",
    "plain",
    "\ud800",
    "\ud800а\udfffb",
    "1234 __ 🚀",
]

PLANTED = [
    ("log in to pаypal now", "pаypal", ("Latin", "Cyrillic"), MixingReason.LOOK_ALIKE),
    ("Войдите в pаypal сейчас же", "pаypal", ("Latin", "Cyrillic"), MixingReason.LOOK_ALIKE),
    ("search gοogle here", "gοogle", ("Latin", "Greek"), MixingReason.LOOK_ALIKE),
    ("the Аpple store", "Аpple", ("Cyrillic", "Latin"), MixingReason.LOOK_ALIKE),
    ("an Օracle server", "Օracle", ("Armenian", "Latin"), MixingReason.LOOK_ALIKE),
    ("a Ꭺpple tree", "Ꭺpple", ("Cherokee", "Latin"), MixingReason.LOOK_ALIKE),
    ("the riversия flow", "riversия", ("Latin", "Cyrillic"), MixingReason.FRAGMENT),
    ("a mountainي range", "mountainي", ("Latin", "Arabic"), MixingReason.FRAGMENT),
    ("a windowी pane", "windowी", ("Latin", "Devanagari"), MixingReason.FRAGMENT),
    ("the 水garden gate", "水garden", ("East Asian", "Latin"), MixingReason.FRAGMENT),
    ("a walᅥked mile", "walᅥked", ("Latin", "East Asian"), MixingReason.FRAGMENT),
    ("one 36оровmany", "36оровmany", ("Cyrillic", "Latin"), MixingReason.FRAGMENT),
    ("the ξgarden gate", "ξgarden", ("Greek", "Latin"), MixingReason.FRAGMENT),
    ("a gateـway", "gateـway", ("Latin", "Arabic"), MixingReason.FRAGMENT),
    ("the candle ᅲ burns", "ᅲ", ("East Asian",), MixingReason.ORPHAN),
    ("the candle ি burns", "ি", ("Bengali",), MixingReason.ORPHAN),
    ("a candleˈ burns", "candleˈ", ("Latin",), MixingReason.MARK),
    ("a candleª burns", "candleª", ("Latin",), MixingReason.MARK),
]


@pytest.mark.parametrize("text", WRITTEN, ids=ascii)
def test_text_as_it_is_written_is_not_suspicious(text):
    assert mixed_tokens(text) == ()


@pytest.mark.parametrize(("text", "word", "scripts", "reason"), PLANTED, ids=ascii)
def test_a_planted_word_is_found_where_it_is(text, word, scripts, reason):
    (token,) = mixed_tokens(text)
    assert (token.text, token.scripts, token.reason) == (word, scripts, reason)
    assert text[token.start : token.stop] == word


def test_three_slips_are_no_slips():
    text = "Пoпробуйте нaстроить сeть и откройте меню системы"
    assert [token.text for token in mixed_tokens(text)] == ["Пoпробуйте", "нaстроить", "сeть"]


def test_findings_are_in_order_and_offsets_count_code_points():
    text = "🚀🚀 one riverя, a candle ᅲ and a hillˈ"
    found = mixed_tokens(text)
    assert [token.text for token in found] == ["riverя", "ᅲ", "hillˈ"]
    assert all(text[token.start : token.stop] == token.text for token in found)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", ()),
        ("12 🚀 \ud800", ()),
        ("abc где", (("Cyrillic", 3), ("Latin", 3))),
        ("漢字かなカナ한글ㄅ", (("East Asian", 9),)),
        ("µm ªº ー", (("Latin", 1), ("East Asian", 1))),
        ("e\u0301 हि ไม้", (("Thai", 3), ("Devanagari", 2), ("Latin", 1))),
        ("𐌰𐌱", (("Gothic", 2),)),
        ("𒀀", (("Other", 1),)),
    ],
    ids=ascii,
)
def test_letters_by_script_property(text, counts):
    assert dict(writing_profile(text).counts) == dict(counts)


def test_minority_share():
    assert writing_profile("abcг").minority_share == pytest.approx(0.25)
    assert writing_profile("").minority_share == 0.0


MIXTURE = st.text(alphabet=st.sampled_from("ab яжа βΔ ي ह ि 水か ไ ᅲ ˈ ª 1 _\ud800🚀"), max_size=60)


@given(MIXTURE, st.text(alphabet=st.characters(max_codepoint=0x7F), max_size=40))
def test_more_ascii_text_creates_no_finding(text, more):
    before = {token.text for token in mixed_tokens(text)}
    assert {token.text for token in mixed_tokens(f"{text} {more}")} <= before


@given(st.text(max_size=80))
def test_any_text_has_a_profile_and_exact_offsets(text):
    profile = writing_profile(text)
    assert 0.0 <= profile.minority_share < 1.0
    assert list(profile.counts) == sorted(profile.counts, key=lambda pair: (-pair[1], pair[0]))
    for token in mixed_tokens(text):
        assert text[token.start : token.stop] == token.text


@given(st.text(alphabet=st.characters(max_codepoint=0x24F, exclude_characters="ªº"), max_size=60))
def test_latin_alone_is_never_mixed(text):
    assert mixed_tokens(text) == ()


def test_long_texts_take_linear_time():
    text = "Обновете GNOMEът и Linuxта, then riversия flow. " * 4000
    start = time.perf_counter()
    mixed_tokens(text)
    assert time.perf_counter() - start < 10
