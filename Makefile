# The words people type. `make demo` and `make test` each do everything on a fresh machine.
.DEFAULT_GOAL := build
JOBS ?= $(shell nproc)
# Tests of clusters wait most of their time.
TEST_JOBS ?= $(shell echo $$((2 * $(JOBS))))
# What one clone has compiled, another one finds: paths below the clone are relative for ccache.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
.PHONY: help setup build images demo test unit sanitize bench soak cluster cluster-down cluster-setup lint format clean

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## */\t/' | expand -t 14

setup:           ## install what is missing (Debian packages; sudo when not root)
	@tools/setup

build: setup     ## programs in build/bin, libraries in build/lib, CUDA examples in build/examples
	@cmake --preset release >/dev/null || cmake --preset release
	@cmake --build build -j $(JOBS) --target all $(BUILD_ALSO)

images: build    ## container images of operator, hypervisor, worker and client in build/images, without a registry
	@tools/setup --images
	@tools/images

demo: build      ## the main job, shown end to end: licence, worker, CUDA programs on a simulated GPU, limits, rollouts of a pool
	@tools/demo

test: BUILD_ALSO := kubernetes_tools
test: cluster-setup build ## unit tests, examples end to end, fuzz corpora, real programs, sanitizer builds of the unit tests
	@ctest --test-dir build --output-on-failure -j $(TEST_JOBS)
	@$(MAKE) --no-print-directory sanitize

# Tests with a true Kubernetes node are there for root, on whose machine their packages may be installed.
cluster-setup:
	@[ "$$(id -u)" -ne 0 ] || { tools/setup --cluster && tools/setup --images; }

unit: build      ## only the unit tests
	@ctest --test-dir build --output-on-failure -j $(JOBS) -L unit

# TSan's guess at the thread-local variables of libraries that are opened at run time ends programs at random; it is off.
sanitize: setup  ## unit tests under ASan+UBSan and under TSan
	@for preset in asan tsan; do \
	  { cmake --preset $$preset >/dev/null || cmake --preset $$preset; } && \
	  cmake --build build-$$preset -j $(JOBS) --target unit_tests && \
	  TSAN_OPTIONS="intercept_tls_get_addr=0 $$TSAN_OPTIONS" ctest --test-dir build-$$preset --output-on-failure -j $(JOBS) -L unit || exit 1; done

bench: build     ## one table of figures, both sides of each ratio in one run
	@tools/bench
	@bench/kube/compare

soak: build      ## 200 concurrent clients on one worker for 5 minutes, under TSan and under ASan
	@tools/soak

cluster:         ## a Kubernetes cluster with one true node (root); tools/cluster has simulated nodes and more
	@tools/cluster up

cluster-down:    ## end it
	@tools/cluster down

lint: build      ## clang-format and clang-tidy, as errors
	@tools/lint

format:          ## clang-format everything in place
	@git ls-files '*.h' '*.cc' '*.cu' | xargs clang-format-19 -i

clean:           ## remove all build folders
	rm -rf build build-asan build-tsan build-clang build-fuzz
