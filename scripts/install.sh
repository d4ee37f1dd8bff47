#!/usr/bin/env bash
# install.sh DESTDIR PREFIX [LIB [TARGET]]: copies what was built to where programs look for it.
# LIB is the folder of libraries below PREFIX, `lib` unless it is said. TARGET is for which Rust
# built, if not for this machine.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
own=$root/target/release
built=$root/target/${4:+$4/}release
prefix=${2:-/usr/local}
to=${1:-}$prefix
lib=${3:-lib}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)

put() { # mode, file, folder
    install -D -m "$1" "$2" "$to/$3/$(basename "$2")"
}

put 755 "$built/sluice" bin
put 644 "$built/libsluice_provider.so" "$lib/libfabric"
mv "$to/$lib/libfabric/libsluice_provider.so" "$to/$lib/libfabric/libsluice-fi.so"
put 644 "$built/libportals.so" "$lib"
mv "$to/$lib/libportals.so" "$to/$lib/libportals.so.4"
ln -sf libportals.so.4 "$to/$lib/libportals.so"
for header in "$root"/crates/libportals/include/*.h; do
    put 644 "$header" include
done
sed -e "s|@includedir@|$prefix/include|" -e "s|@libdir@|$prefix/$lib|" -e "s|@rpath@||" \
    -e '/^#/d' "$root/crates/libportals/so/portals4.pc.in" >"$built/portals4.pc"
put 644 "$built/portals4.pc" "$lib/pkgconfig"
install -d "$to/share/modulefiles/sluice"
sed -e "s|@prefix@|$prefix|" -e "s|@libdir@|$prefix/$lib|" -e "s|@version@|$version|" \
    "$root/packaging/modulefile.in" >"$to/share/modulefiles/sluice/$version"
for page in "$root"/target/man/man*/*; do
    put 644 "$page" "share/man/$(basename "$(dirname "$page")")"
done
for text in "$root"/LICENSE-* "$root/target/third-party.txt"; do
    put 644 "$text" share/doc/sluice
done
install -d "$to/share/bash-completion/completions" "$to/share/zsh/site-functions" \
    "$to/share/fish/vendor_completions.d"
"$own/sluice" completion bash >"$to/share/bash-completion/completions/sluice"
"$own/sluice" completion zsh >"$to/share/zsh/site-functions/_sluice"
"$own/sluice" completion fish >"$to/share/fish/vendor_completions.d/sluice.fish"
printf 'installed below %s; try: %s/bin/sluice doctor\nfor libfabric by hand: export FI_PROVIDER_PATH=%s/libfabric\nas a module: module use %s/share/modulefiles; module load sluice\n' \
    "$to" "$prefix" "$prefix/$lib" "$prefix"
