# Everything goes through CMake presets; this file only names the usual journeys.
JOBS ?= $(shell nproc)
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help run announce-test test test-cuda sanitize-cuda test-mpi bench bench-cuda bench-peers speed-docs format format-check lint sanitize sanitize-memory sanitize-threads sanitize-part fuzz clean bootstrap bootstrap-lint bootstrap-pages bootstrap-python bootstrap-mpi bootstrap-fuzz build \
        python-module test-python wheel test-wheel bench-python

FOLDERS = $(wildcard include src cli python/src tests benchmarks examples)
SOURCES = $(shell find $(FOLDERS) -name '*.h' -o -name '*.cc' -o -name '*.c' -o -name '*.cu' -o -name '*.cuh')

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

bootstrap-fuzz:
	@scripts/bootstrap --fuzz

build: bootstrap
	@cmake --preset release --log-level=WARNING -DRAPT_TARGETS=all
	@cmake --build --preset release -j $(JOBS)

# Only what it runs: the tool, and on a fresh machine for this processor alone.
run: bootstrap  ## Build the tool, then redo the documents' results and write the report to build/reproduce
	@echo "Building the tool; a few minutes the first time."
	@if [[ -f build/release/CMakeCache.txt ]]; then cmake --preset release --log-level=WARNING; \
	else cmake --preset release --log-level=WARNING -DRAPT_TARGETS=newest; fi
	@cmake --build --preset release -j $(JOBS) --target rapt_cli
	@echo "Redoing the documents' results; about a minute."
	@build/release/rapt reproduce --quick --out build/reproduce

announce-test:
	@echo "Building the library for every processor, the tool, the tests and the Python module; about 10 minutes on two cores the first time."

test: announce-test bootstrap-pages python-module build  ## Build, then run all tests
	@echo "Running the tests; about 10 minutes on two cores."
	@scripts/run_tests build/release -j $(JOBS)

# OFF replaces an ON of the cache.
test-cuda: bootstrap bootstrap-python  ## Run the tests of everything that computes on a GPU, Python's with PyTorch, CuPy and JAX too
	@scripts/python_env
	@if [[ -f build/python/ready ]]; then cmake --preset cuda --log-level=WARNING -DRAPT_BUILD_PYTHON=ON \
	  -DPython_EXECUTABLE=$(CURDIR)/$(VENV) -Dnanobind_DIR=$$(cat build/python/ready); \
	else cmake --preset cuda --log-level=WARNING -DRAPT_BUILD_PYTHON=OFF; fi
	@cmake --build --preset cuda -j $(JOBS) --target rapt_attend_test rapt_distributed_test rapt_formulas_test rapt_c_test \
	  rapt_cli_test rapt_cuda_mechanism \
	  $$(if [[ -f build/python/ready ]]; then echo rapt_python; fi)
	@scripts/test_cuda build/cuda

sanitize-cuda: bootstrap  ## Run a part of them under compute-sanitizer: memory errors and races of kernels, in minutes
	@cmake --preset cuda --log-level=WARNING
	@cmake --build --preset cuda -j $(JOBS) --target rapt_attend_test
	@scripts/sanitize_cuda build/cuda

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
	@cmake --build --preset release -j $(JOBS) --target rapt_python rapt_cli rapt_attend_shared
	@RAPT_TEST_ALL=1 RAPT_TOOL=$(CURDIR)/build/release/rapt PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=build/release/python \
	  RAPT_LIBRARIES=$(CURDIR)/build/release RAPT_SKIPPED=$(CURDIR)/build/release/python_skipped.txt $(VENV) -m pytest -q -rs -p no:cacheprovider tests/python

wheel: bootstrap  ## Build a manylinux wheel of the Python package into build/wheels
	@scripts/wheel

test-wheel: wheel  ## Build the wheel, and run it in virtual environments that have NumPy alone
	@tests/wheel/run.sh build/wheels build/wheels/test

bench-python: python-module  ## Measure what a call from Python costs, and training in PyTorch with Rapt's attention
	@scripts/python_env --all
	@cmake --build --preset release -j $(JOBS) --target rapt_python
	@PYTHONPATH=build/release/python $(VENV) benchmarks/python/calls.py
	@PYTHONPATH=build/release/python $(VENV) benchmarks/python/training.py --threads 1 $(JOBS)

