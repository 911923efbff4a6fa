"""The gate as frameworks use it: a state, a live index, batches, processes that take turns."""

from __future__ import annotations

import asyncio
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from frameworks.planted import calm, campaign
from ragsieve.assembly import ingest_gate
from ragsieve.detectors.corpus import CorpusDetector
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.errors import EmbeddingError, InputError, OutputError
from ragsieve.files.state import write_state
from ragsieve.integrations.arrivals import Arrival, ArrivalFilter, LiveCorpus, ScannedState
from ragsieve.live.index import LiveIndex
from ragsieve.live.store import LiveStore
from ragsieve.records import Document, Level
from ragsieve.settings import Settings


def arrivals(texts, rows, prefix="n"):
    return [
        Arrival(text, text, row, f"{prefix}{i}")
        for i, (text, row) in enumerate(zip(texts, rows, strict=True))
    ]


@pytest.fixture
def corpus():
    rng = np.random.default_rng(0)
    texts, rows = calm(rng)
    return [Document(f"d{i}", text) for i, text in enumerate(texts)], rows


@pytest.fixture
def planted():
    return campaign(np.random.default_rng(1))


@pytest.fixture
def fresh():
    rng = np.random.default_rng(2)
    texts = ["Note 60 on topic 4, written in week 60.", "Note 61 on topic 5, written in week 61."]
    return texts, rng.normal(size=(2, 24))


def live_index(corpus):
    index = LiveIndex(DefaultCorpusRule())
    index.add(*corpus)
    return index


def state_of(corpus):
    gate = ingest_gate(Settings(), confirm=False)
    scan = CorpusDetector(DefaultCorpusRule()).scan(*corpus)
    return gate.snapshot(scan, corpus[1])


def test_a_campaign_is_held_and_ordinary_documents_are_not(corpus, planted, fresh, tmp_path):
    write_state(tmp_path / "state", state_of(corpus))
    store = LiveStore.create(tmp_path / "live", DefaultCorpusRule())
    with store.writer() as writer:
        writer.add(*corpus)
    batch = [*arrivals(*fresh, "f"), *arrivals(*planted)]
    for known in (
        ScannedState(tmp_path / "state"),
        LiveCorpus(live_index(corpus)),
        LiveCorpus(tmp_path / "live"),
    ):
        done = ArrivalFilter(known).sort(batch)
        kept, held = ([item for item, _ in part] for part in (done.kept, done.held))
        assert (kept, held) == (fresh[0], planted[0])
        assert {fields["ragsieve_decision"] for _, fields in done.held} == {"flagged"}
        assert [one.document_id for one in done.judged.verdicts] == [one.name for one in batch]


def test_what_is_held_does_not_stay_in_the_live_index(corpus, planted):
    index = live_index(corpus)
    done = ArrivalFilter(LiveCorpus(index)).sort(arrivals(*planted))
    assert done.judged.held_ids == tuple(f"n{i}" for i in range(5))
    assert index.document_ids == tuple(one.id for one in corpus[0])
    everything = ArrivalFilter(LiveCorpus(live_index(corpus)), hold_at=None)
    assert len(everything.sort(arrivals(*planted)).kept) == 5


def test_batches_are_judged_with_the_ones_before(corpus, planted):
    index = live_index(corpus)
    gate = ArrivalFilter(LiveCorpus(index), hold_at=None)
    texts, rows = planted
    levels, earlier = [], ()
    for one in arrivals(texts, rows):
        done = gate.sort([one])
        levels.append(done.judged.verdicts[0].level)
        earlier = done.judged.earlier_ids
    # The first stands alone; the last stands beside the others, which stand out now too.
    assert levels[0] is not Level.QUARANTINE
    assert levels[-1] is Level.QUARANTINE
    assert "n0" in earlier
    flagged = set(index.scan().flagged_at(Level.QUARANTINE))
    assert set(earlier) == flagged - {"n4"}


