# Everything a newcomer needs is one of these targets; each makes the environment it runs in.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SIMULEVAL := .venv-simuleval
CHROMIUM := { timeout 300 apt-get update --quiet=2 && timeout 300 apt-get install --quiet=2 --yes --no-install-recommends chromium; } > /dev/null
WORKERS ?= 2
SIZE ?= base
QUICK ?=

.DEFAULT_GOAL := help
.PHONY: help demo test check format bench soak load browser simuleval clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: $(INSTALLED)  ## watch a sentence being translated while it is still arriving
	@$(BIN)/hf-simultaneous demo

test: $(INSTALLED)  ## run the tests, in two processes; WORKERS=0 is one
	@# Compiled modules are kept: each process reads thousands. Files are handed out in the order of tests/conftest.py.
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

check: $(INSTALLED)  ## ruff (lint, format) and mypy --strict on the package and training
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)  ## let ruff format the code and sort the imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)  ## the benchmarks, SIZE=base|tiny, QUICK=1 for two minutes; writes benchmarks/out/bench.json
	$(BIN)/python -m benchmarks.bench --size $(SIZE) $(if $(QUICK),--quick)

soak: $(INSTALLED)  ## 100,000 words through one stream, ten minutes of a server: time per word and memory must stay flat
	$(BIN)/python -m benchmarks.soak
	$(BIN)/python -m benchmarks.soak_served

load: $(VENV)/.ray  ## speakers against the real server, QUICK=1 for short runs; writes benchmarks/out/load.json and load.png
	$(BIN)/python -m benchmarks.load $(if $(QUICK),--quick)
	$(BIN)/python -m pytest -m load

browser:  ## Debian's chromium for the tests of the page, where it can be installed; without it they are skipped
	@command -v chromium > /dev/null || $(CHROMIUM) || echo "no chromium: the tests of the page will be skipped"

simuleval: $(SIMULEVAL)/.installed  ## an environment of its own for SimulEval and OmniSTEval, which some tests compare with

clean:  ## remove the environments and caches
	rm -rf $(VENV) $(SIMULEVAL) .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info

$(INSTALLED): setup.cfg pyproject.toml constraints.txt
	@echo "installing into $(VENV), about 2 GB: a few minutes, the first time only"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	@touch $@

$(VENV)/.ray: $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,ray]"
	@touch $@

# SimulEval pins a tqdm that datasets refuses, so the two never share an environment. It also asks for packages that it
# does not import and that may need a compiler; --no-deps leaves those out.
$(SIMULEVAL)/.installed: Makefile
	test -x $(SIMULEVAL)/bin/python || $(PYTHON) -m venv $(SIMULEVAL)
	$(SIMULEVAL)/bin/python -m pip install --quiet --only-binary :all: tqdm==4.64.1 sacrebleu==2.6.0 textgrid==1.5 \
		soundfile==0.14.0 pandas==3.1.1 tornado==6.6.1 requests==2.34.2 pyyaml==6.0.3 pydub==0.25.1
	$(SIMULEVAL)/bin/python -m pip install --quiet --only-binary :all: --no-deps simuleval==1.1.4 omnisteval==0.1.10
	@touch $@
