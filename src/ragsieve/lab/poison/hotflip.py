"""PR-W: a prefix per passage that gradients pull towards the question.

Source: PoisonedRAG, white-box setting (arXiv 2402.07867): the prefix starts as the question's
tokens and the payload stays as it is. A step takes the gradient of the similarity at a random
place of the prefix, evaluates the tokens it favours exactly and keeps the best if it is better.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.rules import fingerprint
from ragsieve.errors import ConfigError
from ragsieve.evidence.scripts import script_profile
from ragsieve.lab.corpora.records import Target
from ragsieve.lab.poison._finish import Meter, finish, needed_gradients
from ragsieve.lab.poison._texts import with_question
from ragsieve.lab.poison.base import Crafted, Fidelity, GradientEncoder, Need, Workshop
from ragsieve.lab.poison.faithfulness import standing
from ragsieve.records import FloatArray

# Sums of float32 differ by about this between batches; less is no improvement.
_LEAST_GAIN = 1e-6
_NO_TEXT = re.compile(r"\[[^\]]*\]|<[^>]+>", re.DOTALL)
_CONTINUATION = re.compile(r"^(##|▁|Ġ)|</w>$")

Banned = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, slots=True)
class HotFlipConfig:
    """The budget.

    :param steps: flips tried on one document.
    :param candidates: tokens evaluated exactly in one step.
    :param one_script: only tokens in the question's main script, or without letters.
    """

    steps: int = 30
    candidates: int = 100
    one_script: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1 or self.candidates < 1:
            raise ConfigError("hotflip: steps and candidates must be at least 1")

    @property
    def reduced(self) -> bool:
        """Whether less is spent than was published."""
        return self.steps < 30 or self.candidates < 100  # noqa: PLR2004 -- the published budget


@dataclasses.dataclass(frozen=True, slots=True)
class Flipped:
    """Where a search ended.

    :param prefix: ids.
    :param trace: the value at the start and after every step; never falls.
    """

    prefix: tuple[int, ...]
    trace: tuple[float, ...]


def flip(
    encoder: GradientEncoder,
    prefix: Sequence[int],
    suffix: Sequence[int],
    objective: FloatArray,
    config: HotFlipConfig,
    rng: np.random.Generator,
    *,
    banned: Banned,
    meter: Meter,
) -> Flipped:
    """Raise ``vector . objective`` by changing prefix tokens one at a time.

    A place whose candidates were all evaluated for the present prefix is not evaluated again:
    the step would end as before. It counts as a step.

    :param suffix: ids that are never changed.
    :param objective: shape (d,).
    :param banned: shape (vocabulary,), tokens never used.
    """
    ids, fixed = list(prefix), list(suffix)
    goal = np.asarray(objective, dtype=np.float32)
    value = float(encoder.encode_ids([ids + fixed])[0] @ goal)
    meter.encodes += 1
    trace = [value]
    slope: FloatArray | None = None
    idle: set[int] = set()
    for _ in range(config.steps if ids else 0):
        place = int(rng.integers(len(ids)))
        if place not in idle:
            if slope is None:
                slope = encoder.gradient(ids + fixed, goal)
                meter.gradients += 1
            tokens = favoured(encoder, slope[place], config.candidates, banned, ids[place])
            trials = [[*ids[:place], token, *ids[place + 1 :]] for token in tokens]
            found = encoder.encode_ids([trial + fixed for trial in trials]) @ goal
            meter.encodes += len(trials)
            best = int(found.argmax()) if found.size else 0
            if found.size and float(found[best]) > value + _LEAST_GAIN:
                ids, value, slope = trials[best], float(found[best]), None
                idle.clear()
            else:
                idle.add(place)
        trace.append(value)
    return Flipped(tuple(ids), tuple(trace))


def favoured(
    encoder: GradientEncoder, slope: FloatArray, count: int, banned: Banned, present: int
) -> list[int]:
    """The ``count`` tokens whose embedding the gradient at one place favours most.

    :param slope: shape (e,).
    :param present: the token that stands there, which is no candidate.
    """
    gains = (encoder.embeddings @ slope).astype(np.float64)
    gains[banned] = -np.inf
    gains[present] = -np.inf
    open_to = int(np.isfinite(gains).sum())
    count = min(count, open_to)
    top = np.argpartition(-gains, count - 1)[:count] if count else np.zeros(0, dtype=np.int64)
    return [int(token) for token in top[np.lexsort((top, -gains[top]))]]


def banned_tokens(encoder: GradientEncoder, *, script_of: str | None = None) -> Banned:
    """Which tokens no construction may place: special, unused, without text of their own.

    :param script_of: a text; letters of another script than its main one are banned too.
    :returns: shape (vocabulary,).
    """
    banned = np.zeros(len(encoder.vocabulary), dtype=np.bool_)
    banned[sorted(encoder.special_ids)] = True
    script = _main_script(script_of) if script_of is not None else None
    for row, token in enumerate(encoder.vocabulary):
        bare = _CONTINUATION.sub("", token)
        if not bare.strip() or (len(token) > 1 and _NO_TEXT.fullmatch(token)):
            banned[row] = True
        elif script is not None:
            banned[row] |= any(name != script for name, _ in script_profile(bare).counts)
    return banned


class HotFlip:
    """Knows the retriever: ``workshop.gradients`` must be the encoder behind its embedder."""

    fidelity = Fidelity.EXACT
    needs: frozenset[Need] = frozenset({Need.EMBEDDER, Need.GRADIENTS})

    def __init__(self, config: HotFlipConfig | None = None, *, name: str | None = None) -> None:
        self.config = config or HotFlipConfig()
        self._name = name or "PR-W"
        self._bans: dict[tuple[str, str], Banned] = {}

    @property
    def name(self) -> str:
        """With a suffix when the budget is smaller than published."""
        return f"{self._name}-reduced" if self.config.reduced else self._name

    def fingerprint(self) -> str:
        """Hash of name and budget."""
        return fingerprint(self.name, self.config)

    def craft(
        self,
        target: Target,
        payloads: Sequence[str],
        workshop: Workshop,
        rng: np.random.Generator,
    ) -> Crafted:
        """One document a payload, each with a prefix of its own.

        :raises ConfigError: without gradients, or with those of another space.
        """
        meter = Meter()
        encoder = needed_gradients(self, workshop)
        goal = question_vector(self.name, target, workshop, encoder)
        banned = self._banned(encoder, target)
        start = encoder.token_ids(target.query.text)
        texts, moved = [], []
        for payload in payloads:
            ids = encoder.token_ids(payload)
            found = flip(encoder, start, ids, goal, self.config, rng, banned=banned, meter=meter)
            texts.append(f"{encoder.decode(found.prefix)} {payload}")
            moved.append(found.prefix != tuple(start))
        return finish(
            self,
            target,
            texts,
            workshop,
            meter,
            checks=self._checks(target, payloads, texts, moved, workshop),
            reduced=self.config.reduced,
        )

    def _banned(self, encoder: GradientEncoder, target: Target) -> Banned:
        script = _main_script(target.query.text) if self.config.one_script else ""
        key = (encoder.identity, script)
        if key not in self._bans:
            sample = target.query.text if self.config.one_script else None
            self._bans[key] = banned_tokens(encoder, script_of=sample)
        return self._bans[key]

    @staticmethod
    def _checks(
        target: Target,
        payloads: Sequence[str],
        texts: Sequence[str],
        moved: Sequence[bool],
        workshop: Workshop,
    ) -> tuple[tuple[str, bool], ...]:
        if not texts:
            return ()
        plain = [with_question(target.query.text, payload) for payload in payloads]
        both = standing(target, [*texts, *plain], workshop).similarities
        own, prefixed = both[: len(texts)], both[len(texts) :]
        kept = all(text.endswith(end) for text, end in zip(texts, payloads, strict=True))
        return (
            ("payload untouched", kept),
            ("prefix changed", all(moved)),
            # Of the decoded text, which may be cut into other tokens than were optimised.
            ("at least as similar as PR-B", bool((own >= prefixed).mean() >= 0.95)),  # noqa: PLR2004
        )


def question_vector(
    name: str, target: Target, workshop: Workshop, encoder: GradientEncoder
) -> FloatArray:
    """The question in the retriever's space, shape (d,).

    :raises ConfigError: when the gradients are those of an encoder of another dimension.
    """
    vector = np.asarray(workshop.embedder.embed_queries([target.query.text])[0], dtype=np.float32)
    found = encoder.encode_ids([encoder.token_ids(target.query.text)]).shape[1]
    if vector.shape[0] != found:
        raise ConfigError(
            f"{name}: expected gradients of the retriever itself (dimension {vector.shape[0]}), "
            f"found an encoder of dimension {found}; load the same model twice"
        )
    return vector


def _main_script(text: str) -> str:
    counts = script_profile(text).counts
    return counts[0][0] if counts else ""
