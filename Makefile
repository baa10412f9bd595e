# Everything a fresh machine needs is Python >= 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# The real data sets, where they lie beside the project.
export DATAMARKET_DATA ?= $(abspath $(wildcard ../shared/data))

.PHONY: demo test slow docs mutants lint lock wheel clean synthetic figures real-data holdout predict-theta content checks periods utilities

## demo: a small market, honest and attacked, paid two ways
demo: $(CORE)
	$(BIN)/datamarket demo

## test: linter, type checker and tests
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n auto --dist loadfile

## slow: the tests that take minutes (full tables at the paper's seed counts)
slow: $(READY)
	$(BIN)/python -m pytest -m slow

## docs: the documentation site, docs/_build/html; a warning is an error
docs: $(READY)
	$(BIN)/python tools/docs_site.py

## mutants: small changes of meaning in the core, and which of them the tests let pass (docs/mutants.md; long)
mutants: $(READY)
	$(BIN)/python tools/mutants.py --resume --page docs/mutants.md

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

## synthetic: S1 to S8, S10 and the ablations, then the pages of results (docs/results.md, docs/results, docs/reproduce.md)
synthetic: $(READY)
	$(BIN)/datamarket suite synthetic
	$(BIN)/datamarket results runs

## figures: every figure, from docs/results
figures: $(READY)
	$(BIN)/datamarket figures

# The domains whose embeddings a suite needs; those that are missing are made first, from the raw data.
NEEDS_real-data := cifar10 agnews
NEEDS_holdout := stl10 imdb
NEEDS_predict-theta := cifar10 stl10 agnews imdb
NEEDS_content := cifar10 stl10 agnews imdb
NEEDS_checks := cifar10 stl10 agnews imdb
NEEDS_periods := cifar10 stl10 agnews imdb
NEEDS_utilities := cifar10 stl10 agnews imdb

## real-data: CIFAR-10 and AG News (needs the data, see docs/real-domains.md)
## holdout: STL-10, held out, and IMDB, the calibration domain
## predict-theta: the admissible threshold of each domain, before any attack
## content: attacks on texts and images, embedded again (needs torch; minutes per domain)
## checks: S11, spot checks on five domains (long: hours on one core)
## periods: S12, two periods with prior art and without, on five domains (about 40 minutes on one core)
## utilities: S13, utilities with labels, without, and imported scores, on five domains (long: hours on one core)
real-data holdout predict-theta content checks periods utilities: $(READY)
	set -e; for domain in $(NEEDS_$@); do $(BIN)/datamarket embed $$domain --if-missing; done
	$(BIN)/datamarket suite $@

## wheel: sdist and wheel in dist/
wheel: $(READY)
	$(BIN)/python -m hatchling build -d dist

## lock: rewrite requirements.lock and requirements-core.lock, which agree (needs uv)
LOCK := uv pip compile pyproject.toml --group editable --universal --generate-hashes --no-header
lock:
	$(LOCK) --extra dev -o requirements.lock
	$(LOCK) -c requirements.lock -o requirements-core.lock

# The package with its core dependencies: enough for the demo. Modules are compiled when they are first imported.
$(CORE): requirements-core.lock pyproject.toml hatch_build.py
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes -r requirements-core.lock
	$(INSTALL) --no-deps --no-build-isolation -e .
	touch $@

# All else that tests and pages need, compiled ahead (on all cores, which pip does not): tests start many processes.
$(READY): requirements.lock $(CORE)
	$(INSTALL) --require-hashes -r requirements.lock
	-$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib
	touch $@

clean:
	rm -rf $(VENV) build dist docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis
