"""Settings: defaults, then a TOML file, then the environment, then arguments.

The only module that reads the environment: ``RAGSIEVE_PROFILE``, ``RAGSIEVE_MODELS_DIR``,
``RAGSIEVE_MODELS__DEVICE``, ``RAGSIEVE_QUERY__THRESHOLD`` and so on.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from ragsieve.defense.policy import FilterPolicy
from ragsieve.detectors.default_corpus import DefaultCorpusConfig
from ragsieve.detectors.default_query import DefaultQueryConfig
from ragsieve.detectors.paper_corpus import PaperCorpusConfig
from ragsieve.detectors.paper_query import PaperQueryConfig
from ragsieve.detectors.profiles import DEFAULT_PROFILE
from ragsieve.errors import ConfigError

_STRICT = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(BaseModel):
    """Which models to use.

    :param retriever: ``auto`` (light when it can run, else embedded), ``light`` (int8, without
        torch), ``embedded`` (float32, torch), a preset's alias, or its hub name.
    :param retriever_path: local folder of that model; its hub cache when None. A folder given
        for ``auto`` is read as ``embedded``.
    :param causal: ``auto``, ``none``, ``embedded``, ``paper``, or a folder or hub name. In profile
        ``paper`` auto is the embedded model when pulled; profile ``default`` needs none, so
        there auto is none.
    :param encoder: token encoder; as ``causal``.
    :param encoder_layer: hidden layer of an encoder named by folder or hub name.
    """

    model_config = _STRICT

    retriever: str = "auto"
    retriever_path: str | None = None
    causal: str = "auto"
    encoder: str = "auto"
    encoder_layer: int | None = None
    device: str = "auto"
    dtype: str = "float32"
    allow_download: bool = False


class PaperSettings(BaseModel):
    """Constants of profile ``paper``."""

    model_config = _STRICT

    query: PaperQueryConfig = PaperQueryConfig()
    corpus: PaperCorpusConfig = PaperCorpusConfig()


class Settings(BaseSettings):
    """Everything a command can be told, validated; unknown keys are errors.

    :param query: constants of profile ``default``, as ``corpus``; those of ``paper`` stand
        in a table of their own.
    """

    model_config = SettingsConfigDict(
        env_prefix="RAGSIEVE_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    profile: str = DEFAULT_PROFILE
    models_dir: Path = Field(default_factory=lambda: _default_models_dir())  # noqa: PLW0108 -- defined below
    models: ModelSettings = ModelSettings()
    query: DefaultQueryConfig = DefaultQueryConfig()
    corpus: DefaultCorpusConfig = DefaultCorpusConfig()
    paper: PaperSettings = PaperSettings()
    filter: FilterPolicy = FilterPolicy()


def load_settings(config: Path | None = None, **arguments: Any) -> Settings:
    """Compose settings; arguments that are None count as not given.

    :param config: a TOML file; its tables are the fields of :class:`Settings`.
    :raises ConfigError: for an unreadable file, an unknown key or an impossible value.
    """
    from_file = {} if config is None else _read_toml(config)

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 -- the hook's signature
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, from_file)

    try:
        return Loaded(**_given(arguments))
    except ValidationError as error:
        raise _config_error(error, config) from error
    except ValueError as error:
        # A malformed environment variable never reaches validation.
        raise ConfigError(str(error)) from error


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for key, value in arguments.items():
        if isinstance(value, dict):
            inner = _given(value)
            if inner:
                given[key] = inner
        elif value is not None:
            given[key] = value
    return given


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise ConfigError(f"{path}: expected TOML: {error}") from error


def _config_error(error: ValidationError, config: Path | None) -> ConfigError:
    problems = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        unknown = problem["type"] in {"extra_forbidden", "unexpected_keyword_argument"}
        words = "unknown key; remove it" if unknown else problem["msg"]
        problems.append(f"{key}: {words}" if key else words)
    where = f"{config}: " if config is not None else "configuration: "
    return ConfigError(where + "; ".join(problems))


def _default_models_dir() -> Path:
    return Path(platformdirs.user_cache_dir("ragsieve")) / "models"
