"""What Sluice is measured beside, and how each is started: Debian's Open MPI over its own shared
memory and over UCX, and the MPIs of PyPI, Open MPI 5 and Intel MPI, over their own. Also how the
MPIs of PyPI, MPICH 5 too, are told what to send over.

A program is compiled for each MPI. Ranks pin themselves (PAIRS_CORES), so that every MPI has
the same cores in the same way.
"""

import os
import sys
from dataclasses import dataclass

from bench_base import (BUILD, RELEASE, ROOT, NotBuilt, build_one, die, environment, mode_of, probe,
                        rows_in, run, say)

sys.path.insert(0, os.path.join(ROOT, "tests"))
import run_mpis  # noqa: E402
from verdicts import Failed, Skipped  # noqa: E402

DEBIAN_PACKAGES = "libopenmpi-dev, gcc and libc6-dev"


@dataclass(frozen=True)
class Transport:
    """A way of messages, under one MPI."""

    name: str
    title: str
    # Of PyPI; None is Debian's Open MPI.
    mpi: str = None
    # For mpirun.
    words: tuple = ()
    variables: tuple = ()

    def program(self, name):
        """Where a program of bench/ is for this MPI."""
        return os.path.join(BUILD, f"{self.mpi}-{name}" if self.mpi else name)

    def build(self, names):
        """Compiles programs of bench/ for this MPI, which pip installs if it is not there."""
        if not self.mpi:
            for name in names:
                build_one(name, "mpicc.openmpi", [], DEBIAN_PACKAGES)
            return
        installed = self.installed()
        os.makedirs(BUILD, exist_ok=True)
        try:
            installed.install()
            for name in names:
                source = os.path.join(ROOT, "bench", name + ".c")
                installed.build(source, self.program(name), "-O2")
        except (Failed, Skipped) as why:
            raise NotBuilt(self.title, str(why), "Compare without it, or try again") from None

    def installed(self):
        mpi = next(mpi for mpi in run_mpis.MPIS if mpi.name == self.mpi)
        return run_mpis.Installed(mpi, RELEASE, BUILD)

    def command(self, ranks, program, crowd):
        """Starts a program with so many ranks; a crowd is more than there are cores."""
        if self.mpi == "impi":
            # Its library of libfabric is not asked for anything: messages stay in shared memory.
            start = [os.path.join(self.installed().dir, "bin", "mpiexec.hydra"), "-n", str(ranks)]
            return [*start, *program]
        start = "mpirun.openmpi"
        spread = ["--oversubscribe"] if crowd else []
        if self.mpi:
            start = os.path.join(self.installed().dir, "bin", "mpirun")
            spread = ["--map-by", ":OVERSUBSCRIBE"] if crowd else []
        return [start, "-n", str(ranks), *self.words, *spread, "--bind-to", "none", *program]

    def run(self, ranks, program, directory, limit, cores=None):
        """Runs a program on these cores, a rank on each, or a crowd on all of them. Its output,
        and why it failed, if it did."""
        # Costs of moves that another build has measured are none of this one's.
        env = {**environment(directory), **dict(self.variables), "TMPDIR": directory,
               "XDG_CACHE_HOME": directory}
        crowd = cores is None or ranks > len(cores)
        command = self.command(ranks, program, crowd)
        if cores:
            listed = ",".join(map(str, cores))
            command = ["taskset", "-c", listed, *command]
            if not crowd:
                env["PAIRS_CORES"] = listed
        return run(command, limit, env)


OURS = "sluice"
# Has Intel MPI send through memory. It finds no cores to pin to on some virtual machines, and ends.
IMPI_SHM = (("I_MPI_FABRICS", "shm"), ("I_MPI_PIN", "0"))


def our_words(folder, btl="self"):
    """What has Debian's Open MPI send over the provider in a folder."""
    return ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", OURS,
            "--mca", "btl", btl, "-x", "FI_PROVIDER_PATH=" + folder)


