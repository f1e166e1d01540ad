# Every verb sets up what it needs. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

PYTEST := .venv/bin/python -m pytest
# Two at a time: Spark and the servers wait more than they work. A file stays together, with what it has set up.
SPREAD := -n 2 --dist loadfile
# Tests that start no server of their own and need no other environment.
NO_SERVER := not kafka and not pulsar and not s3 and not hdfs and not postgres and not rest
PLAIN := tests --ignore=tests/docs --ignore=tests/interop --ignore=tests/browser
# A short selection of the Spark tests for Spark Connect; test-connect and test-cluster run them all.
ON_CONNECT := $(addprefix tests/spark/test_,attach.py batch.py)
# Takes all cores for itself: jobs of several processes that are killed, and have to come to their end between two kills.
CHAOS := tests/integration/test_chaos.py
OLDEST_PYSPARK := pyspark==4.2.0
NEWEST_PYSPARK := pyspark==4.3.0

.PHONY: help setup demo test test-spark test-deep test-more test-long test-all test-browser test-connect test-cluster py-files check fmt golden crash simulate screenshots bench docs docs-site \
        .venv .venv-lowest .venv-oldest .venv-pypaimon .venv-pyiceberg .venv-user need-java chaos test-chaos test-kafka test-pulsar test-storage test-catalogs \
        test-docs test-lowest test-on-connect test-single

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv need-java .venv/spark-classes.jsa ## make .venv with lakelog and its tools in it
	@echo "ready: .venv/bin/lakelog --help"

demo: .venv need-java ## a year of flights through one table (ARGS="--log kafka --seconds 30")
	.venv/bin/lakelog demo $(ARGS)

# The archive of classes costs more than two JVMs gain by it: used if `make setup` or another verb has made it.
test: .venv need-java ## a few minutes: what needs no server, and a few tests of each capability on Spark (ARGS go to pytest)
	$(PYTEST) -n 2 --dist worksteal -m "not spark and not slow and $(NO_SERVER)" $(PLAIN) $(ARGS)
	$(PYTEST) $(SPREAD) -m "smoke and $(NO_SERVER)" tests/spark $(ARGS)

test-spark: .venv/spark-classes.jsa ## the other tests on Spark that need no server (ARGS go to pytest)
	$(PYTEST) $(SPREAD) -m "spark and not smoke and not deep and $(NO_SERVER)" tests/spark $(ARGS)

test-deep: export LAKELOG_DEPTH ?= ci
test-deep: .venv/spark-classes.jsa ## tests that draw their cases, with all of them (LAKELOG_DEPTH=night: ten times as many); slow tests
	$(PYTEST) -n 2 --dist worksteal -m "(deep or slow) and $(NO_SERVER)" $(addprefix tests/,contract property spark storage unit) $(ARGS)

check: .venv ## format, lint, types, imports, spelling, the picture of the packages, banned words, the rules of the house
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache
	.venv/bin/codespell
	.venv/bin/python scripts/house_picture.py --check
	.venv/bin/python scripts/check_words.py
	$(PYTEST) tests/test_house.py

test-all: test test-more test-long ## test, test-more and test-long

# Lanes of one process each: two at a time, because they wait for servers and for time to pass.
SINGLE := test-chaos test-catalogs test-on-connect
LANES := test-kafka test-pulsar test-storage test-docs test-browser test-lowest
test-more test-single $(LANES) $(SINGLE): export LAKELOG_NO_SKIPS := 1
test-more: test-spark test-deep $(LANES) test-single ## test-spark, test-deep; real Kafka, Pulsar, S3, HDFS and PostgreSQL, Paimon's REST catalog, docs, a browser, Connect, the lowest versions

$(LANES) $(SINGLE): .venv/spark-classes.jsa

test-single: .venv/spark-classes.jsa
	$(MAKE) --keep-going --jobs 2 --output-sync=recurse $(SINGLE)

test-chaos:
	$(PYTEST) $(CHAOS) -m "not pulsar"

test-kafka:
	$(PYTEST) $(SPREAD) -m kafka tests/contract tests/integration --ignore=$(CHAOS)

test-pulsar:
	$(PYTEST) $(SPREAD) -m pulsar tests/contract tests/integration tests/spark --ignore=$(CHAOS)

test-storage:
	PYTHONPATH=tests .venv/bin/python -m servers.s3_server
	$(PYTEST) $(SPREAD) -m "s3 or hdfs" tests/contract tests/storage

test-catalogs:
	$(PYTEST) -m "postgres or rest" tests/contract

test-docs:
	$(PYTEST) -n 2 --dist worksteal tests/docs

# Without PySpark, of which test-long has the lowest version.
test-lowest: .venv-lowest
	.venv-lowest/bin/python -m pytest -n 2 --dist worksteal -m "not spark and not slow and not deep and $(NO_SERVER)" $(addprefix tests/,sql unit/fileformat unit/filestore unit/logstore unit/merge unit/paimon)

