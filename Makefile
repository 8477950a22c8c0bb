# Every target works alone on a fresh clone: it makes .venv, installs everything, then does its work.

VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.installed

.PHONY: install java browser demo demo-live docs pictures test soak bench bench-large lint clean
.DEFAULT_GOAL := test

install: $(READY)

$(READY): pyproject.toml
	@python=$$(for p in python3.13 python3.12 python3.11 python3 python; do \
	    $$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; \
	done); \
	test -n "$$python" || { echo 'Python 3.11 or newer with venv is needed: sudo apt-get install -y python3 python3-venv' >&2; exit 1; }; \
	test -x $(RUN) || $$python -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[spark,stores,demo,demo-live,docs,test]'
	@touch $@

java:
	@.ci/java

browser:
	@.ci/browser

demo: $(READY) java
	$(RUN) -m substrait_agg_cli.demo

# The same for PostgreSQL: server and pgbench are from a wheel. Options are those of `-m substrait_agg_cli.demo_live --help`.
demo-live: $(READY) java
	$(RUN) -m substrait_agg_cli.demo_live

# The site of docs/, in build/site. A broken link or a page outside the navigation fails it.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build
	@echo 'The site is in build/site. To read it with its search: $(RUN) -m http.server --directory build/site'

# The pictures of docs/ that are files: explanations of plans, and plots of stored measurements.
pictures: $(READY)
	$(RUN) docs/site/pictures.py

test: $(READY) java browser
	@.ci/test $(RUN)

# Atheris has wheels for Linux and older Pythons only; without it the coverage-guided fuzzing is skipped.
soak: $(READY) java
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[soak]'
	$(RUN) -m pytest --hypothesis-profile deep -m 'soak or hypothesis'

# The projects in docs/examples: Spark Connect, declarative pipelines; dbt, SQLMesh and Airflow in environments of their own.
examples: $(READY) java
	$(RUN) -m pytest -m soak tests/examples

BENCH = $(RUN) -m pip install --quiet --disable-pip-version-check -e '.[bench]' && $(RUN) -m benchmarks \
	--json bench-data/$@.json --markdown bench-data/$@.md --plots bench-data/$@-plots

bench: $(READY) java
	$(BENCH)
	$(RUN) -m benchmarks.validate

bench-large: $(READY) java
	$(BENCH) --large

lint: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
