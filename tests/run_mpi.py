#!/usr/bin/env python3
"""Runs MPI programs over Sluice under Open MPI, and libfabric's own programs.

The C programs of tests/mpi check themselves: they end with status 0 when all was
right, 77 when this machine cannot run them, and otherwise with a message. Each
test prints one line; the last line is `N passed, N failed, N skipped`.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from verdicts import Failed, Skipped, Verdicts, leave

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.join(ROOT, "tests", "mpi")
EXIT_SKIPPED = 77
TAIL_LINES = 30
KILL_SECONDS_MAX = 20
SEEN_SECONDS_MAX = 5
SHM = "/dev/shm"

RING = {"FI_SLUICE_BULK": "ring"}
FILE = {"FI_SLUICE_SEGMENT": "file"}
MEMFD = {"FI_SLUICE_SEGMENT": "memfd"}
# Two slots a sender, so that messages wait at their senders.
SMALL = {"FI_SLUICE_UNEXPECTED_BYTES": "46000"}
# A thread of each rank makes progress while the rank computes.
THREAD = {"FI_SLUICE_PROGRESS": "thread"}
# By a provider of libfabric, also to ranks of this host; alone, and beside TCP.
OFI = {"FI_SLUICE_RAILS": "ofi:tcp"}
OFI_TCP = {"FI_SLUICE_RAILS": "tcp,ofi:tcp"}
# The provider matches messages with receives.
MATCHES = {"FI_SLUICE_MATCHING": "rail", "FI_SLUICE_SECURITY": "none"}

# Program, ranks, extra environment, time limit in seconds, and arguments. With
# the key "mca", parameters of Open MPI. "peer": False leaves a test out over the
# peer transport, which does not promise what it checks.
PROGRAMS = [
    ("wildcards", 2, {}, 30),
    ("wildcards", 4, {}, 30),
    ("unexpected", 2, {}, 30),
    ("unexpected", 4, {}, 30),
    ("unexpected", 2, RING, 30),
    ("lengths", 2, {}, 30),
    ("lengths", 2, RING, 30),
    ("lengths", 2, FILE, 30),
    ("sizes", 2, {}, 30),
    ("sizes", 4, {}, 30),
    ("sizes", 2, RING, 30),
    ("huge", 2, {}, 60),
    ("cancel", 2, {}, 30),
    ("cancel", 2, RING, 30),
    ("probe", 2, {}, 30),
    ("probe", 4, {}, 30),
    ("probe", 2, RING, 30),
    ("threads", 2, {}, 90),
    ("threads", 4, {}, 90),
    ("threads", 2, RING, 90),
    ("alltoall", 4, {}, 30),
    ("alltoall", 16, {}, 60),
    ("alltoall", 16, RING, 60),
    ("window", 2, {}, 30),
    ("window", 4, {}, 30),
    ("window", 2, RING, 30),
    ("truncate", 2, {}, 30),
    ("truncate", 2, RING, 30),
    ("modes", 2, {}, 30),
    ("modes", 4, {}, 30),
    ("ssend", 2, {}, 30),
    ("last", 3, {}, 30),
    ("last", 3, {"FI_SLUICE_RAILS": "tcp"}, 60),
    ("self", 2, {}, 30),
    ("sendrecv", 2, {}, 30),
    ("sendrecv", 3, {}, 30),
    ("persistent", 2, {}, 30),
    ("derived", 2, {}, 30),
    ("random", 2, {}, 30, ["1"]),
    ("random", 4, {}, 30, ["2"]),
    ("random", 4, RING, 30, ["3"]),
    ("random", 4, FILE, 30, ["4"]),
    ("collectives", 2, {}, 30),
    ("collectives", 4, {}, 30),
    ("collectives", 4, RING, 30),
    ("rma", 2, {}, 30),
    ("rma", 4, {}, 30),
    # One-sided operations made of messages, so that they surely take this transport.
    ("rma", 4, {}, 30, [], {"osc": "pt2pt"}),
    ("flood", 2, {}, 30),
    ("flood", 4, {}, 30),
    ("flood", 2, {}, 60, ["reverse"]),
    ("flood", 4, {}, 60, ["reverse", "messages", "5000"]),
    ("flood", 4, SMALL, 60, ["reverse", "messages", "5000"]),
    ("flood", 4, dict(SMALL, FI_SLUICE_CREDITS="static"), 60, ["reverse", "messages", "5000"]),
    # That it runs and that data is right; its figures are for tests/run_overlap.py.
    ("overlap", 2, {}, 120, ["--repetitions", "3"]),
    ("overlap", 2, RING, 120, ["--repetitions", "3", "--json"]),
    ("unexpected", 4, SMALL, 30),
    ("wildcards", 4, SMALL, 30),
    ("probe", 4, SMALL, 30),
    ("random", 4, dict(SMALL, FI_SLUICE_CREDITS="static"), 60, ["3"]),
    ("away", 2, THREAD, 60),
    ("wildcards", 4, THREAD, 30),
    ("unexpected", 4, THREAD, 30),
    ("lengths", 2, dict(THREAD, **RING), 30),
    ("sizes", 4, THREAD, 30),
    ("cancel", 2, THREAD, 30),
    ("probe", 4, THREAD, 30),
    ("threads", 2, THREAD, 90),
    ("alltoall", 16, THREAD, 60),
    ("window", 4, THREAD, 30),
    ("random", 4, THREAD, 30, ["5"]),
    ("random", 4, dict(SMALL, **THREAD), 60, ["6"]),
    ("collectives", 4, THREAD, 30),
    ("rma", 4, THREAD, 30, [], {"osc": "pt2pt"}),
    ("flood", 4, dict(SMALL, **THREAD), 60, ["reverse", "messages", "5000"]),
    ("overlap", 2, THREAD, 120, ["--repetitions", "3"]),
    ("wildcards", 4, OFI, 60),
    ("unexpected", 4, OFI, 60),
    ("sizes", 2, OFI, 60),
    ("sizes", 4, OFI_TCP, 60),
    ("random", 4, dict(OFI, **THREAD), 60, ["7"]),
    ("wildcards", 4, dict(OFI_TCP, **MATCHES), 60),
    ("unexpected", 4, dict(OFI, **MATCHES), 60),
    ("sizes", 4, dict(OFI_TCP, **MATCHES), 60),
    ("lengths", 2, dict(OFI_TCP, **MATCHES), 60),
    ("probe", 4, dict(OFI_TCP, **MATCHES), 60),
    ("cancel", 2, dict(OFI_TCP, **MATCHES), 60),
    ("many", 2, dict(OFI_TCP, **MATCHES), 60),
    ("ssend", 2, dict(OFI_TCP, **MATCHES), 60),
    ("self", 2, dict(OFI_TCP, **MATCHES), 60),
    ("collectives", 4, dict(OFI_TCP, **MATCHES), 60),
    ("random", 4, dict(OFI_TCP, **MATCHES), 60, ["8"]),
    ("random", 4, dict(OFI, **dict(MATCHES, **THREAD)), 60, ["9"]),
]

# What is under way when a rank dies, ranks, environment.
KILLS = [
    ("small", 3, MEMFD),
    ("large", 3, MEMFD),
    ("receive", 3, MEMFD),
    ("send", 3, MEMFD),
    ("large", 3, dict(MEMFD, **RING)),
    ("large", 3, FILE),
    ("large", 3, dict(MEMFD, **THREAD)),
    ("small", 3, OFI),
    ("small", 3, dict(OFI_TCP, **MATCHES)),
    ("receive", 3, dict(OFI_TCP, **MATCHES)),
]


def stat_of(pid):
    """State and session of a process, or None if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return fields[0], int(fields[3])


