#!/usr/bin/env python3
"""Runs MPI programs over Sluice across hosts of a lab (`sluice lab`), and breaks rails meanwhile.

Open MPI's own launcher starts the ranks. Those of one host talk over shared memory, the
others over TCP. The C programs of tests/mpi check themselves. Each test prints one line;
the last line is `N passed, N failed, N skipped`. Where the kernel or the user's rights
allow no lab, all tests are skipped, and the lines say why.
"""

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from run_lab import Labs, why_not
from run_mpi import (KILL_SECONDS_MAX, MATCHES, OFI, OFI_TCP, ROOT, SEEN_SECONDS_MAX, SMALL, THREAD,
                     Job, Suite, need, run, tail)
from strangers import listeners_of
from verdicts import Failed, Skipped, Verdicts, check, leave

LIMIT_SECONDS = 120
# What a rail carries at least if it is used, and at most if it is not.
USED_BYTES = 1 << 20
UNUSED_BYTES = 64 << 10
# What a job's end may take by the one rail that is left: those that wait for the other one take
# longer.
END_SECONDS_MAX = 20
# How long all rails are cut in the test that cuts them all.
OUTAGE_SECONDS = 3
# When a peer that no rail reaches is given up, and what the job's end may take beside.
GONE_SECONDS = 30
# A second's work for one process.
EXPERIMENT = "rdrp-slow-sink-small"
WAITS = os.path.join(ROOT, "tests", "waits_rank.py")
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

# Labs: how many hosts and rails, and the other arguments of `sluice lab up`.
TWO = (2, 2, ())
UNEQUAL = (2, 4, ("--rate", "1gbit,500mbit,200mbit,100mbit"))
THREE = (3, 2, ())
NAMES = {TWO: "two rails", UNEQUAL: "four unequal rails", THREE: "three hosts"}

TCP = {"FI_SLUICE_RAILS": "tcp"}
ENCRYPT = {"FI_SLUICE_SECURITY": "encrypt"}
OPEN = {"FI_SLUICE_SECURITY": "none"}
OFI_UDP = {"FI_SLUICE_RAILS": "ofi:udp;ofi_rxd"}
OFI_BESIDE = {"FI_SLUICE_RAILS": "shm,tcp,ofi:tcp"}

# Program, ranks, lab, extra environment, and as in run_mpi.py: arguments, parameters of
# Open MPI.
PROGRAMS = [
    ("sendrecv", 2, TWO, {}),
    ("sizes", 2, TWO, {}),
    ("lengths", 2, TWO, {}),
    ("unexpected", 2, TWO, {}),
    ("cancel", 2, TWO, {}),
    ("truncate", 2, TWO, {}),
    ("ssend", 2, TWO, {}),
    ("huge", 2, TWO, {}),
    ("modes", 4, TWO, {}),
    ("derived", 2, TWO, {}),
    ("persistent", 2, TWO, {}),
    ("wildcards", 4, TWO, {}),
    ("probe", 4, TWO, {}),
    ("threads", 4, TWO, {}),
    ("random", 4, TWO, {}, ["1"]),
    ("random", 5, TWO, {}, ["2"]),
    ("alltoall", 6, TWO, {}),
    ("collectives", 4, TWO, {}),
    ("window", 4, TWO, {}),
    ("rma", 4, TWO, {}, [], {"osc": "pt2pt"}),
    ("flood", 2, TWO, {}, ["messages", "20000"]),
    ("flood", 4, TWO, {}, ["reverse", "messages", "2000"]),
    ("flood", 4, TWO, SMALL, ["reverse", "messages", "2000"]),
    ("random", 4, TWO, SMALL, ["3"]),
    ("random", 4, TWO, THREAD, ["4"]),
    ("sizes", 4, TWO, THREAD),
    ("random", 4, TWO, TCP, ["5"]),
    ("collectives", 4, TWO, TCP),
    ("sizes", 4, TWO, ENCRYPT),
    ("random", 4, TWO, dict(ENCRYPT, **THREAD), ["8"]),
    ("flood", 4, TWO, dict(ENCRYPT, **SMALL), ["reverse", "messages", "2000"]),
    ("random", 4, TWO, dict(OPEN, **TCP), ["9"]),
    ("sizes", 4, TWO, OFI),
    ("random", 4, TWO, OFI, ["10"]),
    ("random", 4, TWO, dict(OFI, **THREAD), ["11"]),
    ("sendrecv", 2, TWO, OFI),
    ("sizes", 2, TWO, OFI_UDP),
    ("random", 4, TWO, OFI_UDP, ["12"]),
    # What matches is never udp;ofi_rxd here: that of libfabric 1.17 may then stay in fi_cq_read for
    # ever, on one host too (`random` of two ranks, seed 16).
    ("random", 4, TWO, dict(OFI_TCP, **MATCHES), ["13"]),
    ("alltoall", 4, TWO, dict(OFI_TCP, **MATCHES)),
    ("sizes", 2, UNEQUAL, {}),
    ("random", 4, UNEQUAL, {}, ["6"]),
    ("alltoall", 4, UNEQUAL, {}),
    ("sendrecv", 3, THREE, {}),
    ("random", 6, THREE, {}, ["7"]),
    ("collectives", 6, THREE, {}),
    ("alltoall", 6, THREE, {}),
]

