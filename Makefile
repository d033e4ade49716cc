# `make validate` writes a validation report, `make test` checks the project, `make test-slow` runs
# the long tests.  All set up .venv on first use; PYTHON may name any Python >= 3.11.

PYTHON ?= python3
BIN := .venv/bin
# Most modules that are installed are never imported: those that are get compiled then.  Errors are
# printed, but not setuptools' warning that its way to install a link may change.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile

# The tests start many processes, each of which would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: validate test test-slow browser unit slow lint types docs site pages wheel bench machines release clean

validate: .venv/run
	$(BIN)/iclimit validate --preset quick --out iclimit-report

# Types and the wheel, which use one core each, would leave others idle after the tests.
test: lint
	$(MAKE) --no-print-directory -j3 unit types wheel

# Rewriting the assertions of all files would take each worker three seconds: only tests that fail
# are run with it.
unit: .venv/dev
	$(BIN)/python -m pytest -n auto --dist worksteal --assert=plain -m "not slow" \
	    || { test $$? = 1 && $(BIN)/python -m pytest --last-failed -m "not slow"; false; }

# The long tests, and the documentation with the examples of its gallery executed and its pages
# opened in a browser.  Neither keeps all cores busy to its end.
test-slow: .venv/dev browser
	$(MAKE) --no-print-directory -j2 slow site

# Importing the files without long tests would take each worker ten seconds.  The validation of all
# claims, the longest test, comes first.  Then the tests whose numbers are sensitive, with another
# BLAS kernel and two threads.
slow: .venv/dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow tests/validation/report/test_resolution.py \
	    $$(grep -rl mark.slow tests --include='test_*.py')
	$(BIN)/python tests/machines.py --rows 6 --steps marked

# Chromium for the tests of pages, which are skipped without it.
browser:
	@if [ -n "$$ICLIMIT_BROWSER" ] || command -v chromedriver >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver \
	        || echo "no browser could be installed: the tests of pages are skipped"; \
	else \
	    echo "no browser: tests of pages are skipped (Debian: sudo apt-get install chromium chromium-driver)"; \
	fi

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev
	$(BIN)/mypy

docs: .venv/dev
	$(BIN)/python -m sphinx -W --keep-going -q -j auto -b html docs docs/_build/html

# Every page is opened from disk.
site: docs browser
	$(BIN)/python -m pytest -n 2 -q tests/check_pages.py

# The documentation is read and its links are resolved, without executing the examples of the
# gallery or writing HTML, as `make docs` does.
pages: .venv/dev
	$(BIN)/python -m sphinx -W --keep-going -q -b dummy -t pages docs docs/_build/pages

wheel: .venv/dev
	$(BIN)/python tests/check_wheel.py

bench: .venv/dev
	$(BIN)/python -m benchmarks

# Tests and validation with other BLAS kernels, SIMD instructions, threads and the oldest declared
# versions, some hours; parts of it: make machines MACHINES="--rows 2 --steps unit".
machines: .venv/dev
	$(BIN)/python tests/machines.py $(MACHINES)

# The public names that the release promises, then archives of the sources, the wheel and the
# documentation, each checked, in dist/.
release: .venv/dev docs
	$(BIN)/python tests/shared/public_names.py
	$(BIN)/python -m pytest -q -n 0 tests/check_pages.py -k refer_to
	$(BIN)/python tests/check_release.py dist
	tar -czf dist/iclimit-docs.tar.gz -C docs/_build html

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "iclimit needs Python >= 3.11, PYTHON=... chooses one")'
	$(PYTHON) -m venv .venv
	$(PIP) --upgrade pip  # the one that comes with Python 3.11 takes twice as long

.venv/run: .venv/bin/python pyproject.toml setup.py
	$(PIP) -e .
	touch $@

.venv/dev: .venv/bin/python pyproject.toml setup.py
	$(PIP) -e '.[dev]'
	touch $@ .venv/run

clean:
	rm -rf .venv .venv-oldest build dist docs/_build docs/gallery docs/api/generated iclimit-report iclimit-machines *.egg-info
