#!/usr/bin/env python3
"""Writes the licences of the crates that are linked into the command and the libraries.

Their authors ask that copies come with their notices. Each text is in the output once, with the
names of all crates that have it.
"""

import argparse
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINKED = ("sluice-cli", "sluice-provider", "sluice-libportals-so")
TEXTS = ("LICEN[CS]E*", "COPYING*", "COPYRIGHT*", "NOTICE*", "UNLICENSE*")
HEAD = """\
Sluice is linked with the crates below and with the Rust standard library (MIT OR Apache-2.0, by
the Rust Project contributors). What Sluice itself is under is in LICENSE-APACHE and LICENSE-MIT.
"""


def cargo(*words):
    command = [os.environ.get("CARGO", "cargo"), *words, "--locked"]
    got = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if got.returncode:
        sys.exit(f"sluice: {' '.join(command)}: {got.stderr.strip()}")
    return got.stdout


def linked():
    """The packages that are linked in and come from elsewhere: as cargo metadata has them."""
    packages = {(package["name"], package["version"]): package
                for package in json.loads(cargo("metadata", "--format-version", "1"))["packages"]}
    roots = [word for name in LINKED for word in ("-p", name)]
    lines = cargo("tree", *roots, "-e", "normal", "--prefix", "none", "--format", "{p}")
    names = {tuple(line.split()[:2]) for line in lines.splitlines() if line.strip()}
    found = [packages[name, version.removeprefix("v")] for name, version in sorted(names)]
    return [package for package in found if package["source"]]


def texts(package):
    """The licence files of a package."""
    folder = os.path.dirname(package["manifest_path"])
    for pattern in TEXTS:
        for path in sorted(glob.glob(os.path.join(folder, pattern))):
            if os.path.isfile(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    yield "\n".join(line.rstrip() for line in file.read().strip().splitlines())


def written(packages):
    """All of it as text."""
    parts = [HEAD]
    users = {}
    for package in packages:
        authors = ", ".join(package["authors"]) or "its authors"
        parts.append(f"{package['name']} {package['version']}: {package['license']}, by {authors}")
        for text in texts(package):
            users.setdefault(text, []).append(package["name"])
    for text, names in users.items():
        names = ", ".join(dict.fromkeys(names))
        parts.append(f"\n{'-' * 80}\n{names}\n{'-' * 80}\n\n{text}")
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(ROOT, "target", "third-party.txt"),
                        metavar="FILE")
    out = os.path.abspath(parser.parse_args().out)
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with open(out, "w", encoding="utf-8") as file:
        file.write(written(linked()))


if __name__ == "__main__":
    main()
