#!/usr/bin/env python3
"""Runs the conformance programs of tests/portals against a libportals.so.

Each program checks itself: it ends with status 0 when all was right, 77 when this
variant has nothing to check, and otherwise with a message. It runs in up to four
variants (physical or logical addresses, list entries or match list entries) and with
several numbers of processes, which this script starts itself. Each run prints one
line; the last line is `N passed, N failed, N skipped`.

With --hosts the processes are spread over the hosts of a lab (`sluice lab`), neighbours on
different ones, which reach each other by --rails networks. Of some programs one of these breaks
meanwhile, and is mended. Where the kernel or the user's rights allow no lab, all runs are
skipped, and the lines say why.
"""

import argparse
import collections
import concurrent.futures
import functools
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from run_lab import Labs, why_not
from verdicts import Failed, Skipped, Verdicts, leave

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.join(ROOT, "tests", "portals")
INCLUDE = os.path.join(ROOT, "crates", "libportals", "include")
FLAGS = ["-std=c99", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
EXIT_SKIPPED = 77
TAIL_LINES = 20
# How long the others may go on after one process has failed.
GRACE_SECONDS = 1.0

VARIANTS = {
    f"{address}-{kind}": [f"--{address}", f"--{kind}"]
    for address in ("physical", "logical") for kind in ("le", "me")
}
ALL = tuple(VARIANTS)
MATCHING = ("physical-me", "logical-me")
SIZES = (1, 2, 4)

# Program, numbers of processes, variants, time limit in seconds.
PROGRAMS = [
    ("init", SIZES, ALL, 60),
    ("again", SIZES, ALL, 30),
    ("map", SIZES, ALL, 30),
    ("pt", SIZES, ALL, 30),
    ("md", SIZES, ALL, 30),
    ("put", SIZES, ALL, 70),
    ("get", SIZES, ALL, 70),
    ("ack", SIZES, ALL, 30),
    ("answers", SIZES, ALL, 30),
    ("truncate", SIZES, ALL, 70),
    ("match", SIZES, ALL, 30),
    ("manage_local", SIZES, MATCHING, 30),
    ("unexpected", SIZES, ALL, 40),
    ("search", SIZES, ALL, 30),
    ("unlink", SIZES, ALL, 60),
    ("perm", SIZES, ALL, 30),
    ("atomics", SIZES, ALL, 70),
    ("fetch_atomic", SIZES, ALL, 70),
    ("swap", SIZES, ALL, 70),
    ("iovec", SIZES, ALL, 70),
    ("ct", SIZES, ALL, 30),
    ("eq", SIZES, ALL, 30),
    ("triggered", SIZES, ALL, 40),
    ("flowctrl", SIZES, ALL, 70),
    ("recover", SIZES, ALL, 60),
    ("segv", SIZES, ALL, 60),
    ("abort", (1, 2), ALL, 30),
    ("bundle", SIZES, ALL, 30),
    ("badargs", (1, 2), ALL, 30),
    ("progress", SIZES, ALL, 60),
    ("offload", (2, 4), MATCHING, 60),
    ("oversubscribe", (8,), ALL, 70),
    ("threads", SIZES, ALL, 70),
    ("volatile", SIZES, ALL, 30),
    ("ordering", SIZES, ALL, 70),
    ("stress", SIZES, ALL, 70),
    ("gone", (2, 4), ALL, 70),
    # The README's, which checks itself less: it ends well, or not.
    ("hello", SIZES, ("logical-me",), 30),
]
# Program, variant, and what happens to a rail while it runs. Each sends some 40 MB from either
# host with so many processes. At this rate a rail is back long before the program's end, and
# the other one alone still brings the longest message in half of the time that a program waits.
BREAKS = [
    ("put", "logical-me", "cut"),
    ("get", "physical-le", "silent"),
]
BREAKS_RANKS, BREAKS_RATE, BREAKS_SECONDS_MAX = 4, "40mbit", 60
# What a rail has carried that is used, and the other one while this one is broken.
USED_BYTES, ALONE_BYTES = 1 << 20, 4 << 20
# The last process of these ends by SIGKILL, and the others well.
DIES = ("gone",)
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
# Where rank 0 listens on the first host of a lab, which nobody else uses.
LAB_PORT = 7000
EXAMPLES = os.path.join(ROOT, "examples", "portals")


def source_of(name):
    source = os.path.join(SOURCES, name + ".c")
    return source if os.path.exists(source) else os.path.join(EXAMPLES, name + ".c")


def tail(text):
    return "\n".join("    " + line for line in text.splitlines()[-TAIL_LINES:])


class Here:
    """All processes of a job on this host."""

    def meeting(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{free.getsockname()[1]}"

    def command(self, rank, command):
        return command

    def clean(self):
        pass


class OnHosts:
    """The processes of a job in turn on the hosts of a lab."""

    def __init__(self, labs, hosts, rails):
        self.labs, self.hosts, self.rails = labs, hosts, rails
        self.lab = labs.lab("--hosts", str(hosts), "--rails", str(rails))
        self.lab.__enter__()

    def meeting(self):
        return f"h0:{LAB_PORT}"

    def command(self, rank, command):
        # What the lab's launchers talk over is no rail.
        return [self.labs.tool, "lab", "exec", "--name", self.lab.name, f"h{rank % self.hosts}",
                "--", "env", "PTL_DEVICES=^ctl", *command]

    def carry(self, job, rail, count):
        """Waits until the first host has sent so many bytes more by a rail."""
        wanted = self.lab.carried("h0", rail) + count
        deadline = time.monotonic() + BREAKS_SECONDS_MAX
        while self.lab.carried("h0", rail) < wanted:
            codes = job.wait(0)
            if None not in codes or any(codes) or time.monotonic() > deadline:
                raise Failed(f"{rail} has not carried {count} bytes more, and the job has "
                             f"{codes}\n" + "".join(map(tail, job.texts())))
            time.sleep(0.01)

    def break_amid(self, job, change):
        """The job goes on by the other rail, and uses this one again when it is back."""
        self.carry(job, "r1", USED_BYTES)
        self.lab.link("h0", "r1", change)
        self.carry(job, "r0", ALONE_BYTES)
        self.lab.link("h0", "r1", "up")
        self.carry(job, "r1", USED_BYTES)

    def set_rates(self, rate):
        for rail in range(self.rails):
            self.lab.link("h0", f"r{rail}", "rate", rate)

    def clean(self):
        """Whoever is ended here may go on there."""
        for host in range(self.hosts):
            self.lab.sh(f"h{host}", "kill -9 -1")

    def down(self):
        self.lab.__exit__()


class Job:
    """The processes of one run: each in a session of its own, its output in a file."""

    def __init__(self, place, command, ranks, env, dies):
        self.place, self.dying = place, ranks - 1 if dies else None
        shared = dict(os.environ, **env, SLUICE_JOB=place.meeting(),
                      SLUICE_JOB_KEY=secrets.token_hex(16), SLUICE_JOB_SIZE=str(ranks),
                      SLUICE_JOB_TIMEOUT_S="60")
        for launcher in ("PMI_FD", "PMIX_NAMESPACE"):
            shared.pop(launcher, None)
        self.outputs, self.processes = [], []
        for rank in range(ranks):
            output = tempfile.TemporaryFile(mode="w+", errors="replace")
            self.outputs.append(output)
            self.processes.append(subprocess.Popen(
                place.command(rank, command), env=dict(shared, SLUICE_JOB_RANK=str(rank)),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            ))

    def codes(self):
        """The exit codes; that of a process that is to be killed is 0 if it was."""
        codes = [process.poll() for process in self.processes]
        if self.dying is not None and codes[self.dying] is not None:
            was_killed = codes[self.dying] in KILLED
            codes[self.dying] = 0 if was_killed else codes[self.dying] or 1
        return codes

    def wait(self, limit):
        """The exit codes; None for a process that had to be ended."""
        deadline = time.monotonic() + limit
        while True:
            codes = self.codes()
            if None not in codes:
                return codes
            if any(code not in (None, 0, EXIT_SKIPPED) for code in codes):
                deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
            if time.monotonic() > deadline:
                return codes
            time.sleep(0.005)

    def end(self):
        is_left = False
        for process in self.processes:
            if process.poll() is None:
                is_left = True
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
        if is_left:
            self.place.clean()

    def texts(self):
        for output in self.outputs:
            output.seek(0)
            yield output.read()


class LaunchedJob:
    """The processes of one run, started by Hydra, MPICH's launcher, which they ask by PMI-1
    for each other; their output is one."""

    def __init__(self, place, hydra, command, ranks, env):
        self.place = place
        words = [hydra, "-n", str(ranks)]
        for name, value in env.items():
            words += ["-genv", name, value]
        if isinstance(place, OnHosts):
            # In turn on the hosts, one rank at a time.
            words += ["-hosts", ",".join(f"h{host}:1" for host in range(place.hosts))]
            words = [place.labs.tool, "lab", "exec", "--name", place.lab.name, "head", "--",
                     *words, "-genv", "PTL_DEVICES", "^ctl"]
        # No other way to a job is left.
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("SLUICE_JOB", "PMI_", "PMIX_"))}
        self.output = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.process = subprocess.Popen(
            [*words, *command], env=kept, stdin=subprocess.DEVNULL, stdout=self.output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )

    def wait(self, limit):
        try:
            return [self.process.wait(limit)]
        except subprocess.TimeoutExpired:
            return [None]

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.place.clean()
        self.process.wait()

    def texts(self):
        self.output.seek(0)
        yield self.output.read()


