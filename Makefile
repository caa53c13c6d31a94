# Two commands do everything: `make demo` shows what the package does, `make test` checks it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test docs lint types unit browser clean

demo: $(STAMP)
	$(BIN)/python -m experiments demo --out demo

test: lint types unit docs

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=10

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict --clean

# For the test of `reqnn view`, which is skipped without it. Debian and Ubuntu, as root.
browser:
	command -v chromium || (apt-get update && apt-get install --yes --no-install-recommends chromium)

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $(VENV)/.docs

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) demo site .pytest_cache .mypy_cache .ruff_cache
