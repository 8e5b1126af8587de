# `make demo` needs nothing but Python 3.11+ and Java 17, `make test` Prometheus, too (both are
# installed on Debian as root).
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -o pipefail -ec
# `make setup PYTHON=/usr/bin/python3.11` chooses the interpreter; an environment that was made with another
# one is made again. VENV is where the environment is.
PYTHON ?=
VENV ?= .venv
export PYTHON VENV
BIN := $(VENV)/bin
# Made when everything is installed, and when what is compiled is up to date with its sources.
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
# Made when just enough is there to run things.
RUNS := $(VENV)/.runs
IF_OTHER_PYTHON := $(if $(PYTHON),$(if $(shell VENV=$(VENV) PYTHON=$(PYTHON) scripts/make_venv.sh is-other),FORCE))
# Compiled modules are kept, whatever the environment says: tests start Python a hundred times, and
# without them it takes a second instead of a quarter.
export PYTHONDONTWRITEBYTECODE :=

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

NATIVE := $(shell find src -name '*.pyx' -o -name '*.pxd' -o -name '*.h')

$(INSTALLED): pyproject.toml constraints.txt setup.py scripts/make_venv.sh $(IF_OTHER_PYTHON)
	@scripts/make_venv.sh dev
	@touch $@

$(READY): $(INSTALLED) $(NATIVE)
	@if [ -n "$$(find $(NATIVE) -newer $(INSTALLED))" ]; then \
		$(BIN)/python setup.py --quiet build_ext --inplace --parallel 2 > /dev/null; \
	fi
	@touch $@

# A demonstration needs no test tools, and Spark only where there is Java; what is installed may stay.
$(RUNS): $(if $(wildcard $(INSTALLED)),$(READY),pyproject.toml constraints.txt setup.py scripts/make_venv.sh $(NATIVE) $(IF_OTHER_PYTHON))
	@test -e $(INSTALLED) || scripts/make_venv.sh demo
	@touch $@

FORCE:

setup: $(READY)  ## the virtual environment alone; PYTHON=... chooses its interpreter, here and below

java:
	@scripts/need_java.sh

tools:
	@scripts/need_tools.sh

demo: $(RUNS)  ## send, consume, retry, delay, decide later, look behind, Spark: in one process
	@$(BIN)/python examples/demo.py

check: $(READY)  ## format, lint, types, import contracts
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo | tail -n 4

# Thousands of small stores: where memory has room for their files, no test waits for the disk.
MEMORY := $(shell test "$$(df --output=avail /dev/shm 2> /dev/null | tail -n 1)" -gt 4000000 2> /dev/null && echo /dev/shm)

unit: $(READY)  ## the inner loop: module by module, without Java and without what is slow
	@$(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/pytest -q -n 2 --dist loadgroup -m "not slow" tests/unit tests/test_tidy.py

pythons: $(READY)  ## the inner loop with the oldest and the newest supported Python found here
	@$(BIN)/python -m scripts.pythons

# Four workers keep two cores busy; what mostly waits, for JVMs and for time to pass, runs seven wide. Spark
# has the machine for itself: it gives its Python ten seconds to start. All three run, whatever one of them finds.
WAITING := tests/interop tests/faults tests/newcomer tests/oncall tests/browser
define RUN_TESTS
	@failed=; \
	$(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/pytest -n 4 --dist loadgroup $(addprefix --ignore ,$(WAITING) tests/pipeline) tests || failed=1; \
	$(BIN)/pytest -n 7 --dist loadgroup $(WAITING) || failed=1; \
	$(BIN)/pytest tests/pipeline || failed=1; \
	test -z "$$failed"
endef

# The clock of a gate starts when everything is installed; its runs add to one report.
REPORT := build/gate.json
gate: $(READY)
	@mkdir -p $(dir $(REPORT)) && printf '{"started_s": %s}' "$$(date +%s)" > $(REPORT)

test test-full test-long: export ROQUET_GATE_REPORT := $(abspath $(REPORT))
test: export ROQUET_GATE := quick
test-full test-long: export ROQUET_GATE := full
test-long: export ROQUET_LONG := 1

# The type checker has one thread. Meanwhile pytest compiles all test modules: otherwise each of its workers
# would do so.
checked: gate
	@$(MAKE) --no-print-directory -j 2 check collected

collected: $(READY)
	@ROQUET_GATE_REPORT= $(BIN)/pytest -qq --collect-only tests > build/collected.txt || { tail -n 50 build/collected.txt; exit 1; }

test: java tools checked  ## what CI runs, in ten minutes; it ends with what test-full would add
	$(RUN_TESTS)

test-full: java tools checked  ## everything, both Apache versions, new examples: before a release
	$(RUN_TESTS)

test-long: java tools checked  ## the same proofs as test-full with counts that take hours
	$(RUN_TESTS)

docs: $(READY)  ## the site, in build/site; generated parts are generated first
	@$(BIN)/python -m scripts.pages
	@$(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

dist: $(READY)  ## source archive and a wheel per Python found here; each is tried in an empty environment
	@$(BIN)/python -m scripts.packages

sanitize: $(READY)  ## golden and hostile bytes through what is compiled, under AddressSanitizer
	@scripts/sanitize.sh

# How long each target is attacked.
FUZZ_S ?= 30

fuzz: $(READY)  ## coverage-guided attacks on everything that reads bytes of peers
	@$(BIN)/python -c 'import atheris' 2> /dev/null || $(BIN)/python -m pip install --quiet -c constraints.txt atheris
	@for target in $$($(BIN)/python -c 'from tests.fuzz.targets import TARGETS; print(*TARGETS)'); do \
		$(BIN)/python -m tests.fuzz $$target $(FUZZ_S) || exit 1; \
	done

bench: $(READY)  ## measure; numbers are ratios within one run
	@for bench in bench/*.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

clean:  ## remove everything that is made, not written
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	@find src -name '*.so' -delete -o -name '*.c' -delete
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: FORCE help setup java tools demo check unit pythons gate checked collected test test-full test-long docs dist sanitize fuzz bench clean
