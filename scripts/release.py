#!/usr/bin/env python3
"""Builds the release and trains it: docs/decisions/0029-a-trained-release.md says why.

A first build counts how often each branch is taken. Programs that do what Sluice is for
run over it: MPI programs of bench/ and Portals programs of tests/portals. The build that
follows is made for these counts. They are kept in target/training, and count again once
a source or the compiler has changed.

Where something is missing for it, LLVM's llvm-profdata, an mpirun, or the right to run,
the release is built as cargo builds it, and a line says so.
"""

import argparse
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import bench_base as bench
import bench_peers

TRAINING = os.path.join(bench.ROOT, "target", "training")
COUNTING = os.path.join(TRAINING, "release")
PROFILE = os.path.join(TRAINING, "sluice.profdata")
OF_WHAT = os.path.join(TRAINING, "of-what")
# With the libraries the packages of the command are named, whose features are theirs then,
# too: a function is known by a name that depends on them.
LIBRARIES = ["--lib", "-p", "sluice-cli", "-p", "sluice-provider", "-p", "sluice-libportals-so"]
# What the counts are of, beside the compiler.
SOURCES = ["Cargo.toml", "Cargo.lock", "crates/**/*.rs", "crates/**/Cargo.toml", "bench/*",
           "scripts/release.py"]


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
# Between the flags in a variable of cargo's.
SEPARATOR = "\x1f"


class CannotTrain(Exception):
    """What is missing for it."""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", action="store_true", help="do not train")
    parser.add_argument("words", nargs="*", metavar="WORD",
                        help="for cargo build; --workspace unless any is said (after --)")
    args = parser.parse_args()
    flags = []
    if not args.plain:
        try:
            train()
            flags = [f"-Cprofile-use={PROFILE}"]
        except CannotTrain as why:
            bench.say(f"the release is not trained, and messages take about a tenth longer: {why}")
    return cargo("building (release)", ["--release", *(args.words or ["--workspace"])], flags)


def train():
    """Has the counts in PROFILE that are of these sources and this compiler."""
    of_what = fingerprint()
    if os.path.exists(PROFILE) and read(OF_WHAT) == of_what:
        return
    tool = profdata_tool()
    if not shutil.which("mpirun.openmpi"):
        raise CannotTrain("there is no mpirun.openmpi; the Debian package openmpi-bin has it")
    counts = os.path.join(TRAINING, "counts")
    shutil.rmtree(counts, ignore_errors=True)
    # What runs while it is built is the compiler's, and counts nothing.
    of_the_build = os.path.join(TRAINING, "of-the-build")
    code = cargo("building what counts", ["--release", "--target-dir", TRAINING, *LIBRARIES],
                 [f"-Cprofile-generate={counts}"], {"LLVM_PROFILE_FILE": of_the_build})
    if code:
        raise CannotTrain("the build that counts failed, see above")
    bench.say("training")
    run_programs()
    merge(tool, glob.glob(os.path.join(counts, "*.profraw")))
    with open(OF_WHAT, "w", encoding="ascii") as file:
        file.write(of_what)


def merge(tool, paths):
    """Merges counts into PROFILE: those of each library as if the libraries were used alike, or what
    ran for less time would be taken for what seldom runs. Functions that never ran are left out:
    nothing is known of them, and they are not to be small at the cost of speed."""
    most = {path: greatest_count(tool, path) for path in paths}
    weighted = [f"--weighted-input={max(1, max(most.values()) // count)},{path}"
                for path, count in most.items()]
    run([tool, "merge", "--sparse", "-o", PROFILE, *weighted])


def greatest_count(tool, path):
    out = run([tool, "show", path])
    found = re.search(r"Maximum function count: (\d+)", out)
    if not found or int(found[1]) == 0:
        raise CannotTrain(f"{tool} finds no counts in {path}")
    return int(found[1])


def fingerprint():
    """Of what is counted: sources, programs, and the compiler."""
    seen = hashlib.sha256(said_by(["rustc", "-vV"]).encode())
    for pattern in SOURCES:
        for path in sorted(glob.glob(os.path.join(bench.ROOT, pattern), recursive=True)):
            seen.update(os.path.relpath(path, bench.ROOT).encode())
            with open(path, "rb") as file:
                seen.update(file.read())
    return seen.hexdigest()


def profdata_tool():
    """The program that merges counts, of the LLVM that rustc has. Rustup brings it."""
    folder = os.path.join(os.path.dirname(said_by(["rustc", "--print", "target-libdir"])), "bin")
    tool = os.path.join(folder, "llvm-profdata")
    if not os.path.exists(tool) and shutil.which("rustup"):
        subprocess.run(["rustup", "component", "add", "llvm-tools"], cwd=bench.ROOT,
                       capture_output=True, check=False)
    found = tool if os.path.exists(tool) else shutil.which("llvm-profdata")
    if not found:
        raise CannotTrain("there is no llvm-profdata; `rustup component add llvm-tools` brings it")
    return found


def run_programs():
    """Runs the programs that are counted. One that fails says that the release would."""
    for name in sorted({program.words[0] for program in MPI_PROGRAMS}):
        try:
            bench.build_one(name, "mpicc.openmpi", [], "libopenmpi-dev, gcc and libc6-dev")
        except bench.NotBuilt as why:
            raise CannotTrain(". ".join(why.args)) from None
    with tempfile.TemporaryDirectory() as folder:
        for program in MPI_PROGRAMS:
            name, *words = program.words
            run(["mpirun.openmpi", "-n", str(program.ranks), "--oversubscribe", "--bind-to", "none",
                 *bench_peers.our_words(COUNTING, program.btl), "-x", "FI_SLUICE_TUNE=off",
                 *program.more, os.path.join(bench.BUILD, name), *words],
                bench.environment(folder))
    run([sys.executable, os.path.join(bench.ROOT, "tests", "run_portals.py"), "--lib", COUNTING,
         "-n", "2", "--only", PORTALS_PROGRAMS])


def run(command, env=None):
    out, why = bench.run(command, PROGRAM_SECONDS_MAX, env)
    if why:
        raise CannotTrain(f"`{' '.join(command)}`: {why}")
    return out


def cargo(title, words, flags, env=None):
    """Runs cargo build with further flags of rustc, and says how it ended."""
    given = os.environ.get("CARGO_ENCODED_RUSTFLAGS", "").split(SEPARATOR)
    given = given if any(given) else os.environ.get("RUSTFLAGS", "").split()
    env = {**os.environ, **(env or {}), "CARGO_ENCODED_RUSTFLAGS": SEPARATOR.join([*given, *flags])}
    quiet = os.path.join(bench.ROOT, "scripts", "quiet.sh")
    command = [quiet, title, os.environ.get("CARGO", "cargo"), "build", *words]
    return subprocess.run(command, cwd=bench.ROOT, env=env, check=False).returncode


def said_by(command):
    return subprocess.run(command, cwd=bench.ROOT, capture_output=True, text=True,
                          check=True).stdout.strip()


def read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    bench.end_with(main)
