"""The desk over HTTP: who may sit at it, forms, filters, campaigns, cases, calibration, faults."""

from __future__ import annotations

import html
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from memory_store import MemoryStore
from ragsieve.cases import Opinion
from ragsieve.service.desk.calibrating import calibration, share
from ragsieve.service.keys import Role
from unit.service.making import served
from unit.service.reviewed import STORE, make, rows

TESTS = Path(__file__).parents[2]
HOSTILE = "A \u202etxet</textarea></script><script>alert(1)</script> <img src=x onerror=alert(1)> <U+202E>"


@pytest.fixture
def bench(tmp_path):
    return make(tmp_path, extra=[HOSTILE])


@pytest.fixture
def client(bench):
    with served(bench.parts()) as found:
        found.get("/desk")
        yield found


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    """A bench that its tests leave as it is."""
    return make(tmp_path_factory.mktemp("steady"), extra=[HOSTILE])


@pytest.fixture(scope="module")
def reader(steady):
    with served(steady.parts()) as found:
        found.get("/desk")
        yield found


def text_of(page):
    return html.unescape(re.sub(r"<[^>]*>", "", page.text))


def csrf(client, address="/desk"):
    return re.search(r'name="csrf" value="([^"]+)"', client.get(address).text)[1]


def tokens(client, address):
    found = re.findall(r'name="finding" value="([^"]+)"', client.get(address).text)
    return list(dict.fromkeys(found))


def act(client, what="quarantine", address="/desk/campaigns?name=scan1-1", found=None, **more):
    form = {
        "csrf": csrf(client),
        "act": what,
        "reason": "five copies",
        "finding": tokens(client, address) if found is None else found,
    }
    return client.post("/desk/act", data=form | more)


def sign_in(client, token):
    return client.post("/desk/sign-in", data={"key": token})


class TestSessions:
    @pytest.fixture
    def bench(self, tmp_path):
        return make(tmp_path, keyed=True, tenant="acme")

    def test_strangers_are_led_to_the_sign_in(self, bench):
        bench.token()
        with served(bench.parts()) as client:
            page = client.get("/desk")
            assert str(page.url).endswith("/desk/sign-in")
            assert client.get("/desk/cases/x").url.path == "/desk/sign-in"
            assert client.post("/desk/act", data={"act": "benign"}).status_code == 401
            assert sign_in(client, "ragsieve_nothing").status_code == 401
            assert sign_in(client, "x" * 5_000).status_code == 422

    def test_no_key_stands_in_the_log(self, bench, caplog):
        token = bench.token(tenant="acme")
        with caplog.at_level("DEBUG"), served(bench.parts()) as client:
            sign_in(client, token)
            client.get("/desk?scan=" + token)
            client.get("/desk/" + token)
            client.post("/desk/sign-in", json={"key": token})
        assert "/desk/sign-in" in caplog.text
        ours = [one.getMessage() for one in caplog.records if one.name.startswith("ragsieve")]
        assert ours
        assert not [one for one in ours if token in one]

    def test_a_reviewer_signs_in_and_out(self, bench):
        token = bench.token(tenant="acme")
        with served(bench.parts()) as client:
            page = sign_in(client, token)
            assert (page.url.path, "scan1-1" in page.text) == ("/desk", True)
            assert token not in page.text
            assert client.post("/desk/sign-out", data={}).status_code == 403
            client.post("/desk/sign-out", data={"csrf": csrf(client)})
            assert client.get("/desk").url.path == "/desk/sign-in"

    @pytest.mark.parametrize("role", [Role.SERVICE])
    def test_keys_of_services_do_not_enter(self, bench, role):
        token = bench.token(role, tenant="acme")
        with served(bench.parts()) as client:
            assert sign_in(client, token).status_code == 403
            assert client.get("/desk").url.path == "/desk/sign-in"

    def test_a_revoked_key_ends_its_session(self, bench):
        token = bench.token(tenant="acme")
        bench.token(Role.ADMIN, "keeper")
        with served(bench.parts()) as client:
            sign_in(client, token)
            bench.key_file.revoke(bench.key_file.keys()[0].id)
            assert client.get("/desk").url.path == "/desk/sign-in"

    def test_other_tenants_see_nothing(self, bench):
        token = bench.token(tenant="globex")
        one = bench.of("p0").id
        with served(bench.parts()) as client:
            assert "There are no findings" in sign_in(client, token).text
            for address in (
                f"/desk/cases/{one}",
                f"/desk/cases/{one}/beside",
                "/desk/campaigns?name=scan1-1",
                "/desk/scans/scan1/rollback",
            ):
                assert client.get(address).status_code == 404, address
            told = act(client, found=[f"{one}:1:0"])
            assert told.status_code == 404
        assert bench.store.changes == 0

    def test_a_form_of_another_session_or_site_is_refused(self, bench):
        token = bench.token(tenant="acme")
        with served(bench.parts()) as client, served(bench.parts()) as other:
            sign_in(client, token)
            sign_in(other, token)
            foreign = csrf(other)
            found = tokens(client, "/desk/campaigns?name=scan1-1")
            form = {"act": "quarantine", "reason": "r", "finding": found}
            for given in ({}, {"csrf": "x"}, {"csrf": foreign}):
                assert client.post("/desk/act", data=form | given).status_code == 403
                assert client.post("/desk/undo", data=given).status_code == 403
                assert client.post("/desk/truth", data=given).status_code == 403
                assert client.post("/desk/scans/scan1/rollback", data=given).status_code == 403
            told = client.post(
                "/desk/sign-in", data={"key": token}, headers={"Sec-Fetch-Site": "cross-site"}
            )
            assert told.status_code == 403
        assert bench.store.changes == 0


