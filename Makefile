# `make demo` and `make test` set everything up themselves: a virtual environment, the package,
# the embedded models each of them needs. Nothing is written outside this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SEED ?= 1
export RAGSIEVE_MODELS_DIR ?= $(CURDIR)/.cache/models
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: demo test test-all check types unit ray models light-model clean
# Both set up the same environment.
.NOTPARALLEL:

demo: light-model
	$(BIN)/ragsieve demo --output .demo --seed $(SEED)

test: models
	$(MAKE) check types unit

# What `make test` leaves out: the tests of further extras.
test-all: ray

ray: $(VENV)/.ray
	RAY_USAGE_STATS_ENABLED=0 $(BIN)/pytest -m ray

check:
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks

types:
	$(BIN)/mypy

unit:
	$(BIN)/pytest -m "not ray"

light-model: $(VENV)/.light
	$(BIN)/ragsieve models pull all-minilm-l6-v2-int8

# Gemma comes under the Gemma Terms of Use, not under an open source licence. Whoever runs this
# accepts them (the option below): ai.google.dev/gemma/terms; the pull shows a summary and leaves
# the full text beside the model. Tests ask it on this machine and pass nothing on.
models: $(VENV)/.dev
	$(BIN)/ragsieve models pull
	$(BIN)/ragsieve models pull local-panel --accept-licence

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	touch $@

# What the demo needs; no torch.
$(VENV)/.light: $(VENV)/.made pyproject.toml
	$(INSTALL) --editable '.[light,demo]'
	touch $@

# torch first and by version: a bare `torch` may bring a CUDA build of several GB.
$(VENV)/.torch: $(VENV)/.made
	$(INSTALL) torch==2.13.0
	touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(INSTALL) --editable '.[light,models,lab,local-llm,dev]'
	touch $@

$(VENV)/.ray: $(VENV)/.dev
	$(INSTALL) --editable '.[ray]'
	touch $@

clean:
	rm -rf $(VENV) .cache .demo .mypy_cache .ruff_cache .pytest_cache
