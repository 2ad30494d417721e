# Everything goes through CMake presets; this file only names the usual journeys.
JOBS ?= $(shell nproc)
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help run test test-cuda test-mpi bench bench-peers speed-docs format format-check lint sanitize clean bootstrap bootstrap-lint bootstrap-pages bootstrap-python bootstrap-mpi build \
        python-module test-python wheel bench-python

FOLDERS = $(wildcard include src cli python/src tests benchmarks examples)
SOURCES = $(shell find $(FOLDERS) -name '*.h' -o -name '*.cc' -o -name '*.c' -o -name '*.cu' -o -name '*.cuh')

# Tests of the cpu's own memory, threads and plans, and those that compare a call of their own with one of the device.
NOT_ON_A_DEVICE = 'Memory*:*Threads*:Plan*:*PlanOf*:OptionErrors*:*Properties.WeightsOfSomeRows*:FewQueries*:Outputs.SeveralWeight*:Outputs.PlainCall*'

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

bootstrap:
	@scripts/bootstrap

bootstrap-lint:
	@scripts/bootstrap --lint

bootstrap-pages:
	@scripts/bootstrap --pages

bootstrap-python:
	@scripts/bootstrap --python

bootstrap-mpi:
	@scripts/bootstrap --mpi

build: bootstrap
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release -j $(JOBS)

run: build  ## Build, then redo the documents' results and write the report to build/reproduce
	@build/release/rapt reproduce --quick --out build/reproduce

test: bootstrap-pages python-module build  ## Build, then run all tests
	@scripts/run_tests build/release -j $(JOBS)

test-cuda: bootstrap  ## Run the tests of attention on a GPU
	@cmake --preset cuda --log-level=WARNING
	@cmake --build --preset cuda -j $(JOBS) --target rapt_attend_test
	@RAPT_TEST_DEVICE=cuda build/cuda/rapt_attend_test --gtest_brief=1 --gtest_filter=-$(NOT_ON_A_DEVICE)

test-mpi: bootstrap-mpi build  ## Test calls and training over several processes
	@tests/mpi/run.sh $(CURDIR)/build/release/rapt $(CURDIR)/build/mpi_test

# Where the module cannot be built, the tests of the Python package are listed as skipped: OFF replaces an ON of the cache.
VENV = build/python/venv/bin/python
python-module: bootstrap-python
	@scripts/python_env
	@if [[ -f build/python/ready ]]; then cmake --preset release --log-level=WARNING -DRAPT_BUILD_PYTHON=ON \
	  -DPython_EXECUTABLE=$(CURDIR)/$(VENV) -Dnanobind_DIR=$$(cat build/python/ready); \
	else cmake --preset release --log-level=WARNING -DRAPT_BUILD_PYTHON=OFF; fi

test-python: python-module  ## Test the Python package with PyTorch, JAX, Transformers and ONNX, in a virtual environment of its own
	@scripts/python_env --all
	@cmake --build --preset release -j $(JOBS) --target rapt_python rapt_cli
	@RAPT_TEST_ALL=1 RAPT_TOOL=$(CURDIR)/build/release/rapt PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=build/release/python \
	  $(VENV) -m pytest -q -p no:cacheprovider tests/python

wheel: bootstrap  ## Build a manylinux wheel of the Python package into build/wheels
	@scripts/wheel

bench-python: python-module  ## Measure what a call from Python costs
	@scripts/python_env --all
	@cmake --build --preset release -j $(JOBS) --target rapt_python
	@PYTHONPATH=build/release/python $(VENV) benchmarks/python/calls.py

bench: build  ## Measure every mechanism against this machine's matrix-multiply rate
	@build/release/rapt bench

bench-peers: build  ## Measure PyTorch beside Rapt, in a virtual environment of its own
	@benchmarks/peers/run

speed-docs: build  ## Measure Rapt and its peers, and write the tables of docs/speed.md
	@build/release/rapt bench --json > build/bench.json
	@benchmarks/peers/run
	@python3 benchmarks/speed_tables.py docs/speed.md --bench build/bench.json --peers build/peers/results.json

format: bootstrap-lint  ## Rewrite the sources in the project's format
	@clang-format -i $(SOURCES)

format-check: bootstrap-lint  ## Fail where `make format` would change something
	@clang-format --dry-run --Werror $(SOURCES)

lint: bootstrap-lint  ## Run clang-tidy over the library and the tool
	@cmake --preset release --log-level=WARNING
	@scripts/lint build/release $(JOBS)

sanitize: bootstrap  ## Run the tests under the address, undefined and thread sanitizers
	@cmake --preset asan --log-level=WARNING && cmake --build --preset asan -j $(JOBS)
	@ctest --test-dir build/asan --output-on-failure --no-tests=error -L sanitize -j $(JOBS)
	@cmake --preset tsan --log-level=WARNING && cmake --build --preset tsan -j $(JOBS)
	@ctest --test-dir build/tsan --output-on-failure --no-tests=error -L threads -j 1

clean:  ## Remove everything that was built
	@rm -rf build