def test_campaigns_stand_once_most_pressing_first(reader):
    page = reader.get("/desk")
    assert page.headers["content-type"].startswith("text/html")
    assert page.text.count("data-item") == 2
    assert page.text.index("scan1-1") < page.text.index('<bdi class="hostile">x0</bdi>')
    words = text_of(page)
    assert "6 findings here; 6 wait" in words
    assert "never a verdict on whether it is true" in words


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("author=bob", "No finding passes this filter"),
        ("author=eve&evidence=neighbor_gap", "5 findings"),
        ("evidence=hidden_text", "No finding passes this filter"),
        ("document=p3", "1 finding here"),
        ("document=p3", "5 findings, 1 match"),
        ("reviewed=yes", "No finding passes"),
        ("state=quarantined", "No finding passes"),
        (
            "level=quarantine&days=30&opinion=&store=memory:///docs&scan=scan1&known=no",
            "6 findings here",
        ),
        ("page=2", "Earlier page"),
    ],
)
def test_the_queue_is_filtered(reader, asked, words):
    assert words in text_of(reader.get(f"/desk?{asked}"))


@pytest.mark.parametrize(
    "asked",
    [
        "days=x",
        "days=0",
        "days=00000000019999999999",
        "state=gone",
        "reviewed=maybe",
        "page=-1",
        f"page=000000001{'0' * 5_000}",
        f"store={'x' * 1_025}",
    ],
)
def test_a_filter_that_cannot_be_read_is_a_page(reader, asked):
    page = reader.get(f"/desk?{asked}")
    assert page.status_code == 422
    assert page.headers["content-type"].startswith("text/html")


def test_pages_of_campaigns_follow_each_other(tmp_path):
    bench = make(tmp_path, extra=[f"Finding {n} about a bridge." for n in range(45)])
    with served(bench.parts()) as client:
        client.get("/desk")
        seen = []
        for page in ("1", "2", "3"):
            text = client.get(f"/desk?page={page}").text
            seen.append(re.findall(r'class="open" href="([^"]+)"', text))
            assert ('rel="next"' in text) is (page != "3")
        assert [len(one) for one in seen] == [20, 20, 6]
        assert len({one for page in seen for one in page}) == 46


def test_a_part_of_the_queue_comes_alone(reader):
    page = reader.get("/desk?document=p3", headers={"HX-Request": "true", "HX-Target": "queue"})
    assert page.text.lstrip().startswith('<section id="queue"')


def test_a_campaign_is_hidden_vanishes_and_comes_back(bench, client):
    assert {"p0", "p4"} <= set(bench.served())
    page = act(client)
    assert page.status_code == 200
    assert "Done: quarantine, 5 findings, 5 documents changed" in text_of(page)
    assert not {name for name in bench.served() if name.startswith("p")}
    undo = re.search(r'name="undo" value="([^"]+)"', page.text)[1]
    page = client.post("/desk/undo", data={"csrf": csrf(client), "undo": undo})
    assert "Undone: quarantine" in text_of(page)
    assert {"p0", "p4"} <= set(bench.served())
    assert 'name="undo"' not in page.text