def outcome(code):
    if code is None:
        return "ended by the time limit"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


class Suite:
    def __init__(self, args, folder):
        self.lib = os.path.abspath(args.lib)
        self.args = args
        self.folder = folder
        self.place = Here()
        # Why nothing can run.
        self.reason = ""
        # Why there is no lab although there could be one.
        self.fault = ""
        self.binaries = os.path.join(ROOT, "target", "portals-tests")
        try:
            os.makedirs(self.binaries, exist_ok=True)
            if not os.access(self.binaries, os.W_OK):
                raise PermissionError
        except PermissionError:
            # Another user's checkout.
            self.binaries = os.path.join(folder, "bin")
            os.makedirs(self.binaries)
        self.env = {}
        for setting in args.env:
            name, _, value = setting.partition("=")
            self.env[name] = value
        # Faults on purpose, and how often each was done.
        if args.faults:
            self.env["FI_SLUICE_FAULTS"] = args.faults
        self.faults_done = collections.Counter()

    def compile(self, arguments, fresh_of):
        """Compiles into a file of its own first; gives what the compiler says if it fails."""
        fresh = f"{fresh_of}.{os.getpid()}"
        done = subprocess.run(
            [self.args.cc, *FLAGS, "-I", INCLUDE, *arguments, "-o", fresh],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )
        if done.returncode != 0:
            return "it does not compile\n" + tail(done.stdout)
        os.replace(fresh, fresh_of)
        return None

    def build(self, names):
        """What went wrong with each program that could not be built."""
        harness = os.path.join(self.binaries, "harness.o")
        error = self.compile(["-c", os.path.join(SOURCES, "harness.c")], harness)
        if error:
            return {name: "harness.c: " + error for name in names}

        def one(name):
            if self.args.compile_only:
                source = source_of(name)
                return name, self.compile(["-c", source], os.path.join(self.binaries, name + ".o"))
            return name, self.compile(
                [source_of(name), *([harness] if source_of(name).startswith(SOURCES) else []),
                 f"-L{self.lib}", "-lportals", f"-Wl,-rpath,{self.lib}", "-lm"],
                os.path.join(self.binaries, name),
            )

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return {name: error for name, error in pool.map(one, names) if error}

    def go_to_hosts(self):
        self.reason = why_not()
        if not self.reason:
            labs = Labs(os.path.abspath(self.args.build_dir or self.lib), self.folder)
            try:
                self.place = OnHosts(labs, self.args.hosts, self.args.rails)
            except Failed as failed:
                self.fault = f"no lab of {self.args.hosts} hosts: {failed}"

    def run_while_a_rail_breaks(self, name, ranks, variant, limit, change):
        if self.reason or self.fault:
            return self.run(name, ranks, variant, limit)
        self.place.set_rates(BREAKS_RATE)
        try:
            self.run(name, ranks, variant, limit, lambda job: self.place.break_amid(job, change))
        finally:
            # The next run is not to find what this one has left.
            self.place.lab.link("h0", "r1", "up")
            self.place.set_rates("none")

    def run(self, name, ranks, variant, limit, meanwhile=None):
        if self.reason:
            raise Skipped(self.reason)
        if self.fault:
            raise Failed(self.fault)
        command = [os.path.join(self.binaries, name), *VARIANTS[variant]]
        if self.args.hydra and name in DIES:
            raise Skipped("Hydra ends a job of which a process is killed")
        if self.args.hydra:
            job = LaunchedJob(self.place, self.args.hydra, command, ranks, self.env)
        else:
            job = Job(self.place, command, ranks, self.env, name in DIES)
        try:
            if meanwhile:
                meanwhile(job)
            codes = job.wait(limit)
        finally:
            job.end()
        texts = list(job.texts())
        for line in re.findall(r"^sluice: faults done: (.*)$", "\n".join(texts), re.M):
            for kind, count in re.findall(r"(\w+) (\d+)", line):
                self.faults_done[kind] += int(count)
        if all(code == 0 for code in codes):
            return
        if all(code == EXIT_SKIPPED for code in codes):
            reason = re.search(r"^skip: (.*)$", "\n".join(texts), re.M)
            raise Skipped(reason.group(1) if reason else "the program says so")
        raise Failed("".join(
            f"\n  rank {rank}: {outcome(code)}" + ("\n" + tail(text) if text else "")
            for rank, (code, text) in enumerate(zip(codes, texts))
        ))

    def all_faults_are_done(self):
        """Each that was asked for was done, or nothing was tried."""
        asked = [part.partition("=")[0] for part in self.args.faults.split(",")]
        never = [kind for kind in asked if kind != "seed" and not self.faults_done[kind]]
        if never:
            raise Failed(f"never done: {', '.join(never)}; does the library do faults?")
        return ", ".join(f"{kind} {count}" for kind, count in self.faults_done.items() if count)

    def tests(self):
        """Title, program, and what to call."""
        for name, sizes, variants, limit in PROGRAMS:
            for ranks in sizes:
                # A program with a number of its own keeps it.
                if len(sizes) > 1 and not self.is_wanted(ranks=ranks):
                    continue
                for variant in variants:
                    if self.is_wanted(name, variant):
                        yield f"{name} -n {ranks} {variant}", name, functools.partial(
                            self.run, name, ranks, variant, limit)
        if self.args.hosts < 2 or self.args.rails != 2:
            return
        for name, variant, change in BREAKS:
            if self.is_wanted(name, variant, BREAKS_RANKS):
                title = f"{name} -n {BREAKS_RANKS} {variant} while a rail breaks: {change}"
                yield title, name, functools.partial(
                    self.run_while_a_rail_breaks, name, BREAKS_RANKS, variant,
                    BREAKS_SECONDS_MAX, change)

    def is_wanted(self, name=None, variant=None, ranks=None):
        """Whether the command line leaves these in."""
        asked = ((name, self.args.only), (variant, self.args.variant), (ranks, self.args.n))
        return all(it is None or not among or it in among for it, among in asked)


