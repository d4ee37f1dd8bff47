#!/usr/bin/env python3
"""Compare how long each MPI of PyPI takes to start over Sluice, over its own shared memory, and over
libfabric's providers `shm` and `tcp`.

bench/init.c, with 2, 16 and 64 ranks on two cores: the slowest rank's MPI_Init, and the first sum of all
ranks after it. All run in turn, several rounds; medians are shown. With Sluice, MPI_Init is to take at most
1.1 times as long as with the quicker provider.
"""

import argparse
import shutil
import statistics
import tempfile

from bench_base import die, end_with, rows_in, say, write_json
from bench_mpis import MPIS, OURS, PROVIDERS, TITLES, TRANSPORTS, WAYS
from bench_peers import build_all, two_cores

RANKS = [2, 16, 64]
INIT_LIMIT = 1.1
# How long one start may take, and so much longer with each rank.
LIMIT_S, LIMIT_S_A_RANK = 30, 1.5
PARTS = {"init_ms": "MPI_Init", "first_ms": "first sum"}


def start(one, ranks, directory, cores):
    """Starts so many ranks. The row that they print, and why there is none."""
    limit = LIMIT_S + LIMIT_S_A_RANK * ranks
    out, why = one.run(ranks, [one.program("init")], directory, limit, cores)
    rows = rows_in(out)
    whole = rows and rows[0].get("ranks") == ranks
    return (rows[0] if whole else None), why or (None if whole else "it printed no figures")


def measure(rounds, ranks_of_all, directory, cores, missing):
    """The figures of each part, by ranks and transport."""
    found = {}
    for ranks in ranks_of_all:
        for turn in range(rounds):
            say(f"round {turn + 1} of {rounds}: {ranks} ranks")
            for one in TRANSPORTS[turn % len(TRANSPORTS):] + TRANSPORTS[:turn % len(TRANSPORTS)]:
                # One that failed is given no second time.
                if one.name in missing or (ranks, one.name) in missing:
                    continue
                row, why = start(one, ranks, directory, cores)
                if why and OURS in one.name:
                    die(f"{one.title} with {ranks} ranks", why,
                        "Run the tests of this transport first")
                if why:
                    missing[ranks, one.name] = why
                    say(f"{one.title} with {ranks} ranks is left out: {why}")
                    continue
                for part in PARTS:
                    found.setdefault((ranks, part), {}).setdefault(one.name, []).append(row[part])
    return found


def report(found):
    """Prints a table for each MPI; the verdicts."""
    verdicts = []
    for mpi, title in MPIS.items():
        print(f"\n{title + ', ms':28}" + "".join(f"{TITLES[way]:>10}" for way in WAYS)
              + "   to the quicker provider")
        for (ranks, part), figures in found.items():
            medians = {way: statistics.median(figures[f"{mpi}/{way}"])
                       for way in WAYS if f"{mpi}/{way}" in figures}
            cells = "".join(f"{medians[way]:10.1f}" if way in medians else f"{'-':>10}" for way in WAYS)
            there = [way for way in PROVIDERS if way in medians]
            said = "not measured"
            if OURS in medians and there:
                best = min(there, key=medians.get)
                ratio = medians[OURS] / medians[best]
                said = f"{ratio:.2f} x {best}"
                if part == "init_ms":
                    verdict = "met" if ratio <= INIT_LIMIT else "missed"
                    said += f", wanted {INIT_LIMIT}: {verdict}"
                    verdicts.append(dict(mpi=mpi, ranks=ranks, ratio=ratio, provider=best,
                                         limit=INIT_LIMIT, verdict=verdict))
            print(f"  {ranks:3} ranks, {PARTS[part]:14}{cells}   {said}")
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds [default: 3]")
    parser.add_argument("--ranks", type=lambda text: [int(ranks) for ranks in text.split(",")],
                        default=RANKS, metavar="N,...", help="numbers of ranks [default: 2,16,64]")
    parser.add_argument("--json", metavar="FILE", help="write everything to FILE")
    args = parser.parse_args()
    cores = two_cores()
    if args.rounds < 1 or min(args.ranks) < 1:
        die("the rounds and ranks", "there must be some", "Give more than none")
    missing = build_all(TRANSPORTS, ["init"])
    directory = tempfile.mkdtemp(prefix="bench-")
    try:
        found = measure(args.rounds, args.ranks, directory, cores, missing)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    verdicts = report(found)
    if args.json:
        table = [dict(ranks=ranks, part=part, ms=figures)
                 for (ranks, part), figures in found.items()]
        write_json(args.json, dict(cores=cores, figures=table, targets=verdicts))
    return 0


if __name__ == "__main__":
    end_with(main)
