#!/usr/bin/env python3
"""Compare each MPI of PyPI over Sluice with the same MPI over what else it has, side by side.

MPICH 5, Intel MPI and Open MPI 5, two ranks on two cores, bench/pairs.c: half round trips of the same
buffer each time and of what has just been received (returned), 8-byte rate, bandwidth with a window
of 64, of the same buffer and of windows that go back and forth (relayed). Who copies once reads a
buffer that nobody writes to from its own cache; programs write to theirs. Each goes over Sluice,
over its own shared memory, and over libfabric's providers `shm` and `tcp`. Sluice is to be ahead of
the better provider everywhere; how it stands to the MPI's own shared memory is shown beside that.

All run in turn, several rounds; a probe of the machine brackets each run, and figures are compared
within one mode only, as in bench.py.
"""

import argparse
import shutil
import statistics
import tempfile

from bench_base import (VALUE, build_probe, die, end_with, is_time, say, show, size_name,
                        write_json)
from bench_peers import IMPI_SHM, OURS, OfPypi, build_all, in_turn, over_ofi, two_cores

KIB, MIB = 1 << 10, 1 << 20
PLAN = {"latency": [8, 8 * KIB, 64 * KIB, MIB], "returned": [8 * KIB, 64 * KIB, MIB],
        "rate": [8], "bandwidth": [8 * KIB, 64 * KIB, MIB],
        "relayed": [8 * KIB, 64 * KIB, MIB]}
# Half round trips, the others with a window of 64.
UNITS = {"latency": "us", "returned": "us", "rate": "million/s", "bandwidth": "MiB/s",
         "relayed": "MiB/s"}
OWN = "own"
PROVIDERS = ["shm", "tcp"]
WAYS = [OURS, OWN, *PROVIDERS]
TITLES = {OURS: "Sluice", OWN: "own", "shm": "ofi shm", "tcp": "ofi tcp"}
MPIS = {"mpich": "MPICH 5", "impi": "Intel MPI", "openmpi": "Open MPI 5"}
# Open MPI takes tcp only with a layer for tagged messages above it.
OMPI_PROVIDERS = {OURS: OURS, "shm": "shm", "tcp": "tcp;ofi_rxm"}


def transport(mpi, way):
    name, title = f"{mpi}/{way}", f"{MPIS[mpi]} over {TITLES[way]}"
    if way == OWN:
        words = ("--mca", "pml", "ob1", "--mca", "btl", "self,sm") if mpi == "openmpi" else ()
        return OfPypi(name, title, mpi, words, IMPI_SHM if mpi == "impi" else ())
    words = ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "btl", "self",
             "--mca", "mtl_ofi_provider_include", OMPI_PROVIDERS[way])
    return OfPypi(name, title, mpi, words if mpi == "openmpi" else (), over_ofi(mpi, way))


TRANSPORTS = [transport(mpi, way) for mpi in MPIS for way in WAYS]


def summarise(runs):
    """Median over runs, by mode, test, size, MPI and way."""
    gathered = {}
    for one in runs:
        for row in one["rows"] if one["mode"] else []:
            value = row[VALUE[row["test"]]]["p50"]
            key = (one["mode"], row["test"], row["size"], *one["transport"].split("/"))
            gathered.setdefault(key, []).append(value)
    return {key: statistics.median(values) for key, values in gathered.items()}


def judge(summary, mode, test, size, mpi):
    """Sluice to the better provider, which that is, and Sluice to the MPI's own; `None` for what was
    not measured."""
    found = {way: summary.get((mode, test, size, mpi, way)) for way in WAYS}
    ours = found[OURS]
    there = [way for way in PROVIDERS if found[way]]
    if not ours or not there:
        return None
    best = (min if is_time(test) else max)(there, key=found.get)
    return ours / found[best], best, found[OWN] and ours / found[OWN]


def report(summary):
    """Prints tables; the verdicts."""
    verdicts = []
    for mode in ("near", "far"):
        if not any(key[0] == mode for key in summary):
            print(f"\nmachine {mode}: no run counts")
            continue
        print(f"\nmachine {mode}")
        for mpi, title in MPIS.items():
            print(f"  {title:26}" + "".join(f"{TITLES[way]:>10}" for way in WAYS)
                  + "   to the better provider        to own")
            for test, sizes in PLAN.items():
                for size in sizes:
                    values = [summary.get((mode, test, size, mpi, way)) for way in WAYS]
                    cells = [show(test, value) if value else "-" for value in values]
                    judged = judge(summary, mode, test, size, mpi)
                    said = "not measured"
                    if judged:
                        ratio, best, to_own = judged
                        met = ratio <= 1 if is_time(test) else ratio >= 1
                        verdict = "met" if met else "missed"
                        said = f"{ratio:.2f} x {best}: {verdict:6}" + (
                            f"{to_own:14.2f} x" if to_own else "")
                        verdicts.append(dict(mode=mode, mpi=mpi, test=test, size=size, ratio=ratio,
                                             provider=best, to_own=to_own, verdict=verdict))
                    label = f"{test} {size_name(size)}, {UNITS[test]}"
                    print(f"    {label:24}" + "".join(f"{cell:>10}" for cell in cells) + "   " + said)
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds [default: 3]")
    parser.add_argument("--seconds", type=float, default=0.1,
                        help="of each figure [default: 0.1]")
    parser.add_argument("--json", metavar="FILE", help="write everything to FILE")
    args = parser.parse_args()
    cores = two_cores()
    if args.rounds < 1 or args.seconds <= 0:
        die("the rounds and seconds", "there must be some", "Give more than none")
    build_probe()
    missing = build_all(TRANSPORTS, ["pairs"])
    directory = tempfile.mkdtemp(prefix="bench-")
    runs = []
    try:
        for turn in range(args.rounds):
            for test, sizes in PLAN.items():
                say(f"round {turn + 1} of {args.rounds}: {test}")
                runs += in_turn(TRANSPORTS, turn, lambda one: [
                    one.program("pairs"), test, str(args.seconds), *map(str, sizes)],
                    30 + 10 * args.seconds * len(sizes), cores, directory, missing)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    summary = summarise(runs)
    judged = report(summary)
    if missing:
        print("not there: " + "; ".join(f"{name} ({why})" for name, why in missing.items()))
    if args.json:
        names = ("mode", "test", "size", "mpi", "way")
        table = [dict(zip(names, key), p50=value) for key, value in sorted(summary.items())]
        write_json(args.json, dict(cores=cores, missing=missing, summary=table, targets=judged,
                                   runs=runs))
    return 0


if __name__ == "__main__":
    end_with(main)
