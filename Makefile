# `make run` is all that a new user needs; `make help` lists the rest.
# Each target checks for the programs it needs and names the Debian package of a missing one.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
VERSION = $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
ARCH = $(patsubst x86_64,amd64,$(patsubst aarch64,arm64,$(shell uname -m)))

# Where `make install` puts its files; DESTDIR goes before them, for packagers.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
# The profile of `make deb` and `make image`.
PROFILE ?= release
# Where the program spends its time, for the optimiser: made by `make profile`, and of use only for the same versions of Penstock
# and the compiler, on the same kind of machine. `make release PROFDATA=` does without.
PROFDATA ?= packaging/penstock-$(VERSION)-rustc-$(shell rustc -V | cut -d' ' -f2)-$(HOST).profdata.xz
# The functions of a start, made with it. The linker puts them together, so that an idle gateway needs fewer pages.
STARTED ?= $(PROFDATA:.profdata.xz=.started.xz)
# Named by their checksums, so that Cargo builds anew when they change.
unpacked = $(if $(filter /%,$(TARGET_DIR)),,$(CURDIR)/)$(TARGET_DIR)/profile/$(firstword $(shell cksum <$(1)))$(suffix $(basename $(1)))
unpack = @mkdir -p "$(TARGET_DIR)/profile" && xz -dc $(1) >"$(call unpacked,$(1))"
# $(call build,PROFILE,FLAG,ARGUMENTS): builds TARGET_DIR/HOST/PROFILE/penstock, a release with PROFDATA. The symbols that it
# names depend on `--target` being given.
profiled = $(and $(filter release,$(1)),$(wildcard $(PROFDATA)))
ordered = $(and $(profiled),$(wildcard $(STARTED)))
unprofiled = $(and $(filter release,$(1)),$(PROFDATA),$(if $(profiled),,yes))
comma := ,
# Quoted, as paths may contain spaces.
quoted = "$(1)"$(comma)
flags = $(foreach flag,$(RUSTFLAGS) $(2),$(call quoted,$(flag)))$(if \
  $(profiled),$(call quoted,-Cprofile-use=$(call unpacked,$(PROFDATA))))$(if \
  $(ordered),$(call quoted,-Clink-arg=-Wl$(comma)--symbol-ordering-file=$(call unpacked,$(STARTED)))$(call quoted,-Clink-arg=-Wl$(comma)--no-warn-symbol-ordering))
define build
	$(if $(profiled),@$(call need,xz,apt-get install xz-utils (or: make release PROFDATA=)))
	$(if $(profiled),$(call unpack,$(PROFDATA)))
	$(if $(ordered),$(call unpack,$(STARTED)))
	$(if $(unprofiled),@echo >&2 "there is no $(PROFDATA): the program will be slower (see make profile)")
	env -u RUSTFLAGS cargo build --profile $(1) --package penstock --target $(HOST) --config 'target.$(HOST).rustflags = [$(flags)]' $(3)
endef
DEB = $(TARGET_DIR)/packages/penstock_$(VERSION)_$(ARCH).deb
IMAGE = $(TARGET_DIR)/packages/penstock-$(VERSION)-$(ARCH).oci.tar

# Inputs per fuzz target in `make test-all`, always the same; seconds per fuzz target in `make fuzz`.
FUZZ_RUNS ?= 5000
SECONDS_EACH ?= 60
# Most tests wait for sockets or programs, so more of them run at a time than there are processors.
export RUST_TEST_THREADS := $(or $(RUST_TEST_THREADS),$(shell echo $$((2 * $$(nproc)))))

# The suites of `make test-all`, and those that it leaves out if their programs are missing (OPTIONAL_SUITES) or if WITHOUT names
# them; WITHOUT=instructions leaves out the instruction counts, in `make test` too. .ci/suites has the paths that each suite tests,
# .ci/needs its programs. CI names in UNCHANGED the suites that it does not run.
TEST_SUITES ?= browser builds fuzz jmeter ldap mariadb oauth-clients packages postgresql redis valkey
OPTIONAL_SUITES = jmeter oauth-clients valkey
WITHOUT ?=
UNCHANGED ?=
suite-browser = cargo test --workspace --test lab_tests -- --ignored browser
suite-builds = cargo test --package penstock $(run-features)
suite-fuzz = cargo xtask fuzz --runs $(FUZZ_RUNS)
suite-jmeter = cargo test --workspace --test lab_tests -- --ignored jmeter
suite-ldap = cargo test --workspace --test identity -- --ignored ldap
suite-mariadb = cargo test --workspace --test identity -- --ignored mariadb
suite-oauth-clients = cargo test --workspace --test identity -- --ignored oauth_clients
suite-packages = make --no-print-directory packages-check
suite-postgresql = cargo test --workspace --test identity -- --ignored postgresql
suite-redis = cargo test --workspace --test journeys -- --ignored redis
suite-valkey = PENSTOCK_TEST_REDIS=valkey-server cargo test --workspace --test journeys -- --ignored redis
# $(call suite,NAME): its name and command, for .ci/steps.
suite = "$(1)" "$(if $(filter $(1),$(WITHOUT)),skip: left out,$(if $(and $(filter $(1),$(OPTIONAL_SUITES)),$(shell \
  .ci/needs $(1))),skip: programs are missing: $(shell .ci/needs $(1) | cut -d' ' -f2),$(suite-$(1))))"
