# make demo: venv, install, the whole pipeline on the embedded corpus.   make test: the same, then every test.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONFIG ?=
# Tests on real data look here and skip, with the reason, where it is absent.
export ALIGNLENS_MIRROR ?= $(realpath ../shared/data)

.PHONY: help install demo ui server server-down screenshot test test-cluster drills check docs reference format lock clean

help:
	@echo "make demo    install, run the pipeline on the embedded corpus, print the main table and where everything is"
	@echo "make test    install, run every test that needs nothing else"
	@echo "make test-cluster    install Slurm, PostgreSQL and a browser by apt, run the tests that need them"
	@echo "make drills  try bad input, damage, kills, full disks, attacks; write the table of docs/reliability.md"
	@echo "make check   ruff, mypy, snakefmt, snakemake --lint"
	@echo "make docs    the documentation as a site, in build/site; a broken link is an error"
	@echo "make reference    write the generated tables of the documentation again"
	@echo "make ui      compare the runs in the MLflow UI"
	@echo "make server  an MLflow server of your own with PostgreSQL; make server-down ends it"
	@echo "make screenshot    the pictures of docs/images from the demo's results, in a headless Chromium"
	@echo "make format  let the formatters rewrite the code"
	@echo "make lock    write the installed versions to requirements.lock"

KERNELS := $(wildcard src/alignlens/attribution/*/kernels/*)

# pip compiles one file at a time, tests of packages too: half of its time. Some packages have files for other versions of
# Python, which do not compile; bytecode is a convenience, so that is no error.
$(VENV)/installed: requirements.lock pyproject.toml $(KERNELS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "make: $(PYTHON) is older than 3.11; say make PYTHON=python3.12" >&2; exit 2; }
	@echo "Installing into $(VENV), some two minutes: packages ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --no-compile --requirement requirements.lock
	@echo "... bytecode ..."
	@$(BIN)/python -m compileall -q -q -j 0 -x '/tests?/' $(VENV)/lib || true
	@echo "... alignlens and its compiled steps"
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

install: $(VENV)/installed

demo: install
	$(BIN)/snakemake --cores all $(if $(CONFIG),--configfile $(CONFIG)) --logger alignlens
	@$(BIN)/alignlens report --print $(if $(CONFIG),--configfile $(CONFIG))
	@echo "All runs, to compare: make ui"

ui: install
	$(BIN)/alignlens ui

server: install
	$(BIN)/alignlens server up

server-down: install
	$(BIN)/alignlens server down

# The pictures of MLflow's compare view and of the browser of sentences, from the results of make demo.
screenshot: install
	tests/cluster/install.sh
	$(BIN)/python tests/cluster/screenshot.py compare
	$(BIN)/python tests/cluster/screenshot.py sentences
	$(BIN)/python tests/cluster/study_pictures.py

# A worker per core takes one file of tests after the other, the long ones first.
PYTEST := $(BIN)/python -m pytest --numprocesses logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

test: install
	$(PYTEST)

# Slurm's daemons, MariaDB, PostgreSQL and Chromium for real, on loopback; skips, with the reason, what cannot be installed.
test-cluster: install
	tests/cluster/install.sh
	$(PYTEST) tests/cluster

# Some minutes, so not in CI; a sample of them is part of make test.
drills: install
	$(BIN)/python tests/drills/run.py --out docs/reliability.md

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint

# Nothing is loaded from a network, neither here nor by the pages.
docs: install
	@NO_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --strict
	@echo "The documentation: build/site/index.html (for its search: python3 -m http.server --directory build/site)"

reference: install
	$(BIN)/python docs/site/reference.py

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules

lock: install
	{ head -n 1 requirements.lock; $(BIN)/python -m pip freeze --all --exclude-editable | sed -e 's/+cpu$$//' -e '/^pip==/d' -e '/^systran-align==/s/$$/; python_version < "3.12"/' | sort -f; } > lock.new
	mv lock.new requirements.lock

# Everything that is built and can be built again. Results stay: hours of somebody's machine may be in them.
clean:
	rm -rf $(VENV) .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist src/*.egg-info lock.new
	find src tests benchmarks docs -name __pycache__ -prune -exec rm -rf {} + -o -name "*.so" -exec rm -f {} +
	@test -z "$$(ls results | grep -v '^README.md$$')" \
		|| echo "results/ stays ($$(du -sh results | cut -f 1)); delete by hand what you no longer need"
