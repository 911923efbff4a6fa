# `make demo` and `make test` set everything up themselves: a virtual environment, the package,
# the embedded models. Nothing is written outside this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEED ?= 1
export RAGSIEVE_MODELS_DIR ?= $(CURDIR)/.cache/models
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: demo test check types unit models docs clean

demo: $(VENV)/.demo models
	$(BIN)/ragsieve demo --output .demo --seed $(SEED)

test: $(VENV)/.dev models
	$(MAKE) check types unit

check:
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks

types:
	$(BIN)/mypy

unit:
	$(BIN)/pytest

models: $(VENV)/.demo
	$(BIN)/ragsieve models pull

# torch first and by version: a bare `torch` may bring a CUDA build of several GB.
$(VENV)/.torch:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[models,lab]'
	touch $@

$(VENV)/.dev: $(VENV)/.demo pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[models,lab,dev]'
	touch $@

clean:
	rm -rf $(VENV) .cache .demo .mypy_cache .ruff_cache .pytest_cache
