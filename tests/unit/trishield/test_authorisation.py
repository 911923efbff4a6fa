"""After the answer: who may say it, how many say it, how old it is; what is not known is said."""

from __future__ import annotations

import datetime

import pytest

from ragsieve import ConfigError, Document, Provenance
from ragsieve.trishield.authorisation import (
    AnswerPolicy,
    State,
    TopicRule,
    authorise,
    independent_origins,
    origin_name,
    read_answer_policy,
)

NOW = datetime.datetime(2024, 5, 11, tzinfo=datetime.UTC)
LONG = "the dose is forty milligrams a day for adults as the board has written down"


def document(name, text, source=None, created=None, version=None):
    return Document(name, text, provenance=Provenance(source, None, None, version, created))


def check(answer, documents, *, question="What dose?", now=NOW, **policy):
    found = authorise(answer, question, documents, AnswerPolicy(**policy), now=now)
    return found, {one.name: one for one in found.checks}


def test_without_configuration_nothing_is_checked():
    found, checks = check("Rome", [document("a", "It is Rome.")])
    assert checks == {}
    assert found.supporting_ids == ("a",)
    assert not found.hand_over


RULES = (
    TopicRule(("*dose*", "*pregnan*"), ("https://*.gov/**", "formulary")),
    TopicRule(("*",), ("**",)),
)


@pytest.mark.parametrize(
    ("source", "state"),
    [("https://health.gov/a/b", "met"), ("Formulary", "met"), ("https://blog.example/x", "unmet"),
     ("https://evil.example/x.gov/a", "unmet"), (None, "unmet")],
)  # fmt: skip
def test_who_may_answer(source, state):
    found, checks = check("40 mg", [document("a", "Take 40 mg.", source)], rules=RULES)
    assert checks["source_authorisation"].state is State(state)
    assert found.hand_over is (state == "unmet")


def test_a_question_no_rule_speaks_of_needs_no_authorisation():
    rules = (TopicRule(("*dose*",), ("a",)),)
    found, checks = check("Rome", [document("d", "Rome")], question="Which city?", rules=rules)
    assert checks["source_authorisation"].state is State.NOT_REQUIRED
    assert not found.hand_over
    _, checks = check("Rome", [document("d", "Rome")], question="WHICH DOSE?", rules=rules)
    assert checks["source_authorisation"].state is State.UNMET


@pytest.mark.parametrize(
    ("documents", "count"),
    [
        (
            [
                document("a", "x y", "https://one.example/1"),
                document("b", "z w", "https://two.example/1"),
            ],
            2,
        ),
        (
            [
                document("a", "x y", "https://one.example/1"),
                document("b", "z w", "http://ONE.example/2"),
            ],
            1,
        ),
        # Near-copies are one voice, whoever publishes them.
        ([document("a", LONG, "one"), document("b", LONG + "!", "two")], 1),
        # And what copies ties together stays together.
        ([document("a", LONG, "one"), document("b", LONG, "two"), document("c", "z w", "two")], 1),
        ([document("a", "x"), document("b", "y", " ")], 0),
        ([document("a", "x", "One "), document("b", "y", "one")], 1),
        ([], 0),
    ],
)
def test_independent_origins(documents, count):
    assert independent_origins(documents) == count
    assert independent_origins(documents[::-1]) == count


@pytest.mark.parametrize(
    ("source", "name"),
    [("https://User@Www.Example.org:80/a", "www.example.org"), ("Blue Book", "blue book"),
     ("http://[broken", "http://[broken"), ("C:\\data\\x", "c:\\data\\x")],
)  # fmt: skip
def test_the_name_of_an_origin(source, name):
    assert origin_name(source) == name


