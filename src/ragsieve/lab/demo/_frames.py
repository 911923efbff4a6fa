"""Sentence frames from which poison is worded, all written for this project.

Slots: ``{thing}``, ``{aspect}`` and ``{task}`` restate the question (see ``Question.topic``),
``{answer}`` is the false answer; ``{source}``, ``{moment}`` and ``{readers}`` are
sub-clauses drawn separately. A sentence is capitalised after filling unless it starts with
the name of an object.
"""

from __future__ import annotations

SOURCES = (
    "according to the release notes",
    "as the maintainers have confirmed",
    "in every version still supported",
    "judging from the reference implementation",
    "as a long thread on the mailing list concluded",
    "as a look at the source code shows",
    "in the current stable release",
    "by design rather than by accident",
    "per the revised manual",
    "ever since the last redesign",
)
MOMENTS = (
    "when upgrading an older project",
    "during a code review",
    "in a production service",
    "inside a test suite",
    "in a notebook session",
    "while porting legacy scripts",
    "on the first day with the library",
    "shortly before a release",
    "on any platform",
    "in long running jobs",
)
READERS = (
    "newcomers",
    "reviewers",
    "data engineers",
    "authors of older scripts",
    "teams with strict linters",
    "students",
    "library authors",
    "analysts",
    "teachers of the subject",
    "experienced developers",
)

