# What people and CI run. `make demo` and `make test` need a Rust toolchain and nothing else.

CARGO ?= cargo
TARGET := target/release/mcpreel
STATIC_TARGET ?= x86_64-unknown-linux-gnu

.PHONY: demo test check static bench interop fmt bless

demo: # build, record the demo server, look at the cassette, replay it, see a miss
	$(CARGO) build --release --locked
	$(TARGET) demo

test: # everything that needs only a Rust toolchain
	$(CARGO) test --locked

check: # formatting, lints, documentation
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --locked

static: # one file that runs in an empty folder
	RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --release --locked --target $(STATIC_TARGET)

bench: # figures, as ratios against cat and, where installed, mcp-cassette
	$(CARGO) build --release --locked
	tests/bench/run $(TARGET)

interop: # real SDK clients and servers, installed into target/interop
	$(CARGO) build --release --locked
	tests/interop/run $(TARGET)

fmt: # format the code
	$(CARGO) fmt

bless: # write the golden files anew; look at what changed before committing
	MCPREEL_BLESS=1 $(CARGO) test --locked --test tests golden
