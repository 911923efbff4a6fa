"""Experiment files: every shipped one parses, every mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragsieve.errors import ConfigError
from ragsieve.lab.comparators.registry import declarations
from ragsieve.lab.experiments.reading import read_experiment
from ragsieve.lab.experiments.spec import Kind, MethodKind, cells_of
from ragsieve.lab.poison.registry import CONSTRUCTIONS

FILES = sorted((Path(__file__).parents[4] / "experiments").glob("*.toml"))
GOOD = """claim = "c"
kind = "detection"
dataset = "docstrings"
[[attacks]]
name = "PR-B"
[[detectors]]
detector = "rsq"
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_experiments_name_what_exists(path):
    experiment = read_experiment(path)
    known = {one.name for one in declarations()}
    assert cells_of(experiment)
    assert {m.name for m in experiment.methods if m.kind is MethodKind.COMPARATOR} <= known
    assert {a.name for a in experiment.attacks if a.file is None} <= set(CONSTRUCTIONS)


def test_every_kind_is_shipped():
    assert {read_experiment(path).kind for path in FILES} == set(Kind)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("claim =", "clam ="), "claim: expected a string, found nothing"),
        (('kind = "detection"', 'kind = "x"'), "kind: expected one of detection"),
        (('name = "PR-B"', 'name = "PR-B"\nsize = 3'), r"unknown key 'attacks\[0\].size'"),
        (('detector = "rsq"', 'detector = "rsq"\nprofile = "paper"'), "detectors.0..profile"),
        (('detector = "rsq"', 'detector = "rsq"\nprofiles = ["x"]'), "profile: expected one of"),
        (('dataset = "docstrings"', 'dataset = "d"\nseeds = [1.5]'), "seeds: expected a list"),
        (('dataset = "docstrings"', 'dataset = "d"\nshares = [0.1]'), "no use for"),
        (('dataset = "docstrings"', 'dataset = "d"\ndepth = 3'), "context < depth"),
        (('detector = "rsq"', 'detector = "comparator"'), "comparators are named"),
        (('name = "PR-B"', 'name = "PR-B"\ncounts = [0]'), "at least one document"),
        (("[[detectors]]", "[[detectors]]\n[detectors.x"), "TOML"),
        (('detector = "rsq"', 'detector = "rsq"\n[[detectors]]\ndetector = "rsq"'), "twice"),
        (('detector = "rsq"', 'detector = "pipeline"'), "pipelines in `pipelines`"),
        (('dataset = "docstrings"', 'dataset = "d"\npipelines = ["rings"]'), "no use for them"),
        (('dataset = "docstrings"', 'dataset = "d"\npipelines = ["x"]'), "pipelines: expected one"),
    ],
)
def test_mistakes_name_file_and_key(tmp_path, change, words):
    path = tmp_path / "wrong.toml"
    path.write_text(GOOD.replace(*change), "utf-8")
    with pytest.raises(ConfigError, match=words) as caught:
        read_experiment(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ("judge = 'chat'", "expected one of model, local and members, found 0"),
        ("model = 'a'\nlocal = ['b']", "found 2"),
        ("members = ['a']\nbase_url = 'http://x/v1'", "expected model beside it"),
        ("local = ['a', 'a']", "stands twice"),
        ("model = 'a'\nanswer_tokens = 0", "answer_tokens"),
        ("model = 'a'\nmodels = ['b']", "unknown key 'answers.models'"),
    ],
)
def test_mistakes_about_answers_are_named(tmp_path, answers, words):
    path = tmp_path / "wrong.toml"
    text = GOOD.replace('kind = "detection"', 'kind = "end-to-end"')
    path.write_text(f"{text}[answers]\n{answers}\n", "utf-8")
    with pytest.raises(ConfigError, match=words):
        read_experiment(path)


def test_detector_none_and_pipeline_none_are_one_row(tmp_path):
    path = tmp_path / "wrong.toml"
    text = GOOD.replace('kind = "detection"', 'kind = "end-to-end"\npipelines = ["none"]')
    path.write_text(text.replace('"rsq"', '"none"') + "[answers]\nmodel = 'a'\n", "utf-8")
    with pytest.raises(ConfigError, match="twice"):
        read_experiment(path)


def test_a_sweep_gives_every_combination(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(
        GOOD.replace('kind = "detection"', 'kind = "sweep"')
        + '[[sweeps]]\ndetector = "rsg"\nkey = "neighbors"\nvalues = [8, 16]\n'
        + 'and_key = "gap_spread"\nand_values = [1.0, 2.0]\n',
        "utf-8",
    )
    titles = [method.title for method in read_experiment(path).methods]
    assert titles[1:] == [
        f"rsg default neighbors={k} gap_spread={g}" for k in (8, 16) for g in (1.0, 2.0)
    ]