def listed(kind):
    return lambda text: [kind(part) for part in text.split(",") if part]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lib", default=os.path.join(ROOT, "target", "release"), metavar="DIR",
                        help="where libportals.so is")
    parser.add_argument("--only", type=listed(str), metavar="NAMES", help="programs, with commas")
    parser.add_argument("-n", type=listed(int), metavar="COUNTS",
                        help="numbers of processes, with commas")
    parser.add_argument("--variant", type=listed(str), metavar="NAMES",
                        help="of " + ", ".join(ALL))
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--faults", default="", metavar="SPEC",
                        help="what FI_SLUICE_FAULTS says to a library built with the feature `faults`")
    parser.add_argument("--hosts", type=int, default=0, metavar="N",
                        help="spread the processes over hosts of a lab")
    parser.add_argument("--rails", type=int, default=2, metavar="M", help="networks of the lab")
    parser.add_argument("--hydra", metavar="PROGRAM", help="MPICH's launcher, mpiexec.hydra: it "
                        "starts the processes, which find each other by PMI-1")
    parser.add_argument("--build-dir", metavar="DIR", help="where sluice is, if not beside --lib")
    parser.add_argument("--repeat", type=int, default=1, metavar="N")
    parser.add_argument("--list", action="store_true", help="print the tests' names")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    parser.add_argument("--compile-only", action="store_true", help="needs no library")
    parser.add_argument("--cc", default=shutil.which("cc") or "gcc", metavar="PROGRAM")
    args = parser.parse_args()
    known = {name for name, *_ in PROGRAMS}
    for name in args.only or ():
        if name not in known:
            parser.error(f"there is no program {name}")
    for name in args.variant or ():
        if name not in VARIANTS:
            parser.error(f"there is no variant {name}")

    with tempfile.TemporaryDirectory(prefix="sluice-portals-") as folder:
        suite = Suite(args, folder)
        tests = list(suite.tests())
        if args.list:
            print("\n".join(title for title, _, _ in tests))
            return 0
        if args.hosts:
            suite.go_to_hosts()
        try:
            return run_all(suite, tests, args)
        finally:
            if isinstance(suite.place, OnHosts):
                suite.place.down()


def run_all(suite, tests, args):
    out = sys.stderr if args.json else sys.stdout
    if not args.compile_only and not os.path.exists(os.path.join(suite.lib, "libportals.so")):
        print(f"there is no libportals.so in {args.lib}: build it first", file=sys.stderr)
        return 2
    broken = suite.build(sorted({name for _, name, _ in tests}))
    if args.compile_only:
        for name, error in broken.items():
            print(f"FAIL {name}: {error}", file=out)
        print(f"{len({name for _, name, _ in tests}) - len(broken)} compiled, "
              f"{len(broken)} failed", file=out)
        return 1 if broken else 0
    verdicts = Verdicts(args.json)
    for _ in range(args.repeat):
        for title, name, call in tests:
            verdicts.judge(title, call, broken=broken.get(name))
    if args.faults:
        verdicts.judge("each fault was done", suite.all_faults_are_done)
    return verdicts.end()


if __name__ == "__main__":
    leave(main)
