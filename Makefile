# The short way to everything. `make help` lists what there is.

JOBS ?= $(shell nproc 2> /dev/null || echo 2)
PREFIX ?= /usr/local
DESTDIR ?=
PYTHON ?= python3
# Seconds for each fuzz target: in `make test-all`, and in `make fuzz`.
FUZZ_TEST_SECONDS ?= 5
FUZZ_SECONDS ?= 600
# Modules for each tier in `make fuzz-diff`; a night's length is 10000000.
DIFF_MODULES ?= 1000000

BUILD := cmake --build --parallel $(JOBS) --preset
CONFIGURE := tools/configure

.DEFAULT_GOAL := help
.PHONY: help setup build languages python node images demo demo-local-model test test-all test-quick test-packages-sanitized test-aarch64 test-modules test-languages \
        test-corpus fuzz \
        fuzz-diff bench bench-micro bench-engine bench-host bench-languages bench-linux bench-peers bench-process bench-service soak-service bench-programs format \
        format-check tidy coverage docs \
        install dist clean

help:  ## This list
	@awk 'BEGIN { FS = ":.*##" } /^[a-z0-9-]+:.*##/ { printf "  make %-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## Install with apt what building and testing need, if it is missing
	@tools/install-dependencies build test_all

build:  ## Build the command and the service: build/release/membrane, membrane-service
	@tools/install-dependencies build
	@$(CONFIGURE) release
	@$(BUILD) release --target membrane --target membrane-service
	@echo "Built build/release/membrane and membrane-service. Next: make languages (Python and JavaScript), or build/release/membrane --help"

languages: build  ## Install Python and JavaScript for programs (pip's and npm's registries), into your data directory
	@build/release/membrane languages add python
	@build/release/membrane languages add js

images: build  ## Make the image `debian` for Linux programs, of Debian's packages (apt's sources of this machine; no root)
	@rm -rf build/debian-image
	@mkdir build/debian-image
	@$(PYTHON) tools/make-image build/debian-image/unpacked.tar
	@MEMBRANE_IMAGES=$(CURDIR)/build/debian-image build/release/membrane image import build/debian-image/unpacked.tar --tag unpacked
	@rm build/debian-image/unpacked.tar
	@echo 'Configuring the packages in a sandbox, which takes some minutes'
	@MEMBRANE_IMAGES=$(CURDIR)/build/debian-image build/release/membrane image build -q --wall 2h -t debian tools/debian-image
	@build/release/membrane image import build/debian-image/debian.image --tag debian
	@rm -r build/debian-image

demo: build  ## An agent task to its answer: no key, no internet
	@tools/demo

demo-local-model: build  ## The same with a small model that runs on this machine
	@tools/install-dependencies local_model
	@tools/demo-local-model

test:  ## The release build's tests, the official suites, the checks of the sources
	@tools/install-dependencies test
	@$(PYTHON) tools/test --jobs $(JOBS) test

test-all:  ## What `make test` leaves out: sanitizers, threads, fuzzers; each is a build of its own
	@tools/install-dependencies test_all
	@$(PYTHON) tools/test --jobs $(JOBS) --fuzz-seconds $(FUZZ_TEST_SECONDS) test-all

test-quick:  ## The release build's tests only
	@tools/install-dependencies build
	@$(PYTHON) tools/test --jobs $(JOBS) release

test-packages-sanitized:  ## The Python and Node packages' tests under the sanitizers (not part of test-all)
	@tools/install-dependencies test_all
	@$(CONFIGURE) asan-ubsan
	@$(BUILD) asan-ubsan --target libmembrane
	@$(PYTHON) tools/get-languages
	@tools/test-packages-sanitized

test-modules:  ## WASI programs of others, fetched from their registries, held to what Wasmtime makes of them
	@tools/install-dependencies build programs
	@$(PYTHON) tools/test --jobs $(JOBS) modules

test-aarch64:  ## Cross-built for AArch64, under qemu-aarch64; runs frozen here thaw there, and back
	@tools/install-dependencies build aarch64
	@tools/make-aarch64-sysroot
	@$(PYTHON) tools/test --jobs $(JOBS) aarch64 aarch64-spectest aarch64-differential aarch64-frozen

test-languages:  ## CPython's own tests inside the wall; test262, too, where TEST262 names its directory
	@tools/install-dependencies build
	@$(PYTHON) tools/get-languages
	@$(PYTHON) tools/run-python-tests --jobs $(JOBS)
	@if [ -n "$(TEST262)" ]; then $(PYTHON) tools/run-test262 --jobs $(JOBS) $(TEST262); fi

test-corpus:  ## The programs of corpus/, as models write them, at the default limits
	@tools/install-dependencies build
	@$(PYTHON) tools/get-languages
	@$(PYTHON) tools/run-corpus --jobs $(JOBS)

