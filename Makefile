# `make` alone lists the targets. Everything runs from .venv, which is made from requirements.lock when needed.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
PYTHON ?= python3
BIN := .venv/bin
ROOMS := edgeperf clockprofiles engines remote
CODE := $(ROOMS) benchmarks tests
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal
FAILED = { echo "make: gate '$@' failed" >&2; exit 1; }

.PHONY: help setup demo test lint style types imports floor suite soak bench lock clean

help: ## this list
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/  \1\t\2/p' Makefile | expand -t 12

setup: .venv/.ready ## make .venv from the lock

# pip comes with Python and follows the machine's own settings for where packages are; the hashes say which they are.
.venv/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "edgeperf needs Python 3.10 or newer; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up .venv (about half a minute, once)" >&2
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable .
	@touch $@

demo: setup ## the main job: AlexNet on the simulated TX1, then for real on this machine
	$(BIN)/edgeperf bench alexnet --fp16 --batch 64
	$(BIN)/edgeperf bench alexnet --host local --duration 3

test: lint suite ## every gate, stopping at the first that fails

lint: style types imports floor ## the gates that run no code

style: setup
	@$(BIN)/ruff check --quiet . || $(FAILED)
	@$(BIN)/ruff format --quiet --check . || { echo "to reformat: $(BIN)/ruff format" >&2; $(FAILED); }

types: setup
	@$(BIN)/mypy --no-error-summary || $(FAILED)

imports: setup
	@$(BIN)/lint-imports --no-cache || $(FAILED)

# The oldest Python of each part: JetPack on the TX1 had 3.4, then 3.6; the laptop has 3.10.
floor: setup
	@$(BIN)/vermin --quiet --violations --no-tips -t=3.4- remote/onboard || $(FAILED)
	@$(BIN)/vermin --quiet --violations --no-tips -t=3.6- engines/onboard || $(FAILED)
	@$(BIN)/vermin --quiet --violations --no-tips -t=3.10- $(CODE) || $(FAILED)

suite: setup
	@$(PYTEST) --quiet || $(FAILED)

soak: setup ## the long counts in full, with how many trials each property had
	@EDGEPERF_SOAK=1 $(PYTEST) -m "not board" || $(FAILED)

bench: setup ## the benchmarks; the last line of each is JSON
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

lock: setup ## resolve requirements.lock anew from pyproject.toml
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --extra sim --group dev \
	  --generate-hashes --no-emit-index-url --no-header --no-annotate -o requirements.lock pyproject.toml

clean: ## remove .venv and everything else that was made here
	@rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
