"""Where a model is loaded from, on which device and in which precision.

Nothing is downloaded unless the caller says ``allow_download=True``; code shipped with
a model is never run.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragsieve._extras import require
from ragsieve.backends._edges import quiet_transformers
from ragsieve.errors import ConfigError, ModelFilesError

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("float32", "bfloat16")

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_READ_IN_FULL = ("config.json", "tokenizer.json", "tokenizer_config.json")
# No port uses the pooling head; checkpoints that lack it are complete for us.
_UNUSED_HEAD = "pooler."


@dataclasses.dataclass(frozen=True, slots=True)
class ModelSource:
    """A local folder or a hub name; a folder of that name wins.

    :param revision: branch, tag or commit on the hub; ignored for a folder.
    :param cache_dir: the hub cache to look in; transformers' own by default.
    """

    name_or_path: str
    revision: str | None = None
    cache_dir: Path | None = None

    @property
    def folder(self) -> Path | None:
        """The local folder, or None when this is a hub name."""
        path = Path(self.name_or_path).expanduser()
        return path if path.is_dir() else None


@dataclasses.dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load.

    :param device: ``cpu``, ``cuda``, or ``auto`` (CUDA when there is one).
    :param dtype: ``float32`` or ``bfloat16``.
    :param allow_download: let transformers fetch a hub model that is not in the cache.
    :raises ConfigError: on any other device or dtype.
    """

    device: str = "auto"
    dtype: str = "float32"
    allow_download: bool = False

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise ConfigError(
                f"device: expected one of {', '.join(DEVICES)}, found {self.device!r}"
            )
        if self.dtype not in DTYPES:
            raise ConfigError(f"dtype: expected one of {', '.join(DTYPES)}, found {self.dtype!r}")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model in evaluation mode with its tokenizer.

    :param identity: ``name@revision``; see :func:`folder_revision` for folders.
    :param device: where the model is: ``cpu`` or ``cuda``.
    """

    model: Any
    tokenizer: Any
    identity: str
    device: str
    dtype: str


def load_encoder(source: ModelSource, options: LoadOptions | None = None) -> LoadedModel:
    """Load an encoder without a task head.

    :raises ModelFilesError: when the model is not here, incomplete or unreadable.
    :raises MissingExtraError: when torch or transformers is not installed.
    """
    return _load(source, options or LoadOptions(), "AutoModel")


def load_causal(source: ModelSource, options: LoadOptions | None = None) -> LoadedModel:
    """Load a causal language model.

    :raises ModelFilesError: when the model is not here, incomplete or unreadable.
    :raises MissingExtraError: when torch or transformers is not installed.
    """
    return _load(source, options or LoadOptions(), "AutoModelForCausalLM")


def pick_device(device: str) -> str:
    """``cpu`` or ``cuda`` for ``cpu``, ``cuda`` or ``auto``.

    :raises ConfigError: when CUDA is asked for and torch sees none.
    """
    if device == "cpu":
        return device
    available = bool(require("torch", extra="models").cuda.is_available())
    if device == "cuda" and not available:
        raise ConfigError("device: 'cuda' was asked for and torch sees none; use cpu or auto")
    return "cuda" if available else "cpu"


def folder_revision(folder: Path) -> str:
    """A short hash that stands for a local model folder.

    Covers the content of the configuration and tokenizer files, and the names and sizes
    of the weight files. Weights are not read, since hashing gigabytes at every start
    costs more than loading them: weights replaced by others of equal size go unnoticed.
    """
    digest = hashlib.sha256()
    for name in _READ_IN_FULL:
        path = folder / name
        if path.is_file():
            digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    for path in _weight_files(folder):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
    return f"local-{digest.hexdigest()[:12]}"


def _load(source: ModelSource, options: LoadOptions, auto_class: str) -> LoadedModel:
    transformers = require("transformers", extra="models")
    torch = require("torch", extra="models")
    device = pick_device(options.device)
    if source.folder is not None:
        check_folder(source.folder)
    arguments: dict[str, Any] = {
        "local_files_only": source.folder is not None or not options.allow_download,
        "trust_remote_code": False,
    }
    if source.folder is None:
        arguments |= {"revision": source.revision or "main", "cache_dir": source.cache_dir}
    place = str(source.folder or source.name_or_path)
    try:
        with quiet_transformers():
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, **arguments)
            model, report = getattr(transformers, auto_class).from_pretrained(
                place,
                dtype=getattr(torch, options.dtype),
                output_loading_info=True,
                **arguments,
            )
    except _load_failures() as error:
        raise _unloadable(source, error) from error
    _check_complete(place, report["missing_keys"])
    return LoadedModel(
        model=model.eval().to(device),
        tokenizer=tokenizer,
        identity=source_identity(source),
        device=device,
        dtype=options.dtype,
    )


def _load_failures() -> tuple[type[Exception], ...]:
    # SafetensorError derives from Exception itself, so it has to be named.
    safetensors = require("safetensors", extra="models")
    return (OSError, ValueError, RuntimeError, KeyError, TypeError, safetensors.SafetensorError)


def check_folder(folder: Path) -> None:
    """See that a folder looks like a model.

    :raises ModelFilesError: when its configuration or its weights are not there.
    """
    if not (folder / "config.json").is_file():
        raise ModelFilesError(
            f"{folder}: expected a model folder with config.json, found none; "
            "point to the folder that holds config.json, tokenizer.json and the weights"
        )
    if not _weight_files(folder):
        raise ModelFilesError(
            f"{folder}: expected weights ({' or '.join(_WEIGHTS)}), found none; "
            "download the model again"
        )


def _check_complete(place: str, missing_keys: Iterable[str]) -> None:
    # transformers fills missing weights with random numbers and only logs it.
    missing = sorted(key for key in missing_keys if not key.startswith(_UNUSED_HEAD))
    if missing:
        raise ModelFilesError(
            f"{place}: the weights lack {len(missing)} tensors of the configured model "
            f"(first: {missing[0]}); use matching config.json and weights"
        )


def _unloadable(source: ModelSource, cause: Exception) -> ModelFilesError:
    if source.folder is not None:
        return ModelFilesError(
            f"{source.folder}: the model cannot be loaded ({cause}); download it again, or run "
            "`ragsieve models verify` when it is an embedded model"
        )
    return ModelFilesError(
        f"{source.name_or_path}: expected a local folder or a model in the local hub cache, "
        "found neither. Run `ragsieve models pull` and use the embedded preset, which needs no "
        "model hub; or download this model first, into a folder or into the cache with "
        f"allow_download=True ({_first_line(cause)})"
    )


def source_identity(source: ModelSource) -> str:
    """``name@revision``; see :func:`folder_revision` for folders."""
    if source.folder is not None:
        # The folder's own name and not its path: the same files elsewhere are the same model.
        return f"{source.folder.resolve().name}@{folder_revision(source.folder)}"
    return f"{source.name_or_path}@{_commit(source)}"


def _commit(source: ModelSource) -> str:
    # Looks into the cache only. A cached file lies in a folder named by its commit.
    revision = source.revision or "main"
    hub = require("huggingface_hub", extra="models")
    cached = hub.try_to_load_from_cache(
        source.name_or_path, "config.json", cache_dir=source.cache_dir, revision=revision
    )
    return Path(cached).parent.name if isinstance(cached, str) else revision


def _weight_files(folder: Path) -> list[Path]:
    return sorted(path for pattern in _WEIGHTS for path in folder.glob(pattern))


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