fuzz:  ## Each fuzz target for FUZZ_SECONDS (600); finds are kept in fuzz/corpus
	@tools/install-dependencies test_all
	@$(PYTHON) tools/fuzz --jobs $(JOBS) --seconds $(FUZZ_SECONDS) --keep

fuzz-diff:  ## DIFF_MODULES (1000000) generated modules in each tier against the reference interpreter, and against V8
	@tools/install-dependencies build
	@$(CONFIGURE) release
	@$(BUILD) release --target differential
	@for tier in interpreter compiler auto; do \
	  build/release/differential --count $(DIFF_MODULES) --tier $$tier || exit 1; done
	@if command -v node > /dev/null; then \
	  build/release/differential --for-others --count $(DIFF_MODULES) --tier auto | tools/compare-with-v8; \
	else echo "fuzz-diff: there is no node here, so V8 is not compared with"; fi

bench: bench-micro bench-engine bench-process  ## Every benchmark, with its table

bench-micro:  ## Google Benchmark of each floor
	@tools/install-dependencies bench
	@$(PYTHON) tools/bench --jobs $(JOBS) micro

bench-engine:  ## The interpreter against native code, five programs
	@tools/install-dependencies bench
	@$(PYTHON) tools/bench --jobs $(JOBS) engine

bench-host:  ## The host's time for each unit of fuel, of every host function at its worst input
	@$(CONFIGURE) release
	@$(BUILD) release --target host_costs
	@build/release/host_costs --check

bench-peers:  ## The engine beside other ones, which pip and npm bring (not part of bench)
	@tools/install-dependencies bench
	@$(PYTHON) tools/bench --jobs $(JOBS) peers

bench-languages:  ## Python and JavaScript beside others, which pip and npm bring (not part of bench)
	@tools/install-dependencies bench
	@$(PYTHON) tools/get-languages
	@$(PYTHON) tools/bench-languages --jobs $(JOBS)

bench-programs:  ## Lua, SQLite, zstd and others as WASI programs: each tier beside other engines (not part of bench)
	@tools/install-dependencies bench programs
	@$(PYTHON) tools/bench-programs --jobs $(JOBS)

bench-linux:  ## Linux programs in a sandbox beside a chroot, bubblewrap, runc and runsc (not part of bench; wants root and make images)
	@$(CONFIGURE) release
	@$(BUILD) release --target membrane membrane-service
	@$(PYTHON) tools/bench-linux

bench-service:  ## The service: create, exec, fork, idle sandboxes, many clients; beside bubblewrap and others (not part of bench)
	@tools/install-dependencies bench
	@$(PYTHON) tools/get-languages
	@$(PYTHON) tools/bench-service --jobs $(JOBS)

soak-service: build  ## The service for half an hour while workers and itself are killed, every answer checked
	@$(PYTHON) tools/soak-service

bench-process:  ## Whole processes: start, run, exit; time and peak memory
	@tools/install-dependencies bench
	@$(PYTHON) tools/bench --jobs $(JOBS) process

format:  ## Format every source file
	@tools/install-dependencies test
	@tools/format

format-check:  ## Say which source files are not formatted
	@tools/install-dependencies test
	@tools/format --check

tidy:  ## clang-tidy on every source file of ours (cached)
	@tools/install-dependencies tidy
	@$(CONFIGURE) debug
	@$(PYTHON) tools/tidy --jobs $(JOBS)

coverage:  ## Line and branch coverage: build/coverage/report/index.html
	@tools/install-dependencies coverage
	@$(CONFIGURE) coverage
	@$(BUILD) coverage
	@ctest --preset coverage --parallel $(JOBS)
	@mkdir -p build/coverage/report
	@gcovr --root . --object-directory build/coverage --exclude '.*_(test|testing|fuzz|bench)\.cc' \
	  --exclude 'build/.*' --html-details build/coverage/report/index.html --print-summary

docs: build  ## Write docs/capabilities.md again, from the registry of capabilities
	@tools/generate-docs

python: build  ## Build the Python package as a wheel for this machine: build/python
	@$(BUILD) release --target libmembrane --target membrane-worker
	@$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir build/python ./python -C cmake.define.membrane_DIR=$(CURDIR)/build/release
	@ls build/python/*.whl

node: build  ## Build the Node package with its addon: node/dist
	@$(BUILD) release --target libmembrane --target membrane-worker
	@cd node && npm install --ignore-scripts --no-package-lock --no-audit --no-fund --silent && npm run --silent build

install: build  ## Install under PREFIX (/usr/local)
	@$(BUILD) release --target libmembrane --target libmembrane_shared --target membrane-service --target membrane-worker --target words
	@DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(PREFIX)'

dist: build  ## A release archive: build/dist/membrane-VERSION-linux-MACHINE.tar.gz
	@$(BUILD) release --target libmembrane --target libmembrane_shared --target membrane-service --target membrane-worker --target words
	@tools/make-dist

clean:  ## Remove build/
	@rm -rf build