def test_agreement_counts_supporting_and_authorised_documents_alone():
    documents = [
        document("a", "It is 40 mg, says the board.", "https://a.gov/x"),
        document("b", "We saw 40 mg in use there.", "https://b.gov/x"),
        document("c", "Everyone writes 40 mg now.", "https://blog.example/x"),
        document("d", "It is 80 mg.", "https://d.gov/x"),
    ]
    found, checks = check("40 mg", documents, independent_sources=3)
    assert found.supporting_ids == ("a", "b", "c")
    assert checks["independent_sources"].state is State.MET
    found, checks = check("40 mg", documents, independent_sources=3, rules=RULES)
    assert checks["independent_sources"].state is State.UNMET
    assert found.reasons == ("independent_sources: 2 independent sources, 3 needed",)
    assert found.hand_over


@pytest.mark.parametrize(
    ("declared", "now", "state", "words"),
    [
        ({"created": "2024-05-01"}, NOW, "met", "10.0 days old, 30 allowed"),
        ({"created": "2024-05-01T12:00:00+02:00"}, NOW.replace(tzinfo=None), "met", "9.6 days"),
        ({"created": "2023-05-01"}, NOW, "unmet", "376.0 days old"),
        ({"version": "2024-05-01"}, NOW, "met", "10.0 days"),
        ({"created": "spring", "version": "2024-05-01"}, NOW, "met", "10.0 days"),
        ({"created": "spring", "version": "v2"}, NOW, "unavailable", "a date that can be read"),
        ({}, NOW, "unavailable", "a date that can be read"),
        ({"created": "2024-05-01"}, None, "unavailable", "no time was given"),
        ({"created": "2031-01-01"}, NOW, "unmet", "in the future"),
    ],
)
def test_validity(declared, now, state, words):
    found, checks = check("40 mg", [document("a", "40 mg", **declared)], now=now, max_age_days=30)
    assert checks["validity"].state is State(state)
    assert words in checks["validity"].reason
    assert found.hand_over is (state != "met")


def test_the_newest_supporting_document_counts():
    documents = [
        document("old", "40 mg", created="2001-01-01"),
        document("new", "still 40 mg", created="2024-05-10"),
        document("other", "80 mg", created="2024-05-11"),
    ]
    _, checks = check("40 mg", documents, max_age_days=30)
    assert checks["validity"].document_ids == ("new",)


@pytest.mark.parametrize(
    ("answer", "words"), [("Oslo", "no document of the context"), ("Yes.", "yes or no")]
)
def test_an_answer_that_no_document_holds_leaves_checks_unavailable(answer, words):
    found, checks = check(
        answer, [document("a", "yes, 40 mg of Oslos", "formulary") if answer == "Oslo" else document("a", "40")],
        rules=RULES, independent_sources=1, max_age_days=1,
    )  # fmt: skip
    assert {one.state for one in checks.values()} == {State.UNAVAILABLE}
    assert all(words in one.reason for one in checks.values())
    assert found.hand_over


def test_handing_over_can_be_left_to_the_reader():
    found, _ = check("Oslo", [], independent_sources=1, hand_over=False)
    assert not found.hand_over
    assert found.reasons


def test_a_file(tmp_path):
    path = tmp_path / "answers.toml"
    path.write_text(
        'independent_sources = 2\nmax_age_days = 30\n[[rules]]\ntopics = ["*dose*"]\n'
        'sources = ["formulary"]\n'
    )
    assert read_answer_policy(path) == AnswerPolicy(
        (TopicRule(("*dose*",), ("formulary",)),), 2, 30.0
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("other = 1", "field 'other': unknown key"),
        ("independent_sources = 0", "independent_sources must be at least 1"),
        ("independent_sources = 1.5", "'independent_sources'"),
        ("max_age_days = 0", "max_age_days must be above 0"),
        ("max_age_days = nan", "max_age_days must be above 0"),
        ("[[rules]]\ntopics = []\nsources = ['a']", "needs topics and sources"),
        ("[[rules]]\ntopics = ['a']\nsources = ['']", "needs topics and sources"),
        ("[[rules]]\ntopics = ['a']\nsource = ['b']", "rules.0.source"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_it(tmp_path, text, words):
    path = tmp_path / "answers.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"answers\.toml") as caught:
        read_answer_policy(path)
    assert words in str(caught.value)
