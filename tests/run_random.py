#!/usr/bin/env python3
"""Runs random MPI programs, whose data is checked to the byte, over every rail.

A seed draws a program for 2 to 6 ranks (tests/random_mpi): messages with wildcards, probes,
cancels, persistent and partitioned requests, derived datatypes, collectives and one-sided
operations. Each is legal MPI and ends over any MPI; `--rails vader,btl-tcp,ofi-tcp` runs the
same over Open MPI's own transports and over libfabric's. One launch runs many seeds of one
count of ranks. A failure prints the line that runs the failing seed again.

Each launch prints one line; the last line is `N passed, N failed, N skipped`.
"""

import argparse
import glob
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from run_hosts import TWO, Hosts
from run_lab import why_not
from run_mpi import ROOT, Job, Suite, tail
from verdicts import Failed, Skipped, Verdicts, leave

SOURCES = os.path.join(ROOT, "tests", "random_mpi")
RANKS_MIN, RANKS_MAX = 2, 6
MASK = (1 << 64) - 1
# Seeds of a launch, so that a time limit is one for a few programs.
SEEDS_MAX = 400

# Defects of Open MPI 4's mtl/ofi over any provider: `--rails ofi-tcp --without ''` shows them.
# What it does not do, as the program names it: the acknowledgement of a synchronous send that
# MPI_Mrecv receives; MPI_Mrecv into a derived datatype; persistent requests of derived
# datatypes. And of osc pt2pt: a flush behind an operation that fetches a value does not wait for the
# value, as an unlock does, but relies on its message being complete before the flush's own. One that
# waits at its sender for credit is complete later; over TCP none is.
OMPI_4_OFI = ("no-sync-to-mrecv", "no-derived-mrecv", "no-derived-persistent", "no-flush-of-answers")
# Of Open MPI 5, which sends that acknowledgement, but has no one-sided component that goes by
# messages. Its partitioned requests hang on split communicators, over its own transports too.
OMPI_5_OFI = ("no-derived-mrecv", "no-derived-persistent", "no-one-sided", "no-partitioned-apart")

# What an MPI does not have the programs do not draw: requests in partitions; what is one-sided.
NEVER_UNDER_4 = {"partitioned", "partitions"}
NEVER_UNDER_5 = {"put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap",
                 "fence", "post_start", "lock_shared", "lock_exclusive", "lock_all", "flush"}
# So many programs of each rail draw all the rest at least once.
FIXED_FOR_ALL = 30

TCP = {"FI_SLUICE_RAILS": "tcp"}
SMALL = {"FI_SLUICE_UNEXPECTED_BYTES": "46000"}
THREAD = {"FI_SLUICE_PROGRESS": "thread"}
STATIC = {"FI_SLUICE_CREDITS": "static"}
RING = {"FI_SLUICE_BULK": "ring"}
ENCRYPT = {"FI_SLUICE_SECURITY": "encrypt"}
MATCHES = {"FI_SLUICE_RAILS": "tcp,ofi:tcp", "FI_SLUICE_MATCHING": "rail",
           "FI_SLUICE_SECURITY": "none"}
OFI = {"FI_SLUICE_RAILS": "ofi:tcp"}
# By rail, the settings that launches take in turn; of a peer's transport, Open MPI's parameters.
RAILS = {
    "shm": [{}, RING, SMALL, THREAD, {**SMALL, **STATIC}, {**SMALL, **THREAD}, {**RING, **SMALL},
            {"FI_SLUICE_SEGMENT": "file"}, {**RING, **THREAD}],
    "tcp": [TCP, {**TCP, **SMALL}, {**TCP, **THREAD}, {**TCP, **ENCRYPT},
            {**TCP, **SMALL, **STATIC}, {**TCP, **SMALL, **THREAD}],
    "ofi": [OFI, {**OFI, **SMALL}, MATCHES, {**OFI, **THREAD}, {**MATCHES, **THREAD}],
    "lab": [{}, SMALL, TCP, THREAD, ENCRYPT],
}
PEERS = {
    "vader": {"pml": "ob1", "btl": "self,vader"},
    "btl-tcp": {"pml": "ob1", "btl": "self,tcp"},
    "ofi-tcp": {"pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": "tcp;ofi_rxm",
                "btl": "self"},
}


def mix64(number):
    number = (number + 0x9E3779B97F4A7C15) & MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & MASK
    return number ^ (number >> 31)


