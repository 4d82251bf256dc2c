# SPDX-License-Identifier: Apache-2.0
# The two commands of the README, "make run" and "make check", and a few for developers. The build itself is CMake's.
CC ?= cc
CORES := $(shell nproc)
BUILD := build
CMAKE_OPTIONS ?=
PREFIX ?= /usr/local

.PHONY: all run check check-torch install format lint clean

all:
	@cmake -S . -B $(BUILD)/release -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DMOTET_WERROR=OFF \
	    -DMOTET_TESTS=OFF -DMOTET_BENCH=OFF $(CMAKE_OPTIONS)
	@cmake --build $(BUILD)/release -j $(CORES)

# Everything from nothing: dependencies, a Release build, a timed and verified all-reduce, a training run on two ranks.
run:
	@scripts/dependencies.sh run
	@$(MAKE) --no-print-directory all
	$(BUILD)/release/bin/motet perf all_reduce -b 8 -e 16M -f 4 -g $(CORES)
	$(BUILD)/release/bin/motet run -n 2 $(BUILD)/release/bin/train_ddp

# Builds with warnings as errors and runs every test; the last line is "N passed, N failed".
check:
	@scripts/dependencies.sh check
	@cmake -S . -B $(BUILD)/check -DCMAKE_BUILD_TYPE=RelWithDebInfo $(CMAKE_OPTIONS)
	@cmake --build $(BUILD)/check -j $(CORES)
	@scripts/run_tests.sh $(BUILD)/check

# The Python package and the PyTorch backend, in a virtual environment with a pinned torch; the last line is "N passed, N failed".
check-torch:
	@scripts/check_torch.sh

install: all
	@cmake --install $(BUILD)/release

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

# Style without building: formatting, include direction, headers that compile alone, sizes, paths of a machine.
lint:
	@scripts/check_style.sh

clean:
	@rm -rf $(BUILD)
