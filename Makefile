# SPDX-License-Identifier: Apache-2.0
# Two commands do everything on a fresh machine:
#   make bench   installs what is missing into .venv, builds, runs the performance test, prints where the report lies
#                (WITH=paddlepaddle==3.3.1 adds a contender, ARGS=... goes to `yuloh bench`)
#   make test    the same set-up, then every test, C++ and Python
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= $(shell nproc)
WITH   ?=
ARGS   ?=

.PHONY: bench test setup build cpptest pytest sanitize fuzz fuzzcheck doctor clean

bench: build
	$(BIN)/yuloh bench --main $(foreach c,$(WITH),--with "$(c)") $(ARGS)

test: build cpptest fuzzcheck pytest

# System packages are installed only where this user may; the rest says what it goes without.
setup: $(VENV)/.ready
$(VENV)/.ready: pyproject.toml tools/setup.sh
	bash tools/setup.sh $(PYTHON) $(VENV)
	touch $@

build: setup
	PATH="$(abspath $(BIN)):$$PATH" CXX=$${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/pip install -q --no-build-isolation --no-deps .

cpptest: build
	bash tools/cpptest.sh $(VENV) $(JOBS)

pytest: build
	$(BIN)/python -m pytest -n $(JOBS) tests

sanitize: setup
	SANITIZE=address,undefined bash tools/cpptest.sh $(VENV) $(JOBS)

# 60 s each from the corpora in tests/fuzz; SECONDS=600 for longer.
fuzz:
	bash tools/fuzz.sh $(or $(SECONDS),60)

# The same as a part of `make test`; says so and passes where clang is missing.
fuzzcheck:
	FUZZ_WITHOUT_CLANG=0 bash tools/fuzz.sh $(or $(SECONDS),60)

doctor: build
	$(BIN)/yuloh doctor

clean:
	rm -rf build dist *.egg-info
