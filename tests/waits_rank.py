"""A rank whose receives and sends nobody meets, with mpi4py: `run_hosts.py` runs it.

Each rank keeps a receive from each other one, a synchronous send and a long send to each. It
prints a line when one of them ends, and ends itself when the file is there that the argument
names. A line says what ended, of whom, and with which error; without one, something is wrong.
"""

import os
import sys
import time

from mpi4py import MPI

TAG_NEVER = 7
LONG_BYTES = 8 << 20


def begin(comm):
    """The requests, by what they are and the other rank."""
    requests = {}
    for peer in range(comm.size):
        if peer != comm.rank:
            into, short, long = bytearray(8), bytearray(8), bytearray(LONG_BYTES)
            requests["receive", peer] = comm.Irecv(into, peer, TAG_NEVER), into
            requests["ssend", peer] = comm.Issend(short, peer, TAG_NEVER + 1), short
            requests["send", peer] = comm.Isend(long, peer, TAG_NEVER + 2), long
    return requests


def error_of(request):
    """Why a request has ended; empty if it has ended well, and None if it has not."""
    try:
        return "" if request.Test() else None
    except MPI.Exception as why:
        return why.Get_error_string()


def main():
    comm = MPI.COMM_WORLD
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    comm.alltoall([0] * comm.size)
    requests = begin(comm)
    print(f"rank {comm.rank} waits", flush=True)
    while not os.path.exists(sys.argv[1]):
        for (what, peer), (request, _) in list(requests.items()):
            error = error_of(request)
            if error is not None:
                print(f"rank {comm.rank}: {what} {peer} ends: {error}", flush=True)
                del requests[what, peer]
        time.sleep(0.001)
    # Finalizing would wait for who is gone.
    os._exit(3)


if __name__ == "__main__":
    main()
