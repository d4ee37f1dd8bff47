#!/usr/bin/env bash
# Packs what was built into Debian packages in target/deb:
#
#     make deb        builds, and runs this
#
# The packages are for the Debian on which they were built, and for later ones. The libraries go
# where Debian keeps them, so that its libfabric finds the provider without a variable.
#
# DEBFULLNAME and DEBEMAIL name who maintains them, as for Debian's own tools. Without DEBEMAIL it is
# an address that cannot exist: who passes packages on is to name an own one.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/target/deb
work=$out/sluice-mpi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)

rm -rf "$out"
mkdir -p "$work"
cp -r "$root/packaging/debian" "$work/debian"
said=$(dpkg-parsechangelog -l "$work/debian/changelog" -S Version)
if [ "${said%-*}" != "$version" ]; then
    printf 'sluice: packaging/debian/changelog is of version %s, Sluice of %s\n' "$said" "$version" >&2
    exit 1
fi
cd "$work"
if [ -n "${DEBEMAIL:-}" ]; then
    by="${DEBFULLNAME:-Sluice maintainers} <$DEBEMAIL>"
    said=$(printf '%s' "$by" | sed 's/[\\&|]/\\&/g')
    sed -i "s|Sluice maintainers <maintainers@sluice.invalid>|$said|" debian/control debian/changelog
fi
SLUICE=$root DEB_BUILD_OPTIONS="noautodbgsym ${DEB_BUILD_OPTIONS:-}" \
    dpkg-buildpackage --build=binary --no-sign --no-check-builddeps >"$out/log" 2>&1 || {
    cat "$out/log" >&2
    exit 1
}
rm -rf "$work"
ls "$out"/*.deb
