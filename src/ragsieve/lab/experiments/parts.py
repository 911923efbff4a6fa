"""The one place where experiments reach the lab's loaders, constructions, comparators, models."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragsieve import assembly
from ragsieve.chat.answers import normalized
from ragsieve.detectors.default_corpus import DefaultCorpusRule
from ragsieve.detectors.gate import IngestGate
from ragsieve.detectors.profiles import corpus_rule, query_rule
from ragsieve.detectors.rules import CorpusRule, QueryRule
from ragsieve.errors import ConfigError
from ragsieve.lab.comparators.base import CleanPair, ControlPoint, Declaration
from ragsieve.lab.corpora.records import Dataset, Loaded, Target
from ragsieve.lab.experiments.losses import KeptCausalScorer
from ragsieve.lab.experiments.needs import Judging, Surrounds, Written
from ragsieve.lab.experiments.outcome import UnavailableError
from ragsieve.lab.experiments.spec import Answers, Attack, Experiment, Method, Models
from ragsieve.ports import CausalScorer, ChatModel, FeatureSource, TextEmbedder
from ragsieve.records import FloatArray, Ranking, Scan
from ragsieve.retrieval import rank
from ragsieve.settings import Settings, load_settings

if TYPE_CHECKING:
    from ragsieve.lab.poison.base import GradientEncoder

BENCH = "bench"
"""The dataset of this name is the folder given with ``--bench``."""
_EMBEDDED = ("auto", "light", "embedded")
_PAIRS = 200  # clean questions with a passage that comparators calibrate on


class LabParts:
    """The lab as it is installed.

    :param bench: folder of the dataset called ``bench``.
    :param models_dir: where the embedded models are; the settings' when None.
    :param cache: folder for embeddings, losses and journals of constructions.
    :param chat: gives the chat models that an experiment names, by name; without it there is none.
    :param note: called with one line about work that takes a while.
    """

    def __init__(
        self,
        *,
        bench: Path | None,
        models_dir: Path | None,
        cache: Path,
        chat: Callable[[Answers], Mapping[str, ChatModel]] | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._bench = bench
        self._models_dir = models_dir
        self._cache = cache
        self._chat = chat
        self._note = note
        self._chats: dict[Answers, Mapping[str, ChatModel]] = {}
        self._loaded: dict[str, Loaded] = {}
        self._embedders: dict[str, TextEmbedder] = {}
        self._scorers: dict[Models, CausalScorer | None] = {}
        self._gradients: dict[str, GradientEncoder] = {}
        self._rules: dict[tuple[str, Method, Models], Any] = {}

    def dataset(self, name: str, payloads: str | None) -> Dataset:
        """A clean corpus; its targets are those of the attack whose documents are payloads."""
        loaded = self._load(name)
        dataset = loaded.dataset
        if not dataset.documents:
            raise ConfigError(f"dataset {name!r}: holds poison alone; an experiment needs a corpus")
        if payloads is not None:
            attack = self._attack(name, payloads)
            texts: dict[str, list[str]] = {}
            for document in attack.poisoning.documents:
                own = texts.setdefault(attack.poisoning.labels[document.id].query_id, [])
                own.append(document.text)
            targets = tuple(
                dataclasses.replace(one, payloads=tuple(texts[one.query.id]))
                for one in attack.targets
                if one.query.id in texts
            )
            return dataclasses.replace(dataset, targets=targets)
        return dataset

    def file_attack(self, dataset: str, file: str) -> Written:
        """What an attack of the dataset's folder plants."""
        return self._attack(dataset, file)

    def attack_fingerprint(self, dataset: str, name: str, file: str | None) -> str:
        """Hash of the planted texts of a file, or of the construction's configuration."""
        if file is None:
            from ragsieve.lab.poison.registry import construction

            return str(construction(name).fingerprint())
        digest = hashlib.sha256()
        for document in self._attack(dataset, file).poisoning.documents:
            digest.update(f"{document.id}\0{document.content}\0".encode())
        return digest.hexdigest()[:16]

    def crafted(
        self,
        attack: Attack,
        targets: Sequence[Target],
        dataset: Dataset,
        rows: FloatArray,
        experiment: Experiment,
        seed: int,
    ) -> Written:
        """What a construction writes for the targets, from a journal where it wrote before."""
        from ragsieve.lab.experiments.crafting import craft
        from ragsieve.lab.poison.base import Need, Workshop

        retriever, models = experiment.retriever, experiment.models

        def workshop(needs: frozenset[Need]) -> Workshop:
            return Workshop(
                dataset=dataset,
                embedder=self.embedder(retriever),
                rows=rows,
                gradients=self.gradients(retriever) if Need.GRADIENTS in needs else None,
                causal=self._causal(models) if Need.CAUSAL in needs else None,
                chat=self._writer(experiment) if Need.CHAT in needs else None,
            )

        return craft(
            attack.name,
            targets,
            workshop,
            seed=seed,
            count=attack.write,
            journal=self._cache / "journals",
            progress=self._note,
        )

    def encoder_identity(self, retriever: str) -> str:
        """The encoder's own words."""
        return self.embedder(retriever).identity

    def rows(self, dataset: Dataset, retriever: str) -> FloatArray:
        """Embeddings of the corpus, from the cache."""
        return self.embedded([document.content for document in dataset.documents], retriever)

    def embedded(self, texts: Sequence[str], retriever: str) -> FloatArray:
        """Embeddings of documents, from the cache."""
        return self.embedder(retriever).embed_documents(texts)

    def asked(self, texts: Sequence[str], retriever: str) -> FloatArray:
        """Embeddings of questions, from the cache."""
        return self.embedder(retriever).embed_queries(texts)

    def query_rule(self, method: Method, models: Models, *, fresh: bool = False) -> QueryRule:
        """RSQ's rule with the method's constants."""
        settings = self._settings(method, models, "query")
        paper = settings.profile == "paper"

        def build() -> QueryRule:
            return query_rule(
                settings.profile,
                default=settings.query,
                paper=settings.paper.query,
                causal=self._causal(models, fresh=fresh, confirming=not paper),
                encoder=assembly.token_encoder(settings) if paper else None,
            )

        return build() if fresh else self._shared("query", method, models, build)

    def corpus_rule(self, method: Method, models: Models, *, fresh: bool = False) -> CorpusRule:
        """RSG's rule with the method's constants."""
        settings = self._settings(method, models, "corpus")
        paper = settings.profile == "paper"

        def build() -> CorpusRule:
            return corpus_rule(
                settings.profile,
                default=settings.corpus,
                paper=settings.paper.corpus,
                causal=None if paper else self._causal(models, fresh=fresh, confirming=True),
            )

        return build() if fresh else self._shared("corpus", method, models, build)

    def features(self, scan: Scan, rows: FloatArray) -> FeatureSource:
        """The gate's view of a scan."""
        gate = IngestGate(DefaultCorpusRule())
        return gate.features(gate.snapshot(scan, rows))

    def declaration(self, comparator: str) -> Declaration:
        """From the registry."""
        from ragsieve.lab.comparators.registry import declarations

        known = {one.name: one for one in declarations()}
        if comparator not in known:
            names = ", ".join(sorted(known))
            raise ConfigError(f"comparators: expected one of {names}, found {comparator!r}")
        return known[comparator]

    def comparator(self, name: str, around: Surrounds, models: Models) -> Judging:
        """Built with what this machine has; what is missing is said by name."""
        from ragsieve.lab.comparators import registry

        wanted = registry.required(name)
        givers: Mapping[str, Callable[[], object]] = {
            "embedder": lambda: self.embedder(around.retriever, fresh=around.fresh),
            "causal": lambda: self._causal(models, fresh=around.fresh),
            "rows": lambda: around.rows,
            "calibration": lambda: self._calibration(around),
            "gradients": lambda: self.gradients(around.retriever),
            "retrieve": lambda: self._retrieving(around),
            # The model that answers is handed over with each question.
            "chat": _NoChat,
            **({"masked": lambda: models.masked} if models.masked else {}),
        }
        # Before anything heavy is loaded for nothing.
        _refuse(name, [field for field in wanted if field not in givers])
        given = {field: givers[field]() for field in wanted}
        _refuse(name, [field for field, value in given.items() if value is None])
        needs = registry.ComparatorNeeds(**given)  # type: ignore[arg-type]
        point = self.declaration(name).control_point
        if point is ControlPoint.GENERATION:
            return registry.generation_defense(name, needs)
        if point is ControlPoint.RETRIEVAL:
            return registry.query_comparator(name, needs)
        return registry.corpus_comparator(name, needs)

    def members(self, answers: Answers) -> Mapping[str, ChatModel]:
        """The chat models the experiment names; made, and where it says so served, once."""
        if self._chat is None:
            raise UnavailableError(f"no chat model is at hand for {', '.join(answers.names)}")
        if answers not in self._chats:
            self._chats[answers] = self._chat(answers)
        return self._chats[answers]

    def _writer(self, experiment: Experiment) -> ChatModel:
        if experiment.answers is None:
            raise UnavailableError("needs a chat model, and the experiment names none")
        return next(iter(self.members(experiment.answers).values()))

    def embedder(self, retriever: str, *, fresh: bool = False) -> TextEmbedder:
        """The retriever's encoder; with a cache on disk unless time is to be taken."""
        from ragsieve.lab.corpora.features import CachedEmbedder

        settings = load_settings(models_dir=self._models_dir, models={"retriever": retriever})
        if fresh:
            return assembly.text_embedder(settings)
        if retriever not in self._embedders:
            self._embedders[retriever] = CachedEmbedder(
                assembly.text_embedder(settings), self._cache / "embeddings"
            )
        return self._embedders[retriever]

    def gradients(self, retriever: str) -> GradientEncoder:
        """The retriever's encoder in float32 with gradients."""
        if retriever not in self._gradients:
            from ragsieve.backends.gradients import HubGradientEncoder
            from ragsieve.backends.installed import model_path
            from ragsieve.backends.loading import ModelSource
            from ragsieve.backends.presets import EMBEDDED_RETRIEVER, retriever_preset

            if retriever in _EMBEDDED:
                folder = load_settings(models_dir=self._models_dir).models_dir
                preset, place = (
                    EMBEDDED_RETRIEVER,
                    str(model_path(folder, EMBEDDED_RETRIEVER.model)),
                )
            else:
                preset = retriever_preset(retriever)
                place = preset.model
            self._gradients[retriever] = HubGradientEncoder(ModelSource(place), preset)
        return self._gradients[retriever]

    def _load(self, name: str) -> Loaded:
        if name not in self._loaded:
            from ragsieve.lab.corpora.layouts import load

            if name == BENCH and self._bench is None:
                raise ConfigError("dataset 'bench': give its folder with --bench")
            self._loaded[name] = load(self._bench if name == BENCH and self._bench else name)
        return self._loaded[name]

    def _attack(self, dataset: str, name: str) -> Written:
        attacks = self._load(dataset).attacks
        if name not in attacks:
            raise ConfigError(
                f"dataset {dataset!r}: expected one of the attacks {', '.join(sorted(attacks))}, "
                f"found {name!r}"
            )
        return Written(attacks[name].targets, attacks[name].poisoning)

    def _settings(self, method: Method, models: Models, room: str) -> Settings:
        """Overrides apply to the table of the method's own detector alone."""
        own = dict(method.overrides) if _room(method) == room else {}
        tables = {"paper": {room: own}} if method.profile == "paper" else {room: own}
        return load_settings(
            models_dir=self._models_dir,
            profile=method.profile,
            models={"causal": models.causal, "encoder": models.encoder},
            **tables,
        )

    def _shared(self, room: str, method: Method, models: Models, build: Callable[[], Any]) -> Any:
        key = (room, method, models)
        if key not in self._rules:
            self._rules[key] = build()
        return self._rules[key]

    def _causal(
        self, models: Models, *, fresh: bool = False, confirming: bool = False
    ) -> CausalScorer | None:
        """The language model; ``confirming`` for profile default, where auto is none."""
        if confirming and models.causal == "auto":
            return None
        settings = load_settings(models_dir=self._models_dir, models={"causal": models.causal})
        if fresh:
            return assembly.causal_scorer(settings)
        if models not in self._scorers:
            scorer = assembly.causal_scorer(settings)
            self._scorers[models] = (
                None if scorer is None else KeptCausalScorer(scorer, self._cache / "losses")
            )
        return self._scorers[models]

    def _calibration(self, around: Surrounds) -> tuple[CleanPair, ...] | None:
        """Questions not under attack, each with a passage judged relevant or naming the answer."""
        asked = [one for one in around.dataset.queries if one.id not in around.targets]
        vectors = self.asked([one.text for one in asked], around.retriever)
        documents = around.dataset.documents
        found = []
        for ranking in rank(asked, documents, vectors, around.clean_rows, depth=5) if asked else ():
            passage = _clean_passage(ranking, around.dataset)
            if passage is not None:
                found.append(CleanPair(ranking.query, passage))
        return tuple(found[:_PAIRS]) or None

    def _retrieving(self, around: Surrounds) -> Callable[[str], Ranking]:
        from ragsieve.records import Query

        embedder = self.embedder(around.retriever)

        def retrieve(text: str) -> Ranking:
            vectors = np.asarray(embedder.embed_queries([text]))
            asked = [Query("asked", text)]
            return rank(asked, around.documents, vectors, around.rows, depth=50)[0]

        return retrieve


def _refuse(name: str, missing: Sequence[str]) -> None:
    if missing:
        raise UnavailableError(f"{name} needs {' and '.join(missing)}, which is not here")


class _NoChat:
    """Stands where a comparator only checks that a chat model will come."""

    identity = "handed over with each question"


def _room(method: Method) -> str:
    return "query" if method.kind == "rsq" else "corpus"


def _clean_passage(ranking: Ranking, dataset: Dataset) -> str | None:
    relevant = dataset.relevant.get(ranking.query_id, frozenset())
    answers = [
        f" {words} "
        for words in map(normalized, dataset.answers.get(ranking.query_id, ()))
        # "yes" and "no" stand anywhere.
        if words and words not in {"yes", "no"}
    ]
    for document in ranking.documents:
        text = f" {normalized(document.content)} "
        if document.id in relevant or any(answer in text for answer in answers):
            return document.content
    return None
