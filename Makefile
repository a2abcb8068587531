# `make demo` shows the method, `make test` checks everything. Both create the environment first; later runs are quick.
# PYTHON chooses the interpreter for a new environment and VENV its folder: `make test PYTHON=python3.13 VENV=.venv-3.13`.
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Real networks for tests and benchmarks, if there are any.
ifneq ($(wildcard ../shared/data),)
export CAWN_DATA ?= $(CURDIR)/../shared/data
endif

.PHONY: demo test test-kernels lint docs bench fuzz dist check-dist check-install clean

demo: $(VENV)/.core
	@$(BIN)/cawn demo

# One worker per core, up to eight; tests of a file run on one worker because they share trained models.
test: $(VENV)/.dev lint
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

# Numerical tests as on other CPUs; `make test-kernels ARGS=--all` runs every test, ARGS="--load 8" on a busy machine.
test-kernels: $(VENV)/.dev
	$(BIN)/python tools/kernel_types.py $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation in site/, with the API reference from the docstrings; any warning is an error.
docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# Thousands of malformed files, run folders and arguments (`make test` tries a few hundred), then kills at random times.
fuzz: $(VENV)/.dev
	CAWN_FUZZ_CASES=$(or $(CASES),3000) $(BIN)/python -m pytest tests/fuzz
	$(BIN)/python tools/kills.py --kills $(or $(KILLS),200)

# A wheel and an sdist in dist/.
dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation

# Install the wheel into an empty environment and try it there.
check-dist: dist
	$(BIN)/python tools/check_dist.py

# Resolve the documented installs on the standard package index, for every supported Python on this machine.
check-install: $(BIN)/python
	$(BIN)/python tools/check_install.py

clean:
	rm -rf $(VENV) dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .numba

# The first supported Python that can create environments; a command may exist and still not run.
SUPPORTED := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info)
$(BIN)/python:
	@for python in $(or $(PYTHON),python3.11 python3.12 python3.13 python3); do \
	  if "$$python" -c "$(SUPPORTED)" > /dev/null 2>&1; then \
	    "$$python" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; exit; \
	  fi; \
	done; \
	echo "no usable $(or $(PYTHON),Python): install Python 3.11 or newer with its venv module, or name one: make PYTHON=/path/to/python3" >&2; \
	exit 1

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	@touch $@
