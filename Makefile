# Every verb sets up what it needs. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

PYTEST := .venv/bin/python -m pytest
# Two at a time: Spark and the servers wait more than they work. A file stays together, with what it has set up.
SPREAD := -n 2 --dist loadfile
# Tests that start no server of their own and need no other environment.
NO_SERVER := not kafka and not pulsar and not s3 and not hdfs and not postgres and not rest and not hosts
PLAIN := tests --ignore=tests/docs --ignore=tests/interop --ignore=tests/browser
# A short selection of the Spark tests for Spark Connect; test-connect and test-cluster run them all.
ON_CONNECT := $(addprefix tests/spark/test_,attach.py batch.py)
# Takes all cores for itself: jobs of several processes that are killed, and have to come to their end between two kills.
CHAOS := tests/integration/test_chaos.py
# The newest patch of each older minor release; .venv has the newest PySpark.
OLDER_SPARKS := 3.5.9 4.0.5 4.1.4 4.2.1
SPARKS := $(foreach release,$(OLDER_SPARKS),$(basename $(release)))
NEWEST_PYSPARK := pyspark==4.3.0

.PHONY: help setup demo affected test test-spark test-deep test-more test-long test-browser test-connect test-cluster py-files check check-types check-house fmt golden crash simulate model differential screenshots bench docs docs-site release-check \
        .venv .venv-lowest .venv-pypaimon .venv-pyiceberg .venv-user need-java chaos test-chaos test-servers \
        test-docs test-lowest test-on-connect hosts test-hosts test-on-sparks test-sparks

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv need-java .venv/spark-classes.jsa ## make .venv with lakelog and its tools in it
	@echo "ready: .venv/bin/lakelog --help"

demo: .venv need-java ## a year of flights through one table (ARGS="--log kafka --seconds 30")
	.venv/bin/lakelog demo $(ARGS)

# What CI and a developer have time for is drawn: a share of the cases of each test, and of the files of slow lanes. The
# seed comes from the commit; WHOLE=1 runs all.
draw = $(if $(WHOLE),,$(1))

# Three at a time on two cores, because a third of the time is waiting.
# The archive of classes costs more than two JVMs gain by it: used if `make setup` or another verb has made it.
test: .venv need-java ## four minutes: what needs no server, and a few tests of each capability on Spark (ARGS go to pytest)
	LAKELOG_LANE=test $(PYTEST) -n 3 --dist worksteal $(call draw,--cases 1/4) -m "not spark and not slow and $(NO_SERVER)" $(PLAIN) $(ARGS)
	LAKELOG_LANE=smoke $(PYTEST) $(SPREAD) -m "smoke and $(NO_SERVER)" tests/spark $(ARGS)

test-spark: .venv/spark-classes.jsa ## the other tests on Spark that need no server (ARGS go to pytest)
	$(PYTEST) $(SPREAD) $(call draw,--cases 1/4 --files 1/5) -m "spark and not smoke and not deep and $(NO_SERVER)" tests/spark $(ARGS)

test-deep: export LAKELOG_DEPTH ?= ci
test-deep: .venv/spark-classes.jsa ## tests that draw their cases, with more of them (LAKELOG_DEPTH=full, night); slow tests
	$(PYTEST) -n 2 --dist worksteal $(call draw,--cases 1/4 --files 3/10) -m "(deep or slow) and $(NO_SERVER)" $(addprefix tests/,contract property spark storage unit) $(ARGS)

check: .venv ## format, lint, types, imports, spelling, the picture of the packages, banned words, the rules of the house
	$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync=target check-types check-house

check-types:
	.venv/bin/mypy

check-house:
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/lint-imports --no-cache
	.venv/bin/codespell
	.venv/bin/python scripts/house_picture.py --check
	.venv/bin/python scripts/check_words.py
	.venv/bin/python scripts/measurements.py --check
	$(PYTEST) tests/test_house.py tests/test_lanes.py

LANES := test-servers test-docs test-browser test-lowest test-hosts test-chaos test-on-connect
VERBS := test-spark test-deep $(LANES)
test-more $(VERBS): export LAKELOG_NO_SKIPS := 1
$(VERBS): export LAKELOG_LANE = $(@:test-%=%)
test-more: $(VERBS) ## test-spark, test-deep; real Kafka, Pulsar, S3, HDFS and PostgreSQL, Paimon's REST catalog, docs, a browser, Connect, the lowest versions

$(LANES) test-sparks: .venv/spark-classes.jsa

test-chaos:
	$(PYTEST) $(CHAOS) $(call draw,--cases 1/2) -m "not pulsar"

test-servers: ## tests on real Kafka, Pulsar, S3, HDFS and PostgreSQL, and on Paimon's REST catalog (ARGS="-m kafka": on one of them)
	PYTHONPATH=tests .venv/bin/python -m servers.s3_server
	$(PYTEST) $(SPREAD) $(call draw,--cases 1/4 --files 2/5) -m "not ($(NO_SERVER))" $(addprefix tests/,contract integration spark storage) --ignore=$(CHAOS) $(ARGS)

# The scenarios take minutes each, alone on the machine, because their hosts have clocks: WHOLE=1, as in test-long.
test-hosts: ## hosts of namespaces that share storage alone: a cluster, its failures, YARN; needs root (ARGS go to pytest)
	PYTHONPATH=tests .venv/bin/python -m servers.s3_server
	$(PYTEST) $(if $(WHOLE),tests/hosts,tests/hosts/test_containers.py) $(ARGS)