test-on-connect:
	LAKELOG_SPARK=connect $(PYTEST) $(ON_CONNECT)

test-long: export LAKELOG_NO_SKIPS := 1
test-long: .venv/spark-classes.jsa .venv-oldest .venv-pypaimon .venv-pyiceberg .venv-user ## what .ci/run has no time for: other engines, dbt, chaos on Pulsar, the oldest PySpark
	$(PYTEST) -n 2 --dist worksteal tests/interop
	$(PYTEST) $(CHAOS) -m pulsar
	.venv-oldest/bin/python -m pytest $(SPREAD) -m "every_pyspark and not pulsar" tests/spark

test-browser: ## walks through the dashboard in a real Chromium, which has to be there (ARGS go to pytest)
	$(PYTEST) tests/browser $(ARGS)

screenshots: .venv need-java ## the pictures of the dashboard in the docs, by a real Chromium
	.venv/bin/python scripts/screenshots.py $(ARGS)

test-connect: export LAKELOG_SPARK := connect
test-connect: .venv/spark-classes.jsa ## all Spark tests on a Spark Connect server (ARGS go to pytest)
	$(PYTEST) tests/spark $(ARGS)

test-cluster: export LAKELOG_SPARK := cluster
test-cluster: .venv/spark-classes.jsa ## all Spark tests on a standalone cluster: a master, two workers (ARGS go to pytest)
	$(PYTEST) tests/spark $(ARGS)

py-files: .venv ## build/lakelog.zip for spark-submit --py-files
	PYTHON=.venv/bin/python scripts/py_files

golden: .venv ## which views of the tables that Paimon wrote are read as Paimon reads them (ARGS: their directory)
	.venv/bin/python scripts/golden_report.py $(ARGS)

crash: .venv ## every storage call of every operation, with every kind of fault; prints how many points
	.venv/bin/python tests/property/crash_points.py

simulate: .venv ## 100,000 schedules of the log protocol with every fault (ARGS="--seed 123", ARGS="--plant NAME"; ARGS=--log: of a log in files)
	.venv/bin/python tests/property/simulate.py $(ARGS)

chaos: export PYTHONPATH := tests
chaos: .venv need-java ## kill -9 of drivers, executors and broker beside a double write; counts every row (ARGS="--append", ARGS="--writers 4")
	.venv/bin/python -m chaos $(ARGS)

bench: .venv need-java ## measure lakelog and its peers into docs/results: docs/benchmarks.md (ARGS go to benchmarks/run.py)
	.venv/bin/python benchmarks/run.py --results docs/results $(ARGS)

docs: .venv ## write the generated pages of docs/reference and the picture of the packages
	.venv/bin/python scripts/generate_reference.py
	.venv/bin/python scripts/house_picture.py

docs-site: .venv ## the docs as pages with search, in build/site: open build/site/index.html, no server needed
	PYTHONPATH=scripts .venv/bin/mkdocs build --quiet
	@echo "open build/site/index.html"

fmt: .venv ## format the code
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

.venv:
	@scripts/environment .venv -e '.[all,dev]' '$(NEWEST_PYSPARK)'

# What Spark's JVMs load, so that those of the tests start in half the time.
.venv/spark-classes.jsa: pyproject.toml scripts/class_archive.py | .venv need-java
	.venv/bin/python scripts/class_archive.py $@

LOWEST_EXTRAS := kafka orc sql-catalog rest
.venv-lowest: .venv
	@scripts/environment .venv-lowest -e '.[kafka,orc,sql-catalog,rest]' pandas pytest pytest-timeout pytest-xdist hypothesis \
	    $$(.venv/bin/python scripts/lowest_versions.py $(LOWEST_EXTRAS))

.venv-oldest:
	@scripts/environment .venv-oldest -e '.[all,dev]' '$(OLDEST_PYSPARK)'

.venv-pypaimon:
	@scripts/environment .venv-pypaimon 'pypaimon==2.1.*'

# DuckDB's extensions of other releases are not in the registry
.venv-pyiceberg:
	@scripts/environment .venv-pyiceberg 'pyiceberg[pyarrow]==0.12.*' 'duckdb==1.5.5' 'duckdb-extension-avro==1.5.5' 'duckdb-extension-iceberg==1.5.5'

# lakelog and the tools that a user has beside it. dbt-core 1.12 fetches a part of itself from outside of the registry.
.venv-user:
	@scripts/environment .venv-user -e '.[spark]' '$(NEWEST_PYSPARK)' 'dbt-spark==1.11.*' 'dbt-core==1.11.*' 'pyright[nodejs]>=1.1.400'

need-java:
	@scripts/need_java
