"""`python -m sluice_mpi`: the command, also where the directory of commands is not in PATH."""

import os
import sys

from sluice_mpi import command

os.execv(command(), ["sluice", *sys.argv[1:]])
