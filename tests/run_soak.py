#!/usr/bin/env python3
"""Runs everything at once for long: programs, kills, stops, cut rails, memory limits; from one seed.

Checked programs (tests/mpi/steady.c) go on all the time: over shared memory, over TCP, over
libfabric's tcp, and between two hosts of a lab, one of whose rails is cut and mended again and
again. Now and then a process of one of them is stopped for a while. Beside them short programs are
drawn, whose data is checked too: MPI programs of all kinds over each rail, some with little memory
or few descriptors, and jobs of which a process is killed, on one host and on two. Once a minute a
line tells how far all is, and how much memory, how many descriptors and threads the long ones
have. In the end nothing may have grown, failed or been left behind.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

import run_kills
from run_faults import FAULTS, OFI
from run_hosts import TCP, TWO, Hosts, Steady, processes_of, said
from run_lab import why_not
from run_mpi import FILE, RING, ROOT, SMALL, THREAD, Job, Suite, abandoned, run, shared_memory, tail
from verdicts import Failed, Skipped, leave

# What is drawn: name, ranks, arguments. Each checks what it receives.
PROGRAMS = [
    ("random", 4, ["{seed}"]), ("random", 5, ["{seed}"]), ("alltoall", 4, []), ("sizes", 3, []),
    ("collectives", 4, []), ("wildcards", 4, []), ("unexpected", 3, []), ("probe", 3, []),
    ("cancel", 2, []), ("window", 3, []), ("threads", 2, []), ("truncate", 2, []),
    ("flood", 3, ["messages", "5000"]), ("flood", 3, ["reverse", "messages", "2000"]),
]
SETTINGS = [{}, RING, FILE, SMALL, THREAD, TCP, dict(TCP, **THREAD), dict(TCP, **SMALL)]
# With these all must run as ever. What is too little is in run_exhaustion.py.
LIMITS = [[], [], [], ["prlimit", "--as=1500000000"], ["prlimit", "--nofile=64"],
          ["prlimit", "--data=900000000"]]
# A dozen processes that look for messages all the time share the cores with it.
PROGRAM_SECONDS_MAX = 600
# Of the short programs, with a build that does what FI_SLUICE_FAULTS says.
FAULTY_SHARE = 0.25
# How long rails are cut, and how long they are well.
CUT_SECONDS = (0.2, 6.0)
# How long a process is stopped, and how long none is.
STOP_SECONDS, GO_ON_SECONDS = (1.0, 30.0), (20.0, 60.0)
# What goes on all the time on this host.
LONGS = [("shared memory", {}), ("TCP", TCP), ("TCP, threads", dict(TCP, **THREAD)),
         ("libfabric's tcp", OFI)]
# How processes are reached of which one is killed.
KILL_SETTINGS = [{}, FILE, RING, THREAD, TCP, dict(TCP, **THREAD), OFI]
# What a long program may have more in the end than when all was warm.
GROWTH_BYTES_MAX = 4 << 20
GROWTH_DESCRIPTORS_MAX = 4
# Until when all is warm: a share of the time.
WARM_SHARE = 0.2
# How long a long program may show no new round.
STILL_SECONDS_MAX = 120


@dataclass
class Long:
    """A program that goes on all the time, and what it has had."""

    name: str
    job: Job
    over: str
    round: int = -1
    moved_at: float = field(default_factory=time.monotonic)
    first: dict = field(default_factory=dict)
    last: dict = field(default_factory=dict)

    def look(self):
        """How far it is, and what its processes have."""
        code = self.job.process.poll()
        if code is not None:
            raise Failed(f"{self.name} ended with {code}\n{tail(said(self.job))}")
        rounds = re.findall(r"^round (\d+)$", end_of(self.job), re.M)
        if rounds and int(rounds[-1]) != self.round:
            self.round, self.moved_at = int(rounds[-1]), time.monotonic()
        if time.monotonic() - self.moved_at > STILL_SECONDS_MAX:
            raise Failed(f"{self.name} stands still at round {self.round}\n{tail(said(self.job))}")
        self.last = usage(self.over) or self.last

    def grown(self):
        """What is more than when all was warm and may not be; empty if nothing is."""
        bounds = {"bytes": GROWTH_BYTES_MAX, "descriptors": GROWTH_DESCRIPTORS_MAX, "threads": 0}
        return [f"{self.name}: {self.first[what]:,} {what} became {self.last[what]:,}"
                for what, most in bounds.items()
                if self.first and self.last[what] > self.first[what] + most]


def end_of(job):
    """The last lines that a job has printed."""
    number = job.output.fileno()
    size = os.fstat(number).st_size
    return os.pread(number, 4096, max(0, size - 4096)).decode(errors="replace")


def usage(over):
    """The most that one of the ranks has: of memory that is its own, descriptors, threads."""
    most = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if len(words) < 2 or not words[0].endswith(b"/steady") or words[1] != over.encode():
                continue
            with open(f"/proc/{name}/status") as file:
                status = dict(re.findall(r"^(\w+):\s+(\d+)", file.read(), re.M))
            counts = {"bytes": int(status["RssAnon"]) * 1024, "threads": int(status["Threads"]),
                      "descriptors": len(os.listdir(f"/proc/{name}/fd"))}
        except (OSError, KeyError):
            continue
        most = {what: max(count, most.get(what, 0)) for what, count in counts.items()}
    return most


def go_on(process):
    """Ends its stop."""
    try:
        os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        pass  # Its job has ended, which `look` tells.


class Soak:
    def __init__(self, args, folder):
        args.transport = "sluice"
        self.args, self.folder = args, folder
        self.draw = random.Random(args.seed)
        self.suite = Suite(args, folder)
        self.hosts = Hosts(args.build_dir, folder)
        self.longs, self.failures, self.notes = [], [], []
        self.faulty = None
        if args.faulty_dir:
            faulty = argparse.Namespace(**{**vars(args), "build_dir": args.faulty_dir})
            self.faulty = Suite(faulty, folder)
        self.counts = {"programs": 0, "limited": 0, "faulty": 0, "killed": 0, "cuts": 0, "stops": 0}
        self.is_cut, self.change_at = False, 0.0
        # Lets the process go on that was stopped last; when the next one is stopped.
        self.waker, self.stop_at = None, time.monotonic() + GO_ON_SECONDS[0]
        self.before = shared_memory()

    def begin(self):
        broken = self.suite.build(sorted({"steady", "kill", "self"} | {row[0] for row in PROGRAMS}))
        if broken:
            raise Failed(str(broken))
        self.kills = run_kills.build(self.folder)
        for name, env in LONGS:
            over = os.path.join(self.folder, f"over-{len(self.longs)}")
            program = [self.suite.binary("steady"), over]
            self.longs.append(Long(name, Job(self.suite.mpirun(2, env, program), self.folder), over))
        why = why_not()
        if not why:
            try:
                self.hosts.on(TWO)
                steady = Steady(self.hosts, 4, {})
                self.longs.append(Long("hosts", steady.job, steady.over))
            except (Failed, Skipped) as reason:
                why = str(reason)
        if why:
            self.notes.append(f"no hosts: {why}")

    def work(self, until):
        """One thing that is drawn."""
        kind = self.draw.random()
        seed = self.draw.randrange(1 << 30)
        if kind < 0.7:
            self.program(seed)
        elif kind < 0.9:
            self.kill(seed)
        else:
            self.mpi_kill()
        self.rails(until)
        self.stops(until)

    def program(self, seed):
        name, ranks, arguments = self.draw.choice(PROGRAMS)
        env, limits = self.draw.choice(SETTINGS), self.draw.choice(LIMITS)
        suite = self.suite
        if self.faulty and self.draw.random() < FAULTY_SHARE:
            suite, env = self.faulty, dict(env, FI_SLUICE_FAULTS=f"seed={seed},{FAULTS}")
            self.counts["faulty"] += 1
        arguments = [word.format(seed=seed) for word in arguments]
        command = suite.mpirun(ranks, env, [*limits, suite.binary(name), *arguments])
        title = f"{name} {arguments}, {ranks} ranks, {env}, {limits}"
        self.attempt(title, lambda: run(command, self.folder, PROGRAM_SECONDS_MAX))
        self.counts["programs"] += 1
        self.counts["limited"] += bool(limits)

    def kill(self, seed):
        args = argparse.Namespace(build_dir=os.path.abspath(self.args.build_dir), ranks=3, seconds=30)
        plan = run_kills.plan_of(seed)
        self.attempt(f"kill, seed {seed}",
                     lambda: run_kills.run_trial(args, self.kills, self.folder, plan))
        self.counts["killed"] += 1

    def mpi_kill(self):
        what = self.draw.choice(["small", "large", "receive", "send"])
        env = self.draw.choice(KILL_SETTINGS)
        program = [self.suite.binary("kill"), what]
        if self.hosts.lab and self.draw.random() < 0.3:
            command = self.hosts.mpirun(4, env, program)
        else:
            command = self.suite.mpirun(3, env, program)

        def call():
            code, text, _ = run(command, self.folder, PROGRAM_SECONDS_MAX, may_fail=True)
            if code == 0 or "FAILED" in text:
                raise Failed(f"exit code {code}\n{tail(text)}")

        self.attempt(f"kill {what}, {env}", call)
        self.counts["killed"] += 1

    def attempt(self, title, call):
        try:
            call()
        except Skipped:
            pass
        except Failed as reason:
            self.failures.append({"what": title, "reason": str(reason)})
            print(f"FAIL {title}: {reason}", file=sys.stderr, flush=True)

    def rails(self, until, is_over=False):
        """Cuts a rail of the lab, or mends it, if it is time."""
        now = time.monotonic()
        if not self.hosts.lab or not is_over and now < self.change_at:
            return
        if self.is_cut:
            self.hosts.lab.link("h0", "r1", "up")
        elif not is_over and now < until:
            self.hosts.lab.link("h0", "r1", self.draw.choice(["cut", "silent", "down"]))
            self.counts["cuts"] += 1
        else:
            return
        self.is_cut = not self.is_cut
        self.change_at = now + self.draw.uniform(*CUT_SECONDS)

    def stops(self, until):
        """Stops a process of a long program for a while, if it is time."""
        now = time.monotonic()
        if not self.stop_at <= now < until or not self.longs:
            return
        long = self.draw.choice(self.longs)
        ranks = sorted(processes_of([self.suite.binary("steady"), long.over]).items())
        if not ranks:
            return
        stopped, seconds = self.draw.choice(ranks)[1], self.draw.uniform(*STOP_SECONDS)
        os.kill(stopped, signal.SIGSTOP)
        self.counts["stops"] += 1
        # By a thread, for a program that was drawn may take longer than that.
        self.waker = threading.Timer(seconds, go_on, [stopped])
        self.waker.start()
        self.stop_at = now + seconds + self.draw.uniform(*GO_ON_SECONDS)

    def run(self):
        self.begin()
        start = time.monotonic()
        until = start + self.args.minutes * 60
        minute = start + 60
        while time.monotonic() < until and len(self.failures) < self.args.failures:
            self.work(until)
            self.look()
            now = time.monotonic()
            if now > start + WARM_SHARE * (until - start):
                for long in self.longs:
                    long.first = long.first or dict(long.last)
            if now > minute:
                self.tell(now - start)
                minute = now + 60
        self.rails(until, is_over=True)
        if self.waker:
            self.waker.join()
        self.finish()

    def look(self):
        for long in list(self.longs):
            try:
                long.look()
            except Failed as reason:
                self.failures.append({"what": long.name, "reason": str(reason)})
                print(f"FAIL {reason}", file=sys.stderr, flush=True)
                long.job.end()
                self.longs.remove(long)

    def tell(self, seconds):
        longs = "; ".join(
            f"{long.name}: round {long.round}, {long.last.get('bytes', 0) / 2**20:.1f} MiB, "
            f"{long.last.get('descriptors')} descriptors, {long.last.get('threads')} threads"
            for long in self.longs)
        counts = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        print(f"{seconds / 60:5.1f} min: {counts}, {len(self.failures)} failed; {longs}",
              file=sys.stderr, flush=True)

    def finish(self):
        """Lets the long ones end; says what was wrong, what grew, and what is left."""
        for long in self.longs:
            open(long.over, "w", encoding="ascii").close()
        for long in self.longs:
            code = long.job.wait(PROGRAM_SECONDS_MAX)
            long.job.end()
            text = end_of(long.job)
            if code != 0 or "steady: all correct" not in text:
                self.failures.append({"what": long.name, "reason": f"exit code {code}\n{tail(text)}"})
            self.failures += [{"what": "growth", "reason": line} for line in long.grown()]
        self.hosts.down()
        # What the killed have left is removed by the next start.
        run(self.suite.mpirun(1, FILE, [self.suite.binary("self")]), self.folder, 60)
        left = sorted(path for path in abandoned(self.before) if "sluice" in path)
        if left:
            self.failures.append({"what": "left behind", "reason": ", ".join(left)})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--failures", type=int, default=10, metavar="N", help="give up after so many")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--faulty-dir", default="", metavar="DIR",
                        help="where a libsluice-fi.so is that was built with the feature `faults`")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "target", "release"),
                        help="where libsluice-fi.so and sluice are")
    args = parser.parse_args()
    if not shutil.which("mpirun.openmpi"):
        print("Open MPI is not installed", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="sluice-soak-") as folder:
        soak = Soak(args, folder)
        try:
            soak.run()
        finally:
            for long in soak.longs:
                long.job.end()
            soak.hosts.down()
    longs = [{"name": long.name, "rounds": long.round + 1, "warm": long.first, "end": long.last}
             for long in soak.longs]
    if args.json:
        print(json.dumps({"test": "soak", "seed": args.seed, "minutes": args.minutes, **soak.counts,
                          "long": longs, "notes": soak.notes, "failures": soak.failures}, indent=1))
    for note in soak.notes:
        print(note, file=sys.stderr)
    verdict = "clean" if not soak.failures else f"{len(soak.failures)} failed"
    print(f"soak of {args.minutes:g} minutes, seed {args.seed}: {verdict}", file=sys.stderr)
    return 1 if soak.failures else 0


if __name__ == "__main__":
    leave(main)
