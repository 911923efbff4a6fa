"""A model that is loaded when it is first asked, and is known by its configuration before."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragsieve.backends.loading import (
    LoadedModel,
    LoadOptions,
    ModelSource,
    check_folder,
    pick_device,
    source_identity,
)


@dataclasses.dataclass(frozen=True, slots=True)
class ModelOutline:
    """What a model's configuration says.

    :param vocabulary_size: tokens it chooses from.
    :param layers: hidden layers.
    :param hidden_size: dimension of a state.
    :param positions: tokens it has positions for; None where nothing bounds them.
    :param pad_id: padding token; None without one.
    """

    model_type: str
    vocabulary_size: int
    layers: int
    hidden_size: int
    positions: int | None
    pad_id: int | None

    @classmethod
    def of(cls, config: Any) -> ModelOutline:
        """From transformers' configuration of a model."""
        positions = getattr(config, "max_position_embeddings", None)
        pad_id = getattr(config, "pad_token_id", None)
        return cls(
            model_type=str(config.model_type),
            vocabulary_size=int(config.vocab_size),
            layers=int(config.num_hidden_layers),
            hidden_size=int(config.hidden_size),
            positions=None if positions is None else int(positions),
            pad_id=None if pad_id is None else int(pad_id),
        )

    @classmethod
    def of_folder(cls, folder: Path) -> ModelOutline | None:
        """From a folder's ``config.json``; None where it leaves something to be filled in."""
        try:
            config = json.loads((folder / "config.json").read_text("utf-8"))
            return cls(
                model_type=str(config["model_type"]),
                vocabulary_size=int(config["vocab_size"]),
                layers=int(config["num_hidden_layers"]),
                hidden_size=int(config["hidden_size"]),
                positions=int(config["max_position_embeddings"]),
                pad_id=int(config["pad_token_id"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None


class DeferredModel:
    """A model from a folder, loaded at first use; one from the hub, or without a complete
    configuration, is loaded at once. May be shared between threads.

    :param load: loads it and makes it ready.
    :raises ModelFilesError: when its files are not here. Damaged weights of a folder show when
        they are loaded.
    """

    def __init__(
        self, source: ModelSource, options: LoadOptions, load: Callable[[], LoadedModel]
    ) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._loaded: LoadedModel | None = None
        self.dtype = options.dtype
        folder = source.folder
        outline = None
        if folder is not None:
            check_folder(folder)
            outline = ModelOutline.of_folder(folder)
        if options.device == "cuda":
            pick_device(options.device)
        self.outline = outline or ModelOutline.of(self.loaded.model.config)
        # After loading: a download may have just said which commit it is.
        self.identity = source_identity(source)

    @property
    def loaded(self) -> LoadedModel:
        """The model, loaded by now.

        :raises ModelFilesError: when it is damaged.
        :raises MissingExtraError: when what runs it is not installed.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded
