# `make help` lists the targets. They are short names for CMake presets.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run build test test-plan check sanitizers numeric test-all release-check fuzz bench format lint docs install wheel clean setup cuda-compile

# One compiler per core, limited by free memory: a source with torch takes up to 2.5 GB.
JOBS ?= $(shell awk -v cores=$$(nproc) '/^MemAvailable/ {fit = int($$2 / 2500000); \
          print fit < 1 ? 1 : fit < cores ? fit : cores}' /proc/meminfo)
LIBTORCH = $(shell sed -n 2p build/setup.stamp)
PREFIX ?= /usr/local

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo 'TORCH_DIR=/path/to/libtorch chooses the LibTorch; ARGS="--training.steps 20" goes to make run.'

setup:
	@tools/setup.sh

build: setup  ## build/bin/sluice (Release)
	@cmake --build build -j $(JOBS) --target sluice_cli sluice_run_cli

run: build  ## train examples/quickstart.toml: 4 pipeline stages on this machine, about two minutes
	@build/bin/sluice train examples/quickstart.toml $(ARGS)

test: setup  ## quick: what a change needs, every room
	@cmake --build build -j $(JOBS) --target sluice_cli sluice_run_cli quick_tests
	@tools/run_tests.sh build $(JOBS) -L quick

test-plan:  ## the planner alone, set up and built without LibTorch
	@tools/setup.sh plan
	@cmake --build build-plan -j $(JOBS) --target sluice_cli quick_tests
	@tools/run_tests.sh build-plan $(JOBS) -L quick

# `make check` runs the torch-free readers of foreign bytes under AddressSanitizer. The other programs need a
# second build of the training side per sanitizer, an hour on two cores. They belong to `make sanitizers` and
# `make test-all`.
CHECK_ASAN_TESTS = plan_tests archive_tests report_tests tokenizer_tests
ASAN_TESTS = $(CHECK_ASAN_TESTS) io_tests checkpoint_tests
TSAN_TESTS = comm_tests engine_tests checkpoint_tests launch_tests parallel_tests graph_tests train_tests
LINT = changed
check: setup  ## the rest: long tests, AddressSanitizer, oracles, pages' commands, the installed library, docs, lint
	@cmake --build build -j $(JOBS)
	@tools/run_tests.sh build $(JOBS) -L check
	@tools/sanitized_tests.sh asan '$(LIBTORCH)' $(JOBS) $(CHECK_ASAN_TESTS)
	@if command -v doxygen >/dev/null; then $(MAKE) docs; else echo 'skipped: docs: doxygen is not installed'; fi
	@if command -v clang-format >/dev/null && command -v clang-tidy >/dev/null; then $(MAKE) lint LINT='$(LINT)'; \
	 else echo 'skipped: lint: clang-format or clang-tidy is not installed'; fi

sanitizers: setup  ## tests of foreign bytes under AddressSanitizer, tests with threads under ThreadSanitizer
	@tools/sanitized_tests.sh asan '$(LIBTORCH)' $(JOBS) $(ASAN_TESTS)
	@tools/sanitized_tests.sh tsan '$(LIBTORCH)' $(JOBS) $(TSAN_TESTS)

test-all: ASAN_TESTS = all
test-all: TSAN_TESTS = all
test-all: LINT = all
test-all: test check sanitizers  ## also the slow sweeps, every test under the sanitizers, every fuzzer, lint of all sources: hours
	@tools/run_tests.sh build 1 -L slow
	@$(MAKE) fuzz

numeric: setup  ## the numeric suites under each kind of products and instruction set; part of `make check`
	@cmake --build build -j $(JOBS)
	@tools/run_tests.sh build $(JOBS) -L kinds

release-check: build  ## what a release needs beside tests: versions, links, pictures, pages, comments
	@tools/release_check.sh build

SECONDS_EACH ?= 600
fuzz:  ## every fuzz target for ten minutes; SECONDS_EACH=60 for one
	@tools/fuzz.sh $(SECONDS_EACH) $(JOBS)

bench: build  ## the benchmarks, and the training step beside torch's where .oracles is there
	@cmake build -DSLUICE_BUILD_BENCH=ON >/dev/null
	@cmake --build build -j $(JOBS) --target benchmarks
	@for program in build/bin/*_bench; do $$program || exit 1; done
	@if [ -x .oracles/bin/python ]; then .oracles/bin/python bench/compare_torch.py --short; \
	 else echo 'bench/compare_torch.py is left out: .oracles, which tools/setup_oracles.sh makes, is missing'; fi

format:  ## clang-format every source; the pages at 100 columns
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i
	@git ls-files '*.md' | grep -v '^tests/' | xargs python3 tools/wrap_pages.py

lint: setup  ## format, include order and clang-tidy of what differs from main; LINT=all, LINT='since REVISION'
	@tools/lint.sh '$(LIBTORCH)' $(JOBS) $(LINT)

cuda-compile:  ## the plug-in for NCCL against headers of PyPI's packages (downloads 210 MB, once); no GPU
	@PYTHON='$(PYTHON)' tools/cuda_compile.sh build-cuda

docs:  ## pages of the public headers, into build-doxygen/html; fails for what is wrong in their comments
	@doxygen docs/Doxyfile

install: build  ## into PREFIX (/usr/local)
	@cmake --install build --prefix $(PREFIX)

wheel: build  ## a wheel of the build, into dist/ (docs/install.md)
	@python3 tools/make_wheel.py build dist

clean:  ## remove what was built; .venv stays
	@rm -rf build build-*
