# `make help` explains the targets.
.DEFAULT_GOAL := help
.PHONY: help setup setup-test kernels lint demo test check check-deep accuracy bench bench-compare profile soak docs schemas lock golden
PY := .venv/bin/python
PYTEST := $(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder
JAVA_HOME := $(or $(JAVA_HOME),$(shell readlink -f "$$(command -v java)" 2>/dev/null | sed 's,/bin/java$$,,'))
export JAVA_HOME
unexport PYTHONDONTWRITEBYTECODE  # each of the many processes that tests start would compile all modules anew

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup:  ## virtual environment with the locked dependencies; Java for Spark if it is missing and may be installed
	@tools/setup.sh runtime

setup-test:
	@tools/setup.sh test

demo: setup  ## analyze a real capture on local Spark: answers on the terminal, report and tables in out/demo
	.venv/bin/kafkascope analyze pcaps/rebalance-storm/capture.pcap -o out/demo --records --overwrite

kernels: setup-test
	@.venv/bin/kafkascope warm || true

lint: setup-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

test: kernels  ## the whole test suite
	$(PYTEST)

check: setup-test  ## what CI runs: lint, types, import contracts, tests
	@$(MAKE) --no-print-directory -j2 lint kernels
	$(PYTEST)

check-deep: check  ## check, then what tests run of the source, known faults of dependencies, kernels with bounds checks, two million fuzzed inputs, fresh samples from Kafka, real brokers, clusters, what a second worker brings
	$(PYTEST) --cov --cov-report=term
	@tools/setup.sh s3
	@tools/setup.sh audit
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$$(mktemp -d) $(PY) -m pytest -n 2 --dist loadfile tests/sniffer tests/reports tests/kafkascope/test_truth.py
	$(PY) -m pytest -n 2 -m deep tests/fuzzing
	HYPOTHESIS_PROFILE=deep $(PY) -m pytest -m deep --ignore tests/fuzzing
	$(PY) benchmarks/workers.py --records

accuracy: kernels  ## how right the answers are: every recorded story, whole and damaged, against what was logged and done
	$(PY) -m tools.accuracy
	$(PY) -m tools.accuracy --damaged
	$(PY) -m tools.incident_accuracy
	$(PY) -m tools.incident_accuracy --cut 256
	$(PY) -m tools.incident_accuracy --damaged

bench: kernels  ## speed against tshark, start, memory: makes its files in bench-data/ (3 GB), writes BENCHMARKS.md
	$(PY) benchmarks/bench.py --write

bench-compare: kernels  ## speed against the commit before, in turns; fails if a task takes a tenth longer
	$(PY) benchmarks/compare.py $(COMMIT)

profile: kernels  ## where the time of a small capture goes, by stage: the first line, an analysis here and on Spark
	$(PY) benchmarks/stages.py

soak: kernels  ## half an hour live under load and faults, as root: memory flat, nothing missed that the kernel delivered
	$(PY) -m tools.soak

docs: setup  ## the reference documentation as a site in out/site: its own environment in .venv-docs, warnings are errors
	@tools/setup.sh docs
	rm -rf out/docs && $(PY) tools/reference.py out/docs
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet

schemas: setup  ## rebuild decoders/schemas from the jars of Apache Kafka (Maven) and say what changed
	$(PY) tools/schemas.py
	$(PY) tools/releases.py

golden: kernels  ## write the golden files anew (examples of README and GALLERY, the notebook's outputs, the lists of columns and of modules); review them as a diff
	$(PY) -m pytest tests/kafkascope/test_readme.py tests/kafkascope/test_notebook.py tests/reports/vocabulary/test_tables.py tests/kafkascope/test_start.py --golden

lock: setup  ## choose newer dependencies and lock them (needs uv)
	uv pip compile pyproject.toml --all-extras --group dev --universal --generate-hashes --no-emit-index-url --upgrade -q -o requirements.lock
