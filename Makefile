# Two commands: `make validate` writes a validation report, `make test` checks the project.
# Both set up .venv on first use; PYTHON may name any Python >= 3.11.

PYTHON ?= python3
BIN := .venv/bin

# The tests start many processes, each of which would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: validate test unit lint types docs wheel bench clean

validate: .venv/run
	$(BIN)/iclimit validate --preset quick --out iclimit-report

# Side by side: the tests, whose progress is seen, and one after the other what else there is.
test: lint
	$(MAKE) --no-print-directory -j2 unit docs types wheel

unit: .venv/dev
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

docs: .venv/dev
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

wheel: .venv/dev
	$(BIN)/python tests/check_wheel.py

bench: .venv/dev
	$(BIN)/python -m benchmarks

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "iclimit needs Python >= 3.11, PYTHON=... chooses one")'
	$(PYTHON) -m venv .venv

.venv/run: .venv/bin/python pyproject.toml setup.py
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	touch $@

.venv/dev: .venv/bin/python pyproject.toml setup.py
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	touch $@ .venv/run

clean:
	rm -rf .venv build dist docs/_build docs/gallery docs/api/generated iclimit-report *.egg-info
