#!/usr/bin/env python3
"""Real programs that lack something of the system: file descriptors, shared memory, address
space, ports, threads, room for a file.

Each test takes one thing away and looks that a program goes on, or ends with an error that
names the thing, the cause and the next step: never by a signal, never by waiting. What else
can run out has tests beside the code; docs/recovery.md has the table of all. Ports, threads
and file systems are taken away in namespaces, or from another user, which takes root.
"""

import argparse
import os
import re
import shutil
import socket
import subprocess
import tempfile

import run_portals
from run_mpi import ROOT, Suite, need, run, tail
from verdicts import Failed, Skipped, Verdicts, check, leave, methods

SLUICE = os.path.join(ROOT, "target", "release", "sluice")
# How long a program may take that is to end by itself.
SECONDS_MAX = 120
# And each side of a ping-pong: one whose peer has ended for want of something may wait.
SIDE_SECONDS_MAX = 15
# Who is not root, and has no processes otherwise.
NOBODY = 65534
WITHOUT_THREADS = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                   "prlimit", "--nproc=2"]
TCP = {"FI_SLUICE_RAILS": "tcp"}


def within(directory, options):
    """What begins a command that has a file system of its own there, as small as that."""
    script = f'mount -t tmpfs -o {options} tmpfs {directory} && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


