# Every target makes what it needs: a virtual environment in .venv with the versions of
# constraints.txt. Another interpreter: make test PYTHON=python3.12
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python compiles each module when it is first imported: compiling all of them takes most of the time
PIP := -m pip install --quiet --disable-pip-version-check --no-compile
INSTALL := $(BIN)/python $(PIP) -c constraints.txt
# Options for pytest: make test ARGS="tests/oracles -k prune"
ARGS ?=
# Processes for the tests; ARGS="-n 0" runs them in one
WORKERS ?= 2
# Where make release tries the wheel; those that are not on this machine are told
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
# How long make fuzz tries random cases
MINUTES ?= 10
# whose properties make test tries on a quarter of the cases, and make fuzz on four times as many
BUDGETED := $(shell grep -rl --include='*.py' "import examples" tests)
# those that leave a page; what needs an environment of its own writes none
BENCHMARKS := $(basename $(notdir $(shell grep -l "^BENCH = Benchmark" experiments/benchmarks/*.py)))

.PHONY: help demo test fuzz integrations lint bench figures docs release clean
.DELETE_ON_ERROR:

help:
	@echo "make demo   learn a metric on embedded data and write a report (a minute)"
	@echo "make test   run the tests"
	@echo "make integrations  run the checks of aeon, sktime, skchange and label-studio-ml, in an environment of theirs"
	@echo "make fuzz   random and hostile cases for MINUTES=10, then more of each property"
	@echo "make lint   ruff, mypy and the import rules"
	@echo "make bench  time everything against its peers (long)"
	@echo "make figures  write numbers and pictures of README.md and docs/ from committed results"
	@echo "make docs   build the site; open build/docs/index.html"
	@echo "make release  build and check what is to be uploaded; uploads nothing"
	@echo "make clean  remove the virtual environment and all caches; outputs/ stays"

demo: $(VENV)/.experiments
	@touch $(VENV)/.started
	$(BIN)/python -m experiments.run experiment=synthetic
	@report=$$(find outputs -name report.html -newer $(VENV)/.started | tail -n 1); \
	test -n "$$report" || { echo "The run left no report.html in outputs/" >&2; exit 1; }; \
	echo "Open the report: $(CURDIR)/$$report"

# aeon needs an older numba than ours: its environment leaves those versions open. label-studio-ml
# wants versions of 2021, but works with later ones, and does not name all that it imports.
INTEGRATIONS := .venv-integrations
PEERS := aeon sktime skchange label-studio-ml

integrations: $(INTEGRATIONS)/.created
	SCIPY_ARRAY_API=1 $(INTEGRATIONS)/bin/python -m pytest -q tests/integrations tests/apps/label_studio $(ARGS)
	$(INTEGRATIONS)/bin/python -m pytest -q --doctest-modules metriclearn/integrations

test: $(VENV)/.compiled
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal $(ARGS)

fuzz: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.adversarial.fuzz --minutes $(MINUTES) --workers $(WORKERS)
	EXAMPLES=4 $(BIN)/python -m pytest -q -n $(WORKERS) $(BUDGETED)

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench
	@set -e; for name in $(BENCHMARKS); do \
		echo "== python -m experiments.benchmarks.$$name"; \
		$(BIN)/python -m experiments.benchmarks.$$name; \
	done

figures: $(VENV)/.experiments
	$(BIN)/python -m experiments.figures

docs: $(VENV)/.docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo "Open the site: $(CURDIR)/build/docs/index.html"

release: $(VENV)/.release
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	PYTHONS="$(PYTHONS)" bash .ci/smoke dist/*.whl
	@echo "Upload with: $(BIN)/python -m twine upload dist/*"

clean:
	rm -rf docs/examples docs/reference docs/sg_execution_times.rst
	rm -rf $(VENV) $(INTEGRATIONS) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find metriclearn experiments tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "metriclearn needs Python 3.11 or newer; pass PYTHON=python3.11" >&2; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	@touch $@

# A stamp per set of extras: a second call is instant, a change of either file installs again.
$(VENV)/.experiments: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (about a minute the first time)"
	$(INSTALL) -e '.[experiments]'
	@touch $@

$(VENV)/.test: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (about a minute the first time)"
	$(INSTALL) -e '.[test]'
	@touch $@ $(VENV)/.experiments

# In a fresh clone, each of two workers would compile all of these programs: here two share them.
$(VENV)/.compiled: $(VENV)/.test $(wildcard metriclearn/oracles/change_points/*.py)
	-OMP_NUM_THREADS=1 $(BIN)/python -m tests.compiled
	@touch $@

$(INTEGRATIONS)/.created: pyproject.toml constraints.txt
	@echo "Installing $(PEERS) into $(INTEGRATIONS) (about a minute the first time)"
	rm -rf $(INTEGRATIONS)
	$(PYTHON) -m venv $(INTEGRATIONS)
	grep -vE '^(llvmlite|numba|numpy|pandas)==' constraints.txt > $(INTEGRATIONS)/constraints.txt
	$(INTEGRATIONS)/bin/python $(PIP) -c $(INTEGRATIONS)/constraints.txt \
		-e '.[aeon,sktime,skchange,label]' pytest hypothesis \
		attrs flask rq redis colorama requests label-studio-tools
	$(INTEGRATIONS)/bin/python $(PIP) -c $(INTEGRATIONS)/constraints.txt --no-deps label-studio-ml
	@touch $@

$(VENV)/.docs: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (about a minute the first time)"
	$(INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/.release: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (about a minute the first time)"
	$(INSTALL) -e '.[release]'
	@touch $@

$(VENV)/.bench: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (about a minute the first time)"
	$(INSTALL) -e '.[test,bench]'
	@touch $@ $(VENV)/.test $(VENV)/.experiments
