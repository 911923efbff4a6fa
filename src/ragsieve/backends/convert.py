"""A quantised GGUF file of the Llama family into an ordinary folder of float32 safetensors.

transformers can read GGUF itself, but wants one more dependency for it and refuses to
save the result; the gguf package gives dequantised tensors and their names directly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ragsieve._extras import require
from ragsieve.backends._edges import model_errors, quiet_transformers
from ragsieve.errors import ModelFilesError


def convert_gguf(gguf_file: Path, target: Path) -> None:
    """Write configuration, tokenizer and weights into the existing folder ``target``.

    Takes some seconds and, for 135 million parameters, 540 MB of disk and 2 GB of memory.

    :raises ModelFilesError: when the file is of another architecture or lacks a tensor.
    :raises BackendError: when it cannot be read; the cause is chained.
    """
    transformers = require("transformers", extra="models")
    torch = require("torch", extra="models")
    where = {"gguf_file": gguf_file.name, "local_files_only": True}
    with model_errors(str(gguf_file)), quiet_transformers():
        config = transformers.AutoConfig.from_pretrained(gguf_file.parent, **where)
        if config.model_type != "llama":
            raise ModelFilesError(
                f"{gguf_file}: expected a model of the llama architecture, "
                f"found {config.model_type!r}; only those can be converted"
            )
        # The result is plain float32; an entry about quantisation would be untrue.
        config.__dict__.pop("quantization_config", None)
        tokenizer = transformers.AutoTokenizer.from_pretrained(gguf_file.parent, **where)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        _load_tensors(model, gguf_file)
        model.save_pretrained(target)
        tokenizer.save_pretrained(target)
        for path in target.iterdir():
            path.chmod(0o644)  # safetensors makes private files; a shared folder is usual


def _load_tensors(model: Any, gguf_file: Path) -> None:
    gguf = require("gguf", extra="models")
    torch = require("torch", extra="models")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, model.config.num_hidden_layers)
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(gguf_file).tensors}
    heads = {
        "attn_q.weight": model.config.num_attention_heads,
        "attn_k.weight": model.config.num_key_value_heads,
    }
    with torch.no_grad():
        # named_parameters gives a tied output head once, as the input embedding.
        for name, parameter in model.named_parameters():
            key = names.get_name(name, try_suffixes=(".weight", ".bias"))
            if key not in stored:
                raise ModelFilesError(
                    f"{gguf_file}: expected a tensor for {name}, found none; "
                    "run `ragsieve models pull` again"
                )
            values = gguf.dequantize(stored[key].data, stored[key].tensor_type)
            kind = key.split(".", 2)[-1]
            if kind in heads:
                values = _unpermute(values, heads[kind])
            # copy_ would broadcast a wrong shape without a word.
            if values.shape != tuple(parameter.shape):
                raise ModelFilesError(
                    f"{gguf_file}: {key}: expected shape {tuple(parameter.shape)}, "
                    f"found {values.shape}; the file does not fit its own configuration"
                )
            # A copy: unquantised tensors are read-only views of the file.
            parameter.copy_(torch.from_numpy(np.array(values, dtype=np.float32)))


def _unpermute(weights: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    # llama.cpp interleaves the two halves that rotary embeddings rotate; shape (out, in).
    half = weights.shape[0] // heads // 2
    return weights.reshape(heads, half, 2, -1).swapaxes(1, 2).reshape(weights.shape)
