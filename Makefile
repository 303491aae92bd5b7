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

# Inputs per fuzz target in `make test`, always the same; seconds per fuzz target in `make fuzz`.
FUZZ_RUNS ?= 5000
SECONDS_EACH ?= 60
# Parts of `make test` that can be left out, for machines without valgrind, a browser, PostgreSQL, MariaDB, Redis or Maven.
INSTRUCTIONS ?= yes
BROWSER ?= yes
POSTGRES ?= yes
MARIADB ?= yes
REDIS ?= yes
LDAP ?= yes
# Most tests wait for sockets or programs, so more of them run at a time than there are processors.
export RUST_TEST_THREADS := $(or $(RUST_TEST_THREADS),$(shell echo $$((2 * $$(nproc)))))
# With npm, Python 3, Go 1.24 and their registries: OAUTH_CLIENTS=yes. .ci/run says so if it finds them.
OAUTH_CLIENTS ?= no
VALKEY ?= $(if $(shell command -v valkey-server 2>/dev/null),yes,no)
PACKAGES ?= yes
JMETER ?= $(if $(shell command -v mvn 2>/dev/null),yes,no)

# $(call need,COMMAND,PACKAGE): fails with the package's name if the command is missing.
need = command -v $(1) >/dev/null 2>&1 || { echo >&2 "missing: $(1). On Debian: $(2)"; exit 1; }
# $(call unless-no,VARIABLE,COMMAND): COMMAND, or with VARIABLE=no a step that .ci/steps reports as not run.
unless-no = $(if $(filter no,$($(1))),skip: $(1)=no,$(2))

.PHONY: help run release install deb image test test-quick check packages-check fuzz bench bench-peers bench-generator bench-engines \
	compare profile bench-instructions build-needs test-needs

help: ## this list
	@awk '/^##@ /{printf "\n%s\n", substr($$0, 5)} \
	/^[a-z-]+:.*## /{split($$0, part, ":.*## "); printf "  make %-20s %s\n", part[1], part[2]}' $(MAKEFILE_LIST)

##@ Use

run: build-needs ## build quickly and start everything on this machine, with a sample API and a Synapse sample
	cargo build --profile quick --package penstock --no-default-features --features control,mimalloc
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

test: test-needs ## all checks and tests, with fixed random seeds; CI runs this
	@.ci/steps $(check-steps) \
	  "the build of make run" "$(if $(filter no,$(PACKAGES)),$(check-run),skip: the step packages builds it)" \
	  $(build-and-test-steps) \
	  "documentation tests" "cargo test --workspace --doc" \
	  "report in a browser" "$(call unless-no,BROWSER,cargo test --workspace --test browser -- --ignored)" \
	  "+PostgreSQL" "$(call unless-no,POSTGRES,cargo test --workspace --test identity -- --ignored postgresql)" \
	  "+Redis" "$(call unless-no,REDIS,cargo test --workspace --test journeys -- --ignored redis)" \
	  "+Valkey" "$(call unless-no,VALKEY,PENSTOCK_TEST_REDIS=valkey-server cargo test --workspace --test journeys -- --ignored redis)" \
	  "+OAuth clients" "$(call unless-no,OAUTH_CLIENTS,cargo test --workspace --test identity -- --ignored oauth_clients)" \
	  "MariaDB" "$(call unless-no,MARIADB,cargo test --workspace --test identity -- --ignored mariadb)" \
	  "+LDAP" "$(call unless-no,LDAP,cargo test --workspace --test identity -- --ignored ldap)" \
	  "+results in JMeter" "$(call unless-no,JMETER,cargo test --workspace --test jmeter -- --ignored)" \
	  "fuzz targets" "cargo xtask fuzz --runs $(FUZZ_RUNS)" \
	  "+instruction counts" "$(call unless-no,INSTRUCTIONS,cargo xtask instructions)" \
	  "+packages" "$(call unless-no,PACKAGES,make --no-print-directory packages-check)"

test-quick: build-needs ## formatting and all tests except those in documentation
	@.ci/steps "formatting" "cargo fmt --all -- --check" $(build-and-test-steps)

check: build-needs ## formatting, lints, direction rules, licences
	@.ci/steps $(check-steps) "the build of make run" "$(check-run)"

fuzz: build-needs ## fuzz and simulate with fresh seeds, SECONDS_EACH=60 per target; TARGETS='jwt route'
	cargo xtask fuzz --seconds $(SECONDS_EACH) $(TARGETS)

# Both packages get the same static binary, built as `make run` builds it.
packages-check: ## build the Debian package and the image from a quick build, and check them
	@$(call need,readelf,apt-get install binutils)
	make --no-print-directory image PROFILE=quick FEATURES="--no-default-features --features control,mimalloc"
	packaging/deb $(TARGET_DIR)/$(HOST)/quick/penstock $(VERSION) $(DEB)
	packaging/check $(DEB) $(IMAGE)

check-steps = "formatting" "cargo fmt --all -- --check" \
  "lints" "cargo clippy --workspace --all-targets -- -D warnings" \
  "direction rules" "cargo xtask tidy" \
  "licences" "$(if $(shell command -v cargo-deny 2>/dev/null),cargo deny --all-features check bans licenses sources,skip: cargo-deny is missing (cargo install --locked cargo-deny))"

check-run = cargo check --package penstock --no-default-features --features control,mimalloc

# Journeys start the built program, so it is built first. `--workspace --tests` gives its dependencies the features that
# they have in the tests; with `--package penstock` alone, most of this workspace is compiled twice.
build-and-test-steps = "build" "cargo build --workspace --bin penstock --tests" \
  "tests" "cargo test --workspace --lib --bins --tests --examples"

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

test-needs: build-needs
	@$(call need,c++,apt-get install g++)
	@$(call need,curl,apt-get install curl)
	@$(call need,xmllint,apt-get install libxml2-utils)
	@$(call need,xsltproc,apt-get install xsltproc)
	@$(call need,sqlite3,apt-get install sqlite3)
	@$(call need,strace,apt-get install strace)
ifneq ($(POSTGRES),no)
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { echo >&2 "missing: PostgreSQL. On Debian: \
	apt-get install postgresql (or: make test POSTGRES=no)"; exit 1; }
endif
ifneq ($(MARIADB),no)
	@$(call need,mariadb-install-db,apt-get install mariadb-server-core mariadb-client-core (or: make test MARIADB=no))
endif
ifneq ($(REDIS),no)
	@$(call need,redis-server,apt-get install redis-server (or: make test REDIS=no))
endif
ifneq ($(LDAP),no)
	@$(call need,ldapmodify,apt-get install ldap-utils (or: make test LDAP=no))
	@[ -x /usr/sbin/slapd ] || { echo >&2 "missing: slapd. On Debian: apt-get install slapd (or: make test LDAP=no)"; \
	exit 1; }
endif
ifneq ($(INSTRUCTIONS),no)
	@$(call need,valgrind,apt-get install valgrind (or: make test INSTRUCTIONS=no))
endif
ifneq ($(BROWSER),no)
	@command -v chromium-headless-shell >/dev/null 2>&1 || command -v chromium >/dev/null 2>&1 || \
	command -v google-chrome >/dev/null 2>&1 || { echo >&2 "missing: a browser. On Debian: apt-get install \
	chromium-headless-shell (or: make test BROWSER=no)"; exit 1; }
endif
