import subprocess
import sys

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from ragsieve.backends.batches import MAX_TEXT_CHARACTERS
from ragsieve.backends.onnx import OnnxTextEmbedder
from ragsieve.backends.presets import Pooling, RetrieverPreset
from ragsieve.errors import BackendError, MissingExtraError, ModelFilesError
from ragsieve.ports import TextEmbedder

WORDS = "[PAD] [UNK] [CLS] [SEP] alpha beta gamma delta one two three query passage :".split()
TABLE = np.random.default_rng(4).normal(size=(len(WORDS), 16)).astype(np.float32)
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, value):
    """One field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def value_info(name, kind, *dims):
    shape = b"".join(field(1, field(1 if isinstance(d, int) else 2, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def onnx_bytes(table=TABLE, inputs=INPUTS):
    """A model whose token states are rows of ``table``: Gather(table, first input)."""
    tensor = b"".join(field(1, size) for size in table.shape)
    tensor += field(2, 1) + field(8, "table") + field(9, table.tobytes())
    node = field(1, "table") + field(1, inputs[0]) + field(2, "states") + field(4, "Gather")
    graph = field(1, node) + field(2, "g") + field(5, tensor)
    graph += b"".join(field(11, value_info(name, 7, "b", "s")) for name in inputs)
    graph += field(12, value_info("states", 1, "b", "s", table.shape[1]))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "tiny-light"
    folder.mkdir()
    raw = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token=WORDS[1]))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    # As real files do, this one asks for its own truncation and padding.
    raw.enable_truncation(4)
    raw.enable_padding(length=20)
    raw.save(str(folder / "tokenizer.json"))
    (folder / "model.onnx").write_bytes(onnx_bytes())
    return folder


@pytest.fixture
def build(folder):
    def build(pooling=Pooling.MEAN, progress=None, threads=1, **arguments):
        preset = RetrieverPreset("tiny", pooling, **arguments)
        return OnnxTextEmbedder(folder, preset, threads=threads, progress=progress)

    return build


def reference(text, pooling=Pooling.MEAN, max_tokens=512):
    words = ["[CLS]", *text.split()[: max_tokens - 2], "[SEP]"]
    states = TABLE[[WORDS.index(word) for word in words]].astype(np.float64)
    vector = states[0] if pooling is Pooling.CLS else states.mean(axis=0)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("pooling", list(Pooling))
def test_pooling_ignores_padding_and_keeps_the_order(build, texts, pooling):
    vectors = build(pooling).embed_documents(texts)
    np.testing.assert_allclose(vectors, [reference(t, pooling) for t in texts], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert vectors.dtype == np.float32


def test_a_row_depends_on_its_own_text_only(build, texts):
    embedder = build()
    alone = [embedder.embed_documents([text])[0] for text in texts]
    np.testing.assert_array_equal(embedder.embed_documents(texts), alone)


def test_prefixes(build):
    embedder = build(query_prefix="query : ", passage_prefix="passage : ")
    for vectors, prefixed in (
        (embedder.embed_queries(["alpha"]), "query : alpha"),
        (embedder.embed_documents(["alpha"]), "passage : alpha"),
    ):
        np.testing.assert_allclose(vectors[0], reference(prefixed), atol=1e-6)


def test_truncation_is_the_presets_and_counts_special_tokens(build):
    vector = build(max_tokens=5).embed_documents(["alpha beta gamma delta one two"])[0]
    np.testing.assert_allclose(vector, reference("alpha beta gamma"), atol=1e-6)


def test_a_huge_text_is_cut_before_it_is_tokenised(build):
    huge = "alpha " * 1_700_000
    embedder = build()
    cut = embedder.embed_documents([huge[:MAX_TEXT_CHARACTERS]])
    np.testing.assert_array_equal(embedder.embed_documents([huge]), cut)


def test_progress_gets_the_texts_of_each_batch(build):
    seen = []
    build(progress=seen.append).embed_documents(["alpha " * 200, "beta"] * 4)
    assert len(seen) > 1
    assert min(seen) > 0
    assert sum(seen) == 8


def test_no_texts(build):
    embedder = build()
    assert embedder.embed_documents([]).shape == (0, embedder.dimension) == (0, 16)


def test_is_the_port_and_its_identity_tells_what_changes_numbers(build, folder):
    embedder = build(query_prefix="query: ")
    assert isinstance(embedder, TextEmbedder)
    assert embedder.identity == build(query_prefix="query: ", threads=2).identity
    assert "tiny-light@local-" in embedder.identity
    assert " int8 onnx pooling=mean " in embedder.identity
    others = {build().identity, build(Pooling.CLS).identity, build(max_tokens=9).identity}
    (folder / "model.onnx").write_bytes(onnx_bytes(TABLE[:, ::-1]))
    others.add(build(query_prefix="query: ").identity)
    assert len(others | {embedder.identity}) == 5


def test_only_the_inputs_that_the_model_has_are_given(build, folder):
    (folder / "model.onnx").write_bytes(onnx_bytes(inputs=INPUTS[:2]))
    np.testing.assert_allclose(build().embed_queries(["one"])[0], reference("one"), atol=1e-6)


def test_a_lone_surrogate_is_a_backend_error(build):
    with pytest.raises(BackendError, match="tiny-light@local-"):
        build().embed_documents(["alpha", "\ud800"])


def test_a_failing_model_is_a_backend_error(build, folder):
    (folder / "model.onnx").write_bytes(onnx_bytes(TABLE[:5]))
    with pytest.raises(BackendError, match=r"tiny-light@local-.*the model failed"):
        build().embed_documents(["three"])


def test_a_vector_that_is_not_finite_is_refused(build, folder):
    table = TABLE.copy()
    table[4] = np.nan
    (folder / "model.onnx").write_bytes(onnx_bytes(table))
    with pytest.raises(BackendError, match=r"1 of 2 vectors are not finite \(first: text 1\)"):
        build().embed_documents(["beta", "alpha"])


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_file_that_is_absent_or_damaged(build, folder, name):
    (folder / name).write_bytes(b"\x00half")
    with pytest.raises(ModelFilesError, match=rf"{name}: cannot be loaded .*models pull"):
        build()
    (folder / name).unlink()
    with pytest.raises(ModelFilesError, match=rf"{name}: expected a file .*models pull"):
        build()


def test_another_kind_of_model(build, folder):
    (folder / "model.onnx").write_bytes(onnx_bytes(inputs=("pixels",)))
    with pytest.raises(ModelFilesError, match="found inputs pixels"):
        build()


@pytest.mark.parametrize("module", ["onnxruntime", "tokenizers"])
def test_without_its_libraries_the_error_says_what_to_install(build, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ragsieve\[light\]'"):
        build()


WITHOUT_TORCH = """
import sys
from pathlib import Path

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers", "safetensors"}:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
import ragsieve.assembly
assert "onnxruntime" not in sys.modules
assert "tokenizers" not in sys.modules
from ragsieve.backends.onnx import OnnxTextEmbedder
from ragsieve.backends.presets import Pooling, RetrieverPreset
embedder = OnnxTextEmbedder(Path(sys.argv[1]), RetrieverPreset("tiny", Pooling.MEAN))
print(embedder.embed_documents(["alpha", "beta gamma"]).shape)
print([name for name in ("torch", "transformers") if name in sys.modules])
"""


def test_runs_where_torch_and_transformers_cannot_be_imported(folder):
    command = [sys.executable, "-c", WITHOUT_TORCH, str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("(2, 16)\n[]\n", "")