def test_what_is_hidden_is_gone_from_the_filter_too(bench):
    from ragsieve.detectors.query import QueryDetector
    from ragsieve.records import Document
    from ragsieve.service.holdings import Collection

    documents = {row.id: Document(row.id, row.text) for row in rows()}
    held = Collection("docs", QueryDetector("default"), documents=documents, withheld=bench.hidden)
    asked = {"query": "when was the bridge opened", "ids": list(documents), "mode": "decision"}
    with served(bench.parts(held)) as client:
        client.get("/desk")
        assert client.post("/v1/filter", json=asked).json()["withheld"] == []
        page = act(client)
        gone = client.post("/v1/filter", json=asked).json()
        assert sorted(gone["withheld"]) == ["p0", "p1", "p2", "p3", "p4"]
        assert not {one["id"] for one in gone["kept"]} & set(gone["withheld"])
        undo = re.search(r'name="undo" value="([^"]+)"', page.text)[1]
        client.post("/desk/undo", data={"csrf": csrf(client), "undo": undo})
        assert client.post("/v1/filter", json=asked).json()["withheld"] == []


def test_from_a_case_to_the_whole_campaign(bench, client):
    address = f"/desk/cases/{bench.of('p2').id}"
    members = re.findall(r'name="member" value="([^"]+)"', client.get(address).text)
    assert len(members) == 5
    form = {"scope": "campaign", "member": members, "case": bench.of("p2").id}
    page = act(client, address=address, **form)
    assert page.url.path == address
    assert len(bench.store.hidden) == 5
    assert "hidden" in client.get("/desk").text


def test_the_second_of_two_reviewers_is_told(bench, client):
    stale = tokens(client, "/desk/campaigns?name=scan1-1")
    act(client, "benign", address=f"/desk/cases/{bench.of('p0').id}")
    page = act(client, found=stale)
    assert page.status_code == 409
    assert "Somebody else was quicker. Nothing of what you sent was written." in text_of(page)
    assert "local said benign" in text_of(page)
    assert bench.store.changes == 0


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"act": ""}, 422),
        ({"act": "delete"}, 422),
        ({"reason": " "}, 422),
        ({"finding": []}, 422),
        ({"finding": ["x"]}, 422),
        ({"finding": ["x:y:z"]}, 422),
        ({"finding": ["x:1:0"]}, 404),
        ({"reason": "x" * 5_000}, 422),
    ],
)
def test_forms_that_cannot_be_used_are_pages(steady, reader, change, status):
    form = {"csrf": csrf(reader), "act": "benign", "reason": "r"}
    form |= {"finding": tokens(reader, "/desk/campaigns?name=scan1-1")}
    page = reader.post("/desk/act", data=form | change)
    assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert steady.store.changes == 0
    long = reader.post("/desk/act", data=form | {"reason": "x" * 300_000})
    assert (long.status_code, long.headers["content-type"]) == (413, "text/html; charset=utf-8")
    upload = reader.post("/desk/act", files={"finding": b"x"}, data=form)
    assert upload.status_code == 415


def test_a_case_shows_everything_it_rests_on(steady, reader):
    words = text_of(reader.get(f"/desk/cases/{steady.of('p0').id}"))
    for expected in (
        "unavailable: no language model was loaded",
        "editors",
        "https://wiki.example/bridges",
        "fake-encoder",
        "when was the harbour bridge of Norvik opened",
        "Retrieved 3 times in 30 days",
        "No opinion yet",
        "Now: unverified",
        "a" * 64,
        "scan scan1",
        "place 1",
    ):
        assert expected in words


def test_unavailable_evidence_has_no_bar(steady, reader):
    page = reader.get(f"/desk/cases/{steady.of('p0').id}").text
    table = page[page.index('<table class="evidence">') : page.index("</table>")]
    assert table.count("<svg") == 3
    assert "0.000" in table


def test_a_document_stands_beside_its_neighbours(bench, client):
    act(client)
    page = client.get(f"/desk/cases/{bench.of('p0').id}/beside").text
    assert page.count("same campaign") == 4
    assert page.count('<span class="chip hides">hidden</span>') == 4
    cosines = [float(one) for one in re.findall(r"cosine (-?[\d.]+)", page)]
    assert cosines == sorted(cosines, reverse=True)
    assert len(cosines) == 13 + 4
    assert 'class="shared"' in page
    assert 'class="own"' in page


