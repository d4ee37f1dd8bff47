"""Connections that do not belong to a job, as a network has them: what each sort sends.

A stranger finds the ports of a rank as a port scan does, by what listens. What it says of the
handshake it has from `sluice info --json`, so it speaks the present version or, where it means to,
another one. A rank answers some sorts, and then its answer is looked at (`knock`). The sorts that
need a secret (replays of what a peer has sent) are in `crates/rail/src/net/tests/intruders.rs`.
"""

import json
import os
import random
import socket
import struct
import subprocess
import time

CONNECT_SECONDS = 10
# Where the preface of a handshake has its version, in all versions (docs/wire.md), and up to
# where an ask and its answer in the same version and mode are alike.
VERSION_AT, ALIKE_BYTES = 4, 6


class Sorts:
    """All sorts, and what each sends to a process with the settings that `env` has."""

    def __init__(self, tool, env):
        out = subprocess.run([tool, "info", "--json"], env={**os.environ, **env}, check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        said = json.loads(out)
        mode, asks = said["security"], said["handshake"]["asks"]
        self.own = bytes.fromhex(asks[mode]["preface"])
        self.body_bytes = asks[mode]["body_bytes"]
        old = bytearray(self.own)
        assert old[VERSION_AT] == said["handshake"]["version"] > 0
        old[VERSION_AT] -= 1
        others = [bytes.fromhex(ask["preface"]) for name, ask in asks.items() if name != mode]
        # Sort; what it sends, from a draw of its own; whether it is told what it did wrong.
        self.sends = {
            "a port scan": (lambda draw: b"", False),
            "garbage": (lambda draw: draw.randbytes(draw.randrange(1, 400)), False),
            "a web request": (lambda draw: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", False),
            "half a handshake": (
                lambda draw: self.own[:draw.randrange(1, len(self.own))], False),
            "a wrong key": (lambda draw: self.own + draw.randbytes(self.body_bytes),
                            mode != "none"),
            "an old version": (lambda draw: bytes(old), True),
            "another mode": (lambda draw: draw.choice(others), True),
        }

    def __iter__(self):
        return iter(self.sends)

    def __len__(self):
        return len(self.sends)

    def knock(self, ends, seed):
        """One of each sort at each end. They wait for their answers (`wrong_answers`)."""
        waiting = []
        for end in ends:
            for sort, (sends, is_told) in self.sends.items():
                with_it = connect(end, self.source(sort))
                with_it.sendall(sends(random.Random(f"{sort} {seed}")))
                waiting.append((sort, is_told, with_it))
        return waiting

    def wrong_answers(self, waiting):
        """What is wrong with the answers to who has knocked, if anything is."""
        wrong = []
        for sort, is_told, with_it in waiting:
            with with_it:
                if not is_told:
                    continue
                with_it.settimeout(CONNECT_SECONDS)
                try:
                    answer = with_it.recv(64)
                except OSError as why:
                    answer = str(why).encode()
                if answer[:ALIKE_BYTES] != self.own[:ALIKE_BYTES]:
                    wrong.append(f"{sort} is answered by {answer}")
        return wrong

    def visit(self, ends, sort, times, seed):
        """Connects so often, to each end in turn. The last few stay a while, as who is slow does."""
        draw, slow = random.Random(f"{sort} {seed}"), []
        for nth in range(times):
            with_it = connect(ends[nth % len(ends)], self.source(sort))
            try:
                with_it.sendall(self.sends[sort][0](draw))
            except OSError:
                pass  # It was refused before it had sent all.
            slow.append(with_it)
            if len(slow) > 8:
                slow.pop(0).close()
        for with_it in slow:
            with_it.close()

    def source(self, sort):
        """An address of this host for each sort: who has come too often from one is not heard."""
        return f"127.0.1.{1 + list(self.sends).index(sort)}"


def listeners_of(process, family=socket.AF_INET):
    """Where a process listens: pairs of address and port."""
    inodes = set()
    for number in os.listdir(f"/proc/{process}/fd"):
        try:
            target = os.readlink(f"/proc/{process}/fd/{number}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[len("socket:["):-1])
    found = []
    with open(f"/proc/{process}/net/{'tcp' if family == socket.AF_INET else 'tcp6'}") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                address, port = words[1].split(":")
                found.append((address_of(address, family), int(port, 16)))
    return found


def address_of(digits, family):
    """An address as the kernel's tables have it: words of the machine, the first one first."""
    words = [int(digits[at:at + 8], 16) for at in range(0, len(digits), 8)]
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


def connect(end, source):
    """A rank that computes does not take in connections: then there is no room for a while."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return socket.create_connection(end, timeout=CONNECT_SECONDS,
                                            source_address=(source, 0))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
