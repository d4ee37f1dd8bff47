# Two commands matter: `make demo` and `make test`. Each installs what is missing.

SHELL := /bin/bash
CARGO ?= cargo
PYTHON ?= python3
PREFIX ?= /usr/local
# A toolchain that scripts/deps.sh has just installed is found without a new shell.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.PHONY: build install man notices wheel deb demo test bench quick deps lint fmt deny loom miri fuzz soak help clean

build: deps                     ## Build libsluice-fi.so, libportals.so and the sluice command
	@CARGO="$(CARGO)" $(PYTHON) scripts/release.py

install: man notices            ## Install into PREFIX (default /usr/local), below DESTDIR
	@scripts/install.sh "$(DESTDIR)" "$(PREFIX)"

man: build                      ## Write the manual pages (commands, Portals functions) to target/man
	@$(PYTHON) crates/libportals/scripts/man.py
	@target/release/sluice man target/man/man1

notices: deps                   ## Write the licences of what is linked in to target/third-party.txt
	@$(PYTHON) packaging/notices.py

wheel: man notices              ## Pack for pip: target/wheel/sluice_mpi-*.whl
	@$(PYTHON) packaging/wheel.py

deb: man notices                ## Pack for Debian: target/deb/*.deb
	@scripts/deps.sh debhelper dpkg-dev
	@packaging/deb.sh

demo: build                     ## Run NetPIPE over Sluice, verified, beside the best shared memory there is
	@$(PYTHON) scripts/demo.py

test: deps                      ## Everything that CI runs
	@$(PYTHON) scripts/test.py

quick: deps                     ## The tests without MPI programs
	@$(PYTHON) scripts/test.py --quick

bench: build                    ## Compare with other MPIs and UCX, on this host and between two of a lab
	@$(PYTHON) scripts/bench.py
	@$(PYTHON) scripts/bench_mpis.py
	@$(PYTHON) scripts/bench_init.py
	@$(PYTHON) scripts/bench_onesided.py
	@$(PYTHON) scripts/bench_hosts.py
	@$(PYTHON) tests/run_overlap.py

deps:                           ## Install missing Debian packages and check the Rust toolchain
	@scripts/deps.sh

lint:                           ## Formatting and clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt:                            ## Format the code
	$(CARGO) fmt --all

deny:                           ## Check licences, versions and sources of the dependencies
	@scripts/deny.sh

miri:                           ## Run the tests of unsafe code under Miri (installs a nightly toolchain)
	@scripts/miri.sh

loom:                           ## Model-check the mailbox's ring, bell, chunk claims and published regions
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test -p sluice-rail --release --lib

MINUTES ?= 12

fuzz:                           ## Fuzz all targets for MINUTES=12 in all (needs cargo-fuzz and nightly)
	@$(PYTHON) scripts/fuzz.py --minutes $(MINUTES)

soak: build                     ## Programs, kills, stops, cut rails and limits for MINUTES=60; watches memory
	@$(PYTHON) tests/run_soak.py --minutes $(if $(filter command line environment,$(origin MINUTES)),$(MINUTES),60)

help:                           ## This list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 10

clean:                          ## Remove what was built
	$(CARGO) clean
