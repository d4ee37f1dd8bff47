#!/usr/bin/env python3
"""Builds the release and trains it: docs/decisions/0029-a-trained-release.md says why.

A first build counts how often each branch is taken. Programs that do what Sluice is for
run over it: MPI programs of bench/ and Portals programs of tests/portals. The build that
follows is made for these counts. They are kept in target/training, and taken anew once
a source or the compiler has changed.

Where something is missing for it, LLVM's llvm-profdata or an mpirun, or training fails, the
release is built as cargo builds it, and a line says so. Flags of rustc are taken from RUSTFLAGS
alone, and not from cargo's configuration, in a release that is trained.
"""

import argparse
import fcntl
import glob
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import bench_base as bench
import bench_peers

TRAINING = os.path.join(bench.ROOT, "target", "training")
# With the libraries the package of the command is named, whose features are theirs then,
# too: a function is known by a name that depends on them.
LIBRARIES = ["--lib", "-p", "sluice-cli", "-p", "sluice-provider", "-p", "sluice-libportals-so"]
# What the counts are of, beside the compiler.
SOURCES = ["Cargo.toml", "Cargo.lock", "crates/**/*.rs", "crates/**/Cargo.toml", "bench/*.[ch]",
           "tests/portals/*.[ch]", "tests/run_portals.py", "scripts/bench_peers.py",
           "scripts/release.py"]
# Of these the environment is cleared for what is counted.
SETTINGS = ("FI_", "PTL_", "OMPI_MCA_", "LLVM_PROFILE_")


@dataclass(frozen=True)
class Counted:
    """A program of bench/ that is counted: its ranks, its words, and more for mpirun."""

    ranks: int
    words: tuple
    more: tuple = ()
    btl: str = "self"


TESTS = ("latency", "rate", "bandwidth")
SIZES = ("8", "64", "256", "1024", "4096", "16384", "65536", "1048576")
BY_TCP = ("-x", "FI_SLUICE_RAILS=tcp")
ONE_SIDED = ("--mca", "osc", "rdma", "--mca", "btl_ofi_provider_include", bench_peers.OURS)
MPI_PROGRAMS = [
    # Short and long messages of two ranks on two cores.
    *(Counted(2, ("pairs", test, "0.2", *SIZES)) for test in TESTS),
    # More ranks than cores.
    Counted(4, ("crowd", "0.3")),
    Counted(8, ("crowd", "0.3")),
    Counted(4, ("halo", "3000", "1024", "1")),
    Counted(2, ("onesided", "create", "0.1", "8", "4096", "65536"), ONE_SIDED, "ofi,self"),
    *(Counted(2, ("pairs", test, "0.2", "8", "1024", "65536", "1048576"), BY_TCP)
      for test in TESTS),
]
PORTALS_PROGRAMS = "put,get,match,search,atomics,swap,triggered,unexpected,stress"
PROGRAM_SECONDS_MAX = 60
# Many programs, which are compiled.
PORTALS_SECONDS_MAX = 300
RUSTUP_SECONDS_MAX = 120
# Between the flags in a variable of cargo's.
SEPARATOR = "\x1f"


class NotTrained(Exception):
    """Why the release is not trained."""


class Missing(NotTrained):
    """What this machine does not have for it."""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", action="store_true", help="do not train")
    parser.add_argument("--must", action="store_true",
                        help="fail if training fails though nothing is missing for it")
    args = parser.parse_args()
    if args.plain:
        return build([])
    os.makedirs(TRAINING, exist_ok=True)
    with open(os.path.join(TRAINING, "lock"), "w", encoding="ascii") as lock:
        # Counts of two builds at once would be mixed.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            bench.say("waiting for another build of this clone to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return build([f"-Cprofile-use={train()}"])
        except NotTrained as why:
            bench.say(f"the release is not trained, so that short messages take longer: {why}")
            if args.must and not isinstance(why, Missing):
                return 1
            return build([])


def build(flags):
    return cargo("building (release)", ["--release", "--workspace"], flags)


def train():
    """Where the counts are that are of these sources and this compiler."""
    profile, stamp = (os.path.join(TRAINING, name) for name in ("sluice.profdata", "of-what"))
    if os.environ.get("CARGO_BUILD_TARGET"):
        raise Missing("CARGO_BUILD_TARGET is set, and only what is for this machine runs here")
    compiler = said_by_rustc("-vV")
    of_what = fingerprint(compiler)
    if os.path.exists(profile) and read(stamp) == of_what:
        return profile
    tool = profdata_tool(compiler)
    if not shutil.which("mpirun.openmpi"):
        raise Missing("there is no mpirun.openmpi; the Debian package openmpi-bin has it")
    counts = os.path.join(TRAINING, "counts")
    for path in (stamp, profile):
        if os.path.exists(path):
            os.remove(path)
    shutil.rmtree(counts, ignore_errors=True)
    # What runs while it is built is the compiler's, and counts nothing.
    of_the_build = os.path.join(TRAINING, "of-the-build")
    if cargo("building what counts", ["--release", "--target-dir", TRAINING, *LIBRARIES],
             [f"-Cprofile-generate={counts}"], {"LLVM_PROFILE_FILE": of_the_build}):
        raise NotTrained("the build that counts failed, see above")
    bench.say("training")
    run_programs(os.path.join(TRAINING, "release"))
    merge(tool, glob.glob(os.path.join(counts, "*.profraw")), profile)
    with open(stamp, "w", encoding="ascii") as file:
        file.write(of_what)
    return profile


def fingerprint(compiler):
    """Of what is counted: sources, programs, and the compiler."""
    seen = hashlib.sha256(compiler.encode())
    for pattern in SOURCES:
        for path in sorted(glob.glob(os.path.join(bench.ROOT, pattern), recursive=True)):
            seen.update(os.path.relpath(path, bench.ROOT).encode())
            with open(path, "rb") as file:
                seen.update(file.read())
    return seen.hexdigest()


def profdata_tool(compiler):
    """The program that merges counts, of the LLVM that rustc has. Rustup brings it."""
    folder = os.path.join(os.path.dirname(said_by_rustc("--print", "target-libdir")), "bin")
    tool = os.path.join(folder, "llvm-profdata")
    if os.path.exists(tool):
        return tool
    why = "`rustup component add llvm-tools` brings it"
    if shutil.which("rustup"):
        bench.say("installing: llvm-tools, with rustup")
        out, failed = bench.run(["rustup", "component", "add", "llvm-tools"], RUSTUP_SECONDS_MAX)
        if not failed and os.path.exists(tool):
            return tool
        why += f", and here {failed or out}"
    # Its format is of its version.
    version = re.search(r"LLVM version: (\d+)", compiler)
    other = version and shutil.which(f"llvm-profdata-{version[1]}")
    if not other:
        raise Missing(f"there is no llvm-profdata of rustc's LLVM; {why}")
    return other


def run_programs(libraries):
    """Runs the programs that are counted."""
    for name in sorted({program.words[0] for program in MPI_PROGRAMS}):
        try:
            bench.build_one(name, "mpicc.openmpi", [], "libopenmpi-dev, gcc and libc6-dev")
        except bench.NotBuilt as why:
            raise NotTrained(". ".join(why.args)) from None
    with tempfile.TemporaryDirectory() as folder:
        env = {name: value for name, value in bench.environment(folder).items()
               if not name.startswith(SETTINGS) or name.startswith("OMPI_MCA_orte_tmpdir")}
        for program in MPI_PROGRAMS:
            name, *words = program.words
            run(["mpirun.openmpi", "-n", str(program.ranks), "--oversubscribe", "--bind-to", "none",
                 *bench_peers.our_words(libraries, program.btl), "-x", "FI_SLUICE_TUNE=off",
                 *program.more, os.path.join(bench.BUILD, name), *words], env)
        run([sys.executable, os.path.join(bench.ROOT, "tests", "run_portals.py"), "--lib", libraries,
             "-n", "2", "--variant", "logical-me,physical-le", "--only", PORTALS_PROGRAMS], env,
            PORTALS_SECONDS_MAX)


def merge(tool, paths, profile):
    """Merges counts: of each library weighted so that the greatest is alike, or what ran for less
    time would be taken for what seldom runs. Functions that never ran are left out: nothing is
    known of them, and they are not to be small at the cost of speed."""
    most = {path: greatest_count(tool, path) for path in paths}
    weighted = [f"--weighted-input={max(1, max(most.values()) // count)},{path}"
                for path, count in most.items()]
    if not weighted:
        raise NotTrained("the programs left no counts")
    run([tool, "merge", "--sparse", "-o", profile + ".new", *weighted])
    os.replace(profile + ".new", profile)


def greatest_count(tool, path):
    found = re.search(r"Maximum function count: (\d+)", run([tool, "show", path]))
    if not found or int(found[1]) == 0:
        raise NotTrained(f"{tool} finds no counts in {path}")
    return int(found[1])


def run(command, env=None, limit=PROGRAM_SECONDS_MAX):
    out, why = bench.run(command, limit, env)
    if why:
        failures = [line for line in out.splitlines() if line.startswith("FAIL")]
        raise NotTrained("; ".join([f"`{shlex.join(command)}`: {why}", *failures[:3]]))
    return out


def cargo(title, words, flags, env=None):
    """Runs cargo build with further flags of rustc. Its status."""
    env = {**os.environ, **(env or {})}
    if flags:
        given = os.environ.get("CARGO_ENCODED_RUSTFLAGS", "").split(SEPARATOR)
        given = given if any(given) else os.environ.get("RUSTFLAGS", "").split()
        env["CARGO_ENCODED_RUSTFLAGS"] = SEPARATOR.join([*given, *flags])
    quiet = os.path.join(bench.ROOT, "scripts", "quiet.sh")
    command = [quiet, title, *shlex.split(os.environ.get("CARGO") or "cargo"), "build", *words]
    return subprocess.run(command, cwd=bench.ROOT, env=env, check=False).returncode


def said_by_rustc(*words):
    command = [os.environ.get("RUSTC") or "rustc", *words]
    try:
        return subprocess.run(command, cwd=bench.ROOT, capture_output=True, text=True,
                              check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as why:
        raise Missing(f"`{shlex.join(command)}` fails: {why}") from None


def read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    bench.end_with(main)