class Tests:
    def __init__(self, args, folder):
        args.transport = "sluice"
        self.suite = Suite(args, folder)
        self.folder = folder
        self.broken = self.suite.build(["alltoall", "sizes"])

    def mpi(self, name, ranks, env, limits=(), around=()):
        """Exit code and output of an MPI program; one that a signal ends fails the test."""
        if name in self.broken:
            raise Failed(self.broken[name])
        program = [*limits, self.suite.binary(name)]
        command = [*around, *self.suite.mpirun(ranks, env, program)]
        code, text, _ = run(command, self.folder, SECONDS_MAX, may_fail=True)
        check("signal" not in text, tail(text))
        return code, text

    def pingpong(self, env, limits=(), around=()):
        """Two processes without MPI: exit codes and output of server and client."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        program = ["timeout", str(SIDE_SECONDS_MAX), *limits, need("fi_pingpong"), "-p", "sluice", "-e", "rdm", "-m", "tagged",
                   "-c", "-I", "20", "-S", "65536"]
        # Both in one namespace, the client when the server listens.
        script = ('port=$1; shift; "$@" -B $port & server=$!; for turn in $(seq 100); do '
                  'sleep 0.1; "$@" -P $port 127.0.0.1 >client 2>&1; code=$?; '
                  'grep -q "onnection refused" client && kill -0 $server || break; done; '
                  'wait $server; echo "server $?"; echo "client $code"; cat client')
        command = [*around, "sh", "-c", script, "sh", port, *program]
        env = dict(self.suite.fabric_env(), FI_SLUICE_TUNE="off", **env)
        _, text, _ = run(command, tempfile.mkdtemp(dir=self.folder), SECONDS_MAX, env,
                         may_fail=True)
        codes = [int(re.search(rf"^{who} (\d+)$", text, re.M)[1]) for who in ("server", "client")]
        return codes, text

    # File descriptors, and sockets, which are such.

    def descriptors(self, env):
        """The fewest descriptors with which a program runs, and what is said with fewer."""
        said, fewest = "", None
        for count in (48, 32, 24, 20):
            code, text = self.mpi("alltoall", 4, env, ["prlimit", f"--nofile={count}"])
            if code == 0:
                fewest = count
                continue
            lines = [line for line in text.splitlines() if "sluice: warning" in line]
            check(any("Too many open files" in line and "ulimit -n" in line for line in lines),
                  tail(text))
            said = lines[0]
        check(fewest and said, "it runs with no descriptors, or with none of these")
        return f"runs with {fewest}"

    def test_file_descriptors(self):
        return self.descriptors({})

    def test_sockets(self):
        # Those who lack none notice after half a minute that the others do not come.
        code, text = self.mpi("alltoall", 4, TCP, ["prlimit", "--nofile=20"])
        check(code != 0 and "Too many open files" in text and "ulimit -n" in text, tail(text))
        code, text = self.mpi("alltoall", 4, TCP, ["prlimit", "--nofile=48"])
        check(code == 0, tail(text))

    # Shared memory.

    def test_shared_memory_of_a_card_alone(self):
        """With anonymous memory /dev/shm holds what a process is found by: a page."""
        code, text = self.mpi("sizes", 2, {}, around=within("/dev/shm", "size=64k"))
        check(code == 0, tail(text))

    def test_no_shared_memory_for_a_card(self):
        code, text = self.mpi("sizes", 2, {}, around=within("/dev/shm", "size=4k"))
        check(code != 0 and "by which others find this process" in text
              and "No space left on device" in text and "more room" in text, tail(text))

    def test_no_shared_memory_for_a_mailbox(self):
        """A mailbox that is a file takes its room when it is made: nobody meets SIGBUS later."""
        env = {"FI_SLUICE_SEGMENT": "file"}
        code, text = self.mpi("sizes", 2, env, around=within("/dev/shm", "size=1m"))
        check(code != 0 and re.search(r"cannot make \S+ of \d+ bytes: No space left", text)
              and "FI_SLUICE_MAILBOX_SLOTS" in text, tail(text))
        code, text = self.mpi("sizes", 2, env, around=within("/dev/shm", "size=16m"))
        check(code == 0, tail(text))

    # Address space.

    def test_address_space(self):
        """From plenty down to too little: it runs or it says so, and no signal ends it."""
        fewest, said = None, 0
        for mib in (64, 12, 10, 9, 8):
            codes, text = self.pingpong({}, ["prlimit", f"--as={mib << 20}"])
            check(not set(codes) & {128 + signal for signal in range(1, 32)},
                  f"ended by a signal: {codes}\n{tail(text)}")
            if codes == [0, 0]:
                fewest = mib
            else:
                said += "annot allocate memory" in text or "fi_getinfo" in text
        check(fewest and said, f"runs with {fewest} MiB, said {said} times")
        return f"runs with {fewest} MiB"

    # Ports.

    def test_ports(self):
        script = ('ip link set lo up; sysctl -qw net.ipv4.ip_local_port_range="40000 40001"; '
                  'exec "$@"')
        around = ["unshare", "--net", "sh", "-c", script, "sh"]
        codes, text = self.pingpong(TCP, around=around)
        check(codes != [0, 0] and "ip_local_port_range" in text, tail(text))

    # Threads.

    def without_threads(self, env):
        self.reachable_by_nobody()
        codes, text = self.pingpong(dict(env, FI_SLUICE_PROGRESS="thread"), WITHOUT_THREADS)
        check(codes == [0, 0], tail(text))
        check(text.count("no thread to make progress") == 2 and "ulimit -u" in text, tail(text))

    def reachable_by_nobody(self):
        """Lets the other user have the library, and a directory to run in."""
        os.chmod(self.folder, 0o755)
        asked = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                 "test", "-r", os.path.join(self.suite.providers, "libsluice-fi.so")]
        if subprocess.run(asked).returncode != 0:
            raise Skipped("another user cannot read the library")

    def test_threads(self):
        self.without_threads({})

    def test_threads_over_tcp(self):
        self.without_threads(TCP)

    def test_threads_of_a_portals_program(self):
        """Its peers' operations complete while it waits for them in a call of `sluice_job.h`."""
        self.reachable_by_nobody()
        args = argparse.Namespace(lib=self.suite.providers, cc="cc", env=[], faults="",
                                  compile_only=False)
        programs = run_portals.Suite(args, self.folder)
        os.chmod(self.folder, 0o755)
        broken = programs.build(["progress"])
        check(not broken, broken)
        command = [*WITHOUT_THREADS, os.path.join(programs.binaries, "progress"),
                   *run_portals.VARIANTS["physical-me"]]
        job = run_portals.Job(run_portals.Here(), command, 2, {}, False)
        try:
            codes = job.wait(SIDE_SECONDS_MAX * 4)
        finally:
            job.end()
        text = "\n".join(job.texts())
        check(codes == [0, 0], f"{codes}\n{tail(text)}")
        check(text.count("no thread to make progress") == 2, tail(text))

    # Room for the figures of `sluice tune`.

    def tune(self, options, before="true"):
        script = (f"mount -t tmpfs -o {options} tmpfs /mnt && {before}; "
                  "XDG_CACHE_HOME=/mnt/cache exec \"$@\"")
        command = ["unshare", "--mount", "sh", "-c", script, "sh", SLUICE, "tune"]
        _, text, _ = run(command, self.folder, SECONDS_MAX)
        check("measured now, and not kept" in text, tail(text))
        return text

    def test_full_disk_for_figures(self):
        text = self.tune("size=16k", "head -c 1M /dev/zero 2>/dev/null >/mnt/full")
        check("No space left on device" in text and "more room" in text, tail(text))

    def test_home_that_cannot_be_written(self):
        text = self.tune("ro")
        check("Read-only file system" in text and "FI_SLUICE_TUNE=FILE" in text, tail(text))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="", help="only tests with this in their name")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "target", "release"),
                        help="where libsluice-fi.so is")
    args = parser.parse_args()
    verdicts = Verdicts(args.json)
    tools = ["unshare", "prlimit", "setpriv", "mpirun.openmpi", "fi_pingpong"]
    missing = [tool for tool in tools if not shutil.which(tool)]
    why_not = f"{', '.join(missing)} not installed" if missing else ""
    if os.geteuid() != 0:
        why_not = "only root makes namespaces and becomes another user"
    with tempfile.TemporaryDirectory(prefix="sluice-exhaustion-") as folder:
        tests = Tests(args, folder)
        for title, call in methods(tests, args.filter):
            verdicts.judge(title, call, why_not)
    return verdicts.end(test="exhaustion")


if __name__ == "__main__":
    leave(main)
