# `make run` is all that a new user needs; `make help` lists the rest.
# What each target needs is looked for first, and named with the Debian package that brings it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# Seconds that `make test` spends on each fuzz target; `make fuzz` takes SECONDS_EACH.
FUZZ_SMOKE_S ?= 5
SECONDS_EACH ?= 60
# `make test INSTRUCTIONS=no` leaves the instruction counts out, for machines where valgrind can't be had.
INSTRUCTIONS ?= yes
# `make test BROWSER=no` leaves out the look at the lab's report in a browser, for machines that can't have one.
BROWSER ?= yes
# JMeter reads a JTL of the lab's where there is Maven, which takes it from Maven Central.
JMETER ?= $(if $(shell command -v mvn 2>/dev/null),yes,no)

# $(call need,COMMAND,PACKAGE): stops with the package's name when the command isn't there.
need = command -v $(1) >/dev/null 2>&1 || { echo >&2 "missing: $(1). On Debian: $(2)"; exit 1; }

.PHONY: help run test check bench bench-peers bench-instructions fuzz build-needs test-needs bench-needs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build-needs ## build the release and start everything on loopback, with a sample API
	cargo build --release --package penstock
	exec $(TARGET_DIR)/release/penstock up

check: build-needs ## format, lints, direction rules, licences
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask tidy
	@if command -v cargo-deny >/dev/null 2>&1; then cargo deny --all-features check bans licenses sources; \
	else echo "deny.toml was NOT checked: cargo-deny is missing (cargo install --locked cargo-deny)"; fi

test: test-needs ## everything that must pass
	# The journeys start the built program, so it is built first.
	cargo build --package penstock
	cargo test --workspace
	cargo xtask fuzz --seconds $(FUZZ_SMOKE_S)
ifeq ($(INSTRUCTIONS),yes)
	cargo xtask instructions
else
	@echo "instruction counts were NOT checked: INSTRUCTIONS=$(INSTRUCTIONS)"
endif
ifeq ($(BROWSER),yes)
	cargo test --package penstock-lab --test browser -- --ignored
else
	@echo "report.html was NOT looked at in a browser: BROWSER=$(BROWSER)"
endif
ifeq ($(JMETER),yes)
	cargo test --package penstock-lab --test jmeter -- --ignored
else
	@echo "JMeter did NOT read a JTL: JMETER=$(JMETER) (it takes Maven: apt-get install maven)"
endif

bench: bench-needs ## CPU per request beside nginx, HAProxy and Envoy; ARGS='--quick --cells REGEX'
	cargo build --release --package penstock
	cargo xtask bench $(ARGS)

bench-peers: ## install what `make bench` compares with
	bench/install-peers

bench-instructions: build-needs ## instruction counts of the codec and the stages, against their limits
	@$(call need,valgrind,apt-get install valgrind)
	cargo xtask instructions $(ARGS)

fuzz: build-needs ## every fuzz target for SECONDS_EACH=60 seconds; TARGETS='jwt route' for some
	cargo xtask fuzz --seconds $(SECONDS_EACH) $(TARGETS)

build-needs:
	@$(call need,cargo,see https://rustup.rs (the version is in rust-toolchain.toml))
	@$(call need,cc,apt-get install gcc)
	@$(call need,c++,apt-get install g++)

test-needs: build-needs
	@$(call need,curl,apt-get install curl)
	@$(call need,xmllint,apt-get install libxml2-utils)
	@$(call need,xsltproc,apt-get install xsltproc)
ifeq ($(INSTRUCTIONS),yes)
	@$(call need,valgrind,apt-get install valgrind (or: make test INSTRUCTIONS=no))
endif
ifeq ($(BROWSER),yes)
	@command -v chromium-headless-shell >/dev/null 2>&1 || command -v chromium >/dev/null 2>&1 || \
	command -v google-chrome >/dev/null 2>&1 || { echo >&2 "missing: a browser. On Debian: apt-get install \
	chromium-headless-shell (or: make test BROWSER=no)"; exit 1; }
endif

bench-needs: build-needs
	@$(call need,taskset,apt-get install util-linux)
	@$(call need,openssl,apt-get install openssl)
	@$(call need,nginx,apt-get install nginx (or: make bench-peers))
	@$(call need,haproxy,apt-get install haproxy (or: make bench-peers))
	@$(call need,wrk,apt-get install wrk (or: make bench-peers))
