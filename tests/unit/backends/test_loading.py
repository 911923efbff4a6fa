import json
import shutil
import socket
import subprocess
import sys

import pytest

from ragsieve.backends.loading import (
    LoadOptions,
    ModelSource,
    folder_revision,
    load_causal,
    load_encoder,
    pick_device,
)
from ragsieve.errors import ConfigError, ModelFilesError


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("loading opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def copied(encoder_folder, tmp_path):
    return shutil.copytree(encoder_folder, tmp_path / "tiny-encoder")


def test_a_folder_is_loaded_in_evaluation_mode(encoder_folder, no_network, capfd):
    loaded = load_encoder(ModelSource(str(encoder_folder)), LoadOptions(device="cpu"))
    assert not loaded.model.training
    assert loaded.identity == f"tiny-encoder@{folder_revision(encoder_folder)}"
    assert (loaded.device, loaded.dtype) == ("cpu", "float32")
    assert capfd.readouterr() == ("", "")


def test_bfloat16(encoder_folder):
    import torch

    loaded = load_encoder(ModelSource(str(encoder_folder)), LoadOptions(dtype="bfloat16"))
    assert loaded.model.dtype is torch.bfloat16


def test_a_missing_hub_model_says_what_to_run_and_opens_no_connection(tmp_path, no_network):
    source = ModelSource("someone/some-model", cache_dir=tmp_path)
    with pytest.raises(
        ModelFilesError, match=r"someone/some-model.*ragsieve models pull"
    ) as caught:
        load_causal(source)
    assert "allow_download=True" in str(caught.value)


def test_a_hub_model_in_the_cache_is_identified_by_its_commit(encoder_folder, tmp_path, no_network):
    commit = "0123456789abcdef0123456789abcdef01234567"
    entry = tmp_path / "models--someone--tiny"
    shutil.copytree(encoder_folder, entry / "snapshots" / commit)
    (entry / "refs").mkdir()
    (entry / "refs" / "main").write_text(commit)
    loaded = load_encoder(ModelSource("someone/tiny", cache_dir=tmp_path))
    assert loaded.identity == f"someone/tiny@{commit}"


def test_a_folder_without_configuration(tmp_path):
    with pytest.raises(ModelFilesError, match=r"expected a model folder with config\.json"):
        load_encoder(ModelSource(str(tmp_path)))


def test_a_folder_without_weights(copied):
    (copied / "model.safetensors").unlink()
    with pytest.raises(ModelFilesError, match="expected weights"):
        load_encoder(ModelSource(str(copied)))


def test_cut_off_weights(copied):
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelFilesError, match=r"cannot be loaded .*ragsieve models verify"):
        load_encoder(ModelSource(str(copied)))


def test_missing_tensors_are_never_filled_with_random_numbers(copied):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    with pytest.raises(ModelFilesError, match=r"the weights lack \d+ tensors .*layer\.3"):
        load_encoder(ModelSource(str(copied)))


def test_the_revision_of_a_folder_follows_its_files_and_not_its_place(encoder_folder, copied):
    before = folder_revision(copied)
    assert before == folder_revision(encoder_folder)
    (copied / "tokenizer_config.json").write_text("{}")
    changed = folder_revision(copied)
    assert changed != before
    with (copied / "model.safetensors").open("ab") as weights:
        weights.write(b"x")
    assert folder_revision(copied) != changed


@pytest.mark.parametrize("wrong", [{"device": "tpu"}, {"dtype": "float16"}])
def test_unknown_options(wrong):
    with pytest.raises(ConfigError, match="expected one of"):
        LoadOptions(**wrong)


def test_device(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (pick_device("auto"), pick_device("cpu")) == ("cpu", "cpu")
    with pytest.raises(ConfigError, match="torch sees none; use cpu or auto"):
        pick_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert (pick_device("auto"), pick_device("cuda"), pick_device("cpu")) == ("cuda", "cuda", "cpu")


def test_importing_the_backends_wakes_nothing_heavy():
    modules = [
        "retriever",
        "causal",
        "tokens",
        "memo",
        "fetch",
        "installed",
        "embedded",
        "convert",
        "presets",
    ]
    code = (
        f"import sys, {', '.join('ragsieve.backends.' + name for name in modules)}\n"
        "print(sorted({'torch', 'transformers', 'gguf', 'safetensors'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