def test_a_document_that_comes_again_replaces_itself(corpus, fresh):
    index = live_index(corpus)
    gate = ArrivalFilter(LiveCorpus(index), hold_at=None)
    gate.sort(arrivals(*fresh))
    again = Arrival("again", "Note 60 on topic 4, rewritten in week 70.", fresh[1][0], "n0")
    done = gate.sort([again, Arrival("new", fresh[0][1] + " Again.", fresh[1][1][::-1], "m")])
    assert [item for item, _ in done.kept] == ["again", "new"]
    assert index.document_ids[60:] == ("n1", "n0", "m")


def test_copies_without_ids_are_judged_once_and_all_kept(corpus, fresh):
    text, row = fresh[0][0], fresh[1][0]
    index = live_index(corpus)
    done = ArrivalFilter(LiveCorpus(index)).sort([Arrival(n, text, row) for n in range(3)])
    assert [item for item, _ in done.kept] == [0, 1, 2]
    assert len(index) == 61


def test_no_document_is_no_batch(corpus):
    calls = []
    done = ArrivalFilter(LiveCorpus(live_index(corpus)), on_sorted=calls.append).sort([])
    assert (done.kept, done.held, done.judged, calls) == ((), (), None, [])


def test_what_cannot_be_used_is_refused_and_changes_nothing(corpus, fresh):
    index = live_index(corpus)
    gate = ArrivalFilter(LiveCorpus(index))
    known = Arrival("x", "x", np.ones(24), "d0")
    with pytest.raises(EmbeddingError):
        gate.sort([known, Arrival("y", "y", np.full(24, np.nan), "y")])
    with pytest.raises(InputError, match="one dimension"):
        gate.sort([known, Arrival("y", "y", [1.0, 2.0], "y")])
    with pytest.raises(InputError, match="two texts"):
        gate.sort([known, Arrival("y", "y\u202e", np.ones(24), "d0")])
    with pytest.raises(EmbeddingError):
        gate.sort([Arrival("y", "y", np.ones(3), "y")])
    assert len(index) == 60
    assert index.document_ids[0] == "d0"
    with pytest.raises(InputError, match="in the state already"):
        ArrivalFilter(ScannedState(state_of(corpus))).sort([known])


def test_writers_take_turns(corpus, tmp_path):
    store = LiveStore.create(tmp_path / "live", DefaultCorpusRule())
    with store.writer() as writer:
        writer.add(*corpus)
    rng = np.random.default_rng(5)
    # As processes would: every batch through a copy of its own.
    frozen = pickle.dumps(LiveCorpus(tmp_path / "live"))

    def come(number):
        gate = ArrivalFilter(pickle.loads(frozen))  # noqa: S301 -- pickled above
        return gate.sort(
            [
                Arrival(
                    number,
                    f"Note {number} on topic 4, written in week 2.",
                    rows[number],
                    f"l{number}",
                )
            ]
        )

    rows = rng.normal(size=(6, 24))
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(come, range(6)))
    assert [one.kept[0][0] for one in done] == list(range(6))
    assert len(store.open()) == 66


def test_a_writer_that_never_ends_is_not_waited_for(corpus, tmp_path):
    store = LiveStore.create(tmp_path / "live", DefaultCorpusRule())
    late = ArrivalFilter(LiveCorpus(tmp_path / "live", wait_seconds=0.1))
    with store.writer() as writer:
        writer.add(*corpus)
        with pytest.raises(OutputError, match="another process"):
            late.sort([Arrival("x", "x", np.ones(24), "x")])


def test_an_index_in_memory_is_not_sent_to_processes(corpus):
    with pytest.raises(TypeError, match="give the folder"):
        pickle.dumps(LiveCorpus(live_index(corpus)))


def test_the_event_loop_goes_on(corpus, fresh):
    started, release = threading.Event(), threading.Event()

    def wait(done):
        started.set()
        assert release.wait(10)

    gate = ArrivalFilter(LiveCorpus(live_index(corpus)), on_sorted=wait)

    async def both():
        sorting = asyncio.create_task(gate.asort(arrivals(*fresh)))
        while not started.is_set():
            await asyncio.sleep(0.001)
        release.set()
        return await sorting

    assert len(asyncio.run(both()).kept) == 2
