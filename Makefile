# Every command for developers. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help demo check test test-slow test-all stalls recovery test-mssql test-rolling screenshots fuzz-api cronsim client-python client-typescript audit sbom bench bench-peers fmt up down clean-run kit install

TARGET := $(or $(CARGO_TARGET_DIR),target)
KIT := $(TARGET)/debug/lineclear-testkit
# One set of packages and features for all commands, so that nothing is compiled twice.
ALL := --workspace --all-features

help: ## lists these commands
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

check: ## format, lints, documentation, and properties of files (dead links, SQL twins)
	cargo fmt --all --check
	cargo clippy $(ALL) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc $(ALL) --no-deps --lib
	cargo test $(ALL) --quiet --test tidy -- --show-output

demo: ## a small cluster that fails and recovers while you watch
	cargo run -- demo $(ARGS)

test: install kit ## tests, with private servers; installs missing programs
	$(KIT) test

test-slow: install kit ## the few tests that take a minute each, on purpose
	$(KIT) test --slow

test-all: install kit ## both, beside each other
	$(KIT) test --all

# Ten minutes for each test, or SECONDS_MAX; `LINECLEAR_TEST_SEED=… make stalls` repeats a run, `LINECLEAR_TEST_LEASE_MS` sets the lease.
stalls: install kit ## databases that stall and locks that are held while nodes work, ten minutes each (SECONDS_MAX); prints figures
	LINECLEAR_TEST_STALL_SECONDS=$(or $(SECONDS_MAX),600) $(KIT) run -- cargo test $(ALL) --test node -- stalls:: --nocapture --test-threads 1

recovery: install kit ## how long nothing completes after a node or its connections die, five times each (ROUNDS); prints medians
	LINECLEAR_TEST_RECOVERY_ROUNDS=$(or $(ROUNDS),5) $(KIT) run -- cargo test $(ALL) --test node -- slow::recovery --nocapture

# A separate workspace: the simulated server needs OpenSSL to be built, and nothing else here does.
test-mssql: ## tests of locks of SQL Server, against a simulated server; installs missing programs
	@scripts/install openssl
	cd crates/lineclear-lock/mssql && cargo fmt --check
	cd crates/lineclear-lock/mssql && CARGO_TARGET_DIR=$(abspath $(TARGET))/mssql cargo clippy --quiet --all-targets -- -D warnings
	cd crates/lineclear-lock/mssql && CARGO_TARGET_DIR=$(abspath $(TARGET))/mssql cargo test --quiet $(if $(LINECLEAR_TEST_MSSQL_URL),--features real-server)

# Not part of CI: it builds another commit. Its worktree is in the target folder, and shares the compiled dependencies.
BASE ?= HEAD~1
test-rolling: install kit ## two builds, of commit BASE (HEAD~1) and of this tree, on one database under load, forward and back
	scripts/build-base $(BASE) $(abspath $(TARGET))
	LINECLEAR_TEST_BASE=$(abspath $(TARGET))/rolling/lineclear $(KIT) run -- cargo test $(ALL) --test it two_releases -- --nocapture

# The tests that visit every page and take a picture of each.
KEPT := overview-light overview-dark job-light dead-letters-light cluster-light
screenshots: install ## pictures of every page of the demo, light and dark, wide and narrow; the best go into docs/images
	@mkdir -p $(TARGET)/screenshots docs/images
	LINECLEAR_TEST_SCREENSHOTS=$(abspath $(TARGET))/screenshots cargo test -p lineclear-cli --all-features --quiet --test browser pages::no_
	@for name in $(KEPT); do cp "$(TARGET)/screenshots/$$name-1280.png" "docs/images/$$name.png"; done
	@echo "all of them are in $(TARGET)/screenshots"

# Not part of the tests: it takes ten minutes, and needs PyPI.
fuzz-api: ## requests that schemathesis generates from the OpenAPI document, sent to a server for up to ten minutes
	@scripts/install python
	cargo build --quiet
	scripts/fuzz-api $(TARGET)/debug/lineclear $(TARGET)/schemathesis $(SECONDS_MAX)

# Not part of the tests: it needs PyPI. The tests compare with the kept file.
cronsim: ## checks that the kept moments of fifty crontab lines are what cronsim computes
	@scripts/install python
	scripts/cronsim-oracle $(TARGET)/cronsim crates/lineclear-cli/tests/it/cron/fifty.crontab Australia/Sydney crates/lineclear-cli/tests/it/cron/fifty.json

# Not part of the tests: it needs PyPI. `make test` runs the tests of the client without it.
client-python: ## checks the types of the Python client, builds its wheel, and runs its tests against the wheel
	@scripts/install python
	cargo build --quiet --bin lineclear
	scripts/client-python $(TARGET)/debug/lineclear $(TARGET)/client-python

# Not part of the tests: `make test` runs the tests of the client on its sources.
client-typescript: install ## builds the package of the TypeScript client, and checks its types and runs its tests in a project that has installed it
	cargo build --quiet --bin lineclear
	scripts/client-typescript $(TARGET)/debug/lineclear $(TARGET)/client-typescript

# Not part of the tests: it needs the network, and compiles cargo-deny for minutes.
audit: ## known vulnerabilities, licences and sources of the dependencies (deny.toml); installs cargo-deny
	@test -x $(TARGET)/tools/bin/cargo-deny || cargo install cargo-deny --locked --root $(TARGET)/tools
	$(TARGET)/tools/bin/cargo-deny check

sbom: kit ## the crates that are linked into the binary, as a CycloneDX document
	@mkdir -p $(TARGET)/release
	$(KIT) sbom $(TARGET)/release/lineclear.cdx.json

bench: install kit ## measures speed, and costs that must not grow with the database, e.g. `make bench ARGS='--only plan'`
	cargo build --release -p lineclear-bench
	$(KIT) run --durable -- $(TARGET)/release/lineclear-bench $(ARGS)

# Not part of the tests: it compiles other job queues for minutes, and needs crates.io and npm. A run that was cut off goes on after its last line.
PEERS := $(abspath $(TARGET))/bench-peers
LINES := $(PEERS)/$(if $(QUICK),quick,$(if $(findstring --only,$(ARGS)),some,full)).jsonl
bench-peers: install kit ## Lineclear beside other job queues, half an hour; QUICK=1: minutes, ARGS='--fresh': from the beginning
	scripts/build-peers $(PEERS)
	cargo build --release -p lineclear-bench --bin bench-peers
	$(KIT) run --durable -- $(TARGET)/release/bench-peers run --programs $(PEERS)/bin --lines $(LINES) $(if $(QUICK),--quick) $(ARGS)
	$(if $(QUICK)$(findstring --only,$(ARGS)),,$(TARGET)/release/bench-peers report --lines $(LINES) --write docs/benchmarks.md)

fmt: ## formats the code
	cargo fmt --all

up: install kit ## starts private servers to develop against; plain `cargo test` finds them
	@$(KIT) up

down: kit ## stops those servers and removes their data
	@$(KIT) down

clean-run: down ## like `down`, and removes all files in .run
	rm -rf .run

install: ## installs missing programs from Debian's packages
	@scripts/install

kit:
	@cargo build $(ALL) --quiet --bin lineclear-testkit
