"""Connections that do not belong to a job, as a network has them: what each sort sends.

A stranger finds the ports of a rank as a port scan does, by what listens. The sorts that need
a secret (replays of what a peer has sent) are in `crates/rail/src/net/tests/intruders.rs`.
"""

import os
import random
import socket
import struct
import time

# The preface of a handshake (docs/wire.md): magic, version, mode, kind, zero, length.
VERSION, MODE_NONE, MODE_AUTH, ASK = 2, 1, 2, 1
ASK_BYTES = 300
CONNECT_SECONDS = 10


def preface(version=VERSION, mode=MODE_AUTH, length=ASK_BYTES):
    return b"SLhs" + struct.pack("<BBBBH", version, mode, ASK, 0, length)


# Sort, and what it sends, from a draw of its own.
SORTS = [
    ("a port scan", lambda draw: b""),
    ("garbage", lambda draw: draw.randbytes(draw.randrange(1, 400))),
    ("a web request", lambda draw: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("half a handshake", lambda draw: preface()[:draw.randrange(1, 10)]),
    ("a wrong key", lambda draw: preface() + draw.randbytes(ASK_BYTES)),
    ("an old version", lambda draw: preface(version=1) + draw.randbytes(ASK_BYTES)),
    ("another mode", lambda draw: preface(mode=MODE_NONE) + draw.randbytes(ASK_BYTES)),
]


def listeners_of(process):
    """Where a process listens: pairs of address and port, IPv4."""
    inodes = set()
    for number in os.listdir(f"/proc/{process}/fd"):
        try:
            target = os.readlink(f"/proc/{process}/fd/{number}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[len("socket:["):-1])
    found = []
    with open(f"/proc/{process}/net/tcp") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                address, port = words[1].split(":")
                packed = struct.pack("<I", int(address, 16))
                found.append((socket.inet_ntoa(packed), int(port, 16)))
    return found


def visit(ends, sort, times, seed):
    """Connects so often, to each end in turn. The last few stay a while, as who is slow does."""
    draw, slow = random.Random(f"{sort} {seed}"), []
    sends = dict(SORTS)[sort]
    for nth in range(times):
        end = ends[nth % len(ends)]
        with_it = connect(end)
        try:
            with_it.sendall(sends(draw))
        except OSError:
            pass  # It was refused before it had sent all.
        slow.append(with_it)
        if len(slow) > 8:
            slow.pop(0).close()
    for with_it in slow:
        with_it.close()


def connect(end):
    """A rank that computes does not take in connections: then there is no room for a while."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return socket.create_connection(end, timeout=CONNECT_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