TRANSPORTS = {transport.name: transport for transport in (
    # As it is without settings: what it measures of the machine is part of what is compared.
    Transport("sluice", "Sluice", words=our_words(RELEASE)),
    Transport("vader", "Open MPI 4.1, shared memory",
              words=("--mca", "pml", "ob1", "--mca", "btl", "self,vader")),
    # Open MPI takes UCX for shared memory only when told that any device will do.
    Transport("ucx", "UCX", words=(
        "--mca", "pml", "ucx", "--mca", "btl", "self", "--mca", "opal_common_ucx_tls", "any",
        "--mca", "opal_common_ucx_devices", "any")),
    Transport("ompi5", "Open MPI 5, shared memory", mpi="openmpi",
              words=("--mca", "pml", "ob1", "--mca", "btl", "self,sm")),
    Transport("impi", "Intel MPI, shared memory", mpi="impi", variables=IMPI_SHM),
)}
PEERS = [name for name in TRANSPORTS if name != OURS]


class OfPypi(Transport):
    """A way of messages or of one-sided operations, under one MPI of PyPI."""

    def command(self, ranks, program, crowd):
        start = os.path.join(self.installed().dir, "bin", "mpiexec")
        words = ["--bind-to", "none"] if self.mpi == "openmpi" else []
        if words and crowd:
            words += ["--map-by", ":OVERSUBSCRIBE"]
        return [start, "-n", str(ranks), *self.words, *words, *program]


def variables(**named):
    """Of the environment, as a Transport has them."""
    return tuple(named.items())


def over_ofi(mpi, provider):
    """Has an MPI of PyPI send over this provider of libfabric."""
    if provider == OURS:
        chosen = variables(FI_PROVIDER=OURS, FI_PROVIDER_PATH=RELEASE)
    else:
        chosen = variables(FI_PROVIDER=provider)
    own = {"mpich": variables(MPIR_CVAR_CH4_NETMOD="ofi", MPIR_CVAR_NOLOCAL="1"),
           "impi": variables(I_MPI_FABRICS="ofi", I_MPI_PIN="0"), "openmpi": ()}
    return chosen + own[mpi]


def build_all(transports, programs):
    """Compiles programs of bench/ for each MPI; the names of those that are missing, and why. Ends
    where Debian's is."""
    missing, built = {}, {}
    for one in transports:
        if one.mpi not in built:
            say(f"compiling for {one.title}")
            try:
                one.build(programs)
                built[one.mpi] = None
            except NotBuilt as why:
                if not one.mpi:
                    die(*why.args)
                built[one.mpi] = str(why.args[1])
        if built[one.mpi]:
            missing[one.name] = built[one.mpi]
            say(f"{one.title} is left out: {missing[one.name]}")
    return missing


def in_turn(transports, turn, program, limit, cores, directory, missing):
    """Runs each once with two ranks, beginning with another one each turn; the runs, each with its
    probes, mode, if that did not change, and rows. `program` says of one what it runs. A peer that fails is
    missing from then on; Sluice must not."""
    runs = []
    for one in transports[turn % len(transports):] + transports[:turn % len(transports)]:
        if one.name in missing:
            continue
        before = probe(cores)
        out, why = one.run(2, program(one), directory, limit, cores)
        after = probe(cores)
        rows = rows_in(out)
        if why or not rows:
            missing[one.name] = why or "it printed no figures"
            if OURS in one.name:
                die(one.title, missing[one.name], "Run the tests of this transport first")
            say(f"{one.title} is left out: {missing[one.name]}")
            continue
        mode = mode_of(before) if mode_of(before) == mode_of(after) else None
        runs.append(dict(transport=one.name, probe_before_ns=before, probe_after_ns=after,
                         mode=mode, rows=rows))
        say(f"  {one.title}, probes {before:4.0f} and {after:4.0f} ns: "
            f"{mode or 'does not count, the mode changed'}")
    return runs


def two_cores():
    """The cores to measure on. Ends where there are not two, or no provider was built."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        die("the benchmark", "only one core is allowed", "Run it with at least two cores")
    if not os.path.exists(os.path.join(RELEASE, "libsluice-fi.so")):
        die("target/release/libsluice-fi.so", "it is not there",
            "Build it with \"make build\"")
    return cores
