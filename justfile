# What CI runs.
verify:
    .ci/run

# What needs no set-up: format, lints, documents, tests.
quick:
    tests/run quick

# The tests alone; builds every test program, whatever the filter.
test *ARGS:
    cargo nextest run {{ARGS}}

# Unit tests whose names hold NAME: `just unit guards::budget`. Builds no scenarios. (With `-p toolgate` other features of
# libraries would be asked for, and all of them built once more.)
unit NAME:
    cargo nextest run --lib {{NAME}}

# Scenarios whose names hold NAME: `just it order`.
it NAME:
    cargo nextest run --test it {{NAME}}

# Floors, names, documents.
tidy:
    cargo test --quiet --test tidy

# libFuzzer on one target, or on `all`: `just fuzz scrubber --minutes 10`.
fuzz *ARGS:
    fuzz/run {{ARGS}}

# The quickstart of docs/quickstart.md.
serve:
    cargo run --release -- serve --config examples/quickstart/toolgate.yaml

# How many rows of docs/requirements.md a test proves, and which none; `just requirements write` takes down which are proven.
requirements WHAT="show":
    REQUIREMENTS={{WHAT}} cargo test --quiet --test requirements -- --nocapture proven_rows

# The generated files, written again.
schemas:
    cargo run --quiet -- schema policy > policies/policy.schema.json && cargo run --quiet -- schema pack > policies/pack.schema.json && cargo run --quiet -- schema exemptions > policies/exemptions.schema.json && cargo run --quiet -- schema config > policies/toolgate.schema.json && cargo run --quiet -- schema operators > policies/operators.openapi.json

# The chapters of docs/ as a book in target/book/.
book:
    MDBOOK_LOG=warn mdbook build docs && tests/tools/built-links target/book

# The pages that are made of the program and of Cargo.lock, and the recording of its demo, anew.
pages:
    cargo build --quiet --bin toolgate && TOOLGATE_BIN=target/debug/toolgate tests/tools/verbs --write && tests/tools/licences --write && docs/pictures/draw && docs/pictures/record

# How large the folders, files and functions of src/ are; `just sizes ../other` counts another.
sizes *ROOT:
    tests/tools/sizes {{ROOT}}

# The program as it is shipped, laid out for what it does under load: target/dist-pgo/toolgate.
dist-pgo *OUT:
    bench/load/pgo {{OUT}}

# All that is installed, in target/packages: tarballs, .deb, image, chart, npm, wheel, SBOM. `just dist --binary PATH` builds nothing.
dist *ARGS:
    packaging/dist {{ARGS}}

# Each package installed where nothing else is; `just packages --packages target/packages` tries what `just dist` made.
packages *ARGS:
    tests/packaging/run {{ARGS}}
