#!/usr/bin/env python3
"""A flood of unexpected messages over Sluice and over Open MPI's own shared memory.

One rank posts all its sends at once, the other looks away and then receives them,
in order or the last one first (tests/mpi/flood.c). Each row tells how much memory
the receiver needed for that. Open MPI's own transport has no bound, so each of its
processes gets a limit; one that runs into it is shown as what it is.
"""

import argparse
import json
import os
import re
import sys
import tempfile

from run_mpi import ROOT, Suite, need, run
from verdicts import Failed, leave

TRANSPORTS = {"sluice": "Sluice", "vader": "Open MPI's shared memory"}


def flood(suite, messages, size, reverse, limit_bytes, seconds_max):
    """What one flood showed."""
    arguments = ["messages", str(messages), "size", str(size)] + ["reverse"] * reverse
    program = [suite.binary("flood"), *arguments]
    if limit_bytes:
        program = [need("prlimit"), f"--data={limit_bytes}", *program]
    row = {"transport": suite.args.transport, "messages": messages, "size": size,
           "order": "last first" if reverse else "in order"}
    try:
        code, text, _ = run(suite.mpirun(2, {}, program), suite.folder, seconds_max, may_fail=True)
    except Failed as reason:
        return dict(row, outcome=str(reason).splitlines()[0])
    found = re.search(r"grew by (\d+) KiB .* received in ([0-9.]+) s", text)
    if code != 0 or not found:
        return dict(row, outcome=f"ended with code {code}, at a limit of {limit_bytes} bytes"
                    if limit_bytes else f"ended with code {code}")
    return dict(row, outcome="complete", receiver_growth_bytes=int(found.group(1)) * 1024,
                seconds=float(found.group(2)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=500_000, metavar="N")
    parser.add_argument("--size", type=int, default=1024, metavar="BYTES")
    parser.add_argument("--limit", type=int, default=2 << 30, metavar="BYTES",
                        help="data of each process over Open MPI's own transport")
    parser.add_argument("--seconds", type=int, default=120, metavar="N", help="limit of each row")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "target", "release"),
                        help="where libsluice-fi.so is")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="sluice-flood-") as folder:
        for transport in TRANSPORTS:
            args.transport = transport
            suite = Suite(args, folder)
            broken = suite.build(["flood"])
            if broken:
                print(broken["flood"], file=sys.stderr)
                return 2
            for reverse in (False, True):
                limit_bytes = args.limit if transport != "sluice" else None
                row = flood(suite, args.messages, args.size, reverse, limit_bytes, args.seconds)
                rows.append(row)
                if not args.json:
                    grown = row.get("receiver_growth_bytes")
                    shown = (f"receiver grew by {grown / 2**20:.1f} MiB, {row['seconds']:.2f} s"
                             if grown is not None else row["outcome"])
                    print(f"{TRANSPORTS[transport]}, {args.messages} x {args.size} bytes, "
                          f"{row['order']}: {shown}", flush=True)
    if args.json:
        print(json.dumps({"test": "flood", "rows": rows}, indent=1))
    return 0 if all(row["outcome"] == "complete" for row in rows if
                    row["transport"] == "sluice") else 1


if __name__ == "__main__":
    leave(main)