bench: build  ## Measure every mechanism against this machine's matrix-multiply rate
	@build/release/rapt bench

bench-peers: build  ## Measure PyTorch beside Rapt, in a virtual environment of its own
	@benchmarks/peers/run

bench-cuda: bootstrap  ## Measure a GPU, with PyTorch's attention beside, and write the GPU tables of docs/speed.md
	@benchmarks/peers/run_cuda check
	@cmake --preset cuda --log-level=WARNING
	@cmake --build --preset cuda -j $(JOBS) --target rapt_cli rapt_attend_shared
	@mkdir -p build/peers
	@build/cuda/rapt bench --device cuda --json > build/peers/bench_cuda.json
	@benchmarks/peers/run_cuda
	@python3 benchmarks/speed_tables.py docs/speed.md --cuda-bench build/peers/bench_cuda.json --cuda-peers build/peers/cuda.json

speed-docs: build  ## Measure Rapt and its peers, and write the tables of docs/speed.md and README.md
	@build/release/rapt bench --json > build/bench.json
	@benchmarks/peers/run
	@python3 benchmarks/speed_tables.py docs/speed.md --bench build/bench.json --peers build/peers/results.json --random build/peers/random.json
	@scripts/readme_tables build/release/rapt

format: bootstrap-lint  ## Rewrite the sources in the project's format
	@clang-format -i $(SOURCES)

format-check: bootstrap-lint  ## Fail where `make format` would change something
	@clang-format --dry-run --Werror $(SOURCES)

# Its own folder, configured and never built: there every source has a command of its own.
lint: bootstrap-lint bootstrap-python  ## Run clang-tidy over the library, the tool and the Python module
	@scripts/python_env
	@if [[ -f build/python/ready ]]; then cmake --preset release --log-level=WARNING -B build/lint -DRAPT_UNITY=ON -DRAPT_BUILD_PYTHON=ON \
	  -DPython_EXECUTABLE=$(CURDIR)/$(VENV) -Dnanobind_DIR=$$(cat build/python/ready); \
	else cmake --preset release --log-level=WARNING -B build/lint -DRAPT_UNITY=ON -DRAPT_BUILD_PYTHON=OFF; fi
	@scripts/lint build/lint $(JOBS)

sanitize: sanitize-memory sanitize-threads  ## Run the tests under the address, undefined and thread sanitizers

# All tests that run code of Rapt: those of scripts, headers and packages do not.
sanitize-memory: bootstrap-pages
	@cmake --preset asan --log-level=WARNING
	@cmake --build --preset asan -j $(JOBS)
	@scripts/run_tests build/asan --no-tests=error -L '^(plain|threads|slow|pages)$$' -j $(JOBS)

sanitize-threads: bootstrap
	@cmake --preset tsan --log-level=WARNING
	@cmake --build --preset tsan -j $(JOBS) --target rapt_threads_tests
	@scripts/run_tests build/tsan --no-tests=error -L '^threads$$' -j 1

# What reads files and texts, the arenas of tapes and kernels, and whole problems.
PART = arrays documents formulas images problems runs texts
sanitize-part: bootstrap  ## Run a part of them under the address and undefined sanitizers, in minutes
	@cmake --preset asan --log-level=WARNING
	@cmake --build --preset asan -j $(JOBS) --target rapt_tensor_test rapt_lanes_test $(PART:%=rapt_fuzz_%)
	@ctest --test-dir build/asan --output-on-failure --no-tests=error -j $(JOBS) -R '^(tensor|lanes)/|^fuzz/($(shell echo $(PART) | tr ' ' '|'))$$'

SECONDS ?= 600
fuzz: bootstrap-fuzz  ## Run every fuzzer for SECONDS=600 each, under the address sanitizer
	@cmake --preset fuzz --log-level=WARNING && cmake --build --preset fuzz -j $(JOBS)
	@scripts/fuzz $(SECONDS)

clean:  ## Remove everything that was built
	@rm -rf build
