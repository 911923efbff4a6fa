"""Whole reviews in a headless Chromium: by mouse, by keys, without script, and of a hostile document.

Needs playwright: ``.venvs/service/bin/pytest -m browser tests/service``.
"""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.browser

BIDI, ZERO, TAGGED = "\u202e", "\u200b", "\U000e0041"
HOSTILE = (
    "</textarea></script></style></title>--><script>alert('text')</script>"
    "<img src=x onerror=alert('image')><svg onload=alert('svg')><a href='javascript:alert(1)'>x</a>"
    "<div hx-get='/desk/sign-out' hx-trigger='load'></div><form action=//evil.example>"
    '<span class="badge" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span> <U+202E> [badge] U+200B '
    f"{BIDI}live{BIDI}gnp.exe p{ZERO}ay p\u0430ypal {TAGGED}{TAGGED} \u2066\u2067isolates "
    "{{ 7 * 7 }} ${alert(1)} {% raw %} "
    + "Z"
    + "\u0301\u0302\u0316\u0336" * 200
    + "algo "
    + "W" * 5_000
    + " \u05d0\u05d1\u05d2 \u0645\u0631\u062d\u0628\u0627 end"
)
# What cannot be seen in it, and one tower of marks.
UNSEEN = 2 * [BIDI] + [ZERO] + 2 * [TAGGED] + ["\u2066", "\u2067"]


@pytest.fixture(scope="module")
def browser():
    from service.browsing import chromium

    with chromium() as found:
        yield found


@pytest.fixture
def bench(tmp_path):
    from unit.service.reviewed import make

    return make(tmp_path, extra=[HOSTILE], keyed=True, tenant="acme")


@pytest.fixture
def address(bench):
    from service.browsing import desk

    with desk(bench) as found:
        yield found


def sign_in(page, bench, **key):
    token = bench.token(tenant="acme", **key)
    page.goto("/desk")
    page.get_by_role("textbox", name="Key").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("#queue")


def neighbours(page):
    page.wait_for_selector("#beside .neighbour")
    return page.locator(".neighbour")


def test_a_whole_review(browser, bench, address):
    from service.browsing import watched

    with watched(browser, address) as window:
        page = window.page
        sign_in(page, bench)
        assert {"p0", "p4"} <= set(bench.served())

        page.get_by_role("textbox", name="Author").fill("eve")
        page.get_by_role("combobox", name="Reviewed").select_option("no")
        page.get_by_role("button", name="Filter").click()
        page.wait_for_url("**/desk?*author=eve*")
        assert page.locator("[data-item]").count() == 2
        assert "wait for a first opinion" in page.locator("#counts").inner_text()

        page.get_by_role("link", name=re.compile("^Campaign")).first.click()
        page.get_by_role("link", name="p0", exact=True).click()
        found = neighbours(page)
        assert found.count() == 16
        assert found.first.get_attribute("class") == "neighbour mate"
        assert page.locator(".neighbour .shared").count() > 20
        assert page.locator(".neighbour .own").count() > 20
        assert page.locator("table.evidence svg.bar").count() == 3
        assert "unavailable: no language model was loaded" in page.inner_text("table.evidence")
        assert "harbour bridge of Norvik" in page.inner_text("#text")

        page.get_by_role("link", name=re.compile("^Campaign")).click()
        page.get_by_role("radio", name=re.compile("^Quarantine")).check()
        page.get_by_role("textbox", name="Reason").fill("five copies of one claim")
        page.get_by_role("button", name="Apply").click()
        assert "5 findings, 5 documents changed" in page.locator("#done").inner_text()
        assert not {name for name in bench.served() if name.startswith("p")}
        assert bench.hidden() == {"p0", "p1", "p2", "p3", "p4"}
        assert page.locator(".chip.hides").count() == 5

        page.get_by_role("button", name="Undo").click()
        page.wait_for_selector("#done:has-text('Undone')")
        assert {"p0", "p4"} <= set(bench.served())
        assert bench.hidden() == frozenset()
        assert window.calm, window
        assert bench.ledger.audit.verify().intact


def test_a_review_by_keys_alone(browser, bench, address):
    from service.browsing import watched

    with watched(browser, address) as window:
        page = window.page
        sign_in(page, bench)
        page.keyboard.press("?")
        assert page.locator("#help").is_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert "x0" in page.locator("[data-item].selected").inner_text()
        page.keyboard.press("k")
        assert "Campaign" in page.locator("[data-item].selected").inner_text()
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"

        page.keyboard.press("q")
        page.wait_for_url("**/desk/campaigns?*")
        assert page.locator("input[value=quarantine]").is_checked()
        assert page.evaluate("document.activeElement.name") == "reason"
        # Letters in a field are letters.
        page.keyboard.type("quick jury did it")
        page.keyboard.press("Enter")
        page.wait_for_selector("#done")
        assert len(bench.store.hidden) == 5
        assert {one.reason for one in bench.store.hidden.values()} == {"quick jury did it"}

        page.keyboard.press("u")
        page.wait_for_selector("#done:has-text('Undone')")
        assert bench.store.hidden == {}

        page.keyboard.press("j")
        page.keyboard.press("o")
        page.wait_for_url("**/desk/cases/*")
        first = page.url
        page.keyboard.press("j")
        page.wait_for_url(lambda url: url != first)
        for key, act in (("r", "release"), ("d", "duplicate"), ("i", "needs-info")):
            page.keyboard.press(key)
            assert page.locator(f"#act input[value={act}]").is_checked()
            page.keyboard.press("Escape")
        page.keyboard.press("d")
        page.keyboard.type("the same claim")
        page.keyboard.press("Enter")
        page.wait_for_selector("#done:has-text('duplicate')")
        assert bench.store.hidden == {}
        assert window.calm, window


