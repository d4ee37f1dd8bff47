#!/usr/bin/env python3
"""Compare one-sided operations over Sluice with what the MPIs make them of, side by side.

bench/onesided.c: put and get from 8 B to 1 MiB, fetch and add, compare and swap, each until it is
done at the target, with a target that waits in the library and with one that computes without a
call; and how many of 8 bytes a second. Sluice carries them under MPICH 5 and, by `btl ofi` and
`osc rdma`, under Open MPI 5. The peers are the shared memories of MPICH, Open MPI 5 (`osc sm`) and
Intel MPI, and libfabric's `shm` under MPICH. Those shared memories map the window into both
processes, so that a put is a store; over libfabric it is an operation of the provider.

All run in turn, several rounds; a probe of the machine brackets each run, and figures are
compared within one mode only, as in bench.py. Open MPI maps allocated windows of one host also
where it is told to use libfabric, so over Sluice its window is one of given memory.
"""

import argparse
import shutil
import statistics
import tempfile

from bench_base import build_probe, die, end_with, say, size_name, write_json
from bench_peers import IMPI_SHM, OURS, OfPypi, build_all, in_turn, over_ofi, two_cores

SIZES = [8, 1 << 10, 64 << 10, 1 << 20]
# How much longer an operation may take while the target computes.
COMPUTING_MAX = 1.3


class OneSided(OfPypi):
    """A way of one-sided operations, under one MPI of PyPI."""

    def window(self):
        """What the program makes its window of."""
        return "create" if self.name == "sluice-ompi5" else "allocate"


TRANSPORTS = [
    OneSided("sluice-mpich", "Sluice, MPICH 5", "mpich", variables=over_ofi("mpich", OURS)),
    OneSided("sluice-ompi5", "Sluice, Open MPI 5", "openmpi",
             ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "osc", "rdma",
              "--mca", "btl", "ofi,self", "--mca", "opal_common_ofi_provider_include", OURS),
             over_ofi("openmpi", OURS)),
    OneSided("ofi-shm", "libfabric shm, MPICH 5", "mpich", variables=over_ofi("mpich", "shm")),
    OneSided("mpich", "MPICH 5, shared memory", "mpich"),
    OneSided("ompi5", "Open MPI 5, osc sm", "openmpi",
             ("--mca", "pml", "ob1", "--mca", "btl", "self,sm", "--mca", "osc", "sm")),
    OneSided("impi", "Intel MPI, shared memory", "impi", variables=IMPI_SHM),
]


def summarise(runs):
    """Median over runs, by mode, operation, size, figure, target and transport."""
    gathered = {}
    for one in runs:
        for row in one["rows"] if one["mode"] else []:
            figure = "us" if "us" in row else "per_s"
            value = row["us"]["p50"] if figure == "us" else row["per_s"]
            key = (one["mode"], row["test"], row["size"], figure, row["target"], one["transport"])
            gathered.setdefault(key, []).append(value)
    return {key: statistics.median(values) for key, values in gathered.items()}


def tables(summary, missing):
    """Idle and computing target side by side. Rates are of millions a second."""
    shown = [one for one in TRANSPORTS if one.name not in missing]
    for mode in ("near", "far"):
        if not any(key[0] == mode for key in summary):
            continue
        print(f"\nmachine {mode}: target idle / computes")
        print(f"{'':24}" + "".join(f"{one.name:>18}" for one in shown))
        rows = dict.fromkeys((key[3], key[1], key[2]) for key in summary if key[0] == mode)
        for figure, test, size in sorted(rows, key=lambda row: row[0] == "per_s"):
            cells = []
            for one in shown:
                pair = [summary.get((mode, test, size, figure, target, one.name))
                        for target in ("idle", "computes")]
                cells.append(" / ".join(show(figure, value) for value in pair))
            unit = "us" if figure == "us" else "M/s"
            print(f"{test + ' ' + size_name(size) + ', ' + unit:24}"
                  + "".join(f"{cell:>18}" for cell in cells))


def show(figure, value):
    if value is None:
        return "-"
    if figure == "per_s":
        return f"{value / 1e6:.2f}"
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def verdicts(summary):
    """Of put and get over Sluice, whether a target that computes costs anything."""
    result = []
    print(f"\nput and get over Sluice, target computes to target idle, at most {COMPUTING_MAX} x")
    for (mode, test, size, figure, target, name), value in summary.items():
        is_ours = name.startswith("sluice") and test in ("put", "get") and figure == "us"
        if not is_ours or target != "computes":
            continue
        idle = summary[(mode, test, size, figure, "idle", name)]
        ratio = value / idle if idle else None
        if ratio is None:
            continue
        verdict = "met" if ratio <= COMPUTING_MAX else "missed"
        result.append(dict(mode=mode, test=test, size=size, transport=name, ratio=ratio,
                           verdict=verdict))
        print(f"  {name:13} {test} {size_name(size):>7}  {mode:4} {ratio:.2f} x: {verdict}")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="rounds [default: 2]")
    parser.add_argument("--seconds", type=float, default=0.05,
                        help="of each figure [default: 0.05]")
    parser.add_argument("--json", metavar="FILE", help="write everything to FILE")
    args = parser.parse_args()
    cores = two_cores()
    if args.rounds < 1 or args.seconds <= 0:
        die("the rounds and seconds", "there must be some", "Give more than none")
    build_probe()
    missing = build_all(TRANSPORTS, ["onesided"])
    directory = tempfile.mkdtemp(prefix="bench-")
    runs = []
    try:
        for turn in range(args.rounds):
            say(f"round {turn + 1} of {args.rounds}")
            runs += in_turn(TRANSPORTS, turn, lambda one: [
                one.program("onesided"), one.window(), str(args.seconds), *map(str, SIZES)],
                30 + 60 * args.seconds, cores, directory, missing)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    summary = summarise(runs)
    tables(summary, missing)
    judged = verdicts(summary)
    if missing:
        print("not there: " + "; ".join(f"{name} ({why})" for name, why in missing.items()))
    if args.json:
        names = ("mode", "test", "size", "figure", "target", "transport")
        table = [dict(zip(names, key), value=value) for key, value in sorted(summary.items())]
        write_json(args.json, dict(cores=cores, missing=missing, summary=table, targets=judged,
                                   runs=runs))
    return 0


if __name__ == "__main__":
    end_with(main)
