"""How `run_mpi4py.py` starts the ranks of each MPI over each transport."""

import os
import shutil
import subprocess

from run_mpi import ROOT
from run_mpis import MPIS, PIP_SECONDS_MAX, Installed, environment
from verdicts import Skipped

PYTHON = "/usr/bin/python3"
TRANSPORTS = ["sluice", "own", "ofi-tcp"]


class Refused(Exception):
    """Nothing can be run: what, why, and what to do."""


class Unavailable(Exception):
    """An MPI of PyPI cannot be had here; the text says why."""


def in_head(args, lab, command):
    """The command, run in the head of a lab."""
    tool = os.path.join(os.path.abspath(args.provider_path), "sluice")
    return [tool, "lab", "exec", "--name", lab, "head", "--", *command]


def slots(args, ranks):
    """The hosts of a lab with their shares of the ranks, as launchers are told."""
    hosts = args.hosts or 2
    counts = [ranks // hosts + (host < ranks % hosts) for host in range(hosts)]
    return ",".join(f"h{host}:{count}" for host, count in enumerate(counts) if count)


def spread(args, ranks):
    """Has the launcher of an MPI of PyPI spread ranks over the hosts of a lab."""
    if args.mpi == "impi":
        # It takes as many ranks as a host has cores, whatever is behind its name.
        hosts = args.hosts or 2
        names = ",".join(f"h{host}" for host in range(hosts))
        return ["-hosts", names, "-ppn", str(-(-ranks // hosts))]
    if args.mpi == "openmpi":
        return ["--host", slots(args, ranks), "--map-by", "slot:oversubscribe"]
    return ["-hosts", slots(args, ranks)]


class Debian:
    """Open MPI 4.1 and mpi4py of Debian."""

    # Nothing may go round the transport under test: Sluice gets no other path
    # between processes, and windows are made over messages where MPI permits it.
    TRANSPORTS = {
        "sluice": ["--mca", "pml", "cm", "--mca", "mtl", "ofi",
                   "--mca", "mtl_ofi_provider_include", "sluice",
                   "--mca", "btl", "self"],
        "own": ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"],
        # The same component of Open MPI (mtl/ofi) over libfabric's own provider: it
        # tells a limit of that component from a fault of Sluice.
        "ofi-tcp": ["--mca", "pml", "cm", "--mca", "mtl", "ofi",
                    "--mca", "mtl_ofi_provider_include", "tcp;ofi_rxm",
                    "--mca", "btl", "self"],
    }

    def __init__(self, args):
        self.args = args
        self.python = PYTHON
        if not os.access(PYTHON, os.X_OK):
            raise Refused(PYTHON, "it is not there", "Install the Debian package python3")
        if not shutil.which("mpirun.openmpi"):
            raise Refused("mpirun.openmpi", "it is not there",
                          "Install the Debian package openmpi-bin")

    def command(self, about, ranks, lab):
        """What starts the program whose words follow."""
        command = [shutil.which("mpirun.openmpi"), "--oversubscribe", "--bind-to", "none",
                   "-n", str(ranks), *self.TRANSPORTS[self.args.transport]]
        providers = os.path.abspath(self.args.provider_path)
        if lab:
            command = in_head(self.args, lab, [*command, "--host", slots(self.args, ranks)])
        if "osc" in about:
            command += ["--mca", "osc", about["osc"]]
        if self.args.transport == "sluice":
            command += ["-x", f"FI_PROVIDER_PATH={providers}", "-x", "FI_SLUICE_TUNE=off"]
        return command

    def environment(self, _about, directory):
        env = dict(os.environ, OMPI_MCA_mpi_yield_when_idle="1",
                   PYTHONDONTWRITEBYTECODE="1", TMPDIR=directory,
                   OMPI_MCA_orte_tmpdir_base=directory)
        # A Python environment of the caller must not shadow the system's mpi4py.
        for name in ("PYTHONPATH", "PYTHONHOME"):
            env.pop(name, None)
        if os.geteuid() == 0:
            env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        return env


class OfPypi:
    """An MPI of PyPI, and mpi4py beside it."""

    # Over libfabric's own provider for TCP, and over what the MPI takes by itself.
    PEERS = {
        "mpich": {"ofi-tcp": {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1",
                              "FI_PROVIDER": "tcp"}, "own": {}},
        "impi": {"ofi-tcp": {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"},
                 "own": {"I_MPI_FABRICS": "shm"}},
        "openmpi": {"ofi-tcp": {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi",
                                "OMPI_MCA_mtl_ofi_provider_include": "tcp;ofi_rxm"},
                    "own": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm"}},
    }

    def __init__(self, args):
        self.args = args
        self.mpi = next(mpi for mpi in MPIS if mpi.name == args.mpi)
        installed = Installed(self.mpi, os.path.abspath(args.provider_path), "")
        self.bin = os.path.join(installed.dir, "bin")
        self.python = os.path.join(self.bin, "python")
        try:
            installed.install()
        except Skipped as why:
            raise Unavailable(str(why)) from None
        pip = [self.python, "-m", "pip", "install", "-q", "--no-input", "mpi4py>=4.1,<4.2", "numpy"]
        try:
            got = subprocess.run(pip, capture_output=True, text=True, timeout=PIP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"mpi4py: pip took more than {PIP_SECONDS_MAX} s") from None
        if got.returncode:
            raise Unavailable(f"mpi4py: {got.stderr[-300:].strip()}")

    def command(self, about, ranks, lab):
        """What starts the program whose words follow."""
        launcher = [os.path.join(self.bin, "mpiexec"), "-n", str(ranks)]
        if lab:
            launcher += spread(self.args, ranks)
        if self.args.transport == "sluice":
            tool = os.path.join(os.path.abspath(self.args.provider_path), "sluice")
            launcher = [tool, "run", "--", *launcher]
        return in_head(self.args, lab, launcher) if lab else launcher

    def environment(self, about, directory):
        more = {"PYTHONDONTWRITEBYTECODE": "1"}
        if self.args.transport == "sluice":
            more["FI_SLUICE_TUNE"] = "off"
            if self.args.rails:
                more["FI_SLUICE_RAILS"] = self.args.rails
            if about.get("one_sided"):
                more.update(self.mpi.one_sided)
        else:
            more.update(self.PEERS[self.mpi.name][self.args.transport])
        env = environment(self.mpi, directory, {})
        for name in ("PYTHONPATH", "PYTHONHOME"):
            env.pop(name, None)
        env["PATH"] = self.bin + os.pathsep + env["PATH"]
        return {**env, **more}


def launch_of(args):
    """How ranks are started, by the arguments.

    Raises `Refused` or `Unavailable` if they cannot be.
    """
    return Debian(args) if args.mpi == "debian" else OfPypi(args)