def ranks_of(seed):
    """For how many ranks a seed's program is; program.c computes the same."""
    return RANKS_MIN + mix64(seed) % (RANKS_MAX - RANKS_MIN + 1)


class Programs:
    """Launches of the random program, and what they drew."""

    def __init__(self, args, folder):
        self.args = args
        self.folder = folder
        self.hosts = Hosts(os.path.abspath(args.build_dir), folder)
        self.suite = self.hosts.suite
        self.peers = Suite(argparse.Namespace(transport="none", build_dir=args.build_dir), folder)
        self.is_version_5 = bool(args.mpi)
        self.program = os.path.join(folder, "random")
        self.counts = {}

    def compiler(self):
        return os.path.join(self.args.mpi, "bin", "mpicc") if self.args.mpi else (
            shutil.which("mpicc.openmpi") or "mpicc")

    def why_not(self, rail):
        """Why nothing of a rail can run here; empty if it can."""
        if self.args.mpi and not os.path.exists(self.compiler()):
            return f"there is no {self.compiler()}; tests/run_mpis.py installs an Open MPI 5"
        return why_not() if rail == "lab" else ""

    def build(self):
        subprocess.run([self.compiler(), "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror",
                        *sorted(glob.glob(os.path.join(SOURCES, "*.c"))), "-o", self.program],
                       check=True)

    def without(self, rail):
        """What the program must leave out."""
        if self.args.without is not None:
            return self.args.without.split()
        if self.is_version_5:
            return OMPI_5_OFI
        return () if rail in ("vader", "btl-tcp") else OMPI_4_OFI

    def command(self, rail, ranks, settings, words):
        mca = dict(PEERS.get(rail, {}))
        if not self.is_version_5:
            # One-sided operations of messages, so that they surely take this transport.
            mca["osc"] = "pt2pt"
        program = [self.program, *words]
        if rail == "lab":
            self.hosts.on(TWO)
            return self.hosts.mpirun(ranks, settings, program, mca)
        suite = self.peers if rail in PEERS else self.suite
        command = suite.mpirun(ranks, settings, program, mca)
        if self.is_version_5:
            command[0] = os.path.join(self.args.mpi, "bin", "mpirun")
        return command

    def launch(self, rail, ranges, ranks, settings, more=()):
        """Runs the seeds of that count of ranks; gives how many they were."""
        words = [f"{first}..{last}" for first, last in ranges]
        words += [*self.without(rail), *more]
        job = Job(self.command(rail, ranks, settings, words), self.folder)
        try:
            code = job.wait(self.args.time_limit)
        finally:
            job.end()
        text = job.text()
        seeds = re.findall(r"^seed (\d+)$", text, re.M)
        found = re.search(r"^counts (\{.*\})$", text, re.M)
        if code == 0 and found:
            for name, number in json.loads(found[1]).items():
                self.counts[name] = self.counts.get(name, 0) + number
            return len(seeds)
        said = re.search(r"^FAILED.*$", text, re.M)
        why = said[0] if said else (f"exit code {code}" if code is not None else
                                    f"it did not end in {self.args.time_limit} s")
        again = self.replay(rail, seeds[-1] if seeds else ranges[0][0], settings)
        raise Failed(f"{why}\n    again: {again}\n{tail(text)}")

    def replay(self, rail, seed, settings):
        words = ["tests/run_random.py", "--rails", rail, "--seeds", str(seed)]
        words += [f"--set={name}={value}" for name, value in settings.items()]
        if self.args.mpi:
            words += ["--mpi", self.args.mpi]
        return shlex.join(words)

    def bites(self):
        """A program that spoils some of its data is found out."""
        try:
            self.launch("shm", [(0, 60)], 3, {}, ["broken"])
        except Failed as why:
            if "is wrong" in str(why):
                return "found out"
            raise
        raise Failed("spoiled data was not noticed")

    def all_is_drawn(self):
        """Nothing that a program can do was left out by all of them."""
        never = {name for name, number in self.counts.items() if not number}
        if missing := never - (NEVER_UNDER_5 if self.is_version_5 else NEVER_UNDER_4):
            raise Failed(f"never drawn: {', '.join(sorted(missing))}")
        return f"{len(self.counts) - len(never)} kinds"

    # The table.

    def tests(self, launches):
        """Title, rail and what to call."""
        if not self.args.set and self.args.seeds is None and "shm" in self.args.rails:
            yield "a spoiled byte", "shm", self.bites
        for rail in self.args.rails:
            every = [dict(word.split("=", 1) for word in self.args.set)] if self.args.set else (
                RAILS.get(rail, [{}]))
            for turn, (ranges, ranks) in enumerate(launches):
                settings = every[turn % len(every)]
                seeds = ", ".join(f"{first}..{last}" for first, last in ranges)
                title = f"{rail} -n {ranks} seeds {seeds} "
                title += " ".join(f"{name}={value}" for name, value in settings.items())
                yield title.strip(), rail, (
                    lambda rail=rail, ranges=ranges, ranks=ranks, settings=settings:
                    f"{self.launch(rail, ranges, ranks, settings)} programs")


