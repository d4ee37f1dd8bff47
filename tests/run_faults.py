#!/usr/bin/env python3
"""Runs MPI programs over Sluice whose processes are killed, stopped, forked, or very many.

Over shared memory, over TCP on this host, and between two hosts of a lab: a rank that is
killed (-9) at a moment that a seed draws, amid messages or collectives, whose end each other
rank sees in time, and no other's; one that is killed while ranks begin or end, whose job ends in
time and leaves nothing; one that is stopped for a while and loses nothing; strangers who connect
to ranks, a thousand of each sort; ranks that start other processes while messages are under way;
16 threads that all call MPI; 128 ranks. Each test prints one line; the last line is
`N passed, N failed, N skipped`.
"""

import argparse
import os
import random
import re
import signal
import sys
import tempfile
import time

from run_hosts import (ENCRYPT, LIMIT_SECONDS, OPEN, TWO, Hosts, Steady, processes_of, ranks_of, said,
                       wait_until)
from run_lab import why_not
from run_mpi import ROOT, THREAD, Job, abandoned, run, shared_memory, tail
from strangers import Sorts, listeners_of
from verdicts import Failed, Verdicts, check, leave

RANKS = 4
# Connections of each sort of stranger.
VISITS = 1000
# Within which every other rank sees a death.
SEEN_SECONDS_MAX = 5
# A rank is killed that long after the first rounds, at most.
LATE_SECONDS_MAX = 0.4
# And that long after it has said that it begins, or that it ends.
PHASE_SECONDS_MAX = {"begins": 0.25, "ends": 0.02}
# Within which the ranks of a job end of which one was killed then, and the launcher after them.
END_SECONDS_MAX = 20
LAUNCHER_SECONDS_MAX = 3
# How likely each drawn fault is at each chance (docs/recovery.md).
FAULTS = ("drop=0.0005,delay=0.002,refuse=0.05,stall=0.0002,exhaust=0.0002,short=0.05,"
          "corrupt=0.0005")
# The same on shared memory. Who was once denied copies no more, so that is rare.
SHM_FAULTS = "away=0.00005,deny=0.0005,claims=0.3,short=0.05"
# Until each was done there may be so many times as many seeds as are wanted.
DRAWN_MORE = 10
# Mailboxes of the fewest slots, and polls that come seldom: all credits are spent.
FEW_SLOTS = {"FI_SLUICE_MAILBOX_SLOTS": "8192"}
# No memory for the own mailbox, or for those of others. Then a job ends in error, and says so.
SHORTAGES = {"make=1": "cannot make", "map=1": "cannot open the mailbox"}
# For how long memory is written over, and what is no mailbox.
TAMPER_SECONDS = 1.5
MAILBOX_BYTES_MIN = 1 << 16
SIGNS_OF_A_CRASH = ("panicked", "signal 11", "signal 7", "signal 6", "Segmentation", "Bus error")
TCP = {"FI_SLUICE_RAILS": "tcp"}
OFI = {"FI_SLUICE_RAILS": "ofi:tcp"}
PLACES = ("shm", "tcp", "lab")


class Place:
    """Where the ranks run, as `Steady` wants it: this host, or the hosts of a lab."""

    def __init__(self, hosts, name):
        self.hosts, self.name = hosts, name
        self.folder, self.suite = hosts.folder, hosts.suite
        self.more = ()

    def mpirun(self, ranks, env, program):
        if self.name == "lab":
            self.hosts.on(TWO)
            return self.hosts.mpirun(ranks, env, program, more=self.more)
        env = {**(TCP if self.name == "tcp" else {}), **env}
        return self.suite.mpirun(ranks, env, program, more=self.more)

    def program(self, name, ranks, env, arguments=(), limit=LIMIT_SECONDS):
        command = self.mpirun(ranks, env, [self.suite.binary(name), *arguments])
        return run(command, self.folder, limit)


def mailboxes_of(processes):
    """The files of mailboxes that these processes map, and nobody else's."""
    found = set()
    for process in processes:
        with open(f"/proc/{process}/maps") as maps:
            found.update(re.findall(r" (/dev/shm/\S*sluice\S*)$", maps.read(), re.M))
    return sorted(path for path in found
                  if os.path.exists(path) and os.path.getsize(path) > MAILBOX_BYTES_MIN)