def processes_of(session):
    """The living processes of a session."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = stat_of(name)
            if stat and stat[1] == session and stat[0] not in "ZX":
                found.append(int(name))
    return found


def end_session(session, gentle=2.0):
    """Ends every process of a session: Open MPI gives each rank a process group of
    its own, but all stay in the session of mpirun."""
    deadline = time.monotonic() + gentle
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        for pid in processes_of(session):
            try:
                os.kill(pid, signal_number)
            except ProcessLookupError:
                pass
        while processes_of(session) and time.monotonic() < deadline:
            time.sleep(0.05)
        deadline += 1.0


class Job:
    """A command in a session of its own, its output in a file."""

    def __init__(self, command, folder, env=None):
        self.output = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command, cwd=folder, env=dict(os.environ, **(env or {})), stdin=subprocess.DEVNULL,
            stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True,
        )

    def wait(self, limit):
        """The exit code, or None if the time limit passed: then all of it was ended."""
        try:
            return self.process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.seconds = time.monotonic() - self.started

    def end(self):
        """Ends what is left; gives how many processes there were."""
        left = processes_of(self.process.pid)
        if left:
            end_session(self.process.pid)
        self.process.wait()
        return len(left)

    def text(self):
        self.output.seek(0)
        return self.output.read()


def tail(text):
    return "\n".join("    " + line for line in text.splitlines()[-TAIL_LINES:])


def run(command, folder, limit, env=None, may_fail=False):
    """Runs a command to its end; gives exit code, output and seconds."""
    job = Job(command, folder, env)
    try:
        code = job.wait(limit)
    finally:
        left = job.end()
    text = job.text()
    if code is None:
        raise Failed(f"time limit of {limit} s passed, {left} processes were ended\n{tail(text)}")
    if code == EXIT_SKIPPED:
        reason = re.search(r"^skip: (.*)$", text, re.M)
        raise Skipped(reason.group(1) if reason else "the program says so")
    if code != 0 and not may_fail:
        raise Failed(f"exit code {code}\n{tail(text)}")
    return code, text, job


class Suite:
    def __init__(self, args, folder):
        self.args = args
        self.folder = folder
        self.sluice = args.transport == "sluice"
        self.providers = os.path.abspath(args.build_dir)
        self.binaries = os.path.join(ROOT, "target", "mpi-tests")
        try:
            os.makedirs(self.binaries, exist_ok=True)
            if not os.access(self.binaries, os.W_OK):
                raise PermissionError
        except PermissionError:
            # Another user's checkout.
            self.binaries = os.path.join(folder, "bin")
            os.makedirs(self.binaries)

    # Building.

    def build(self, names):
        compiler = shutil.which("mpicc.openmpi") or shutil.which("mpicc")
        if not compiler:
            return {name: "mpicc is not installed" for name in names}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return {
                name: error
                for name, error in pool.map(lambda name: self.build_one(compiler, name), names)
                if error
            }

    def build_one(self, compiler, name):
        source, header = os.path.join(SOURCES, name + ".c"), os.path.join(SOURCES, "check.h")
        binary = os.path.join(self.binaries, name)
        try:
            newest = max(os.path.getmtime(source), os.path.getmtime(header))
            if os.path.exists(binary) and os.path.getmtime(binary) > newest:
                return name, None
        except FileNotFoundError as error:
            return name, str(error)
        fresh = f"{binary}.{os.getpid()}"
        done = subprocess.run(
            [compiler, "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-pthread", source, "-o",
             fresh],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )
        if done.returncode != 0:
            return name, "it does not compile\n" + tail(done.stdout)
        os.replace(fresh, binary)
        return name, None

    # Running.

    def mpirun(self, ranks, env, program, mca=None, more=(), bind="none"):
        command = [shutil.which("mpirun.openmpi") or "mpirun", "--oversubscribe"]
        command += ["--bind-to", bind, "-n", str(ranks), *more]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
        if self.sluice:
            chosen = {"pml": "cm", "mtl": "ofi", "mtl_ofi_provider_include": "sluice"}
            # Which protocol a message takes must not depend on how fast the machine is.
            env = dict({"FI_SLUICE_TUNE": "off"}, **env)
            env = dict(env, FI_PROVIDER_PATH=self.providers, SLUICE_TEST_STRICT="1")
        else:
            chosen = {"pml": "ob1", "btl": "self,vader"}
        for name, value in {**chosen, **(mca or {})}.items():
            command += ["--mca", name, value]
        for name, value in env.items():
            command += ["-x", f"{name}={value}"]
        return command + program

    def binary(self, name):
        return os.path.join(self.binaries, name)

    def program(self, name, ranks, env, limit, arguments=(), mca=None):
        run(self.mpirun(ranks, env, [self.binary(name), *arguments], mca), self.folder, limit)

    def kill(self, what, ranks, env):
        """A rank dies by SIGKILL: the job ends soon, by itself, and leaves nothing."""
        before = shared_memory()
        job = Job(self.mpirun(ranks, env, [self.binary("kill"), what]), self.folder)
        try:
            code = job.wait(KILL_SECONDS_MAX)
            # The ranks' own ends may come a moment after mpirun's.
            deadline = time.monotonic() + 2
            while code is not None and processes_of(job.process.pid):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.02)
        finally:
            left = job.end()
        text = job.text()
        if code is None:
            raise Failed(f"the job did not end in {KILL_SECONDS_MAX} s\n{tail(text)}")
        if code == 0 or "FAILED" in text:
            raise Failed(f"exit code {code}\n{tail(text)}")
        if left:
            raise Failed(f"{left} processes of the job were left\n{tail(text)}")
        remains = abandoned(before)
        if self.sluice:
            # A killed process cannot remove its files: the next start does.
            note = f"{len(remains)} files until the next start"
            remains = self.remains_of_next_start(before, env)
        else:
            note = "nothing left"
        if remains and self.sluice:
            raise Failed(f"left in {SHM}: {', '.join(remains)}\n{tail(text)}")
        return note

    def remains_of_next_start(self, before, env):
        """What a start leaves that removes what killed processes have left. Another one
        removes what those of other programs of this machine have left meanwhile."""
        for _ in range(3):
            self.program("self", 1, env, 20)
            remains = abandoned(before)
            if not remains:
                break
        return remains

    def survivors(self, what, ranks, env):
        """The same with an mpirun that lets the other ranks go on: each must see the
        death by itself, as an error of its own call, and go on with the others."""
        before = shared_memory()
        command = self.mpirun(
            ranks, env, [self.binary("kill"), what], more=["--enable-recovery"]
        )
        # What mpirun's exit code says of a job that recovers is its own affair.
        _, text, _ = run(command, self.folder, 2 * KILL_SECONDS_MAX, may_fail=True)
        death = re.search(r"dies at ([0-9.]+)", text)
        saw = re.findall(r"saw the death at ([0-9.]+)", text)
        went_on = text.count("went on with the other survivors")
        if not death or len(saw) != ranks - 1 or went_on != ranks - 1:
            raise Failed(f"{len(saw)} of {ranks - 1} others saw the death, {went_on} went on\n"
                         f"{tail(text)}")
        late = max(map(float, saw)) - float(death.group(1))
        if late > SEEN_SECONDS_MAX:
            raise Failed(f"the death was seen only after {late:.2f} s\n{tail(text)}")
        remains = self.remains_of_next_start(before, env)
        if remains:
            raise Failed(f"left in {SHM}: {', '.join(remains)}\n{tail(text)}")
        return f"seen after {late:.3f} s"

    def fi_info(self):
        _, text, _ = run([need("fi_info"), "-p", "sluice"], self.folder, 20, self.fabric_env())
        if not re.search(r"^provider: sluice$", text, re.M):
            raise Failed("fi_info does not list it\n" + tail(text))

    def fi_pingpong(self, mode):
        """Server and client over 127.0.0.1; the client's table must have figures."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [need("fi_pingpong"), "-p", "sluice", "-e", "rdm", "-m", mode, "-c", "-I", "200"]
        server = Job(command + ["-B", port], self.folder, self.fabric_env())
        try:
            for attempt in range(20):
                time.sleep(0.1)
                code, text, _ = run(
                    command + ["-P", port, "127.0.0.1"], self.folder, 30, self.fabric_env(),
                    may_fail=True,
                )
                # The server may not listen yet.
                if "Connection refused" not in text:
                    break
            server_code = server.wait(10)
        finally:
            server.end()
        rows = re.findall(r"^\d+[km]? +\d+ +=\d+", text, re.M)
        if code != 0 or server_code != 0 or not rows:
            raise Failed(f"client {code}, server {server_code}, {len(rows)} rows\n{tail(text)}\n"
                         f"  server:\n{tail(server.text())}")
        return f"{len(rows)} sizes"

    def fabric_env(self):
        return {"FI_PROVIDER_PATH": self.providers, "FI_SLUICE_TUNE": "off"}

    def netpipe(self, env):
        """A program that nobody here wrote, in its integrity mode."""
        command = self.mpirun(2, env, [need("NPopenmpi"), "-i", "-u", "1048576"])
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            _, text, _ = run(command, folder, 60)
        # What each rank says of itself can fall into another one's line.
        host = re.escape(os.uname().nodename)
        said = rf"Doing an integrity check instead of measuring performance\n?|\d+: {host}\n"
        text = re.sub(said, "", text)
        rows = [line for line in text.splitlines() if re.match(r"^\s*\d+: +\d+ bytes", line)]
        wrong = [row for row in rows if "Integrity check passed" not in row]
        if len(rows) < 30 or wrong:
            shown = "".join(f"\n    wrong: {row!r}" for row in wrong[:5])
            raise Failed(
                f"{len(rows)} lines, {len(wrong)} without a passed check{shown}\n{tail(text)}"
            )
        return f"{len(rows)} sizes"

    # The table.

    def tests(self):
        """Name, program to build, and what to call."""
        if self.sluice:
            yield "fi_info", None, self.fi_info
            for mode in ("msg", "tagged"):
                yield f"fi_pingpong {mode}", None, lambda mode=mode: self.fi_pingpong(mode)
        yield "netpipe -n 2", None, lambda: self.netpipe({})
        for row in PROGRAMS:
            name, ranks, env, limit, arguments, mca = row + ([], {})[len(row) - 4:]
            if env and not self.sluice:
                continue
            title = title_of(name, ranks, arguments, env, mca)
            yield title, name, (
                lambda n=name, r=ranks, e=env, l=limit, a=arguments, m=mca:
                self.program(n, r, e, l, a, m)
            )
        for what, ranks, env in KILLS:
            if not self.sluice and env is not MEMFD:
                continue
            shown = env if self.sluice else {}
            yield title_of("kill", ranks, [what], shown), "kill", (
                lambda w=what, r=ranks, e=shown: self.kill(w, r, e)
            )
        if self.sluice:
            for what, ranks, env in KILLS:
                yield title_of("survivors", ranks, [what], env), "kill", (
                    lambda w=what, r=ranks, e=env: self.survivors(w, r, e)
                )