def launches_of(args):
    """The ranges of seeds and the count of ranks of each launch: the seeds asked for, or the
    fixed ones and some drawn anew."""
    if args.seeds is not None:
        first, _, last = args.seeds.partition("..")
        first, last = int(first), int(last or int(first) + 1)
        parts = [[(at, min(at + SEEDS_MAX, last))] for at in range(first, last, SEEDS_MAX)]
    else:
        drawn = random.SystemRandom().randrange(1 << 40)
        parts = [[(0, args.fixed), (drawn, drawn + args.drawn)]]
    for ranges in parts:
        counts = {ranks_of(seed) for first, last in ranges for seed in range(first, last)}
        yield from ((ranges, ranks) for ranks in sorted(counts))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rails", default=",".join(RAILS),
                        help=f"of {', '.join([*RAILS, *PEERS])} [default: {','.join(RAILS)}]")
    parser.add_argument("--seeds", metavar="A[..B]", help="these alone")
    parser.add_argument("--fixed", type=int, default=30, metavar="N",
                        help="how many seeds from 0 on [default: 30]")
    parser.add_argument("--drawn", type=int, default=10, metavar="N",
                        help="how many seeds from one that is drawn anew [default: 10]")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a setting of Sluice, instead of those that launches take in turn")
    parser.add_argument("--without", metavar="WORDS",
                        help="what the program leaves out, instead of the MPI's known defects")
    parser.add_argument("--mpi", metavar="DIR",
                        help="an installation of Open MPI 5 [default: Open MPI 4.1]")
    parser.add_argument("--time-limit", type=float, default=120, metavar="SECONDS",
                        help="of a launch [default: 120]")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "target", "release"),
                        help="where sluice and libsluice-fi.so are")
    args = parser.parse_args()
    args.rails = args.rails.split(",")
    args.mpi = args.mpi and os.path.abspath(args.mpi)
    if wrong := [rail for rail in args.rails if rail not in {**RAILS, **PEERS}]:
        parser.error(f"there is no rail {wrong[0]}")
    with tempfile.TemporaryDirectory(prefix="sluice-random-") as folder:
        programs = Programs(args, os.path.realpath(folder))
        try:
            return run_all(programs, args)
        finally:
            programs.hosts.down()


def run_all(programs, args):
    if not os.path.exists(os.path.join(programs.suite.providers, "libsluice-fi.so")):
        print(f"there is no libsluice-fi.so in {args.build_dir}: build it first", file=sys.stderr)
        return 2
    refused = {rail: programs.why_not(rail) for rail in args.rails}
    if not all(refused.values()):
        programs.build()
    verdicts = Verdicts(args.json)
    for title, rail, call in programs.tests(list(launches_of(args))):
        verdict = verdicts.judge(title, call, why_not=refused[rail])
        if verdict == "FAIL" and rail == "lab":
            # Nothing of it is left for the next launch.
            programs.hosts.down()
    if args.seeds is None and args.fixed >= FIXED_FOR_ALL and not verdicts.count("FAIL"):
        verdicts.judge("each kind was drawn", programs.all_is_drawn,
                       why_not="" if programs.counts else "no program ran")
    never = sorted(name for name, number in programs.counts.items() if not number)
    drawn = ", ".join(f"{name} {number}" for name, number in programs.counts.items() if number)
    print(f"drawn: {drawn}\nnever: {', '.join(never) or 'nothing'}", file=verdicts.out)
    return verdicts.end(drawn=programs.counts)


if __name__ == "__main__":
    leave(main)
