import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragsieve.backends import causal, tokens
from ragsieve.backends.causal import HubCausalScorer
from ragsieve.backends.deferred import ModelOutline
from ragsieve.backends.loading import LoadOptions, ModelSource, load_causal
from ragsieve.backends.tokens import HubTokenEncoder
from ragsieve.errors import ConfigError, ModelFilesError

CPU = LoadOptions(device="cpu")


@pytest.fixture
def copied(causal_folder, tmp_path):
    return shutil.copytree(causal_folder, tmp_path / causal_folder.name)


@pytest.fixture
def loads(monkeypatch):
    """The models that were loaded."""
    seen = []
    for module, name in ((causal, "load_causal"), (tokens, "load_encoder")):
        load = getattr(module, name)

        def counted(source, options=None, load=load):
            seen.append(source)
            return load(source, options)

        monkeypatch.setattr(module, name, counted)
    return seen


def complete(folder):
    """With every figure stated, as in the embedded models."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"pad_token_id": 0}))
    return ModelSource(str(folder))


def test_a_folder_is_loaded_when_it_is_first_asked(copied, loads):
    scorer = HubCausalScorer(complete(copied), options=CPU)
    identity, size = scorer.identity, scorer.vocabulary_size
    assert loads == []
    scorer.losses(["alpha beta"])
    scorer.losses(["alpha"])
    assert len(loads) == 1
    assert (scorer.identity, scorer.vocabulary_size) == (identity, size)


def test_what_is_known_before_is_what_the_model_says(copied):
    source = complete(copied)
    config = load_causal(source, CPU).model.config
    assert ModelOutline.of_folder(copied) == ModelOutline.of(config)


def test_an_incomplete_configuration_is_filled_in_by_loading(copied, loads):
    complete(copied)
    path = copied / "config.json"
    config = json.loads(path.read_text())
    del config["max_position_embeddings"]
    path.write_text(json.dumps(config))
    assert ModelOutline.of_folder(copied) is None
    HubCausalScorer(ModelSource(str(copied)), options=CPU)
    assert len(loads) == 1


def test_an_encoder_refuses_a_layer_without_being_loaded(encoder_folder, tmp_path, loads):
    source = complete(shutil.copytree(encoder_folder, tmp_path / "encoder"))
    with pytest.raises(ConfigError, match="expected 0 to 3"):
        HubTokenEncoder(source, layer=4, options=CPU)
    encoder = HubTokenEncoder(source, layer=1, options=CPU)
    assert loads == []
    assert encoder.states(["alpha"], max_tokens=4)[0].shape == (1, 16)


def test_missing_files_show_at_once_and_damaged_ones_when_they_are_read(copied):
    source = complete(copied)
    (copied / "model.safetensors").write_bytes(b"cut off")
    scorer = HubCausalScorer(source, options=CPU)
    with pytest.raises(ModelFilesError, match="cannot be loaded"):
        scorer.losses(["alpha beta"])
    (copied / "model.safetensors").unlink()
    with pytest.raises(ModelFilesError, match="expected weights"):
        HubCausalScorer(source, options=CPU)


def test_threads_load_it_once(copied, loads):
    scorer = HubCausalScorer(complete(copied), options=CPU)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: scorer.losses(["alpha beta"])[0].tolist(), range(8)))
    assert len(loads) == 1
    assert all(one == found[0] for one in found)