def title_of(name, ranks, arguments=(), env=None, mca=None):
    extra = [f"{key}={value}" for key, value in {**(mca or {}), **(env or {})}.items()]
    return " ".join([name, *arguments, "-n", str(ranks), *extra])


def need(program):
    path = shutil.which(program)
    if not path:
        raise Skipped(f"{program} is not installed")
    return path


def shared_memory():
    """The files in shared memory, those in folders too."""
    found = set()
    for folder, _, names in os.walk(SHM):
        found.update(os.path.join(folder, name) for name in names)
    return found


def abandoned(before):
    """New files in shared memory that no living process has open or maps. Those that
    one has belong to other programs of this machine."""
    fresh = shared_memory() - before
    for name in os.listdir("/proc") if fresh else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/maps") as file:
                    text = file.read()
                numbers = os.listdir(f"/proc/{name}/fd")
            except OSError:
                continue
            # A file may have been opened by another of its names.
            opened = {file_of(f"/proc/{name}/fd/{number}") for number in numbers} - {None}
            fresh = {path for path in fresh if path not in text and file_of(path) not in opened}
    return sorted(path for path in fresh if os.path.exists(path))


def file_of(path):
    """What tells a file whatever it is called; None if it is no more."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transport", choices=("sluice", "vader"), default="sluice")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests with it in the name")
    parser.add_argument("--list", action="store_true", help="print the tests' names")
    parser.add_argument("--repeat", type=int, default=1, metavar="N")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "target", "release"),
                        help="where libsluice-fi.so is")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="sluice-mpi-") as folder:
        suite = Suite(args, folder)
        tests = [test for test in suite.tests() if args.filter in test[0]]
        if args.list:
            print("\n".join(title for title, _, _ in tests))
            return 0
        return run_all(suite, tests, args)


def run_all(suite, tests, args):
    if suite.sluice and not os.path.exists(os.path.join(suite.providers, "libsluice-fi.so")):
        print(f"there is no libsluice-fi.so in {args.build_dir}: build it first", file=sys.stderr)
        return 2
    if shutil.which("mpirun.openmpi") is None and shutil.which("mpirun") is None:
        print("mpirun is not installed", file=sys.stderr)
        return 2
    names = sorted({name for _, name, _ in tests if name} | {"self"})
    broken = suite.build(names)
    verdicts = Verdicts(args.json)
    for _ in range(args.repeat):
        for title, name, call in tests:
            verdicts.judge(title, call, broken=broken.get(name))
    return verdicts.end(transport=args.transport)


if __name__ == "__main__":
    leave(main)