needed-suites = $(filter-out $(WITHOUT) $(OPTIONAL_SUITES),$(TEST_SUITES))

# $(call need,COMMAND,PACKAGE): fails with the package's name if the command is missing.
need = command -v $(1) >/dev/null 2>&1 || { echo >&2 "missing: $(1). On Debian: $(2)"; exit 1; }
# $(call need-parts,PART...): fails with the packages' names if programs that .ci/needs lists are missing.
need-parts = @.ci/needs $(1) | while read -r part program package; do \
  or=; [ $$part = test ] || or=" (or: make $@ WITHOUT='$$part ...')"; \
  echo >&2 "missing for $$part: $$program. On Debian: apt-get install $$package$$or"; done

# What `make run` includes.
run-features = --no-default-features --features control,mimalloc

.PHONY: help run release install deb image test test-all test-quick figures check packages-check fuzz bench bench-peers bench-generator bench-engines \
	compare profile bench-instructions build-needs

help: ## this list
	@awk '/^##@ /{printf "\n%s\n", substr($$0, 5)} \
	/^[a-z-]+:.*## /{split($$0, part, ":.*## "); printf "  make %-20s %s\n", part[1], part[2]}' $(MAKEFILE_LIST)

##@ Use

run: build-needs ## build quickly and start everything on this machine, with a sample API and a Synapse sample
	cargo build --profile quick --package penstock $(run-features)
	exec $(TARGET_DIR)/quick/penstock up $(ARGS)

release: build-needs ## build the release: target/release/penstock
	$(call build,release)
	@install -D $(TARGET_DIR)/$(HOST)/release/penstock $(TARGET_DIR)/release/penstock
	@ls -l $(TARGET_DIR)/release/penstock

install: release ## install the release, a systemd unit and a configuration; PREFIX=/usr/local DESTDIR=
	install -D -m 755 $(TARGET_DIR)/release/penstock $(DESTDIR)$(PREFIX)/bin/penstock
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/penstock/LICENSE
	install -d -m 755 $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(SYSCONFDIR)/penstock/apis
	sed -e 's,@BINDIR@,$(PREFIX)/bin,' -e 's,/etc/penstock,$(SYSCONFDIR)/penstock,' packaging/penstock.service \
	> $(DESTDIR)$(PREFIX)/lib/systemd/system/penstock.service
	[ -e $(DESTDIR)$(SYSCONFDIR)/penstock/penstock.toml ] || \
	install -m 644 packaging/penstock.toml $(DESTDIR)$(SYSCONFDIR)/penstock/penstock.toml

deb: build-needs ## build a Debian package
	$(call build,$(PROFILE))
	packaging/deb $(TARGET_DIR)/$(HOST)/$(PROFILE)/penstock $(VERSION) $(DEB)

image: build-needs ## build a container image as an OCI archive, from a static binary
	$(call build,$(PROFILE),-Ctarget-feature=+crt-static,$(FEATURES))
	packaging/image $(TARGET_DIR)/$(HOST)/$(PROFILE)/penstock $(VERSION) $(IMAGE)

##@ Develop

test: ## all that must pass for a change to be sound
	$(call need-parts,test $(filter-out $(WITHOUT),instructions))
	@CI_FIGURES_OUT=$(FIGURES) .ci/steps $(test-steps)

test-all: ## `make test` and every suite: fuzz targets, packages, a browser, database servers; TEST_SUITES='fuzz ldap' WITHOUT=browser
	$(call need-parts,test $(filter-out $(WITHOUT),instructions) $(needed-suites))
	@CI_FIGURES_OUT=$(FIGURES) .ci/steps $(test-steps) -- $(foreach name,$(TEST_SUITES),$(call suite,$(name))) \
	  $(foreach name,$(UNCHANGED),"$(name)" "skip: nothing that it tests has changed")

test-quick: build-needs ## formatting and all tests
	@.ci/steps "formatting" "cargo fmt --all -- --check" $(build-and-test-steps)

# CI commits nothing, so this is the way into the repository for its figures.
figures: ## keep the figures of the last `make test` or `make test-all` in .ci/figures: seconds, date and commit of each step
	cp $(FIGURES) .ci/figures

check: build-needs ## formatting, lints, direction rules, licences
	@.ci/steps $(check-steps)

