"""GMTP: are the tokens that pull a document towards the query likely where they stand?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragsieve.detectors.rules import QueryView, fingerprint
from ragsieve.errors import ConfigError
from ragsieve.evidence.tokens import Span
from ragsieve.lab.comparators.base import CleanPair, ControlPoint, Declaration, QueryComparator
from ragsieve.lab.comparators.masked import MaskedModel
from ragsieve.lab.poison.base import Fidelity, GradientEncoder, Need
from ragsieve.ports import CausalScorer

_SOURCE = "GMTP, ACL Findings 2025, arXiv 2507.18202"
_RULE = (
    "of the 10 tokens with the largest gradient above the mean, take the 5 least likely; keep "
    "the document when their mean probability exceeds a tenth of the clean passages'"
)
DECLARATION = Declaration(
    name="gmtp",
    control_point=ControlPoint.RETRIEVAL,
    needs=frozenset({Need.GRADIENTS, Need.MASKED, Need.CLEAN_REFERENCE}),
    native_rule=_RULE,
    fidelity=Fidelity.RECONSTRUCTED,
    source=_SOURCE,
)
CAUSAL_DECLARATION = Declaration(
    name="gmtp-causal-variant",
    control_point=ControlPoint.RETRIEVAL,
    needs=frozenset({Need.GRADIENTS, Need.CAUSAL, Need.CLEAN_REFERENCE}),
    native_rule=f"{_RULE}; probability of the word after what stands left of it, no masking",
    fidelity=Fidelity.VARIANT,
    source=_SOURCE,
)
_PIECE_MARKS = ("##", "Ġ", "▁")
_CARRIER = "a"


@dataclasses.dataclass(frozen=True, slots=True)
class GmtpConfig:
    """Constants, symbols in brackets.

    :param influential: tokens of largest gradient that are kept [N].
    :param unlikely: least likely of them that are averaged [M].
    :param share: of the clean mean that a document must exceed [lambda].
    :param tokens: of a document that are differentiated through; ours, the encoder's limit.
    """

    candidates: int = 5
    influential: int = 10
    unlikely: int = 5
    share: float = 0.1
    tokens: int = 256

    def __post_init__(self) -> None:
        if min(self.candidates, self.influential, self.unlikely, self.tokens) < 1:
            raise ConfigError("gmtp: candidates, influential, unlikely and tokens must be positive")
        if not 0 < self.share <= 1:
            raise ConfigError(f"gmtp: share must lie in (0, 1], found {self.share}")


class CausalLeftModel:
    """The variant's stand-in: probability of a word given at most ``words`` words left of it.

    Geometric mean over the word's tokens. The text's first word has no left side: NaN. The
    window is short because a causal model on a CPU is what this costs.
    """

    def __init__(self, causal: CausalScorer, words: int = 16) -> None:
        self._causal, self._words = causal, words
        self._sizes: dict[str, int] = {}
        self.identity = f"{causal.identity} left context of {words} words"

    def probabilities(self, text: str, spans: Sequence[Span]) -> list[float]:
        """From the losses of each word's window; a word's last losses are its tokens'."""
        starts = _word_starts(text)
        words = [int(np.searchsorted(starts, span.start, side="right")) - 1 for span in spans]
        wanted = sorted({word for word in words if word > 0})
        if not wanted:
            return [math.nan] * len(spans)
        parts = text.split()
        windows = [" ".join(parts[max(0, word - self._words) : word + 1]) for word in wanted]
        self._count([parts[word] for word in wanted])
        found: dict[int, float] = {}
        for word, losses in zip(wanted, self._causal.losses(windows), strict=True):
            tail = np.asarray(losses, dtype=np.float64)[-self._sizes[parts[word]] :]
            found[word] = math.exp(-float(tail.mean())) if tail.size else math.nan
        return [found.get(word, math.nan) for word in words]

    def _count(self, words: Sequence[str]) -> None:
        # The port tells losses and no tokens: a word has as many as it adds to another one.
        new = [word for word in dict.fromkeys(words) if word not in self._sizes]
        if not new:
            return
        losses = self._causal.losses([_CARRIER, *(f"{_CARRIER} {word}" for word in new)])
        for word, own in zip(new, losses[1:], strict=True):
            self._sizes[word] = max(1, len(own) - len(losses[0]))


