"""What Sluice is measured beside, and how each is started: Debian's Open MPI over its own shared
memory and over UCX, and the MPIs of PyPI, Open MPI 5 and Intel MPI, over their own.

A program is compiled for each MPI. Ranks pin themselves (PAIRS_CORES), so that every MPI has
the same cores in the same way.
"""

import os
import sys
from dataclasses import dataclass

from bench_base import BUILD, RELEASE, ROOT, NotBuilt, build_one, environment, run

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
        env = {**environment(directory), **dict(self.variables), "TMPDIR": directory}
        crowd = cores is None or ranks > len(cores)
        command = self.command(ranks, program, crowd)
        if cores:
            listed = ",".join(map(str, cores))
            command = ["taskset", "-c", listed, *command]
            if not crowd:
                env["PAIRS_CORES"] = listed
        return run(command, limit, env)


OURS = "sluice"
# What has Open MPI send over Sluice.
OUR_WORDS = ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include",
             "sluice", "--mca", "btl", "self", "-x", "FI_PROVIDER_PATH=" + RELEASE)
TRANSPORTS = {transport.name: transport for transport in (
    # The stated thresholds: figures of two days are to be compared.
    Transport("sluice", "Sluice", words=(*OUR_WORDS, "-x", "FI_SLUICE_TUNE=off")),
    Transport("vader", "Open MPI 4.1, shared memory",
              words=("--mca", "pml", "ob1", "--mca", "btl", "self,vader")),
    # Open MPI takes UCX for shared memory only when told that any device will do.
    Transport("ucx", "UCX", words=(
        "--mca", "pml", "ucx", "--mca", "btl", "self", "--mca", "opal_common_ucx_tls", "any",
        "--mca", "opal_common_ucx_devices", "any")),
    Transport("ompi5", "Open MPI 5, shared memory", mpi="openmpi",
              words=("--mca", "pml", "ob1", "--mca", "btl", "self,sm")),
    # It finds no cores to pin to on some virtual machines, and ends.
    Transport("impi", "Intel MPI, shared memory", mpi="impi",
              variables=(("I_MPI_FABRICS", "shm"), ("I_MPI_PIN", "0"))),
)}
PEERS = [name for name in TRANSPORTS if name != OURS]
