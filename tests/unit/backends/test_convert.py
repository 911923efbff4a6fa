"""The conversion against a tiny GGUF file written here from a model whose numbers are known."""

import numpy as np
import pytest

from ragsieve.backends._edges import quiet_transformers
from ragsieve.backends.convert import convert_gguf
from ragsieve.errors import BackendError, ModelFilesError

HEADS, KEY_HEADS, LAYERS = 2, 1, 2


def permute(weights, heads):
    """As llama.cpp's own converter does for query and key projections."""
    out, inner = weights.shape
    return weights.reshape(heads, 2, out // heads // 2, inner).swapaxes(1, 2).reshape(out, inner)


def write_gguf(path, model, *, architecture="llama", leave_out=""):
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    tokens = ["<end>", "a", "b", "c", "Ġ", "ab", "Ġa"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * 6)
    writer.add_token_merges(["a b", "Ġ a"])
    for add in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_pad_token_id):
        add(0)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.named_parameters():
        key = names.get_name(name, try_suffixes=(".weight",))
        values = tensor.detach().numpy()
        if "attn_q." in key or "attn_k." in key:
            values = permute(values, HEADS if "attn_q." in key else KEY_HEADS)
        if key != leave_out:
            writer.add_tensor(key, np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def original():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=7,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        max_position_embeddings=32,
        initializer_range=0.5,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def test_the_converted_model_gives_the_originals_logits(original, tmp_path, capfd):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    target = tmp_path / "out"
    target.mkdir()
    convert_gguf(write_gguf(tmp_path / "tiny.gguf", original), target)
    assert capfd.readouterr().out == ""
    with quiet_transformers():
        converted = AutoModelForCausalLM.from_pretrained(target).eval()
        tokenizer = AutoTokenizer.from_pretrained(target)
    assert not hasattr(converted.config, "quantization_config")
    ids = torch.tensor([[1, 2, 3, 4, 5, 6, 1, 2]])
    with torch.no_grad():
        torch.testing.assert_close(converted(ids).logits, original(ids).logits)
    assert tokenizer("ab a")["input_ids"] == [5, 6]


def test_a_missing_tensor_is_named(original, tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", original, leave_out="blk.1.ffn_up.weight")
    with pytest.raises(ModelFilesError, match=r"expected a tensor for model\.layers\.1\.mlp\.up"):
        convert_gguf(path, tmp_path)


def test_another_architecture_is_refused(original, tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", original, architecture="qwen2")
    with pytest.raises(ModelFilesError, match="expected a model of the llama architecture"):
        convert_gguf(path, tmp_path)


def test_a_file_that_is_no_gguf(tmp_path):
    (tmp_path / "tiny.gguf").write_bytes(b"nothing of the kind")
    with pytest.raises(BackendError, match=r"tiny\.gguf: the model failed"):
        convert_gguf(tmp_path / "tiny.gguf", tmp_path)
