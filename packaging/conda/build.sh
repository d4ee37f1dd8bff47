#!/usr/bin/env bash
# Builds and installs for conda; recipe.yaml beside this file calls it in the sources.
set -eu

export LIBFABRIC_LIBDIR=$PREFIX/lib
cargo build --release --locked -p sluice-cli -p sluice-provider -p sluice-libportals-so
python3 crates/libportals/scripts/man.py
python3 packaging/notices.py
target/release/sluice man target/man/man1
scripts/install.sh "" "$PREFIX"
