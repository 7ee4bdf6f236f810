# `make help` lists what there is to do. Options: PYTHON=python3.12 for setup, ARGS="..." for the tool a target runs.

BIN     := .venv/bin
READY   := .venv/.ready
SOURCES := $(sort tests $(patsubst %/,%,$(dir $(wildcard */*.py))))
PYTEST  := $(BIN)/python -m pytest
FAST    := not (live or spark or helm or browser or slow)

.DEFAULT_GOAL := help
.PHONY: help setup tools demo papers test test-slow test-live test-spark test-helm test-browser test-all check format bench openapi policies metrics dashboards chart soak lock clean
export PYTHON

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## make .venv with the pinned packages and the weir command
	@echo "setup: .venv is ready"

# Scripts in .venv name the folder that they were installed in: in a checkout that was moved they start nothing, or another checkout.
ifeq ($(shell grep -lF '$(CURDIR)/.venv/bin/' $(BIN)/weir 2>/dev/null),)
.PHONY: $(READY)
endif

$(READY): pyproject.toml requirements.txt requirements-dev.txt .ci/setup
	@bash .ci/setup
	@touch $@

tools: ## install Debian's packages that tests use: Prometheus, Chromium, PostgreSQL
	@bash .ci/tools

demo: $(READY) ## run the demonstration
	@$(BIN)/weir demo $(ARGS)

papers: $(READY) ## repeat what the papers measured; which claims hold? (ARGS=--quick for shorter runs)
	@$(BIN)/weir papers $(ARGS)

test: $(READY) ## run the fast tests
	@$(PYTEST) -n auto -m "$(FAST)" $(ARGS)

test-slow: $(READY) ## run the tests that take more than a few seconds and start nothing else
	@$(PYTEST) -n auto -m "slow and not (live or spark or helm or browser)" $(ARGS)

# One after another: they share the machine's processors, and some of them measure.
test-live: $(READY) ## run the tests that start Ray on this machine
	@$(PYTEST) -m "live and not browser" $(ARGS)

test-spark: $(READY) ## run the tests that start Spark on this machine
	@$(PYTEST) -n 2 -m "spark and not live" $(ARGS)

test-helm: $(READY) ## run the tests that render the Helm chart
	@$(PYTEST) -n auto -m "helm and not live" $(ARGS)

# Two files at a time: each starts a service, some a whole system, and most of the time is spent waiting for pages.
test-browser: $(READY) ## run the tests that use the console in Debian's Chromium; pictures go to build/screenshots
	@$(PYTEST) -n 2 --dist loadfile -m "browser and not slow" $(ARGS)

test-all: $(READY) ## run every test, also those that start Ray, Spark, Helm or a browser
	@$(PYTEST) -n auto $(ARGS)

check: $(READY) ## lint, formatting, types and the rules of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(SOURCES)
	$(PYTEST) -q tests/unit/test_tidy.py

format: $(READY) ## format the code and apply the safe fixes
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

bench: $(READY) ## measure the figures README quotes
	@$(BIN)/python -m bench $(ARGS)

openapi: $(READY) ## write docs/openapi.json as the routes are
	@$(BIN)/python -m services.api.openapi

policies: $(READY) ## write the table of policies in docs/scenarios.md as their models are
	@$(BIN)/python -m configs.classes

metrics: $(READY) ## write docs/metrics.md as the families are
	@$(BIN)/python -m services.metrics

dashboards: $(READY) ## write the chart's Grafana dashboards as services/dashboards says
	@$(BIN)/python -m services.dashboards --write

chart: $(READY) ## write the chart's values, their schema and its README as configs/service/chart_values.py says
	@$(BIN)/python -m services.chart

soak: $(READY) ## 20 minutes of changing load and random kills (ARGS="--minutes 2" for fewer)
	@$(BIN)/python -m bench.soak $(ARGS)

UV_COMPILE_ONLY = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --custom-compile-command "make lock" $(ARGS)
UV_COMPILE = $(UV_COMPILE_ONLY) pyproject.toml

# The run-time pins constrain the development ones, so the two files cannot disagree. Nothing but uv is needed:
# the pins may be what keeps setup from passing.
lock: $(if $(wildcard $(BIN)/uv),,$(READY)) ## resolve the requirements files anew (ARGS=--upgrade for the newest versions)
	$(UV_COMPILE) --output-file requirements.txt
	$(UV_COMPILE) --group dev --constraint requirements.txt --output-file requirements-dev.txt
	$(UV_COMPILE_ONLY) --group build --constraint requirements-dev.txt --output-file requirements-build.txt

clean: ## remove .venv, caches and build output
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	@find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