def write_over(mailbox, draw):
    """Writes over some bytes of a file that processes map. Not if it is gone: a rank has ended."""
    try:
        with open(mailbox, "r+b", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            # What all depends on is in front.
            at = draw.randrange(4096 if draw.random() < 0.3 else size)
            os.pwrite(file.fileno(), draw.randbytes(draw.choice([1, 4, 8, 64])),
                      min(at, size - 64))
    except FileNotFoundError:
        return False
    return True


class Faults:
    """The tests."""

    def __init__(self, args, folder):
        self.args = args
        self.hosts = Hosts(os.path.abspath(args.build_dir), folder)
        # Such that does what FI_SLUICE_FAULTS says.
        self.faulty = args.faulty_dir and Hosts(os.path.abspath(args.faulty_dir), folder)

    def place(self, name):
        return Place(self.hosts, name)

    def killed(self, name, env, seed, amid):
        """A rank is killed: every other one sees its end in time, and no other's."""
        draw = random.Random(seed)
        victim, rounds = draw.randrange(RANKS), draw.randrange(1, 6)
        late_seconds = draw.random() * LATE_SECONDS_MAX
        place = self.place(name)
        # Else the launcher ends the others, and nothing is seen.
        place.more = ["--enable-recovery"]
        with Steady(place, RANKS, env, [amid], "survive") as steady:
            steady.go_on(rounds)
            ranks = ranks_of(steady)
            check(len(ranks) == RANKS, f"ranks {sorted(ranks)}")
            time.sleep(late_seconds)
            died = time.monotonic()
            try:
                os.kill(ranks[victim], signal.SIGKILL)
            except ProcessLookupError:
                raise Failed(f"seed {seed}: rank {victim} had ended before it was killed") from None

            def have_seen():
                return steady.text().count("saw the end") >= RANKS - 1

            wait_until(have_seen, f"seed {seed}: rank {victim} is dead, and not all others see it",
                       steady.job)
            text = steady.text()
        saw = re.findall(r"rank (\d+) saw the end of rank (\d+) at ([0-9.]+)", text)
        whose = sorted((int(who), int(whom)) for who, whom, _ in saw)
        wanted = [(who, victim) for who in range(RANKS) if who != victim]
        check(whose == wanted, f"seed {seed}: who saw whose end: {whose}\n{tail(text)}")
        late = max(float(at) for *_, at in saw) - died
        check(late <= SEEN_SECONDS_MAX, f"seed {seed}: seen after {late:.2f} s\n{tail(text)}")
        return late

    def killed_amid(self, name, env, amid):
        return self.many_killed(lambda seed: self.killed(name, env, seed, amid), "seen")

    def killed_while(self, name, env, phase):
        return self.many_killed(lambda seed: self.killed_in(name, env, seed, phase), "over")

    def killed_in(self, name, env, seed, phase):
        """A rank is killed while it begins or ends: all end in time, and leave nothing."""
        draw = random.Random(seed)
        victim, late_seconds = draw.randrange(RANKS), draw.random() * PHASE_SECONDS_MAX[phase]
        place, before = self.place(name), shared_memory()
        program = [self.hosts.suite.binary("phases"), f"seed-{seed}-{time.monotonic_ns()}"]
        job = Job(place.mpirun(RANKS, env, program), place.folder)
        try:
            wait_until(lambda: f"rank {victim} {phase}" in said(job) or
                       job.process.poll() is not None, f"rank {victim} never {phase}", job)
            time.sleep(late_seconds)
            died = time.monotonic()
            try:
                os.kill(processes_of(program)[victim], signal.SIGKILL)
            except (KeyError, ProcessLookupError):
                # It was faster: that is no fault.
                pass
            while processes_of(program):
                check(time.monotonic() - died < END_SECONDS_MAX,
                      f"seed {seed}: ranks {list(processes_of(program))} do not end")
                time.sleep(0.01)
            took = time.monotonic() - died
            # Of a rank that is killed while it makes itself known, Open MPI's launcher says that
            # the job has ended, and may then stay itself.
            code = job.wait(LAUNCHER_SECONDS_MAX)
        finally:
            job.end()
        text = job.text()
        was_killed = f"rank {victim} has ended" not in text
        check(code != 0 or not was_killed, f"seed {seed}: exit code 0, and rank {victim} is dead")
        # What the killed have left is removed by the next start.
        self.place("shm").program("self", 1, {"FI_SLUICE_SEGMENT": "file"})
        left = abandoned(before)
        # Open MPI's own segment outlives a rank killed before its launcher knows of it.
        theirs = {path for path in left if os.path.basename(path).startswith("vader_segment.")}
        for path in theirs:
            os.unlink(path)
        files = sorted(set(left) - theirs)
        check(not files, f"seed {seed}: files are left: {files}")
        return took if was_killed else 0.0

    def many_killed(self, kill, what):
        first = self.args.seed if self.args.seed is not None else (
            random.SystemRandom().randrange(1 << 30))
        try:
            late = [kill(seed) for seed in range(first, first + self.args.trials)]
        finally:
            # The launcher of several hosts waits for dead ranks for ever.
            self.hosts.down()
        hit = sum(late_seconds > 0 for late_seconds in late)
        return f"{hit} of {len(late)} from seed {first}, {what} after {max(late):.3f} s at most"

    def stopped(self, name, env):
        """A rank is stopped for a while: what was sent to it waits, and all goes on."""
        with Steady(self.place(name), RANKS, env) as steady:
            for victim in range(self.args.stops):
                steady.go_on()
                ranks = ranks_of(steady)
                check(len(ranks) == RANKS, f"ranks {sorted(ranks)}")
                os.kill(ranks[victim], signal.SIGSTOP)
                try:
                    time.sleep(self.args.stop_seconds)
                finally:
                    os.kill(ranks[victim], signal.SIGCONT)
                steady.go_on()
            steady.finish()
        return f"{self.args.stops} stops of {self.args.stop_seconds} s"

    def strangers(self, env):
        """Who does not belong to a job connects to its ranks: it is told of, and all goes on."""
        seed = self.args.seed if self.args.seed is not None else (
            random.SystemRandom().randrange(1 << 30))
        # Open MPI's own TCP listens too, and waits for a stranger's bytes without end.
        alone = {**env, "OMPI_MCA_btl": "self"}
        with Steady(self.place("tcp"), RANKS, alone) as steady:
            steady.go_on(3)
            ranks = ranks_of(steady)
            ends = [end for rank in ranks for end in listeners_of(ranks[rank])]
            check(len(ends) >= RANKS, f"the ranks listen at {ends}")
            sorts = Sorts(os.path.join(self.hosts.suite.providers, "sluice"), env)
            waiting = sorts.knock(ends, seed)
            steady.go_on(2)
            wrong = sorts.wrong_answers(waiting)
            check(not wrong, f"seed {seed}: {wrong}")
            for sort in sorts:
                sorts.visit(ends, sort, VISITS, seed)
                steady.go_on(2)
            text = steady.text()
            check("a connection from" in text, f"nobody tells of strangers\n{tail(text)}")
            check(" is gone" not in text, f"seed {seed}: a peer was given up\n{tail(text)}")
            steady.finish()
        return f"{len(sorts)} sorts, {VISITS} times each at {len(ends)} ports, seed {seed}"

    def children(self, name, env):
        self.place(name).program("children", RANKS, env, [str(self.args.rounds)])

    def threads(self, name, env):
        self.place(name).program("threads", 2, env, ["16", "12"])

    def many_ranks(self):
        """128 ranks start, exchange with each other, and finish."""
        _, _, job = self.place("shm").program("sendrecv", 128, {}, ["2"],
                                              limit=self.args.many_seconds)
        return f"{job.seconds:.0f} s"

    def drawn_faults(self, name, env):
        """Programs over rails that do what a seed draws, and all is right."""
        first = self.args.seed if self.args.seed is not None else (
            random.SystemRandom().randrange(1 << 30))
        wanted = (["away", "claims", "short"] if name == "shm" else
                  ["drop", "delay", "stall", "exhaust", "short"])
        done, seed, trials = {}, first, self.args.trials

        def missing():
            return [kind for kind in wanted if not done.get(kind)]

        # Some are rare: a few seeds more, if it takes them.
        while seed - first < trials or missing() and seed - first < DRAWN_MORE * trials:
            for kind, count in self.drawn(name, env, seed):
                done[kind] = done.get(kind, 0) + count
            seed += 1
        check(not missing(), f"seed {first}: never done: {missing()}")
        return f"from seed {first}: " + ", ".join(f"{count} {kind}" for kind, count in done.items())

    def drawn(self, name, env, seed):
        """Runs programs with the faults of a seed; gives the kinds and how often each was done."""
        faults = f"seed={seed},{SHM_FAULTS if name == 'shm' else FAULTS}"
        for program, ranks, arguments in [("random", 3, [str(seed)]), ("sizes", 2, []),
                                          ("alltoall", 4, [])]:
            place = Place(self.faulty, name)
            _, text, _ = place.program(program, ranks, {**env, "FI_SLUICE_FAULTS": faults},
                                       arguments)
            told = re.findall(r"sluice: faults done: (.*)", text)
            check(len(told) == ranks, f"seed {seed}: {len(told)} have told of faults")
            for kind, count in re.findall(r"(\w+) (\d+)", " ".join(told)):
                yield kind, int(count)

    def no_memory(self, env):
        """No shared memory for mailboxes: the job ends in time with an error that says it."""
        for fault, words in SHORTAGES.items():
            place = Place(self.faulty, "shm")
            env = {**env, "FI_SLUICE_FAULTS": fault}
            job = Job(place.mpirun(2, env, [place.suite.binary("sizes")]), place.folder)
            try:
                code = job.wait(END_SECONDS_MAX)
            finally:
                job.end()
            text = job.text()
            check(code not in (0, None), f"{fault}: exit code {code}\n{tail(text)}")
            check(words in text, f"{fault}: it does not say `{words}`\n{tail(text)}")
            for bad in SIGNS_OF_A_CRASH:
                check(bad not in text, f"{fault}: {bad}\n{tail(text)}")
        return f"{len(SHORTAGES)} shortages"

    def tampered(self, env):
        """Bytes of the mailboxes of running ranks are written over: the job may end in error,
        and its data be wrong, but no rank ends by a signal or a panic."""
        first = self.args.seed if self.args.seed is not None else (
            random.SystemRandom().randrange(1 << 30))
        written, ended = 0, 0
        for seed in range(first, first + self.args.trials):
            draw = random.Random(seed)
            with Steady(self.place("shm"), 2, {**env, "FI_SLUICE_SEGMENT": "file"}) as steady:
                steady.go_on(2)
                ours = mailboxes_of(ranks_of(steady).values())
                check(len(ours) >= 2, f"seed {seed}: mailboxes: {ours}")
                deadline = time.monotonic() + TAMPER_SECONDS
                while time.monotonic() < deadline and steady.job.process.poll() is None:
                    if not write_over(draw.choice(ours), draw):
                        break
                    written += 1
                    time.sleep(0.001)
                ended += steady.job.process.poll() is not None
                text = steady.text()
            for bad in SIGNS_OF_A_CRASH:
                check(bad not in text, f"seed {seed}: {bad}\n{tail(text)}")
        return f"{written} writes from seed {first}, {ended} of {self.args.trials} jobs ended by it"

    def tests(self):
        """Title, place, and what to call."""
        begun = ("shm",) if self.args.short else ("shm", "tcp")
        for env in [{}] if self.args.short else [{}, THREAD]:
            words = " ".join(["shm", *(f"{key}={value}" for key, value in env.items())])
            yield f"tampered memory: {words}", "shm", lambda e=env: self.tampered(e)
        for env in [{}, {"FI_SLUICE_SEGMENT": "file"}] if self.faulty else ():
            words = " ".join(["shm", *(f"{key}={value}" for key, value in env.items())])
            yield f"no memory for mailboxes: {words}", "shm", lambda e=env: self.no_memory(e)
        for name, env in [("shm", {}), ("shm", FEW_SLOTS), ("tcp", {}), ("tcp", THREAD),
                          ("tcp", ENCRYPT), ("tcp", OFI)] if self.faulty else ():
            words = " ".join([name, *(f"{key}={value}" for key, value in env.items())])
            yield f"drawn faults: {words}", name, lambda n=name, e=env: self.drawn_faults(n, e)
        for env in [{}, ENCRYPT, OPEN, *([] if self.args.short else [THREAD])]:
            words = " ".join(["tcp", *(f"{key}={value}" for key, value in env.items())])
            yield f"strangers: {words}", "tcp", lambda e=env: self.strangers(e)
        for name in PLACES:
            variants = [{}] if self.args.short else [{}, THREAD] + ([OFI] if name == "tcp" else [])
            for env in variants:
                words = " ".join([name, *(f"{key}={value}" for key, value in env.items())])
                for amid in ["messages", "collectives"]:
                    yield f"killed amid {amid}: {words}", name, (
                        lambda n=name, e=env, a=amid: self.killed_amid(n, e, a))
                # The launcher of a lab waits for dead ranks for ever.
                for phase in PHASE_SECONDS_MAX if name in begun else ():
                    yield f"killed while it {phase}: {words}", name, (
                        lambda n=name, e=env, p=phase: self.killed_while(n, e, p))
                yield f"stopped: {words}", name, lambda n=name, e=env: self.stopped(n, e)
            for env in [{}, THREAD]:
                words = " ".join([name, *(f"{key}={value}" for key, value in env.items())])
                yield f"children: {words}", name, lambda n=name, e=env: self.children(n, e)
            if name != "tcp" or not self.args.short:
                yield f"16 threads: {name}", name, lambda n=name: self.threads(n, {})
        yield "128 ranks", "shm", self.many_ranks


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", metavar="TEXT",
                        help="only tests with it in the name")
    parser.add_argument("--trials", type=int, default=3, metavar="N",
                        help="how many ranks are killed in each test [default: 3]")
    parser.add_argument("--seed", type=int, metavar="S",
                        help="of the first of them [default: drawn anew]")
    parser.add_argument("--stops", type=int, default=2, choices=range(1, RANKS + 1), metavar="N",
                        help="how many ranks are stopped, one after the other [default: 2]")
    parser.add_argument("--stop-seconds", type=float, default=1, metavar="S",
                        help="for how long [default: 1]")
    parser.add_argument("--rounds", type=int, default=20, metavar="N",
                        help="how many processes each rank starts [default: 20]")
    parser.add_argument("--short", action="store_true",
                        help="without some that take long")
    parser.add_argument("--many-seconds", type=float, default=120, metavar="S",
                        help="within which 128 ranks end [default: 120]")
    parser.add_argument("--faulty-dir", default="", metavar="DIR",
                        help="where a libsluice-fi.so is that was built with the feature `faults`")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "target", "release"),
                        help="where sluice and libsluice-fi.so are")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-faults-") as folder:
        faults = Faults(args, os.path.realpath(folder))
        try:
            return run_all(faults, args)
        finally:
            faults.hosts.down()


def run_all(faults, args):
    suite = faults.hosts.suite
    if not os.path.exists(os.path.join(suite.providers, "libsluice-fi.so")):
        print(f"there is no libsluice-fi.so in {suite.providers}: build it first", file=sys.stderr)
        return 2
    broken = suite.build(["alltoall", "children", "phases", "random", "self", "sendrecv",
                          "sizes", "steady", "survive", "threads"])
    no_lab = why_not()
    verdicts = Verdicts()
    for title, place, call in faults.tests():
        if args.filter not in title:
            continue
        refused = no_lab if place == "lab" else ""
        verdict = verdicts.judge(title, call, why_not=refused, broken=" ".join(broken.values()))
        if verdict == "FAIL" and place == "lab":
            faults.hosts.down()
    return verdicts.end()


if __name__ == "__main__":
    leave(main)
