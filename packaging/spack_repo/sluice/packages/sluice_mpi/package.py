"""Spack's recipe of Sluice. From a clone: `spack dev-build sluice-mpi@main` in its folder."""

import os

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class SluiceMpi(Package):
    """A message-passing network stack in which the receiver sets the pace: a libfabric provider
    for MPI, a libportals that implements Portals 4.3, and simulators."""

    # The clone that this recipe is part of: there is no public address yet.
    git = "file://" + os.path.realpath(os.path.join(os.path.dirname(__file__), *[".."] * 5))

    license("MIT OR Apache-2.0")

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.8:", type="build")
    depends_on("libfabric@1.17:")

    def install(self, spec, prefix):
        parts = ("sluice-cli", "sluice-provider", "sluice-libportals-so")
        packages = (f"--package={part}" for part in parts)
        which("cargo")("build", "--release", "--locked", f"--jobs={make_jobs}", *packages)
        python = which("python3")
        python("crates/libportals/scripts/man.py")
        python("packaging/notices.py")
        Executable("target/release/sluice")("man", "target/man/man1")
        Executable("scripts/install.sh")("", prefix)

    def setup_run_environment(self, env):
        env.prepend_path("FI_PROVIDER_PATH", self.prefix.lib.libfabric)
