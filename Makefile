# make run and make test each work alone on a fresh machine: both call setup when .venv is missing or stale.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made

.PHONY: setup run test check bench weights report results-quick results-check

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit('Python 3.11 or newer is needed, this is ' + sys.version.split()[0]) if sys.version_info < (3, 11) else None"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

run: setup
	$(BIN)/streamlit run dashboard/app.py

# Browser tests first: their files take longest, and would otherwise be what everybody waits for.
test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder tests/browser tests

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m pytest tests/benchmarks -m benchmark -s -q

weights: setup
	$(BIN)/python -m core.training weights

report: setup
	$(BIN)/python -m core.experiments report

# Every experiment as a rehearsal, and a report of it: whether all of them run, not what comes out.
results-quick: setup
	rm -rf .results-quick
	set -e; for name in $$($(BIN)/python -m core.experiments list | cut -d' ' -f1); do \
	  $(BIN)/python -m core.experiments run $$name --quick --workers 2; \
	done
	$(BIN)/python -m core.experiments report --out .results-quick

results-check: setup
	$(BIN)/python -m pytest -n0 tests/test_experiments.py -k comes_out_again -m "benchmark or not benchmark"
