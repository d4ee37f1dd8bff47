#!/usr/bin/env bash
# deps.sh [PACKAGE...]: installs the Debian packages that are missing and checks for a Rust
# toolchain. Those that are named come in addition. Says nothing if there is nothing to do.
set -eu

rust_wanted=1.88
packages=(gcc libc6-dev make pkg-config openmpi-bin libopenmpi-dev libfabric-dev
    libfabric-bin netpipe-openmpi python3 python3-pip python3-mpi4py python3-numpy binutils iproute2
    chromium fonts-dejavu-core "$@")

fail() {
    printf 'sluice: %s\n' "$@" >&2
    exit 1
}

missing=()
for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
done

as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=(sudo)
fi

install() {
    command -v apt-get >/dev/null ||
        fail "these packages are missing: $*" "this script installs them on Debian; install their like by hand here"
    if [ "${#as_root[@]}" -gt 0 ] && ! command -v sudo >/dev/null; then
        fail "these packages are missing and installing them needs root: $*" \
            "next: run  apt-get install $*  as root"
    fi
    printf 'installing: %s\n' "$*" >&2
    log=$(mktemp)
    if ! { "${as_root[@]}" apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=120 install -y -qq \
            --no-install-recommends "$@"; } >"$log" 2>&1; then
        cat "$log" >&2
        fail "apt-get could not install: $*" "next: see its output above"
    fi
    rm -f "$log"
}

[ "${#missing[@]}" = 0 ] || install "${missing[@]}"

# Debian 12's own cargo is too old and it has no package of rustup; Rust's own
# installer brings both, into the home directory.
newer_or_equal() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | tail -n 1)" = "$1" ]
}

install_rustup() {
    case $(uname -m) in
    x86_64 | aarch64) target=$(uname -m)-unknown-linux-gnu ;;
    *) fail "Rust $rust_wanted is needed and is not installed here automatically on $(uname -m)" \
        "next: install it with rustup (https://rustup.rs), then run this again" ;;
    esac
    command -v curl >/dev/null || install curl ca-certificates
    url=${RUSTUP_UPDATE_ROOT:-https://static.rust-lang.org/rustup}/dist/$target/rustup-init
    folder=$(mktemp -d)
    printf 'installing a Rust toolchain with rustup\n' >&2
    if ! (cd "$folder" && curl -fsS --retry 2 -O "$url" -O "$url.sha256" &&
        printf '%s  rustup-init\n' "$(cut -c1-64 rustup-init.sha256)" | sha256sum --quiet -c &&
        chmod +x rustup-init &&
        ./rustup-init -y -q --no-modify-path --profile minimal -c clippy -c rustfmt) \
        >"$folder/log" 2>&1; then
        cat "$folder/log" >&2
        rm -rf "$folder"
        fail "the Rust toolchain could not be installed from $url" \
            "next: see the output above, or install Rust $rust_wanted or newer with rustup (https://rustup.rs)"
    fi
    rm -rf "$folder"
}

# Where rustup puts it; the Makefile looks there too.
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
have=$(cargo --version 2>/dev/null | cut -d' ' -f2 || true)
if [ -z "$have" ] || ! newer_or_equal "$have" "$rust_wanted"; then
    if command -v rustup >/dev/null; then
        printf 'updating the Rust toolchain with rustup\n' >&2
        rustup toolchain install stable --profile minimal -c clippy -c rustfmt >/dev/null ||
            fail "cargo is ${have:-not installed} and rustup could not install a newer one" \
                "next: run  rustup toolchain install stable"
    else
        install_rustup
    fi
    have=$(cargo --version 2>/dev/null | cut -d' ' -f2 || true)
    if [ -z "$have" ] || ! newer_or_equal "$have" "$rust_wanted"; then
        fail "cargo is ${have:-not on the PATH}; Rust $rust_wanted or newer is needed" \
            "next: put ${CARGO_HOME:-$HOME/.cargo}/bin first on the PATH and run  rustup default stable"
    fi
fi
