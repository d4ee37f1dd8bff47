"""Sluice, a message-passing network stack, as pip installs it.

The command `sluice` is beside Python's own commands, or `python -m sluice_mpi`. Libraries,
headers and manual pages are below the prefix of this Python, as in any other installation.
"""

import importlib.metadata
import os

__version__ = importlib.metadata.version("sluice-mpi")


def _installed(folder, name):
    """Where a file of this package is, in a folder of this name."""
    for file in importlib.metadata.files("sluice-mpi") or ():
        path = os.path.realpath(file.locate())
        if file.name == name and file.parent.name == folder and os.path.exists(path):
            return path
    raise FileNotFoundError(f"sluice-mpi: {name} is missing; install the package anew, without "
                            "--target, which leaves out libraries")


def command():
    """The command `sluice`."""
    return _installed("bin", "sluice")


def provider_path():
    """The directory of libfabric's provider, for FI_PROVIDER_PATH. `sluice run` needs no such."""
    return os.path.dirname(_installed("libfabric", "libsluice-fi.so"))
