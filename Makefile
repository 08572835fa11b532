# `make help` lists the targets. The work is CMake's: these are its presets by short names.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run build test test-release test-asan test-tsan test-all bench format lint docs install clean setup

# One compiler per core, as far as there is memory (a torch source takes up to 2 GB).
JOBS ?= $(shell awk -v cores=$$(nproc) '/^MemAvailable/ {fit = int($$2 / 2000000); \
          print fit < 1 ? 1 : fit < cores ? fit : cores}' /proc/meminfo)
LIBTORCH = $(shell sed -n 2p build/setup.stamp)
PREFIX ?= /usr/local
TEST = ctest --output-on-failure --no-tests=error -j $(JOBS)

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo 'TORCH_DIR=/path/to/libtorch chooses the LibTorch; ARGS="--training.steps 20" goes to make run.'

setup:
	@tools/setup.sh

build: setup  ## build/bin/sluice (Release)
	@cmake --build build -j $(JOBS) --target sluice_cli sluice_run_cli

run: build  ## train examples/quickstart.toml: 4 pipeline stages on this machine, about two minutes
	@build/bin/sluice train examples/quickstart.toml $(ARGS)

test: test-release test-asan test-tsan  ## all tests but the slow ones, with those under sanitizers

test-release: setup
	@cmake --build build -j $(JOBS)
	@$(TEST) --test-dir build -LE slow

# Under sanitizers: in `test` what handles foreign bytes (plan, config, io) and what has threads
# (comm, run, checkpoint); in `test-all` everything.
ASAN_TESTS = plan_tests io_tests
TSAN_TESTS = comm_tests run_tests checkpoint_tests
test-asan: setup
	@tools/sanitized_tests.sh asan '$(LIBTORCH)' $(JOBS) $(ASAN_TESTS)
test-tsan: setup
	@tools/sanitized_tests.sh tsan '$(LIBTORCH)' $(JOBS) $(TSAN_TESTS)

test-all: ASAN_TESTS = all
test-all: TSAN_TESTS = all
test-all: test  ## also the slow sweeps, and every test under the sanitizers
	@$(TEST) --test-dir build -L slow

bench: build  ## the benchmarks, and the training step beside torch's where .oracles is there
	@cmake build -DSLUICE_BUILD_BENCH=ON >/dev/null
	@cmake --build build -j $(JOBS) --target benchmarks
	@for program in build/bin/*_bench; do $$program || exit 1; done
	@if [ -x .oracles/bin/python ]; then .oracles/bin/python bench/compare_torch.py --short; \
	 else echo 'bench/compare_torch.py is left out: .oracles, which tools/setup_oracles.sh makes, is missing'; fi

format:  ## clang-format every source
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i

LINT ?= all
lint: setup  ## format, include order and clang-tidy
	@tools/lint.sh '$(LIBTORCH)' $(JOBS) $(LINT)

docs:  ## pages of the public headers, into build-doxygen/html; fails for what is wrong in their comments
	@doxygen docs/Doxyfile

install: build  ## into PREFIX (/usr/local)
	@cmake --install build --prefix $(PREFIX)

clean:  ## remove what was built; .venv stays
	@rm -rf build build-*
