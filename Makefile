# Every task of the project. `make` alone lists them; CI runs what `make ci` runs.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= $(shell command -v python3.11 >/dev/null 2>&1 && echo python3.11 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/dev.txt
READY := $(VENV)/.ready
STAMP := $(VENV)/.installed
UV_INSTALL = uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint $(LOCK)
# Tests of Spark go to two workers, each with a JVM; they wait a part of their time, so there is one worker more than cores.
TEST_WORKERS ?= 3
PYTEST := $(BIN)/pytest -n $(TEST_WORKERS) --dist loadgroup
OLDEST := $(CURDIR)/build/spark-4.0
# PySpark 4.0 leaves sockets to the garbage collector.
QUIET_4_0 := -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning
# More arguments for pytest: `make test ARGS="-k window"`.
ARGS ?=

# Hundreds of processes load the same modules, which would be compiled by each of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: dev
dev: $(STAMP) ## Make .venv and install the project with its tools (UV=1 uses uv)

# What a user installs: the package, and Spark.
$(READY): pyproject.toml $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "Python 3.11 or newer is needed: install it, or name it with PYTHON=..."; exit 1; }
	@echo "Installing into $(VENV); the first time takes a minute or two."
ifdef UV
	@test -x $(BIN)/python || uv venv --quiet --seed --python $(PYTHON) $(VENV)
	@$(UV_INSTALL) --editable '.[spark]'
else
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK) --editable '.[spark]'
endif
	@$(BIN)/python -m compileall -q src # An editable install is not compiled, and starts slowly.
	@touch $@

$(STAMP): $(READY)
ifdef UV
	@$(UV_INSTALL) --group dev
else
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --constraint $(LOCK) --group dev
endif
	@touch $@

# Prints one line and stops when Spark would not start.
.PHONY: java
java:
	@version=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'); \
	if [ "$${version:-0}" -lt 17 ]; then \
		echo "Java 17 or newer is needed for Spark: install openjdk-17-jre-headless, or set JAVA_HOME"; \
		exit 1; \
	fi

.PHONY: demo
demo: $(READY) ## Show what Cepheid does, on bundled data; without Java, what runs in process
	@$(BIN)/cepheid demo --page build/demo.html

.PHONY: kernels
kernels: dev ## Compile all kernels, so that no test waits for the compiler
	@$(BIN)/cepheid warm

.PHONY: kafka
kafka: build/kafka/.fetched ## Fetch the broker of Kafka that tests start, by Maven

build/kafka/.fetched: tests/kafka/pom.xml
	@mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

# The package is AGPL: it judges in tests, in a process and a folder of its own, and is no dependency.
.PHONY: eql
eql: build/eql/.fetched ## Fetch the package eql, which tests ask for a second opinion

build/eql/.fetched: | $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(@D) 'eql==1.0.*'
	@touch $@

# Only tests of the cluster need them, so they are no dependencies.
.PHONY: cluster-parts
cluster-parts: build/cluster/.fetched ## Fetch an S3 server and the client of Spark Connect, for tests of the cluster

build/cluster/.fetched: | $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(@D) 'moto[s3]==5.2.*' 'flask==3.*' 'flask-cors==6.*' \
		'grpcio==1.85.*' 'grpcio-status==1.85.*' 'googleapis-common-protos==1.76.*' 'zstandard==0.25.*'
	@touch $@

# Without a network the tests with these packages are left out, and one line says so.
.PHONY: judge
judge:
	@$(MAKE) -s eql || echo "Left out: tests with the package eql, as it could not be fetched"
	@$(MAKE) -s cluster-parts || echo "Left out: tests with an object store and Spark Connect, as they could not be fetched"

# Without Maven the tests of Kafka are left out, and one line says so.
.PHONY: broker
broker:
	@if ! command -v mvn > /dev/null; then echo "Left out: tests with a broker of Kafka, as Maven is missing"; \
	else $(MAKE) -s kafka || echo "Left out: tests with a broker of Kafka, as Maven could not fetch it"; fi

.PHONY: test
test: java kernels broker judge ## Run all tests but the slow ones
	$(PYTEST) $(ARGS)

.PHONY: test-oracle
test-oracle: dev ## Compare with the brute-force oracle, and check the laws
	$(PYTEST) tests/oracle $(wildcard tests/laws) $(ARGS)

.PHONY: test-slow
test-slow: java dev ## Run the slow tests
	$(PYTEST) -m slow --timeout 1800 $(ARGS)

.PHONY: oldest
oldest: java dev ## Run a small set of tests on the oldest Spark
	@test -d $(OLDEST)/pyspark || $(BIN)/python -m pip install --quiet --no-deps --target $(OLDEST) 'pyspark==4.0.*'
	PYTHONPATH=$(OLDEST) $(BIN)/pytest -n 0 $(QUIET_4_0) tests/versions/test_versions.py tests/architecture/test_matrix.py $(ARGS)

.PHONY: matrix
matrix: java dev ## Run every kind of query on every pair of Spark and Python; goes on where it was stopped
	@$(BIN)/python -m tests.versions.matrix $(ARGS)

.PHONY: long
long: java kernels ## Run the long comparisons; goes on where it was stopped
	@$(BIN)/python -m tests.long $(ARGS)

.PHONY: chaos
chaos: java kernels kafka ## Kill live queries a thousand times; goes on where it was stopped
	@$(BIN)/python -m tests.chaos $(ARGS)