test-docs: ## every block of the docs, and the notebooks (ARGS go to pytest)
	$(PYTEST) -n 2 --dist worksteal $(call draw,--cases 2/5) tests/docs $(ARGS)

# Without PySpark, of which test-long has the lowest version.
test-lowest: .venv-lowest
	.venv-lowest/bin/python -m pytest -n 2 --dist worksteal $(call draw,--cases 1/8 --files 1/2) -m "not spark and not slow and not deep and $(NO_SERVER)" $(addprefix tests/,sql unit/fileformat unit/filestore unit/logstore unit/merge unit/paimon)

# 3.5 and another one that the seed draws; a share of the short selection on each.
test-sparks:
	$(MAKE) --no-print-directory test-on-sparks SPARKS="$$(PYTHONPATH=tests .venv/bin/python -m drawn_sparks $(SPARKS))" DRAWN="$(call draw,--files 1/5)"

test-on-sparks: DRAWN ?=
test-on-sparks: .venv ## the short selection of the tests on other PySparks (SPARKS="3.5 4.0"; ARGS go to pytest)
	$(MAKE) --no-print-directory --jobs 2 $(addprefix .venv-spark-,$(SPARKS))
	for release in $(SPARKS); do LAKELOG_LANE=spark-$$release .venv-spark-$$release/bin/python -m pytest -m "smoke and $(NO_SERVER)" $(DRAWN) tests/spark $(ARGS); done

test-on-connect:
	LAKELOG_SPARK=connect $(PYTEST) $(call draw,--cases 1/2 --files 1/3) $(ON_CONNECT)

test-long: export LAKELOG_NO_SKIPS := 1
test-long: export WHOLE := 1
test-long: export LAKELOG_DEPTH ?= full
test-long: .venv/spark-classes.jsa .venv-pypaimon .venv-pyiceberg .venv-user ## everything once, before an issue is called resolved: all lanes whole, other engines, dbt, the older PySparks
	$(MAKE) --keep-going test test-more test-sparks
	$(PYTEST) -n 2 --dist worksteal tests/interop
	$(PYTEST) $(CHAOS) -m pulsar
	$(MAKE) spec
	$(MAKE) $(addprefix .venv-spark-,$(SPARKS))
	for release in $(SPARKS); do .venv-spark-$$release/bin/python -m pytest $(SPREAD) -m "not pulsar" tests/spark; done

spec: .venv ## the specification of the commit protocol: no violation, every planted bug found (needs Rust's cargo)
	test -x .venv-spec/bin/tla || cargo install tla-checker --version 0.24.11 --locked --root .venv-spec
	.venv/bin/python scripts/check_spec.py --checker .venv-spec/bin/tla $(ARGS)

affected: .venv need-java ## what the change of the working tree touches: checks, and tests of a few minutes (ARGS="--base REV")
	.venv/bin/python scripts/ci.py affected $(ARGS)

test-browser: ## walks through the dashboard in a real Chromium, which has to be there (ARGS go to pytest)
	$(PYTEST) $(SPREAD) $(call draw,--files 1/3) tests/browser $(ARGS)

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

model: export PYTHONPATH := tests
model: .venv ## histories of tables over the whole surface, against a model of what users were promised (ARGS="--seed 7 --histories 20000")
	.venv/bin/python -m model $(ARGS)

differential: export PYTHONPATH := tests
differential: .venv need-java ## conditions and values without Spark, against Spark's answers (ARGS="--seed 7 --seeds 40")
	.venv/bin/python -m model.differential $(ARGS)

chaos: export PYTHONPATH := tests
chaos: .venv need-java ## kill -9 of drivers, executors and broker beside a double write; counts every row (ARGS="--append", ARGS="--writers 4")
	.venv/bin/python -m chaos $(ARGS)

hosts: export PYTHONPATH := tests
hosts: .venv/spark-classes.jsa ## a double write on four hosts that fail, or a job on a cluster; needs root (ARGS="chaos --minutes 10", ARGS="jobs --cluster yarn-cluster")
	.venv/bin/python -m hosts $(ARGS)

bench: .venv need-java ## measure lakelog and its peers into docs/results: docs/benchmarks.md (ARGS go to benchmarks/run.py)
	.venv/bin/python benchmarks/run.py --results docs/results $(ARGS)

release-check: .venv ## build wheel and sdist twice, compare and check them, and write the SBOM (RELEASING.md)
	.venv/bin/python scripts/release_check.py

docs: .venv ## write the generated pages of docs/reference, the picture of the packages, the measured numbers of pages
	.venv/bin/python scripts/generate_reference.py
	.venv/bin/python scripts/measurements.py
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

LOWEST_EXTRAS := kafka orc sql sql-catalog rest
.venv-lowest: .venv
	@scripts/environment .venv-lowest -e '.[kafka,orc,sql,sql-catalog,rest]' pandas pytest pytest-timeout pytest-xdist hypothesis \
	    $$(.venv/bin/python scripts/lowest_versions.py $(LOWEST_EXTRAS))

.venv-spark-%: .venv FORCE
	@scripts/spark_environment $@ $(filter $*.%,$(OLDER_SPARKS))

FORCE:

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