def test_the_stretch_that_no_neighbour_knows_is_marked(tmp_path):
    strange = " ".join(f"quolvan{n} brimmet{n}" for n in range(6))
    bench = make(
        tmp_path, extra=["The harbour bridge over the Nor was opened in 1931. " * 4 + strange]
    )
    with served(bench.parts()) as client:
        client.get("/desk")
        page = client.get(f"/desk/cases/{bench.of('x0').id}/beside").text
    marked = re.findall(
        r'<span class="stretch" title="words that no neighbour[^"]*">([^<]*)<', page
    )
    assert marked
    assert "quolvan3" in marked[0]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda store: store.rows.pop("p0"), "does not hold the document any more"),
        (
            lambda store: setattr(store, "fetch", lambda _ids: (_ for _ in ()).throw(_gone())),
            "cannot be asked",
        ),
    ],
)
def test_what_the_store_cannot_tell_is_said(bench, client, spoil, words):
    spoil(bench.store)
    page = client.get(f"/desk/cases/{bench.of('p0').id}?beside=1")
    assert page.status_code == 200
    assert words in text_of(page)
    assert "Zephyr Quartz" in text_of(page)


def _gone():
    from ragsieve.errors import StoreError

    return StoreError("memory:///docs: gone")


def test_a_text_of_ten_megabytes_is_cut_and_said_to_be(tmp_path):
    bench = make(tmp_path, extra=["word " * 2_000_000])
    with served(bench.parts()) as client:
        client.get("/desk")
        page = client.get(f"/desk/cases/{bench.of('x0').id}?beside=1")
    assert len(page.content) < 2_000_000
    assert "The first 20,000 of 10,000,000 characters are shown" in text_of(page)


def test_hostile_text_stays_text_on_every_page(steady, reader):
    one = steady.of("x0").id
    for address in (
        "/desk",
        f"/desk/cases/{one}",
        f"/desk/cases/{one}?beside=1",
        "/desk/calibration",
    ):
        page = reader.get(address)
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "<img" not in page.text
        assert "\u202e" not in page.text
        policy = page.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert " style=" not in page.text
        assert not re.search(r"\son\w+=", re.sub(r'"[^"]*"|>[^<]*<', "", page.text))
        assert not re.search(r"<script(?! src=\"/desk/static/)", page.text)


def test_truth_is_written_apart_from_every_act(bench, client):
    one = bench.of("p0").id
    form = {
        "csrf": csrf(client),
        "case": one,
        "finding": tokens(client, f"/desk/cases/{one}")[0],
        "truth": "false",
        "reason": "the archive says 1931",
    }
    page = client.post("/desk/truth", data=form)
    assert "Now: false" in text_of(page)
    assert bench.ledger.incidents.get(one).incident.opinion is None
    assert client.post("/desk/truth", data=form | {"truth": "maybe"}).status_code == 422
    assert client.post("/desk/truth", data=form).status_code == 409


def test_a_scan_is_rolled_back_from_its_preview(bench, client):
    act(client)
    scan = bench.ledger.incidents.get(bench.of("p0").id).item.scan_id
    address = f"/desk/scans/{scan}/rollback"
    page = client.get(address)
    assert "also the 5 contested" in text_of(page)
    form = {"csrf": csrf(client), "clean": "0", "disputed": "5", "reason": "no"}
    assert "5 contested ones left" in text_of(client.post(address, data=form))
    assert len(bench.store.hidden) == 5
    page = client.post(address, data=form | {"contested": "yes"})
    assert "5 released" in text_of(page)
    assert bench.store.hidden == {}
    assert client.post(address, data=form | {"contested": "yes"}).status_code == 409


@pytest.mark.parametrize(
    "path",
    [
        "/desk/nothing",
        "/desk/static/../routes.py",
        "/desk/static/..%2Froutes.py",
        "/desk/static/%2e%2e%2froutes.py",
        "/desk/static/routes.py",
        "/desk/static//etc/passwd",
        "/desk/cases/..%2F..%2Fetc",
    ],
)
def test_nothing_else_is_served(reader, path):
    page = reader.get(path)
    assert page.status_code == 404
    assert "def router" not in page.text


def test_the_files_of_the_desk_are_there_with_a_licence(reader):
    for name in ("desk.css", "desk.js", "htmx.min.js", "htmx-LICENSE.txt", "icon.svg"):
        assert reader.get(f"/desk/static/{name}").status_code == 200, name
    assert "Zero-Clause BSD" in reader.get("/desk/static/htmx-LICENSE.txt").text


