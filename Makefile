# `make help` lists the targets. Options: PYTHON=python3.12 chooses the Python for setup, ARGS="..." is passed to the target's tool.

BIN     := .venv/bin
READY   := .venv/.ready
SOURCES := $(sort tests $(patsubst %/,%,$(dir $(wildcard */*.py))))
PYTEST  := $(BIN)/python -m pytest
FAST    := not (live or spark or kafka or helm or browser or cluster or node or grafana or slow)

.DEFAULT_GOAL := help
.PHONY: help setup tools demo papers patterns test test-slow test-live test-spark test-kafka test-helm cluster images node test-cluster test-node grafana test-grafana test-browser test-all check format bench picture openapi policies metrics dashboards chart soak lock clean
export PYTHON

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## make .venv with the pinned packages and the weir command
	@echo "setup: .venv is ready"

# Scripts in .venv contain the path of the checkout. If the checkout was moved, they would fail or start another checkout, so set up again.
ifeq ($(shell grep -lF '$(CURDIR)/.venv/bin/' $(BIN)/weir 2>/dev/null),)
.PHONY: $(READY)
endif

$(READY): pyproject.toml requirements.txt requirements-dev.txt .ci/setup
	@bash .ci/setup
	@touch $@

tools: ## install the Debian packages that tests use: Prometheus, Chromium, PostgreSQL, libnss-wrapper, Maven
	@bash .ci/tools

demo: $(READY) ## run the demonstration
	@$(BIN)/weir demo $(ARGS)

papers: $(READY) ## repeat the papers' experiments, check their claims and renew docs/papers.md (ARGS=--quick: shorter runs that renew nothing)
	@$(BIN)/python -m bench.papers $(ARGS)

patterns: $(READY) ## check the promises on 40 drawn scenarios with 20 seeds, for every night (ARGS="--seeds 5" for a shorter run)
	@$(BIN)/python -m bench.patterns $(ARGS)

test: $(READY) ## run the fast tests
	@$(PYTEST) -n auto -m "$(FAST)" $(ARGS)

test-slow: $(READY) ## run the tests that take more than a few seconds, without Ray, Spark, Kafka, Helm and browser
	@$(PYTEST) -n auto -m "slow and not (live or spark or kafka or helm or browser or cluster or node or grafana)" $(ARGS)

# These tests run one after another, because they share the machine's processors and some of them measure times.
test-live: $(READY) ## run the tests that start Ray on this machine
	@$(PYTEST) -m "live and not browser" $(ARGS)

test-spark: $(READY) ## run the tests that start Spark on this machine
	@$(PYTEST) -n 2 -m "spark and not live" $(ARGS)

# The jars are fetched first: if Maven is missing, the target fails with one line instead of skipping every test.
test-kafka: $(READY) ## run the tests that read from a real Kafka broker; its jars go to ~/.cache/weir/kafka, or to WEIR_KAFKA_CACHE
	@$(BIN)/python -m tests.kafka.jars
	@$(PYTEST) -m kafka $(ARGS)

test-helm: $(READY) ## run the tests that render the Helm chart
	@$(PYTEST) -n auto -m "helm and not live" $(ARGS)

cluster: $(READY) ## build Kubernetes, KubeRay and kwok from pinned Go modules, if WEIR_CLUSTER_CACHE (~/.cache/weir/cluster) lacks them
	@$(BIN)/python -m tests.cluster.programs

test-cluster: cluster ## run the tests that install the Helm chart on a Kubernetes control plane of this machine
	@$(PYTEST) -m cluster $(ARGS)

images: $(READY) ## build the images that test-node runs, as root without Docker, if the cache of `make cluster` lacks them
	@bash .ci/tools images
	@$(BIN)/python -m tests.cluster.archives

node: $(READY) ## install what test-node needs from Debian, and check that this machine can run a Kubernetes node
	@bash .ci/tools node
	@$(BIN)/python -m tests.cluster.machine

test-node: node cluster images ## run the tests that start containerd and the kubelet on this machine, as root
	@$(PYTEST) -m node $(ARGS)

grafana: $(READY) ## build the Grafana server from its pinned Go module, if WEIR_GRAFANA_CACHE (~/.cache/weir/grafana) lacks it
	@$(BIN)/python -m tests.grafana.programs

test-grafana: grafana ## run the tests that send the dashboards and their queries to a real Grafana
	@$(PYTEST) -m grafana $(ARGS)

# Two files run at a time: each starts a service or a whole system, and mostly waits for pages.
test-browser: $(READY) ## run the tests that use the console in Debian's Chromium; pictures go to build/screenshots
	@$(PYTEST) -n 2 --dist loadfile -m "browser and not slow" $(ARGS)

# Tests of the markers `cluster`, `node` and `grafana` need Go, so they run apart.
test-all: $(READY) ## run every test but those of test-cluster, test-node and test-grafana, also those that start Ray, Spark, Kafka, Helm or a browser
	@$(PYTEST) -n auto -m "not (cluster or node or grafana)" $(ARGS)

check: $(READY) ## check lint rules, formatting, types and the repository's own rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(SOURCES)
	$(PYTEST) -q tests/unit/test_tidy.py

format: $(READY) ## format the code and apply the safe fixes
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

bench: $(READY) ## measure the figures that README.md quotes
	@$(BIN)/python -m bench $(ARGS)

picture: $(READY) ## draw docs/weir.svg, the picture of README
	@$(BIN)/python -m bench.picture

openapi: $(READY) ## generate docs/openapi.json from the routes
	@$(BIN)/python -m services.api.openapi

policies: $(READY) ## generate the table of policies in docs/scenarios.md from their models
	@$(BIN)/python -m configs.classes

metrics: $(READY) ## generate docs/metrics.md from the metric families
	@$(BIN)/python -m services.metrics

dashboards: $(READY) ## generate the chart's Grafana dashboards from services/dashboards
	@$(BIN)/python -m services.dashboards --write

chart: $(READY) ## generate the chart's values, schema and README from configs/service/chart_values.py
	@$(BIN)/python -m services.chart

soak: $(READY) ## run 20 minutes of changing load and random kills (ARGS="--minutes 2" for a shorter run)
	@$(BIN)/python -m bench.soak $(ARGS)

UV_COMPILE_ONLY = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --custom-compile-command "make lock" $(ARGS)
UV_COMPILE = $(UV_COMPILE_ONLY) pyproject.toml

# The run-time pins constrain the development pins, so the two files cannot disagree. If uv is installed, setup is not required:
# wrong pins may be the reason why setup fails.
lock: $(if $(wildcard $(BIN)/uv),,$(READY)) ## resolve the requirements files again (ARGS=--upgrade for the newest versions)
	$(UV_COMPILE) --output-file requirements.txt
	$(UV_COMPILE) --group dev --constraint requirements.txt --output-file requirements-dev.txt
	$(UV_COMPILE_ONLY) --group build --constraint requirements-dev.txt --output-file requirements-build.txt

clean: ## remove .venv, caches and build output
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	@find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