def test_a_review_without_script(browser, bench, address):
    from service.browsing import watched

    with watched(browser, address, script=False) as window:
        page = window.page
        sign_in(page, bench)
        page.get_by_role("link", name=re.compile("^Campaign")).first.click()
        page.get_by_role("link", name="p0", exact=True).click()
        page.get_by_role("link", name="Show them without script").click()
        assert neighbours(page).count() == 16
        page.get_by_role("radio", name=re.compile("^Quarantine")).check()
        page.get_by_role("textbox", name="Reason").fill("plain form")
        page.get_by_role("button", name="Apply").click()
        assert list(bench.store.hidden) == ["p0"]
        page.get_by_role("button", name="Undo").click()
        assert bench.store.hidden == {}


def test_a_hostile_document_stays_a_text(browser, bench, address):
    from service.browsing import watched

    with watched(browser, address) as window:
        page = window.page
        sign_in(page, bench)
        assert window.overflow() <= 0
        page.get_by_role("link", name="x0", exact=True).click()
        neighbours(page)
        page.wait_for_function("!document.querySelector('#loading')")
        assert page.locator("#text .badge").count() == len(UNSEEN) + 1
        assert page.locator("#text .badge").all_inner_texts() == [
            *[f"U+{ord(one):04X}" for one in UNSEEN],
            "+796 marks",
        ]
        title = page.locator("#text .confusable").get_attribute("title")
        assert title.endswith("CYRILLIC SMALL LETTER A")
        shown = page.locator("#text").evaluate("one => one.textContent")
        for words in (
            "<script>alert('text')</script>",
            "<U+202E>",
            "[badge]",
            "{{ 7 * 7 }}",
            "onerror=",
        ):
            assert words in shown
        # Nothing of it became an element but our own marks.
        kinds = page.locator("#text *").evaluate_all(
            "all => [...new Set(all.map(one => one.tagName))]"
        )
        assert kinds == ["SPAN"]
        assert page.locator("#text").evaluate(
            "one => [...one.querySelectorAll('*')].every(part => [...part.attributes]"
            ".every(given => ['class', 'title'].includes(given.name)))"
        )
        # It stays in its box: the window, the long word and the tower.
        assert window.overflow() <= 0
        box = page.locator("#text")
        assert box.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
        assert "paint" in box.evaluate("one => getComputedStyle(one).contain")
        # What follows it reads from left to right.
        assert (
            page.locator("h2", has_text="Its nearest neighbours").evaluate(
                "one => getComputedStyle(one).direction"
            )
            == "ltr"
        )
        page.goto("/desk/cases/" + bench.of("p0").id)
        neighbours(page)
        assert window.overflow() <= 0
        page.set_viewport_size({"width": 420, "height": 800})
        assert window.overflow() <= 0
        page.goto("/desk")
        assert window.overflow() <= 0
        assert window.calm, window
        assert page.locator("text=Sign out").count() == 1


def test_two_reviewers_at_one_document(browser, bench, address):
    from service.browsing import watched

    with watched(browser, address) as first, watched(browser, address) as second:
        for window, name in ((first, "mara"), (second, "ada")):
            sign_in(window.page, bench, name=name)
            window.page.goto("/desk/cases/" + bench.of("p0").id)
            neighbours(window.page)
        for window, act in ((first, "benign"), (second, "quarantine")):
            window.page.locator(f"#act input[value={act}]").check()
            window.page.locator("#act .reason").fill("my view")
            window.page.get_by_role("button", name="Apply").click()
            window.page.wait_for_load_state()
        told = second.page.inner_text("main")
        assert "Somebody else was quicker. Nothing of what you sent was written." in told
        assert re.search(r"mara \[\w+\] said benign", told)
        second.page.get_by_role("link", name="Look again").click()
        assert "benign" in second.page.inner_text("main")
        assert bench.store.changes == 0


def test_another_threshold_is_tried(browser, bench, address):
    from service.browsing import watched

    for name in ("p0", "p3", "p4"):
        bench.ledger.reviews.add(bench.of(name).id, "confirmed", reason="r", tenant="acme")
    bench.ledger.reviews.add(bench.of("x0").id, "benign", reason="r", tenant="acme")
    with watched(browser, address) as window:
        page = window.page
        sign_in(page, bench)
        page.get_by_role("link", name="Calibration").click()
        assert "3 of 4" in page.inner_text("#overall")
        assert "confirmed: 3 of 3" in page.inner_text("#effect")
        page.get_by_role("slider").fill("2.5")
        page.get_by_role("slider").dispatch_event("change")
        page.wait_for_selector("#effect:has-text('2.500')")
        assert "confirmed: 2 of 3" in page.inner_text("#effect")
        assert "benign: 0 of 1" in page.inner_text("#effect")
        assert window.overflow() <= 0
        assert window.calm, window