class TestCalibration:
    def reviewed(self, bench, confirmed, benign):
        for names, opinion in ((confirmed, Opinion.CONFIRMED), (benign, Opinion.BENIGN)):
            for name in names:
                bench.ledger.reviews.add(bench.of(name).id, opinion, reason="r")

    def test_an_empty_ledger_says_so(self, client):
        assert "No alarm was called confirmed or benign yet" in text_of(
            client.get("/desk/calibration")
        )

    def test_shares_by_slice_with_exact_intervals(self, tmp_path):
        from scipy.stats import binomtest

        bench = make(tmp_path, extra=[f"Lone finding {n} on bridges." for n in range(10)])
        self.reviewed(bench, [f"x{n}" for n in range(7)], [f"x{n}" for n in range(7, 10)])
        found = calibration(bench.ledger, None, 2.0)
        exact = binomtest(7, 10).proportion_ci(0.95, "exact")
        (only,) = found.slices
        assert (only.store, only.evidence, only.level) == (STORE, "neighbor_gap", "quarantine")
        assert (only.confirmed.count, only.confirmed.of) == (7, 10)
        assert only.confirmed.interval.low == pytest.approx(exact.low)
        assert only.confirmed.interval.high == pytest.approx(exact.high)
        # At 2.0 none of the lone ones, which score 1.9, and all of the campaign.
        assert (found.confirmed_kept.count, found.benign_kept.count) == (0, 0)
        assert (found.waiting_kept.count, found.waiting_kept.of) == (5, 5)

    def test_a_campaign_counts_as_fewer_draws(self):
        alone = share([True] * 5 + [False], list("abcdef"))
        together = share([True] * 5 + [False], list("aaaaab"))
        assert (alone.effective, together.effective) == (6, 1)
        assert together.interval.low < alone.interval.low

    def test_the_page_tries_another_threshold(self, tmp_path):
        bench = make(tmp_path, extra=["Lone finding on bridges."])
        self.reviewed(bench, ["p0", "p4"], ["x0"])
        with served(bench.parts()) as client:
            client.get("/desk")
            words = text_of(client.get("/desk/calibration?threshold=2.5"))
            assert "confirmed: 1 of 2" in words
            assert "benign: 0 of 1" in words
            assert "how many alarms would come on top is not known" in text_of(
                client.get("/desk/calibration?threshold=1")
            )
            part = client.get("/desk/calibration?threshold=2", headers={"HX-Target": "effect"})
            assert part.text.lstrip().startswith('<div id="effect"')
            for wrong in ("x", "0", "-1", "nan", "inf", "1e999"):
                assert client.get(f"/desk/calibration?threshold={wrong}").status_code == 422


class TestFaults:
    def test_a_ledger_that_is_gone_comes_back_without_a_restart(self, tmp_path):
        bench = make(tmp_path)
        path = tmp_path / "ledger.db"
        with served(bench.parts()) as client:
            client.get("/desk")
            held = csrf(client)
            found = tokens(client, "/desk/campaigns?name=scan1-1")
            away = tmp_path / "away"
            away.mkdir()
            moved = list(tmp_path.glob("ledger.db*"))
            for one in moved:
                one.rename(away / one.name)
            page = client.get("/desk")
            assert (page.status_code, "text/html" in page.headers["content-type"]) == (503, True)
            assert str(tmp_path) not in page.text
            problem = client.get("/v1/reviews")
            assert problem.status_code == 503
            assert problem.headers["content-type"] == "application/problem+json"
            assert str(tmp_path) not in problem.text
            form = {"csrf": held, "act": "quarantine", "reason": "r", "finding": found}
            assert client.post("/desk/act", data=form).status_code == 503
            assert bench.store.changes == 0
            assert not path.exists()
            for one in moved:
                (away / one.name).rename(one)
            assert client.get("/desk").status_code == 200
            assert client.post("/desk/act", data=form).status_code == 200
        assert len(bench.store.hidden) == 5

    def test_a_locked_ledger_is_said_and_nothing_is_changed(self, tmp_path):
        bench = make(tmp_path, busy=0.2)
        with served(bench.parts()) as client:
            client.get("/desk")
            found = tokens(client, "/desk/campaigns?name=scan1-1")
            other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            assert act(client, found=found).status_code == 503
            assert bench.store.changes == 0
            assert client.get("/desk").status_code == 200
            other.execute("ROLLBACK")
            other.close()
            assert act(client, found=found).status_code == 200

    @pytest.mark.parametrize("moment", ["before", "after", "opinion"])
    def test_a_process_killed_in_a_review_leaves_it_done_or_not(self, tmp_path, moment):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path), moment],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        assert done.returncode == -9, done.stderr
        # The store outlived the process; another service takes over ten minutes later.
        from ragsieve.ledger import open_ledger
        from unit.service.reviewed import (
            Bench,
            Clock,
            DeclaredStore,
            Fields,
            Reviewing,
            Stores,
            Withheld,
        )

        clock = Clock()
        clock.skip(minutes=10)
        ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", actor="second", clock=clock)
        assert ledger.audit.verify().intact
        store = FileMarks(tmp_path)
        stores = Stores([DeclaredStore(STORE, None, Fields(), lambda: store)])
        hidden = Withheld(ledger, "docs", STORE, None)
        reviewing = Reviewing(ledger, stores, changed=lambda _t: hidden.read())
        kept = ledger.incidents.queue(limit=10).entries
        # The opinion is the last thing written: without it the finding still waits.
        assert {one.incident.opinion for one in kept} == {None}
        bench = Bench(
            ledger, store, clock, stores, reviewing, hidden, [one.incident for one in kept]
        )
        with served(bench.parts()) as client:
            client.get("/desk")
            client.get(f"/desk/cases/{bench.of('p0').id}?beside=1")
            settled = {one.incident.remediation for one in ledger.incidents.queue(limit=10).entries}
            assert settled == {"none" if moment == "before" else "quarantined"}
            assert len(store.hidden) == (0 if moment == "before" else 5)
            page = act(client)
            assert page.status_code == 200
        kept = ledger.incidents.queue(limit=10).entries
        assert {(one.incident.opinion, one.incident.remediation) for one in kept} == {
            ("confirmed", "quarantined")
        }
        assert sorted(store.hidden) == ["p0", "p1", "p2", "p3", "p4"]
        assert ledger.audit.verify().intact


