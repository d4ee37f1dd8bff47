#!/usr/bin/env bash
# Checks the crates that Sluice is built from, by the rules of deny.toml: their
# licences, that there is one version of each, and that all come from crates.io.
# Known vulnerabilities are looked up where the RustSec database can be reached.
set -eu
cd "$(dirname "$0")/.."

version=0.20.2
tool=target/tools/bin/cargo-deny
database=https://github.com/RustSec/advisory-db

if [ "$("$tool" --version 2>/dev/null || true)" != "cargo-deny $version" ]; then
    # Without optimization it takes a third of the time to build, and a second to run.
    CARGO_TARGET_DIR=target/tools/build CARGO_PROFILE_DEV_DEBUG=0 scripts/quiet.sh \
        "building cargo-deny" "${CARGO:-cargo}" install --quiet --debug --locked --force \
        --root target/tools "cargo-deny@$version" >/dev/null
    rm -rf target/tools/build
fi

"$tool" --locked check licenses bans sources
if GIT_TERMINAL_PROMPT=0 timeout 20 git ls-remote -q "$database" HEAD >/dev/null 2>&1; then
    "$tool" --locked check advisories
else
    printf 'advisories not checked: %s cannot be reached from here\n' "$database"
fi