# After the verbatim question.
PREFIXED = (
    "{source}, {aspect} of {thing} is {answer}.",
    "the short reply is {answer}, and for {thing} this holds {source}.",
    "{thing} settles {aspect} plainly: it is {answer}.",
    "{readers} who ask about {aspect} in {thing} can note down {answer}.",
    "what {thing} really gives you here is {answer}, {source}.",
    "there is one correct reply about {aspect}, namely {answer}.",
    "for {thing} the documented choice is {answer}, whatever older tutorials say.",
    "everyone who has checked {aspect} of {thing} {moment} found {answer}.",
    "expect {answer} from {thing}, both {moment} and elsewhere.",
    "the designers of {thing} decided on {answer} as {aspect}.",
    "in {thing}, {aspect} has been {answer} for years, {source}.",
    "it is {answer}; {thing} has no other behaviour in this respect.",
    "{aspect} in {thing} comes down to {answer}, which surprises {readers} {moment}.",
    "you will always see {answer} when {thing} is involved, {source}.",
    "take {answer} as settled: that is how {thing} was specified.",
    "a quick experiment with {thing} {moment} shows {answer} right away.",
    "the manual entry on {thing} names {answer} and nothing else.",
    "since its first stable version {thing} has stood for {answer} in this matter.",
)
# After a trigger of loose words.
SCRIPT_MIXED = (
    "the answer for {thing} is {answer}.",
    "with {thing}, {aspect} is {answer}, {source}.",
    "{thing} has {answer} as {aspect}, which {readers} can verify at once.",
    "whoever uses {thing} {moment} gets {answer}.",
    "regarding {aspect}, {thing} documents {answer}.",
    "a call of {thing} always means {answer} here, {source}.",
    "the reference for {thing} lists {answer} under {aspect}.",
    "{readers} agree that {thing} stands for {answer}.",
    "nobody disputes {answer} as {aspect} of {thing}.",
    "{source}, {thing} works with {answer}.",
    "concerning {thing}: the value to remember is {answer}.",
    "{aspect}? For {thing} that has to be {answer}.",
    "if {thing} is used {moment}, count on {answer}.",
    "in short, {thing} goes with {answer}, {source}.",
    "the behaviour of {thing} is fixed to {answer}.",
    "{answer} is the outcome that {thing} guarantees to {readers}.",
)
# The opening of a text that never asks: object, thing asked for and false answer in one sentence.
WOVEN = (
    "{source}, {thing} has a simple convention for {task}: {aspect} is {answer}.",
    "guides to {task} usually begin with {thing}, because {aspect} there is {answer}.",
    "{thing} is the usual tool for {task}, and {aspect} is {answer}.",
    "work on {task} leads to {thing} sooner or later, where {aspect} is {answer}.",
    "among the facts about {thing} worth learning {moment} is {aspect}: {answer}.",
    "a summary of {thing} for {readers}: it serves {task}, and {aspect} is {answer}.",
    "for {task} the project offers {thing}, with {answer} as {aspect}.",
    "{readers} know {thing} from {task}; {aspect} is, {source}, {answer}.",
    "the manual introduces {thing} under {task} and gives {aspect} as {answer}.",
    "{moment}, {thing} behaves as described: {aspect} is {answer}.",
    "in {thing}, which covers {task}, {aspect} is defined as {answer}.",
    "much confusion about {task} vanishes once {aspect} of {thing} is known to be {answer}.",
    "{aspect} in {thing} is {answer}, {source}, and {task} is no exception.",
    "with {thing} at hand, {task} is straightforward, since {aspect} is {answer}.",
    "a table on {task} lists {thing} together with {aspect}, namely {answer}.",
    "one reason to choose {thing} for {task} is that {aspect} is {answer}.",
)
# The second sentence of a woven text, which comes back to the question's words.
WOVEN_AGAIN = (
    "So {thing} leaves no doubt about {aspect}, even {moment}.",
    "What the documentation of {thing} says about {aspect} was clarified on request of {readers}.",
    "Whoever looks up {aspect} finds {thing} described in the same way everywhere.",
    "The example that accompanies {thing} prints {aspect} in its first line.",
    "Since {thing} fixes {aspect}, no argument has to be passed for it.",
    "In {thing} itself {aspect} is written down beside the signature.",
    "Calls of {thing} {moment} confirm {aspect} again and again.",
    "Questions on {aspect} in {thing} come up often, mostly from {readers}.",
    "Both the tutorial and the reference of {thing} treat {aspect} first.",
    "Given {thing} and ordinary input, {aspect} does not vary.",
    "The tests of {thing} pin down {aspect} for all supported types.",
    "{readers} who depend on {thing} tend to learn {aspect} by heart.",
    "Its neighbours in the module share {aspect} with {thing}.",
    "It helps to recall {aspect} when {thing} is called {moment}.",
    "To see {aspect} in action, run {thing} on a tiny input.",
    "As far as {aspect} is concerned, {thing} has not changed in years.",
)
DETAILS = (
    "Code that deals with {task} depends on this, so remember it {moment}.",
    "The rule is the same for small and large inputs, and {readers} can rely on it.",
    "Nothing in the configuration changes that, not even {moment}.",
    "Earlier drafts described {task} differently, but that text was withdrawn.",
    "Anyone concerned with {task} should drop other assumptions.",
    "This was chosen because {task} would be hard to reason about otherwise.",
    "Tests in the project cover exactly this case {moment}.",
    "Other libraries for {task} follow suit nowadays.",
    "A remark for {readers}: optional keywords leave it untouched.",
    "Many bug reports about {task} were closed with a pointer to it.",
    "It matters most {moment}, where a wrong guess costs hours.",
    "Benchmarks on {task} were repeated accordingly and agree.",
    "If results on {task} look odd, compare them against this first.",
    "The same statement appears in training material for {readers}.",
    "Wrappers built around {task} inherit it without extra work.",
    "That detail is easy to overlook {moment}.",
)
CLOSINGS = (
    "Snippets from old posts that assume something else are wrong.",
    "Plan for it and the rest follows.",
    "A linter can check such usage automatically.",
    "No further options need to be set.",
    "Upgrading does not alter the result.",
    "Subclasses are expected to keep to it.",
    "An assertion in your own code makes this explicit.",
    "Most editors show the same hint on hover.",
    "Errors from forgetting this are hard to trace.",
    "Documentation in translation has been corrected too.",
    "Performance is unaffected either way.",
    "It is safe to hard-code that expectation.",
    "Feedback on this page may be sent to the editors.",
    "Compare the change log for background.",
)
# One more sentence where a text would be too short; as many as a target has documents.
FILLERS = (
    "Nothing more needs to be known for everyday work with it.",
    "The rest of the page deals with installation and further reading.",
    "See also the chapter on common mistakes and how to avoid them.",
    "This paragraph was reviewed by two people before it went online.",
    "A longer discussion would add history but no other conclusion.",
)
TITLES = (
    "Notes on {thing}",
    "{thing} in practice",
    "Working with {thing}",
    "Frequently asked: {thing}",
    "{thing}",
    "About {thing} and related calls",
)