@dataclasses.dataclass(frozen=True, slots=True)
class GmtpParts:
    """The models, and which of the two rules they make.

    :param model: hides a token and guesses it, or the variant's stand-in.
    """

    encoder: GradientEncoder
    model: MaskedModel
    declaration: Declaration = DECLARATION


def reference_probability(
    pairs: Sequence[CleanPair], parts: GmtpParts, config: GmtpConfig | None = None
) -> float:
    """The statistic's mean over clean passages, without the gate at the mean gradient.

    :raises ConfigError: when no clean passage can be measured.
    :raises BackendError: when a model fails.
    """
    used = config or GmtpConfig()
    found = [_statistic(pair.query, pair.passage, parts, used, gated=False) for pair in pairs]
    finite = [value for value in found if math.isfinite(value)]
    if not finite:
        raise ConfigError("gmtp: expected clean pairs that can be measured, found none")
    return math.fsum(finite) / len(finite)


class Gmtp(QueryComparator):
    """Score: ``1 - P`` in [0, 1]; flagged at ``1 - lambda * clean mean`` or above.

    :param clean: see :func:`reference_probability`.
    """

    def __init__(self, parts: GmtpParts, clean: float, config: GmtpConfig | None = None) -> None:
        if not 0 <= clean <= 1:
            raise ConfigError(f"gmtp: the clean mean must lie in [0, 1], found {clean}")
        self.config = config or GmtpConfig()
        self.declaration = parts.declaration
        self.candidates = self.config.candidates
        self.threshold = 1 - self.config.share * clean
        self._parts, self._clean = parts, clean

    def fingerprint(self) -> str:
        """Hash of the constants, the clean mean and the models."""
        return fingerprint(
            self.profile,
            self.config,
            self._clean,
            self._parts.encoder.identity,
            self._parts.model.identity,
        )

    def scores(self, view: QueryView) -> Sequence[float]:
        """How unlikely each candidate's influential tokens are."""
        return [
            1 - _statistic(view.query, text, self._parts, self.config, gated=True)
            for text in view.candidates
        ]


def _statistic(
    query: str, text: str, parts: GmtpParts, config: GmtpConfig, *, gated: bool
) -> float:
    encoder = parts.encoder
    ids = encoder.token_ids(text)[: config.tokens]
    if not ids:
        return math.nan
    asked = encoder.encode_ids([encoder.token_ids(query)])[0]
    norms = np.linalg.norm(np.asarray(encoder.gradient(ids, asked), dtype=np.float64), axis=1)
    chosen = influential(norms, config.influential, gated=gated)
    if not chosen:
        return 0.0
    pieces = encoder.vocabulary
    spans = piece_spans(text, [pieces[one] for one in ids])
    known = [span for place in chosen if (span := spans[place]) is not None]
    chances = parts.model.probabilities(text, known) if known else []
    finite = sorted(value for value in chances if math.isfinite(value))[: config.unlikely]
    return math.fsum(finite) / len(finite) if finite else math.nan


def influential(norms: npt.NDArray[np.float64], count: int, *, gated: bool) -> list[int]:
    """Places of the largest gradient norms, ties by place; with the gate, above their mean only."""
    order = np.argsort(-norms, kind="stable")[:count].tolist()
    floor = float(norms.mean()) if gated else -math.inf
    return [place for place in order if norms[place] > floor]


def piece_spans(text: str, pieces: Sequence[str]) -> list[Span | None]:
    """Where an encoder's word pieces stand in the text, found from left to right.

    The port gives no offsets. A piece that is not written as in the text (accents folded,
    unknown) has none.
    """
    folded = text.lower()
    if len(folded) != len(text):
        folded = text
    spans: list[Span | None] = []
    at = 0
    for piece in pieces:
        surface = piece.lower()
        for mark in _PIECE_MARKS:
            surface = surface.removeprefix(mark.lower())
        # A piece is near where the last one ended; one found further on is another word's.
        start = folded.find(surface, at, at + len(surface) + 32) if surface else -1
        if start < 0:
            spans.append(None)
            continue
        at = start + len(surface)
        spans.append(Span(start, at))
    return spans


def _word_starts(text: str) -> npt.NDArray[np.int64]:
    starts = [
        place
        for place, character in enumerate(text)
        if not character.isspace() and (place == 0 or text[place - 1].isspace())
    ]
    return np.array(starts, dtype=np.int64)
