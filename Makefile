# Sets up, shows and checks specmt, in .venv:  make demo | test | lint | install | clean
# Another interpreter:  make demo PYTHON=/path/to/python3.12

# The first that fairseq2 has binaries for.
PYTHON ?= $(shell for python in python3 python3.12 python3.11 python3.10; do \
    $$python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null && \
    echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Beyond a few threads, small models only get slower.
export OMP_NUM_THREADS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n : 4)))

.PHONY: install demo test lint clean

install: $(STAMP)

demo: $(STAMP)
	@$(BIN)/specmt translate data/sample.de | head -n 8
	@$(BIN)/specmt evaluate data/sample.de data/sample.en --strategies greedy,speculative,speculative:5 \
	    --batch-size 1 --latency-lines 0 --bootstrap 0 --metrics bleu,chrf

# Two processes with a thread each: most tests wait, or compute on one core.
test: $(STAMP)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

lint: $(STAMP)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): setup.cfg setup.py specmt/_signals.c $(wildcard specmt/engine/csrc/*)
	@test -n '$(PYTHON)' || { echo 'specmt needs Python 3.10, 3.11 or 3.12: make PYTHON=/path/to/python' >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@echo 'Installing into $(VENV): PyTorch and fairseq2, about 7 GB, some minutes.'
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/python -c 'from specmt.engine.library import why_absent as why; why() and print("No C++ kernels, because", \
	    why() + ": specmt runs on PyTorch alone, 4 to 8 times slower.")'
	@touch $@
