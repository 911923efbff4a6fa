"""Settings: defaults, then a TOML file, then the environment, then arguments.

The only module that reads the environment: ``RAGSIEVE_PROFILE``, ``RAGSIEVE_MODELS_DIR``,
``RAGSIEVE_MODELS__DEVICE``, ``RAGSIEVE_QUERY__THRESHOLD`` and so on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from ragsieve.chat.endpoint import ChatEndpoint
from ragsieve.defense.policy import FilterPolicy
from ragsieve.detectors.default_corpus import DefaultCorpusConfig
from ragsieve.detectors.default_query import DefaultQueryConfig
from ragsieve.detectors.paper_corpus import PaperCorpusConfig
from ragsieve.detectors.paper_query import PaperQueryConfig
from ragsieve.detectors.profiles import DEFAULT_PROFILE
from ragsieve.errors import ConfigError
from ragsieve.featurestore.store import FEWEST_BYTES, MAX_BYTES, STATES_SHARE
from ragsieve.settings.serving import CollectionSettings, LedgerSettings, ServiceSettings
from ragsieve.trishield.ingest_guard import IngestGuardConfig
from ragsieve.trishield.policy import ConsensusConfig, ShieldConfig
from ragsieve.trishield.retrieval_scorer import RetrievalScorerConfig

__all__ = [
    "ChatSettings",
    "CollectionSettings",
    "FeatureSettings",
    "LedgerSettings",
    "ModelSettings",
    "PaperSettings",
    "ServiceSettings",
    "Settings",
    "TriShieldSettings",
    "api_key",
    "load_settings",
]

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


class FeatureSettings(BaseModel):
    """What is known about texts, kept on disk (see the docs about features).

    :param store: the file, its name ends in ``.sqlite``; nothing is kept without one.
    :param max_bytes: bound on what it stores; the least recently used entries go first.
    :param states_share: largest part of it for token states.
    """

    model_config = _STRICT

    store: Path | None = None
    max_bytes: int = Field(default=MAX_BYTES, ge=FEWEST_BYTES)
    states_share: float = Field(default=STATES_SHARE, gt=0, le=1)


class ChatSettings(BaseModel):
    """Chat models that may be asked.

    :param members: ``[chat.members.NAME]`` tables; a member without a name is called as its table.
    :param model: the member that answers where one is needed; the only one when None.
    """

    model_config = _STRICT

    members: dict[str, ChatEndpoint] = {}
    model: str | None = None

    @field_validator("members")
    @classmethod
    def _named(cls, members: dict[str, ChatEndpoint]) -> dict[str, ChatEndpoint]:
        return {
            name: dataclasses.replace(member, name=member.name or name)
            for name, member in members.items()
        }

    @model_validator(mode="after")
    def _known(self) -> ChatSettings:
        if self.model is not None and self.model not in self.members:
            names = ", ".join(sorted(self.members)) or "none"
            raise ConfigError(f"model: expected a member ({names}), found {self.model!r}")
        return self


class TriShieldSettings(BaseModel):
    """The three rings, and what is checked after the answer.

    :param provenance: TOML file of the declared trust in sources; neutral throughout when None.
    :param answers: TOML file of what an answer must meet; nothing is checked when None.
    :param weights: of the panel's members by name; 1 for a member that is not named.
    """

    model_config = _STRICT

    guard: IngestGuardConfig = IngestGuardConfig()
    scorer: RetrievalScorerConfig = RetrievalScorerConfig()
    consensus: ConsensusConfig = ConsensusConfig()
    shield: ShieldConfig = ShieldConfig()
    provenance: Path | None = None
    answers: Path | None = None
    weights: dict[str, float] = {}


class Settings(BaseSettings):
    """Everything a command can be told, validated; unknown keys are errors.

    :param query: constants of profile ``default``, as ``corpus``; those of ``paper`` stand
        in a table of their own.
    """

    model_config = SettingsConfigDict(
        env_prefix="RAGSIEVE_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        # A traceback must not show a key that stands where its variable's name belongs.
        hide_input_in_errors=True,
    )

    profile: str = DEFAULT_PROFILE
    models_dir: Path = Field(default_factory=lambda: _default_models_dir())  # noqa: PLW0108 -- defined below
    models: ModelSettings = ModelSettings()
    query: DefaultQueryConfig = DefaultQueryConfig()
    corpus: DefaultCorpusConfig = DefaultCorpusConfig()
    paper: PaperSettings = PaperSettings()
    filter: FilterPolicy = FilterPolicy()
    features: FeatureSettings = FeatureSettings()
    chat: ChatSettings = ChatSettings()
    trishield: TriShieldSettings = TriShieldSettings()
    ledger: LedgerSettings = LedgerSettings()
    service: ServiceSettings = Field(default_factory=ServiceSettings)

    @property
    def sha256(self) -> str:
        """Hash of everything that is set, hexadecimal; secrets count as set and no more."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


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


def api_key(member: ChatEndpoint) -> SecretStr | None:
    """The key of a member from the environment; None for a member that names no variable.

    :raises ConfigError: when the variable is not set or empty.
    """
    if member.key_variable is None:
        return None

    class Variables(BaseSettings):
        model_config = SettingsConfigDict(
            case_sensitive=True, extra="ignore", hide_input_in_errors=True
        )

    held = create_model(
        "Held",
        __base__=Variables,
        key=(SecretStr, Field(default=SecretStr(""), validation_alias=member.key_variable)),
    )
    key: SecretStr = held().key  # type: ignore[attr-defined]
    if not key.get_secret_value():
        raise ConfigError(
            f"{member.title}: the environment variable {member.key_variable} holds no key; set it"
        )
    return key


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