# What happens to a rail, and what ends it.
FAULTS = [
    (("cut",), ("up",)),
    (("down",), ("up",)),
    (("silent",), ("up",)),
    (("rate", "5mbit"), ("rate", "none")),
    (("loss", "5%"), ("loss", "0")),
]
# With what else rails are broken, and how.
FAULTS_WITH = (ENCRYPT, THREAD, OFI)
FAULTS_OF_THESE = [fault for fault in FAULTS if fault[0][0] in ("cut", "silent")]

# What starts a command on a host, and gives it nothing of this environment, as a real ssh.
AGENT = """#!/bin/sh
exec env -i PATH="$PATH" SLUICE_LAB="$SLUICE_LAB" "/run/sluice-lab/$SLUICE_LAB/bin/agent" "$@"
"""


class Hosts:
    """The tests, and the lab that they share."""

    def __init__(self, build_dir, folder):
        self.labs = Labs(build_dir, folder)
        self.suite = Suite(argparse.Namespace(transport="sluice", build_dir=build_dir), folder)
        self.folder = folder
        self.lab = None
        self.shape = None

    # Labs.

    def on(self, shape):
        """The lab of this shape: the one that is there, or a new one."""
        if self.shape != shape:
            self.down()
            hosts, rails, words = shape
            self.lab = self.labs.lab("--hosts", str(hosts), "--rails", str(rails), *words)
            self.lab.__enter__()
            self.shape = shape
        return self.lab

    def down(self):
        """Ends the lab, and all that still runs there."""
        lab, self.lab, self.shape = self.lab, None, None
        if lab:
            lab.__exit__()

    def carried(self, host, rail):
        """How many bytes a host has sent by a rail."""
        return self.lab.carried(host, rail)

    # Jobs.

    def exec(self, *words, host="head"):
        return [self.labs.tool, "lab", "exec", "--name", self.lab.name, host, "--", *words]

    def mpirun(self, ranks, env, program, mca=None, more=(), hosts=None):
        """The command that runs a program on ranks that are spread over the hosts."""
        hosts = hosts or spread(ranks, self.shape[0])
        more = ["--host", hosts, *more]
        return self.exec(*self.suite.mpirun(ranks, env, program, mca, more))

    def program(self, name, ranks, shape, env, arguments=(), mca=None):
        self.on(shape)
        program = [self.suite.binary(name), *arguments]
        run(self.mpirun(ranks, env, program, mca), self.folder, LIMIT_SECONDS)

    def steady(self, ranks=4, shape=TWO, env=None):
        """A checked program that goes on until the test is through."""
        self.on(shape)
        return Steady(self, ranks, env or {})

    # By what messages go.

    def ranks_of_one_host_share_memory(self):
        self.on(TWO)
        for hosts, is_used in (("h0:2", False), ("h0:1,h1:1", True)):
            before = [self.carried("h0", rail) for rail in ("r0", "r1")]
            program = [self.suite.binary("sizes")]
            run(self.mpirun(2, {}, program, hosts=hosts), self.folder, LIMIT_SECONDS)
            after = [self.carried("h0", rail) for rail in ("r0", "r1")]
            for count in (after[0] - before[0], after[1] - before[1]):
                good = count >= USED_BYTES if is_used else count <= UNUSED_BYTES
                check(good, f"ranks on {hosts} sent {count} bytes by a rail")

    def each_rank_uses_both(self):
        """The ranks' own counters: packets through shared memory, connections elsewhere."""
        self.on(TWO)
        env = {"FI_SLUICE_STATS": "1"}
        program = [self.suite.binary("alltoall")]
        _, text, _ = run(self.mpirun(4, env, program), self.folder, LIMIT_SECONDS)
        lines = re.findall(r"(\d+) packets out, (\d+) in;.*; network: (\d+) connections opened, "
                           r"(\d+) broken", text)
        check(len(lines) == 4, tail(text))
        for packets_out, packets_in, opened, broken in lines:
            # Two ranks elsewhere, by two rails each; the second where there was a long message.
            # Where both ends have asked for one at once one of the two gives way, and counts as
            # broken at an end that sees it close before it has heard of the other one: at most
            # once for each of the four.
            check(int(packets_out) > 50 and int(packets_in) > 50, tail(text))
            check(2 <= int(opened) - int(broken) <= 4 and int(broken) <= 4, tail(text))

    def all_unequal_rails_carry(self):
        with self.steady(ranks=2, shape=UNEQUAL) as steady:
            rails = [f"r{rail}" for rail in range(4)]
            before = [self.carried("h0", rail) for rail in rails]
            wait_until(lambda: all(self.carried("h0", rail) >= start + USED_BYTES
                                   for rail, start in zip(rails, before)), "a rail is not used")
            steady.finish()

    def a_device_that_is_excluded_carries_nothing(self):
        self.on(TWO)
        before = [self.carried("h0", rail) for rail in ("r0", "r1")]
        env = {"FI_SLUICE_DEVICES": "^r0,^ctl"}
        run(self.mpirun(2, env, [self.suite.binary("sizes")]), self.folder, LIMIT_SECONDS)
        after = [self.carried("h0", rail) for rail in ("r0", "r1")]
        counts = after[0] - before[0], after[1] - before[1]
        check(counts[0] <= UNUSED_BYTES and counts[1] >= USED_BYTES, counts)

    def ranks_listen_at_the_devices_that_they_use(self, rails):
        """And nowhere else, nor at all addresses of the host, of either family."""
        # What Open MPI itself listens with is not meant.
        env = {"FI_SLUICE_DEVICES": "^r0,^ctl", "OMPI_MCA_btl": "self", **rails}
        with self.steady(env=env) as steady:
            steady.go_on(1)
            used = {address for host in ("h0", "h1") for address in self.addresses(host, "r1")}
            ranks = ranks_of(steady)
            check(len(ranks) == 4, f"ranks {sorted(ranks)}")
            for rank, process in ranks.items():
                ends = listeners_of(process) + listeners_of(process, socket.AF_INET6)
                check(ends and all(address in used for address, _ in ends),
                      f"rank {rank} listens at {ends}, and r1 has {used}")
            steady.finish()

    def addresses(self, host, rail):
        """Those of a device, of both families."""
        said = self.lab.sh(host, f"ip -o address show dev {rail}")
        return re.findall(r"inet6? ([\da-f.:]+)/", said)

    def hosts_with_ipv6_alone(self):
        self.down()
        lab = self.on(TWO)
        for host in ("h0", "h1"):
            for rail in ("r0", "r1"):
                lab.sh(host, f"ip -4 address flush dev {rail}")
        program = [self.suite.binary("sizes")]
        before = self.carried("h0", "r1")
        run(self.mpirun(4, {}, program), self.folder, LIMIT_SECONDS)
        count = self.carried("h0", "r1") - before
        self.down()
        check(count >= USED_BYTES, count)

    def a_host_with_ipv6_alone_meets_one_with_both(self):
        """Whichever of the two it is: either may ask the other first."""
        program = [self.suite.binary("sizes")]
        counts = []
        for host in ("h0", "h1"):
            self.down()
            lab = self.on(TWO)
            for rail in ("r0", "r1"):
                lab.sh(host, f"ip -4 address flush dev {rail}")
            before = [self.carried("h0", rail) for rail in ("r0", "r1")]
            run(self.mpirun(4, {}, program), self.folder, LIMIT_SECONDS)
            counts += [self.carried("h0", rail) - start
                       for rail, start in zip(("r0", "r1"), before)]
        self.down()
        check(min(counts) >= USED_BYTES, counts)

    def without_the_network_other_hosts_are_refused(self):
        self.on(TWO)
        env = {"FI_SLUICE_RAILS": "shm"}
        command = self.mpirun(2, env, [self.suite.binary("sendrecv")])
        code, text, _ = run(command, self.folder, LIMIT_SECONDS, may_fail=True)
        check(code != 0 and "another machine" in text, f"{code}\n{tail(text)}")

    # Programs that nobody here wrote.

    def netpipe(self, shape):
        self.on(shape)
        command = self.mpirun(2, {}, [need("NPopenmpi"), "-i", "-u", "1048576"])
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            _, text, _ = run(command, folder, 2 * LIMIT_SECONDS)
        checked = text.count("Integrity check passed")
        check(checked >= 30 and "failed" not in text, f"{checked} sizes\n{tail(text)}")
        return f"{checked} sizes"

    def mpi4py(self, part, only):
        self.on(TWO)
        script = os.path.join(ROOT, "tests", "run_mpi4py.py")
        words = ["--lab", self.lab.name, "--ranks", "4", "--part", part, "--filter", only,
                 "--time-limit", str(2 * LIMIT_SECONDS), "--provider-path", self.suite.providers]
        _, text, _ = run([sys.executable, script, *words], self.folder, 4 * LIMIT_SECONDS)
        return text.splitlines()[-1]

    def sluice_run(self):
        """It sets what remote ranks need, and counts them."""
        self.on(TWO)
        agent = os.path.join(self.folder, "agent")
        with open(agent, "w", encoding="ascii") as file:
            file.write(AGENT)
        os.chmod(agent, 0o755)
        env = dict(self.labs.env, FI_SLUICE_TUNE="off", OMPI_MCA_plm_rsh_agent=agent)
        if os.geteuid() == 0:
            env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        words = ["--host", "h0:2,h1:2", "-n", "4", "--bind-to", "none"]
        program = self.suite.binary("sendrecv")
        command = self.exec(self.labs.tool, "run", "--", need("mpirun"), *words, program)
        done = subprocess.run(command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=LIMIT_SECONDS)
        found = re.search(r"^sluice: Sluice carried .* by 4 ranks on 2 hosts; by device: "
                          r"(r0 \S+ \S+, r1|r[01]) \S+ [KM]?i?B$", done.stdout, re.M)
        check(done.returncode == 0 and found, f"{done.returncode}\n{tail(done.stdout)}")

    def mpich(self):
        self.on(TWO)
        mpiexec, compiler = need("mpiexec.hydra"), need("mpicc.mpich")
        program = os.path.join(self.folder, "sendrecv.mpich")
        source = os.path.join(ROOT, "tests", "mpi", "sendrecv.c")
        built = subprocess.run([compiler, "-pthread", source, "-o", program],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(built.returncode == 0, tail(built.stdout))
        words = ["run", "--", mpiexec, "-hosts", "h0:2,h1:2", "-n", "4", program]
        done = subprocess.run([self.labs.tool, words[0], "--dry-run", *words[1:]],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise Skipped(done.stdout.strip())
        run(self.exec(self.labs.tool, *words), self.folder, LIMIT_SECONDS)

    # Failures.

    def one_of_two_rails(self, breaks, mends, env=None):
        """The other one takes over, and the first one is used again when it is back."""
        with self.steady(env=env) as steady:
            steady.go_on()
            self.lab.link("h0", "r1", *breaks)
            steady.go_on(10)
            self.lab.link("h0", "r1", *mends)
            steady.go_on()
            self.is_used("r1")
            steady.finish()

    def is_used(self, rail):
        before = self.carried("h0", rail)
        wait_until(lambda: self.carried("h0", rail) >= before + USED_BYTES,
                   f"{rail} is not used again")

    def a_rail_that_stays_broken(self):
        """The job goes on by the other one, and ends as ever."""
        with self.steady() as steady:
            steady.go_on()
            self.lab.link("h0", "r1", "cut")
            steady.go_on(10)
            steady.finish(END_SECONDS_MAX)
        self.down()

    def a_rail_that_was_broken_before(self):
        self.on(TWO)
        self.lab.link("h0", "r0", "cut")
        with self.steady() as steady:
            steady.go_on(10)
            steady.finish(END_SECONDS_MAX)
        self.down()

    def rails_that_fail_in_turn(self, env=None):
        with self.steady(env=env) as steady:
            for rail in ("r0", "r1", "r0"):
                steady.go_on()
                self.lab.link("h0", rail, "cut")
                steady.go_on()
                self.lab.link("h0", rail, "up")
                self.is_used(rail)
            steady.finish()

    def all_rails_cut_for_a_while(self):
        with self.steady() as steady:
            steady.go_on()
            for change in ("cut", "up"):
                for rail in ("r0", "r1"):
                    self.lab.link("h0", rail, change)
                if change == "cut":
                    time.sleep(OUTAGE_SECONDS)
            steady.go_on(10)
            steady.finish()

    def one_of_three_hosts_loses_a_rail(self):
        with self.steady(ranks=6, shape=THREE) as steady:
            steady.go_on()
            self.lab.link("h1", "r0", "cut")
            steady.go_on(10)
            self.lab.link("h1", "r0", "up")
            steady.go_on()
            steady.finish()

    def a_host_that_no_rail_reaches(self):
        """Each rank is told why it is given up: what was sent to it, and was to come from it,
        ends with an error, and nothing else does."""
        self.on(TWO)
        with Steady(self, 4, {}, ["messages"], "survive") as steady:
            steady.go_on()
            for rail in ("r0", "r1"):
                self.lab.link("h0", rail, "cut")
            # Each has a receive from each other rank, and looks at all of them until the end.
            wait_until(lambda: steady.text().count("saw the end") >= 8,
                       "not all ranks saw the end of both on the other host", steady.job)
            open(steady.over, "w", encoding="ascii").close()
            code = steady.job.wait(KILL_SECONDS_MAX)
            text = steady.text()
        self.down()
        check(code not in (0, None), f"exit code {code}\n{tail(text)}")
        saw = re.findall(r"rank (\d) saw the end of rank (\d)", text)
        wanted = [(who, whom) for who in "0123" for whom in "0123" if int(who) // 2 != int(whom) // 2]
        check(sorted(saw) == wanted, f"who saw whose end: {sorted(saw)}\n{tail(text)}")
        told = re.findall(r"process \w+ on [\d.]+ is given up: no rail has reached it", text)
        check(len(told) == 8, f"{len(told)} lines of 8 say why\n{tail(text)}")

    def what_waits_for_a_host_that_no_rail_reaches(self):
        """Receives, synchronous sends and long ones each end with an error; those of this host
        go on waiting."""
        if subprocess.run([PYTHON, "-c", "import mpi4py"], stderr=subprocess.DEVNULL).returncode:
            raise Skipped(f"{PYTHON} has no mpi4py: install python3-mpi4py")
        self.on(TWO)
        with Steady(self, 4, {}, program=[PYTHON, WAITS]) as waits:
            wait_until(lambda: waits.text().count(" waits") == 4, "not all ranks wait", waits.job)
            check(" ends: " not in waits.text(), tail(waits.text()))
            for rail in ("r0", "r1"):
                self.lab.link("h0", rail, "cut")
            wait_until(lambda: waits.text().count(" ends: ") >= 24, "not all has ended", waits.job)
            open(waits.over, "w", encoding="ascii").close()
            waits.job.wait(KILL_SECONDS_MAX)
            text = waits.text()
        self.down()
        ended = re.findall(r"rank (\d): (\w+) (\d) ends: \S", text)
        wanted = [(who, what, whom) for who in "0123" for what in ("receive", "send", "ssend")
                  for whom in ("23" if who in "01" else "01")]
        check(sorted(ended) == wanted, f"what has ended: {sorted(ended)}\n{tail(text)}")

    def experiment(self):
        """Processes of both hosts share an experiment: the results are those of one process."""
        self.on(TWO)
        results = []
        for where in ("both", "one"):
            out = os.path.join(self.folder, f"experiment-{where}")
            command = [self.labs.tool, "sim", "run", EXPERIMENT, "--out", out]
            if where == "both":
                command = self.mpirun(4, {}, command)
            run(command, self.folder, LIMIT_SECONDS)
            with open(os.path.join(out, "results.csv"), "rb") as file:
                results.append(file.read())
        check(results[0] == results[1] and results[0].count(b"\n") > 1, "other results")

    def kill(self, what, env):
        """A rank on the other host dies by SIGKILL: the job ends soon, and leaves nothing."""
        self.on(TWO)
        command = self.mpirun(4, env, [self.suite.binary("kill"), what])
        code, text, _ = run(command, self.folder, KILL_SECONDS_MAX, may_fail=True)
        check(code != 0 and "FAILED" not in text, f"exit code {code}\n{tail(text)}")
        for host in ("h0", "h1"):
            # The ranks' own ends may come a moment after the launcher's.
            wait_until(lambda host=host: not self.runs(host, "kill"), f"ranks are left on {host}")

    def runs(self, host, name):
        binary = self.suite.binary(name)
        line = "for it in /proc/[0-9]*; do tr '\\0' '\\n' < $it/cmdline | head -n 1; done"
        return binary in self.lab.sh(host, f"{{ {line}; }} 2>/dev/null; true").split("\n")

    def survivors(self, what, env):
        """The same with a launcher that lets the other ranks go on, those of the host of
        the dead one too."""
        self.on(TWO)
        program = [self.suite.binary("kill"), what]
        job = Job(self.mpirun(4, env, program, more=["--enable-recovery"]), self.folder)
        try:
            # Over several hosts Open MPI's launcher waits for the dead rank for ever.
            wait_until(lambda: said(job).count("went on with") == 3 or "FAILED" in said(job)
                       or job.process.poll() is not None, "they did not go on", job)
            text = said(job)
        finally:
            job.end()
            self.down()
        death = re.search(r"dies at ([0-9.]+)", text)
        saw = [float(at) for at in re.findall(r"saw the death at ([0-9.]+)", text)]
        went_on = text.count("went on with the other survivors")
        check(death and len(saw) == 3 and went_on == 3,
              f"{len(saw)} of 3 saw the death, {went_on} went on\n{tail(text)}")
        died = float(death.group(1))
        # Its time was taken a moment before its death.
        check(min(saw) >= died, f"an error came before the death\n{tail(text)}")
        check(max(saw) - died <= SEEN_SECONDS_MAX, f"seen only later\n{tail(text)}")
        return f"seen after {max(saw) - died:.3f} s"

    # The table.

    def tests(self):
        """Name, programs to build, and what to call. Those on one lab stand together."""
        def named(call, *arguments, title="", programs=("steady",)):
            title = title or call.__name__.replace("_", " ")
            return title, programs, lambda: call(*arguments)

        sizes = {"programs": ("sizes",)}
        yield named(self.ranks_of_one_host_share_memory, **sizes)
        yield named(self.each_rank_uses_both, programs=("alltoall",))
        yield named(self.a_device_that_is_excluded_carries_nothing, **sizes)
        for rails in ({}, OFI_BESIDE):
            title = f"ranks listen at the devices that they use {title_env(rails)}".rstrip()
            yield named(self.ranks_listen_at_the_devices_that_they_use, rails, title=title)
        yield named(self.without_the_network_other_hosts_are_refused, programs=("sendrecv",))
        yield named(self.sluice_run, programs=("sendrecv",))
        yield named(self.mpich, title="MPICH", programs=())
        yield named(self.netpipe, TWO, title="netpipe over two rails", programs=())
        for shape in (TWO, UNEQUAL, THREE):
            for row in PROGRAMS:
                name, ranks, on, env, arguments, mca = row + ([], {})[len(row) - 4:]
                if on is shape:
                    title = title_of(name, ranks, on, arguments, env, mca)
                    yield named(self.program, name, ranks, on, env, arguments, mca, title=title,
                                programs=(name,))
            if shape is TWO:
                yield from self.failures(named)
            if shape is UNEQUAL:
                yield named(self.all_unequal_rails_carry)
            if shape is THREE:
                yield named(self.one_of_three_hosts_loses_a_rail)
        yield named(self.hosts_with_ipv6_alone, **sizes)
        yield named(self.a_host_with_ipv6_alone_meets_one_with_both, **sizes)

    def failures(self, named):
        for breaks, mends in FAULTS:
            words = " ".join(breaks)
            yield named(self.one_of_two_rails, breaks, mends, title=f"one of two rails: {words}")
        for env in FAULTS_WITH:
            for breaks, mends in FAULTS_OF_THESE:
                words = " ".join([*breaks, title_env(env)])
                yield named(self.one_of_two_rails, breaks, mends, env,
                            title=f"one of two rails: {words}")
            yield named(self.rails_that_fail_in_turn, env,
                        title=f"rails that fail in turn: {title_env(env)}")
        yield named(self.rails_that_fail_in_turn)
        yield named(self.a_rail_that_stays_broken)
        yield named(self.a_rail_that_was_broken_before)
        yield named(self.all_rails_cut_for_a_while)
        for what in ("small", "large", "receive", "send"):
            yield named(self.survivors, what, {}, title=f"survivors {what}", programs=("kill",))
        yield named(self.survivors, "large", THREAD, programs=("kill",),
                    title=f"survivors large {title_env(THREAD)}")
        yield named(self.kill, "large", {}, title="kill large", programs=("kill",))
        yield named(self.experiment, title="an experiment that is shared", programs=())
        for part, only in (("point-to-point", ""), ("collective", "test_cco_buf.")):
            yield named(self.mpi4py, part, only, title=f"mpi4py, {part} {only}".strip("._ "),
                        programs=())
        yield named(self.a_host_that_no_rail_reaches, programs=("survive",))
        yield named(self.what_waits_for_a_host_that_no_rail_reaches, programs=())


class Steady:
    """The program `steady`, or another, at work; it ends with the test."""

    def __init__(self, hosts, ranks, env, words=(), name="steady", program=()):
        self.hosts, self.name = hosts, name
        self.over = os.path.join(hosts.folder, f"over-{time.monotonic_ns()}")
        words = [*(program or [hosts.suite.binary(name)]), self.over, *words]
        self.job = Job(hosts.mpirun(ranks, env, words), hosts.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.job.end()

    def text(self):
        return said(self.job)

    def rounds(self):
        return self.text().count("round ")

    def go_on(self, more=5):
        """Waits for more rounds to end."""
        wanted = self.rounds() + more

        def has_gone_on():
            code = self.job.process.poll()
            check(code is None, f"the job ended with {code}\n{tail(self.text())}")
            return self.rounds() >= wanted

        wait_until(has_gone_on, f"it does not go on to round {wanted}", self.job)

    def finish(self, limit=LIMIT_SECONDS):
        """Lets it end: all that came was right."""
        open(self.over, "w", encoding="ascii").close()
        code = self.job.wait(limit)
        check(code == 0 and "steady: all correct" in self.text(),
              f"exit code {code}\n{tail(self.text())}")


def said(job):
    """What a job has printed so far. The offset of the file is the job's."""
    return os.pread(job.output.fileno(), 1 << 24, 0).decode(errors="replace")


def wait_until(holds, what, job=None):
    deadline = time.monotonic() + LIMIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise Failed(f"{what}\n{tail(said(job))}" if job else what)
        time.sleep(0.05)


def ranks_where(is_of_program):
    """The processes of this host whose arguments are a program's, by rank."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if not is_of_program(file.read().split(b"\0")):
                    continue
            with open(f"/proc/{name}/environ", "rb") as file:
                rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", file.read())
        except OSError:
            continue
        if rank:
            found[int(rank[1])] = int(name)
    return found


def ranks_of(steady):
    """The processes of a program by rank, those on hosts of a lab too."""
    binary, over = steady.hosts.suite.binary(steady.name).encode(), steady.over.encode()
    return ranks_where(lambda words: words[0] == binary and over in words)


def processes_of(program):
    """The processes of a program with these arguments, by rank."""
    wanted = [*map(str.encode, program), b""]
    return ranks_where(lambda words: words == wanted)


def spread(ranks, hosts):
    """The ranks on hosts, in blocks that differ by one at most: `h0:2,h1:1`."""
    counts = [ranks // hosts + (host < ranks % hosts) for host in range(hosts)]
    return ",".join(f"h{host}:{count}" for host, count in enumerate(counts) if count)


def title_env(env):
    return " ".join(f"{key}={value}" for key, value in env.items())


def title_of(name, ranks, shape, arguments, env, mca):
    words = [name, *arguments, "-n", str(ranks), title_env({**mca, **env})]
    return " ".join(filter(None, words)) + f" over {NAMES[shape]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests with it in the name")
    parser.add_argument("--list", action="store_true", help="print the tests' names")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "target", "release"),
                        help="where sluice and libsluice-fi.so are")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-hosts-") as folder:
        hosts = Hosts(os.path.abspath(args.build_dir), os.path.realpath(folder))
        tests = [test for test in hosts.tests() if args.filter in test[0]]
        if args.list:
            print("\n".join(title for title, _, _ in tests))
            return 0
        try:
            return run_all(hosts, tests)
        finally:
            hosts.down()


def run_all(hosts, tests):
    for name in ("sluice", "libsluice-fi.so"):
        if not os.path.exists(os.path.join(hosts.suite.providers, name)):
            print(f"there is no {name} in {hosts.suite.providers}: build it first",
                  file=sys.stderr)
            return 2
    reason = why_not()
    if not shutil.which("mpirun.openmpi") and not shutil.which("mpirun"):
        reason = reason or "mpirun is not installed"
    broken = {}
    if not reason:
        broken = hosts.suite.build(sorted({name for _, names, _ in tests for name in names}))
    verdicts = Verdicts()
    for title, programs, call in tests:
        refused = next((broken[name] for name in programs if name in broken), None)
        if verdicts.judge(title, call, why_not=reason, broken=refused) == "FAIL":
            # Nothing of it is left for the next test.
            hosts.down()
    return verdicts.end()


if __name__ == "__main__":
    leave(main)
