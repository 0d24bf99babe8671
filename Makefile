# Every target does its own set-up: a virtual environment in .venv with the locked dependencies.
#
#   make demo        train a model on a local fleet of four workers
#   make test        unit and integration tests
#   make e2e         the same on a real Kubernetes cluster, built from source if there is none (root)
#   make lint        all checks
#   make optest      PyTorch's own operator tests on a local fleet, into build/optest.json (8 minutes)
#   make image-test  the end-to-end tests with the full image, PyTorch inside (root)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
PACKAGES := gt_protocol gt_dispatcher gt_worker gt gt_cli gt_fleet gt_operator

.DELETE_ON_ERROR:
.PHONY: demo test e2e lint optest image-test format bench clean

demo: $(STAMP)
	$(BIN)/gt run examples/digits/gtjob.yaml

test: $(STAMP)
	$(BIN)/python -m pytest tests/unit
	$(BIN)/python -m pytest tests/integration

e2e: $(STAMP)
	$(BIN)/python -m tests.e2e.support.prepare
	$(BIN)/python -m pytest tests/e2e

optest: $(STAMP)
	$(BIN)/python -m tests.optest --json build/optest.json

image-test: $(STAMP)
	$(BIN)/python -m tests.e2e.support.prepare
	GT_E2E_FULL_IMAGE=1 GT_E2E_REQUIRED=1 $(BIN)/python -m pytest tests/e2e

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTHON) -I -c "import sys; sys.path.insert(0, '.'); import operator, collections; operator.itemgetter"

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python -m benchmarks emit fetch --json build/bench.json

# The lock decides what is installed; the project itself is installed editable, so that a change needs no new install.
$(STAMP): requirements/dev.txt requirements/build.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
