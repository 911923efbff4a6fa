import dataclasses
import json

import numpy as np
import pytest

from ragsieve.errors import ConfigError, RecordError
from ragsieve.lab.poison.base import Construction, Fidelity, Need
from ragsieve.lab.poison.craft import craft_all, plant
from ragsieve.lab.poison.numeric import NumericTampering
from ragsieve.lab.poison.registry import CONSTRUCTIONS, construction
from ragsieve.lab.poison.woven import CpaLite
from unit.lab.poison.fakes import TARGETS, workshop

NAMES = [
    *"PR-B PR-W CEM-C CEM-D CPA-RAG CPA-lite CamoDocs CorruptRAG-AS numeric-tampering".split(),
    *"TriShield-template TriShield-format-only CEM-C-reduced CEM-D-reduced CamoDocs-reduced".split(),
    *(f"R{number}" for number in range(1, 12)),
    *"T1 T2 T3".split(),
]


class Drawing(CpaLite):
    """Adds a drawn number, so that a wrong generator shows; stops where it is told to."""

    def __init__(self, stop_at=None):
        super().__init__()
        self.stop_at = stop_at
        self.calls = []

    def craft(self, target, payloads, shop, rng):
        if target.query.id == self.stop_at:
            raise KeyboardInterrupt
        self.calls.append(target.query.id)
        made = super().craft(target, payloads, shop, rng)
        return dataclasses.replace(
            made, texts=tuple(f"{t} {rng.integers(10**6)}" for t in made.texts)
        )


def run(made=None, targets=TARGETS, **arguments):
    return craft_all(made or Drawing(), targets, workshop(), **({"seed": 4} | arguments))


def without_clock(harvest):
    return [
        dataclasses.replace(one, cost=dataclasses.replace(one.cost, seconds=0.0))
        for one in harvest.crafted
    ]


def test_the_registry_is_complete():
    assert sorted(CONSTRUCTIONS) == sorted(NAMES)
    with pytest.raises(ConfigError, match=r"expected one of PR-B, PR-W, .* found 'PR-X'"):
        construction("PR-X")


@pytest.mark.parametrize("name", NAMES)
def test_every_construction_declares_itself(name):
    made: Construction = construction(name)
    assert made.name == name
    assert isinstance(made.fidelity, Fidelity)
    assert made.needs <= set(Need)
    assert made.fingerprint() == construction(name).fingerprint()


def test_fingerprints_differ():
    assert len({construction(name).fingerprint() for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("torn", [b"", b'{"key": "half a li', b"\xff\xfe"])
def test_an_interrupted_run_goes_on_and_ends_the_same(tmp_path, torn):
    journal = tmp_path / "journal.jsonl"
    whole = run()
    with pytest.raises(KeyboardInterrupt):
        run(Drawing(stop_at="q3"), journal=journal)
    with journal.open("ab") as handle:
        handle.write(torn)
    resumed = Drawing()
    again = run(resumed, journal=journal)
    assert resumed.calls == ["q3"]
    assert without_clock(again) == without_clock(whole)
    assert again.poisoning == whole.poisoning
    assert len(journal.read_text().splitlines()) == 3


def test_a_finished_journal_gives_the_very_same(tmp_path):
    for made in (Drawing(), NumericTampering(), construction("T1"), construction("T3")):
        journal = tmp_path / f"{made.name}.jsonl"
        first = run(made, journal=journal)
        assert run(made, journal=journal) == first
        assert first.crafted[0].texts


def test_a_journal_is_not_used_for_something_else(tmp_path):
    journal = tmp_path / "journal.jsonl"
    run(journal=journal)
    for changes in (
        {"seed": 5},
        {"count": 4},
        {"targets": [dataclasses.replace(t, target_answer="Nobody Else") for t in TARGETS]},
        {
            "targets": [
                dataclasses.replace(t, payloads=(f"New: {t.target_answer}.",)) for t in TARGETS
            ]
        },
    ):
        made = Drawing()
        run(made, journal=journal, **changes)
        assert made.calls == ["q1", "q2", "q3"]
    shop = dataclasses.replace(workshop(), gradients=None)
    made = Drawing()
    craft_all(made, TARGETS, shop, seed=4, journal=journal)
    assert made.calls == ["q1", "q2", "q3"]


def test_several_constructions_share_a_journal(tmp_path):
    journal = tmp_path / "journal.jsonl"
    first, second = run(journal=journal), run(construction("PR-B"), journal=journal)
    assert run(journal=journal) == first
    assert run(construction("PR-B"), journal=journal) == second


def test_the_order_of_targets_changes_nothing_in_the_texts():
    forth, back = run(), run(targets=TARGETS[::-1])
    assert without_clock(back)[::-1] == without_clock(forth)
    assert run(seed=5).crafted[0].texts != forth.crafted[0].texts


def test_progress_and_bad_requests(tmp_path):
    seen = []
    run(progress=seen.append)
    assert seen == [1, 1, 1]
    with pytest.raises(ConfigError):
        run(count=0)
    with pytest.raises(ConfigError):
        run(targets=[*TARGETS, TARGETS[0]])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reduced", 1),
        ("cost", 3),
        ("similarity", None),
        ("documents", [{"text": "a", "title": "b"}, {"text": "c"}]),
        ("documents", [{"text": "a", "origin": 1}]),
    ],
)
def test_a_damaged_line_is_named(tmp_path, field, value):
    journal = tmp_path / "journal.jsonl"
    run(journal=journal)
    lines = journal.read_text().splitlines()
    journal.write_text(
        "\n".join([lines[0], json.dumps(json.loads(lines[1]) | {field: value})]) + "\n"
    )
    with pytest.raises(RecordError, match=r"journal\.jsonl:2"):
        run(journal=journal)


def test_nothing_gives_planted_documents_away():
    shop = workshop()
    harvest = run()
    planted = harvest.poisoning.documents
    clean = {document.id for document in shop.dataset.documents}
    assert set(harvest.poisoning.labels) == {document.id for document in planted}
    assert not clean & set(harvest.poisoning.labels)
    assert len({document.id for document in planted}) == len(planted)
    assert all(document.id.startswith("doc") and document.id[3:].isdigit() for document in planted)
    assert {d.provenance for d in planted} <= {d.provenance for d in shop.dataset.documents}
    labels = [harvest.poisoning.labels[document.id] for document in planted]
    assert [label.query_id for label in labels] != sorted(label.query_id for label in labels)
    for document, label in zip(planted, labels, strict=True):
        (one,) = (made for made in harvest.crafted if made.query_id == label.query_id)
        assert one.texts[label.member] == document.text
        assert label.attack == one.attack


def test_titles_and_origins_of_a_construction_are_planted():
    harvest = run(construction("T1"))
    assert all(d.title and d.content == d.text for d in harvest.poisoning.documents)
    tampered = run(NumericTampering())
    origins = {one.texts[0]: one.origins[0] for one in tampered.crafted}
    found = {d.text: d.provenance for d in tampered.poisoning.documents}
    assert origins.items() <= found.items()


def test_ids_without_digits_and_an_empty_corpus():
    from ragsieve.records import Document

    named = workshop(documents=(Document("numpy.linspace", "some text"),)).dataset
    for data in (named, dataclasses.replace(named, documents=())):
        ids = [d.id for d in plant(run().crafted, data, 1).documents]
        assert all(name.startswith("note-") for name in ids)
        assert len(set(ids)) == len(ids)


def test_planting_is_seeded():
    made = run().crafted
    data = workshop().dataset
    assert plant(made, data, 1) == plant(made, data, 1)
    assert [d.id for d in plant(made, data, 1).documents] != [
        d.id for d in plant(made, data, 2).documents
    ]
    assert np.all([d.text for d in plant(made, data, 1).documents])
