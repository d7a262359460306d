# What CI runs.
verify:
    .ci/run

# What needs no set-up: format, lints, documents, tests.
quick:
    tests/run quick

# The tests alone.
test *ARGS:
    cargo nextest run {{ARGS}}

# Floors, names, sizes, documents.
tidy:
    cargo test --quiet --test tidy

# libFuzzer on one target, or on `all`: `just fuzz scrubber --minutes 10`.
fuzz *ARGS:
    fuzz/run {{ARGS}}

# The quickstart of README.md.
serve:
    cargo run --release -- serve --config examples/quickstart/toolgate.yaml

# Which rows of the requirements have a test; `just requirements write` takes it down.
requirements WHAT="show":
    REQUIREMENTS={{WHAT}} cargo test --quiet --test requirements -- --nocapture

# The generated files, written again.
schemas:
    cargo run --quiet -- schema policy > policies/policy.schema.json && cargo run --quiet -- schema pack > policies/pack.schema.json && cargo run --quiet -- schema exemptions > policies/exemptions.schema.json && cargo run --quiet -- schema config > policies/toolgate.schema.json
