# Two commands: `make demo` and `make test`. `make help` lists the rest.
# PYTHON=... chooses the Python that .venv is made from.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# -qq: errors only.
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip -qq --no-input

# What the extension module is built from: our C++ and the tables it is generated from.
CPP_SOURCES := $(sort $(shell find togsim third_party -name '*.h' -o -name '*.cc'))
BUILD_INPUTS := $(CPP_SOURCES) $(sort $(shell find CMakeLists.txt togsim third_party -name CMakeLists.txt)) \
  $(sort $(wildcard pytorchsim/target/*.py))

.PHONY: help demo test models test-slow lint format sanitize wheel docs install build clean

help:  ## This list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 20

demo: build  ## Set up, run an example, compare with eager, print the cycle table
	@$(BIN)/python examples/quickstart.py

test: build  ## Set up, run the tests. LAYERS="ops fusion" and PYTEST="-x -k relu" narrow it
	@$(BIN)/python tools/run_layers.py $(LAYERS) $(foreach stage,$(STAGES),--stage $(stage)) --pytest='-m "not slow" $(PYTEST)'

models: build  ## The model suites, then the README's table from their results. PYTEST='-m ""': slow cases, too
	@mkdir -p build && rm -f build/models.jsonl
	@MODEL_RESULTS=build/models.jsonl $(BIN)/python tools/run_layers.py models --pytest='-m "not slow" $(PYTEST)'
	@$(BIN)/python tools/coverage_table.py build/models.jsonl

test-slow: build  ## The tests that take long
	@$(BIN)/python tools/run_layers.py $(LAYERS) --pytest='-m slow $(PYTEST)'

lint: build  ## ruff, mypy, clang-format, import layers; changes nothing
	@failed=(); check() { echo "lint: $$*" | cut -c1-80; "$$@" || failed+=("$${1##*/}"); }; \
	  check $(BIN)/ruff check --quiet --output-format=concise . ; \
	  check $(BIN)/ruff format --quiet --check . ; \
	  check $(BIN)/mypy --no-error-summary ; \
	  check $(BIN)/clang-format --dry-run --Werror $(CPP_SOURCES) ; \
	  check $(BIN)/lint-imports --no-logo ; \
	  if [ $${#failed[@]} -gt 0 ]; then echo "lint: failed: $${failed[*]}" >&2; exit 1; fi

format: install  ## Format Python and C++ in place
	$(BIN)/ruff check --fix-only --quiet . && $(BIN)/ruff format .
	@$(BIN)/clang-format -i $(CPP_SOURCES)

# The same C++ with address and undefined-behaviour sanitizers, editable in an environment of its own that borrows
# everything else from .venv. Python is not instrumented, hence the preload; what it leaks is not ours to judge.
SANITIZED := build/sanitize/env
SITE_PACKAGES = $(shell $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

sanitize: install  ## The tests of the C++ parts, with sanitizers. LAYERS narrows it
	@$(BIN)/python -m venv --without-pip $(SANITIZED)
	@own=$$($(SANITIZED)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  echo '$(SITE_PACKAGES)' > "$$own/dependencies.pth"; ln -sfn '$(SITE_PACKAGES)/riscv' "$$own/riscv"
	@$(SANITIZED)/bin/python -m pip -qq install --no-deps --no-build-isolation --editable . \
	  -C build-dir=build/sanitize/cmake -C cmake.define.PYTORCHSIM_SANITIZE=ON
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
	  FUZZ_SECONDS=$${FUZZ_SECONDS:-60} \
	  $(SANITIZED)/bin/python tools/run_layers.py $(or $(LAYERS),unit+passes timing) --pytest='-m "not slow" $(PYTEST)'

wheel: install  ## dist/*.whl
	@$(PIP) wheel --no-deps --no-build-isolation -w dist .
	@ls dist/*.whl

docs: build  ## Write the generated pages of docs/
	@$(BIN)/pytorchsim config docs --write docs/configuration.md
	@$(BIN)/python -m pytorchsim.target.emit_page docs/isa.md

install: $(VENV)/.installed  ## .venv with every dependency

build: $(VENV)/.built  ## The package itself, editable; C++ is rebuilt when it changed

$(VENV)/.created: tools/bootstrap.sh
	@tools/bootstrap.sh "$(PYTHON)"
	@echo "venv: $(VENV)"
	@"$(PYTHON)" -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml tools/requirements.py
	@echo "install: dependencies (PyTorch is large; the first time takes minutes)"
	@$(BIN)/python tools/requirements.py build test lint > $(VENV)/requirements.txt
	@$(PIP) install -r $(VENV)/requirements.txt
	@touch $@

$(VENV)/.built: $(VENV)/.installed pyproject.toml $(BUILD_INPUTS)
	@echo "build: the package and its C++ engine"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

clean:  ## Remove .venv and everything built
	rm -rf $(VENV) build dist