class FileMarks(MemoryStore):
    """A store whose marks outlive the process."""

    def __init__(self, folder, kill=None):
        super().__init__(rows(), STORE)
        self.path, self.kill = Path(folder) / "marks", kill
        if self.path.exists():
            import datetime

            from ragsieve.connectors.contract import Mark

            now = datetime.datetime.now(datetime.UTC)
            names = self.path.read_text().split()
            self.hidden = {name: Mark(name, "r", "s", now) for name in names}

    def _changing(self, change):
        if self.kill == "before":
            os.kill(os.getpid(), 9)
        done = super()._changing(change)
        self.path.write_text(" ".join(self.hidden))
        if self.kill == "after":
            os.kill(os.getpid(), 9)
        return done


# A whole service on this machine's own address, killed while it answers a form.
KILLED = """
import os, sys, threading, time, re
from pathlib import Path
import httpx
from unit.service.reviewed import make
from unit.service.test_desk import FileMarks
from ragsieve.service.app import create_app
from ragsieve.service.serving import make_server
from ragsieve.settings import ServiceSettings
from ragsieve.ledger.reviews import Reviews
folder, moment = Path(sys.argv[1]), sys.argv[2]
bench = make(folder, store=FileMarks(folder, kill=moment))
if moment == "opinion":
    Reviews.add_many = lambda *a, **k: os.kill(os.getpid(), 9)
settings = ServiceSettings(port=0)
server = make_server(create_app(bench.parts(settings=settings)), settings)
threading.Thread(target=server.run, daemon=True).start()
while not server.started: time.sleep(0.02)
port = server.servers[0].sockets[0].getsockname()[1]
with httpx.Client(base_url=f"http://127.0.0.1:{port}", follow_redirects=True) as client:
    csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/desk").text)[1]
    found = re.findall(r'name="finding" value="([^"]+)"', client.get("/desk/campaigns?name=scan1-1").text)
    client.post("/desk/act", data={"csrf": csrf, "act": "quarantine", "reason": "r", "finding": found})
"""


def test_keys_that_cannot_be_read_let_nobody_in_and_are_not_named(tmp_path):
    bench = make(tmp_path, keyed=True)
    token = bench.token()
    with served(bench.parts()) as client:
        assert client.post("/desk/sign-in", data={"key": token}).status_code == 200
        bench.key_file.path.write_text("{broken")
        pages = [client.get("/desk"), client.post("/desk/sign-in", data={"key": token})]
    for page in pages:
        assert page.status_code == 503
        assert "keys cannot be checked" in text_of(page)
        assert "keys.json" not in page.text


def test_a_stranger_cannot_keep_the_service_with_a_long_form(tmp_path):
    bench = make(tmp_path, keyed=True)
    bench.token()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    with served(bench.parts()) as client:
        page = client.post("/desk/sign-in", content=b"&" * 300_000, headers=kind)
    assert page.status_code == 413