fuzz: build-needs ## fuzz and simulate with fresh seeds, SECONDS_EACH=60 per target; TARGETS='jwt route'
	cargo xtask fuzz --seconds $(SECONDS_EACH) $(TARGETS)

# Both packages get the same static binary, built as `make run` builds it.
packages-check: ## build the Debian package and the image from a quick build, and check them
	@$(call need,readelf,apt-get install binutils)
	make --no-print-directory image PROFILE=quick FEATURES="$(run-features)"
	packaging/deb $(TARGET_DIR)/$(HOST)/quick/penstock $(VERSION) $(DEB)
	packaging/check $(DEB) $(IMAGE)

check-steps = "formatting" "cargo fmt --all -- --check" \
  "lints" "cargo clippy --workspace --all-targets -- -D warnings" \
  "direction rules" "cargo xtask tidy" \
  "licences" "$(if $(shell command -v cargo-deny 2>/dev/null),cargo deny --all-features check bans licenses sources,skip: cargo-deny is missing (cargo install --locked cargo-deny))"

# Journeys start the built program, so it is built first. `--workspace --tests` gives its dependencies the features that
# they have in the tests; with `--package penstock` alone, most of this workspace is compiled twice. `cargo test` includes the
# documentation tests of the few crates that have some.
build-and-test-steps = "build" "cargo build --workspace --bin penstock --tests" \
  "tests" "cargo test --workspace"

test-steps = $(check-steps) $(build-and-test-steps) \
  "instruction counts" "$(if $(filter instructions,$(WITHOUT)),skip: left out,cargo xtask instructions)"

FIGURES = $(TARGET_DIR)/ci/figures

##@ Measure

# Suites of `make bench` (suites/bench-*.toml, or suites/*.toml), the folder of their results, and the document with their tables.
SUITES ?= cpu http2 mediation latency workers overload start change applications cost
BENCH_OUT := $(or $(BENCH_OUT),$(TARGET_DIR)/bench/$(shell date +%Y-%m-%d-%H%M%S))
DOCUMENT ?= docs/performance.md
# The CPU time of a row is relative to that of the first of these targets that has one in the same cell.
RELATIVE_TO ?= nginx

# Results of a suite with failed cases are reported as well; the exit status shows it at the end. After Ctrl-C, the completed
# cases are reported, and the document keeps its table of all cases.
bench: release ## measure and write the tables of docs/performance.md; SUITES='cpu latency' ARGS='--only REGEX'
	export PATH="$(CURDIR)/bench/peers/bin:$$PATH:/usr/sbin:/usr/local/sbin"; \
	stopped=; trap 'stopped=yes' INT; failed=0; \
	for suite in $(SUITES); do \
	  file=suites/bench-$$suite.toml; [ -e $$file ] || file=suites/$$suite.toml; out=$(BENCH_OUT)/$$suite; \
	  $(TARGET_DIR)/release/penstock lab run $$file --out $$out $(ARGS) || failed=1; \
	  $(TARGET_DIR)/release/penstock lab report $$out || failed=1; \
	  $(TARGET_DIR)/release/penstock lab table $$out $(addprefix --relative-to ,$(RELATIVE_TO)) \
	    --relative-to-scenario forward $${stopped:---into $(DOCUMENT)} || failed=1; \
	  [ -z "$$stopped" ] || exit 130; \
	done; exit $$failed

compare: ## measure all proxies in the published scenarios and write docs/peers.md; ARGS='--only REGEX'
	$(MAKE) --no-print-directory bench SUITES=peers DOCUMENT=docs/peers.md \
	  RELATIVE_TO="penstock penstock-integration"

bench-peers: ## install the proxies that `make bench` compares with
	bench/install-peers

bench-generator: release ## the lab's generator against wrk and h2load, into docs/performance.md
	PENSTOCK=$(TARGET_DIR)/release/penstock DOCUMENT=$(DOCUMENT) bench/generator

bench-engines: build-needs ## the engines against libxml2 and libxslt, into docs/xml.md and docs/expressions.md; ARGS='--rounds N'
	cargo xtask engines --cells read,transform,heap,select --into docs/xml.md $(ARGS)
	cargo xtask engines --cells alone --into docs/expressions.md $(ARGS)

profile: build-needs ## measure anew where a release spends its time, by which `make release` is optimised: 20 to 30 minutes
	@$(call need,xz,apt-get install xz-utils)
	@$(call need,valgrind,apt-get install valgrind)
	packaging/profile $(TARGET_DIR)/profile $(HOST) $(PROFDATA) $(STARTED)

bench-instructions: build-needs ## instruction counts of the codec and the stages, against their limits
	@$(call need,valgrind,apt-get install valgrind)
	cargo xtask instructions $(ARGS)

build-needs:
	@$(call need,cargo,see https://rustup.rs (the version is in rust-toolchain.toml))
	@$(call need,cc,apt-get install gcc)
