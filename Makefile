# rungproof: `make campaign_v2` measures, `make test` checks. Everything is installed under .venv and build/, nothing elsewhere.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help venv campaign_v2 smoke simulated test test-fast test-image coverage pythons lint schemas scenarios bench fuzz test-long clean

# Some machines forbid Python to keep compiled files; every job of a campaign would pay for it.
unexport PYTHONDONTWRITEBYTECODE

# Snakemake and pip keep caches in the home; where it cannot be written they go under build/.
ifneq ($(shell test -d "$$HOME" && test -w "$$HOME" && echo yes),yes)
export XDG_CACHE_HOME := $(CURDIR)/build/cache
endif

VENV := .venv
READY := $(VENV)/.ready
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3.14 python3; do command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1 && { command -v $$p; break; }; done)
SNAKEMAKE := $(VENV)/bin/snakemake

help:  ## what can be made
	@grep -hE '^[a-z_-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

venv: $(READY)  ## the orchestrator's environment in .venv (Python 3.11 to 3.14)

$(READY): envs/orchestrator.lock pyproject.toml
	@if [ -z "$(PYTHON)" ]; then echo "No Python 3.11, 3.12, 3.13 or 3.14 with its venv module was found on PATH." \
	  "Install one (Debian and Ubuntu: apt-get install python3 python3-venv) or say PYTHON=/path/to/python make ..." >&2; exit 2; fi
	@echo "Making .venv with $(PYTHON): about 130 MB to download, 500 MB on disk."
	@if ! $(VENV)/bin/python -m pip --version >/dev/null 2>&1; then rm -rf $(VENV); $(PYTHON) -m venv $(VENV); fi
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r envs/orchestrator.lock || \
	  { echo "Could not install envs/orchestrator.lock into .venv. If the package index was out of reach, run the same command again; what was downloaded is kept. Python 3.14 needs a C compiler and its headers, too (Debian and Ubuntu: apt-get install gcc python3-dev)." >&2; exit 5; }
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

campaign_v2: $(READY)  ## measure the default campaign and make its page
	$(SNAKEMAKE) campaign_v2 --cores 1

smoke: $(READY)  ## the short campaign: one server an arm, no lossless claim
	$(SNAKEMAKE) smoke --cores 1

simulated: $(READY)  ## the whole job on the simulated server: nothing is measured
	$(SNAKEMAKE) campaign_v2 --cores 1 --config host=simulated

$(VENV)/.develop: $(READY) envs/develop.lock
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r envs/develop.lock
	@touch $@

CRATE := build/crate
$(CRATE)/.ready: envs/crate.lock
	@echo "Making $(CRATE), in which packs are validated as RO-Crates: 40 packages, needed by the tests alone."
	@$(PYTHON) -m venv --clear $(CRATE)
	@$(CRATE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r envs/crate.lock
	@touch $@

test: $(VENV)/.develop $(CRATE)/.ready  ## all tests, the smoke campaign on a real vLLM among them
	$(VENV)/bin/python -m pytest -m "not image"

test-fast: $(VENV)/.develop $(CRATE)/.ready  ## all tests but those that start a real server
	$(VENV)/bin/python -m pytest -m "not real and not image"

test-image: $(VENV)/.develop  ## a container lane with a real vLLM: needs docker or podman, and what smoke has built; 3 GB
	$(VENV)/bin/python -m pytest -m image

coverage: $(VENV)/.develop  ## which lines of src the tests run that start no whole campaign: a table, and build/coverage/index.html
	$(VENV)/bin/python -m pytest -m "not real and not image" --ignore=tests/campaigns --cov --cov-report=term --cov-report=html:build/coverage

# Where several Pythons lie side by side: on PATH, and as pyenv puts them.
PYTHONS ?= $(foreach v,3.11 3.12 3.13 3.14,python$(v) $(wildcard $(HOME)/.pyenv/versions/$(v).*/bin/python))
pythons:  ## the orchestrator with every Python 3.11 to 3.14 of this machine: locks installed, tests without servers, a simulated campaign
	@tried=; for python in $(PYTHONS); do \
	  version=$$($$python -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	  case " $$tried " in *" $$version "*) continue;; esac; tried="$$tried $$version"; folder=build/pythons/$$version; \
	  echo "== Python $$version: $$python"; [ -x $$folder/bin/python ] || $$python -m venv $$folder; \
	  $$folder/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r envs/orchestrator.lock -r envs/develop.lock; \
	  $$folder/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	  $$folder/bin/python -m pytest tests/records tests/judge tests/config tests/plan tests/publish tests/test_rooms.py; \
	  PATH=$(CURDIR)/$$folder/bin:$$PATH $$folder/bin/snakemake smoke --cores 1 --config host=simulated results=build/pythons/results-$$version; \
	done; echo "Tried:$$tried"; test -n "$$tried"

test-long: test fuzz  ## all tests, then the fuzzer

lint: $(VENV)/.develop  ## ruff, mypy, snakefmt, snakemake --lint
	$(VENV)/bin/ruff check src tests bench workflow/scripts
	$(VENV)/bin/ruff format --check src tests bench workflow/scripts
	$(VENV)/bin/mypy
	$(VENV)/bin/snakefmt --check Snakefile workflow
	$(SNAKEMAKE) --lint

schemas: $(READY)  ## write workflow/schemas from the typed config
	$(VENV)/bin/python -m rungproof.config.schemas

scenarios: $(READY)  ## write docs/scenarios.md from the simulated server's scenarios
	$(VENV)/bin/python -m rungproof.measure.simulated.scenarios > docs/scenarios.md.new
	mv docs/scenarios.md.new docs/scenarios.md

bench: $(READY)  ## the client beside others on one load: a table and a page under results/bench-client (half an hour)
	$(VENV)/bin/python bench/client/run.py $(BENCH)

FUZZ_S ?= 120
FUZZ := build/fuzz
$(FUZZ)/.ready: envs/fuzz.lock
	$(PYTHON) -m venv --clear $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r envs/fuzz.lock
	@touch $@

fuzz: $(FUZZ)/.ready  ## the parser under a coverage-guided fuzzer for FUZZ_S seconds (120)
	cd $(FUZZ) && PYTHONPATH=$(CURDIR)/src bin/python $(CURDIR)/tests/fuzz/wire.py corpus \
	  -max_total_time=$(FUZZ_S) -max_len=4096 -timeout=10 -rss_limit_mb=2048

clean:  ## remove .venv and caches; results and what was built for servers are spared
	rm -rf $(VENV) .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests workflow -name __pycache__ -type d -prune -exec rm -rf {} +