.PHONY: cover
cover: java dev ## Measure branch coverage, with kernels interpreted
	CEPHEID_KERNELS=interpret $(PYTEST) --cov --cov-report term-missing $(ARGS)

.PHONY: fmt
fmt: dev ## Format the source and apply the safe fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: lint
lint: dev ## Check style, types, layers and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

.PHONY: web
web: web/node_modules ## Build the page of the workbench, with Node; the result is committed
	@cd web && npm run --silent check && npm run --silent build

web/node_modules: web/package-lock.json
	@cd web && npm ci --no-audit --no-fund
	@touch $@

.PHONY: golden
golden: dev ## Rewrite the expectations of the golden files; review the diff
	$(BIN)/pytest -p no:randomly tests/golden --update-golden $(ARGS)

.PHONY: grammar
grammar: dev ## Rewrite the parser tables after a change of the grammar
	$(BIN)/python -m cepheid.language.build_tables

.PHONY: editors
editors: dev ## Rewrite the TextMate grammar after a change of keywords or functions
	$(BIN)/python -m cepheid.interfaces.editor.textmate

.PHONY: signatures
signatures: java dev ## List the types that tests call kernels with: every test, compiled; takes half an hour
	rm -rf build/kernels
	CEPHEID_CACHE=build/kernels CEPHEID_KERNELS=compile $(PYTEST) --timeout 900 $(ARGS)
	$(BIN)/python -m cepheid.kernels.build_signatures build/kernels

.PHONY: launches
launches: dev ## List the kernels for a GPU and the types that tests launch them with
	@rm -rf build/launches && mkdir -p build/launches
	CEPHEID_LAUNCHES=$(CURDIR)/build/launches $(PYTEST) tests/accelerator $(ARGS)
	@$(BIN)/python -m tests.accelerator.launches build/launches

.PHONY: ptx
ptx: build/ptx/.fetched ## Compile the listed kernels for a GPU to machine code, without one
	@build/ptx/bin/python -m tests.accelerator.ptx $(ARGS)

# The tools of CUDA take 700 MB, so they have an environment of their own, beside that of the project.
build/ptx/.fetched: | $(STAMP)
	@$(BIN)/python -m venv $(@D)
	@echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
		> "$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/project.pth"
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'numba-cuda[cu13]==0.30.*' 'nvidia-cuda-nvcc==13.*'
	@touch $@

.PHONY: bench
bench: dev ## Run the benchmarks
	$(BIN)/python benchmarks/run.py

.PHONY: bench-peers
bench-peers: dev ## Ask other systems the same questions, and write docs/peers.md
	$(BIN)/python -m benchmarks.peers $(ARGS)

.PHONY: papers
papers: dev ## Measure the figures of the papers in a quick form, and write docs/papers.md
	@$(BIN)/python -m benchmarks.papers $(ARGS)

.PHONY: lock
lock: dev ## Write the versions in .venv to requirements/dev.txt, hashes and licences beside it; needs uv
	@$(BIN)/python -m pip list --format freeze --exclude cepheid --exclude pip --exclude setuptools --exclude wheel \
		| LC_ALL=C sort --ignore-case > $(LOCK).new
	@mv $(LOCK).new $(LOCK)
	uv pip compile --quiet pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
		--constraint $(LOCK) --no-header --no-annotate --output-file requirements/run.txt
	uv pip compile --quiet requirements/site.in --universal --python-version 3.11 --no-header --no-annotate \
		--output-file requirements/site.txt
	@$(BIN)/python requirements/licences.py > requirements/licences.md
	@touch $(READY) $(STAMP)

.PHONY: dist
dist: dev ## Build the wheel and the source distribution into dist/
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist .

.PHONY: wheel
wheel: dist ## Install the wheel into an environment of its own, and run the demo from it
	@rm -rf build/wheel && $(PYTHON) -m venv build/wheel
	@build/wheel/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK) dist/*.whl
	@cd build/wheel && bin/cepheid demo

.PHONY: sbom
sbom: dist ## Write dist/cepheid.cdx.json, the bill of materials of all extras; needs uv
	@uvx --quiet --from cyclonedx-bom cyclonedx-py requirements requirements/run.txt --pyproject pyproject.toml \
		--output-reproducible --output-format JSON --output-file dist/cepheid.cdx.json

.PHONY: site
site: build/site-env/.installed ## Build the site of the documentation into build/site; any warning is an error
	@NO_MKDOCS_2_WARNING=1 build/site-env/bin/mkdocs build --quiet --strict --config-file site/mkdocs.yml

.PHONY: site-version
site-version: export PATH := $(CURDIR)/build/site-env/bin:$(PATH)
site-version: build/site-env/.installed ## Commit the site of this version to the branch gh-pages, beside those of others
	@NO_MKDOCS_2_WARNING=1 mike --quiet deploy --config-file site/mkdocs.yml --update-aliases \
		$$(sed -n 's/^version = "\([0-9]*\.[0-9]*\).*/\1/p' pyproject.toml) latest
	@mike --quiet set-default --config-file site/mkdocs.yml latest

.PHONY: notebooks
notebooks: ## Make notebooks of the guides, in build/notebooks
	@$(PYTHON) site/notebooks.py

build/site-env/.installed: requirements/site.txt
	@$(PYTHON) -m venv build/site-env
	@build/site-env/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

.PHONY: ci
ci: ## Run what CI runs: lint, then test
	@bash .ci/run

.PHONY: clean
clean: ## Remove .venv, caches and build products
	rm -rf $(VENV) build dist .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
