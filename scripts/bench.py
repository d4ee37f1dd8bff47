#!/usr/bin/env python3
"""Compare Sluice with other MPIs' shared memory and with UCX, side by side.

The peers: Debian's Open MPI over its own shared memory and over UCX, Open MPI 5 and Intel MPI of
PyPI over their own. Two ranks are pinned to two cores.  The transports run in turn, several rounds.
A cache-line probe brackets each run; the machine is "near" when the half round
trip of a line is under 100 ns and "far" otherwise, and a run counts for a mode
only when both probes agree.  Figures are compared within one mode only.

Then more ranks than cores on the same two cores: a ring with halo exchange and sums
(bench/halo.c), in pairs with Open MPI's own; collectives (bench/crowd.c) beside all peers; with
--lammps, LAMMPS's melt as well.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time

from bench_base import (RELEASE, VALUE, build_probe, die, end_with, is_time, run, say, show,
                        size_name, write_json)
from bench_crowd import collectives, crowds, rows_of
from bench_peers import PEERS, TRANSPORTS, build_all, in_turn

KIB, MIB = 1 << 10, 1 << 20
# The targets: test, size, limit near and far; latency at most, the others at least so many times
# the best peer.
TARGETS = [("latency", 8, 1.3, 1.0),
           *(("latency", size, 1.2, 1.0) for size in (64, KIB, 2 * KIB)),
           *(("latency", size, 0.95, 0.95) for size in (
               4 * KIB, 8 * KIB, 16 * KIB, 24 * KIB, 32 * KIB, 48 * KIB, 64 * KIB, MIB, 4 * MIB)),
           *(("returned", size, 1.2, 1.0) for size in (64, KIB)),
           *(("returned", size, 0.95, 0.95) for size in (
               4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB)),
           *(("bandwidth", size, 1.0, 1.0) for size in (
               KIB, 4 * KIB, 8 * KIB, 64 * KIB, MIB, 4 * MIB)),
           *(("distinct", size, 1.0, 1.0) for size in (8 * KIB, 64 * KIB, MIB)),
           *(("relayed", size, 1.0, 1.0) for size in (KIB, 8 * KIB, 64 * KIB, MIB)),
           *(("cold", size, 1.0, 1.0) for size in (64 * KIB, MIB, 4 * MIB)),
           ("single", MIB, 1.7, 1.7), ("single", 4 * MIB, 1.7, 1.7), ("rate", 8, 0.7, 0.7)]
# The sizes of each test.
SIZES = {test: [size for of, size, *_ in TARGETS if of == test]
         for test in VALUE}
QUICK_SIZES = {"latency": [8, KIB, 8 * KIB, 64 * KIB, MIB], "returned": [64 * KIB, MIB],
               "bandwidth": [64 * KIB, MIB, 4 * MIB],
               "single": [MIB, 4 * MIB], "rate": [8]}


def measure(plan, rounds, cores, directory, missing):
    """Run all rounds; return the runs, each with its probes and rows."""
    runs = []
    for number in range(rounds):
        for test, sizes, seconds in plan:
            say(f"round {number + 1} of {rounds}: {test}")
            words = [test, *map(str, [seconds, *sizes])]
            got = in_turn(list(TRANSPORTS.values()), number,
                          lambda one: [one.program("pairs"), *words],
                          30 + 10 * seconds * len(sizes), cores, directory, missing)
            runs += [dict(one, round=number + 1, test=test) for one in got]
    return runs


def summarise(runs):
    """Median over runs of each figure, by mode, test, size and transport."""
    gathered = {}
    for one in runs:
        if one["mode"]:
            for row in one["rows"]:
                key = (one["mode"], row["test"], row["size"], one["transport"])
                gathered.setdefault(key, []).append(row[VALUE[row["test"]]])
    return {key: dict({name: statistics.median(r[name] for r in rows) for name in rows[0]},
                      runs=len(rows)) for key, rows in gathered.items()}


def compare(summary, mode, test, size):
    """Ratio of Sluice to the better peer, and that peer's name."""
    ours = summary.get((mode, test, size, "sluice"))
    peers = {p: summary[(mode, test, size, p)]["p50"] for p in PEERS
             if (mode, test, size, p) in summary}
    if not ours or not peers:
        return None, None
    best = (min if is_time(test) else max)(peers, key=peers.get)
    return ours["p50"] / peers[best], best


def tables(summary, plan, transports, runs):
    heads = {"latency": "half round trip, us: p50 (p99)",
             "returned": "the same where each rank sends what it has just received",
             "bandwidth": "bandwidth with a window of 64, MiB/s: p50 (99 % reach)",
             "distinct": "the same from and into 64 buffers",
             "relayed": "the same where a window goes back and forth",
             "cold": "the same through 256 MiB of buffers",
             "single": "bandwidth message by message, MiB/s: p50 (99 % reach)",
             "rate": "message rate with a window of 64, million/s: p50 (99 % reach)"}
    for mode in ("near", "far"):
        counted = sum(r["mode"] == mode for r in runs)
        probes = [p for r in runs if r["mode"] == mode
                  for p in (r["probe_before_ns"], r["probe_after_ns"])]
        if not counted:
            print(f"\nmachine {mode}: no run counts")
            continue
        print(f"\nmachine {mode}: {counted} runs count, cache line "
              f"{statistics.median(probes):.0f} ns half round trip")
        for test, sizes, _ in plan:
            print(f"  {heads[test]}")
            print(f"  {'size':>8}" + "".join(f"{t:>23}" for t in transports)
                  + "   sluice / better peer   runs")
            for size in sizes:
                cells, counts = [], []
                for t in transports:
                    s = summary.get((mode, test, size, t))
                    counts.append(str(s["runs"]) if s else "0")
                    cells.append(f"{show(test, s['p50'])} ({show(test, s['p99'])})" if s else "-")
                ratio, peer = compare(summary, mode, test, size)
                said = f"{ratio:.2f} x {peer}" if ratio else "-"
                print(f"  {size_name(size):>8}" + "".join(f"{c:>23}" for c in cells)
                      + f"   {said:>20}   {'/'.join(counts)}")
    dropped = sum(r["mode"] is None for r in runs)
    print(f"\n{dropped} of {len(runs)} runs do not count, because the mode changed in them")


def verdicts(summary, missing):
    result = []
    print("\ntargets, Sluice to the best peer"
          + (f" (not there: {', '.join(missing)})" if missing else ""))
    for test, size, *limits in TARGETS:
        sign = "<=" if is_time(test) else ">="
        for mode, limit in zip(("near", "far"), limits):
            ratio, peer = compare(summary, mode, test, size)
            if ratio is None:
                verdict = "not measured"
            else:
                met = ratio <= limit if is_time(test) else ratio >= limit
                verdict = "met" if met else "missed"
            result.append(dict(test=test, size=size, mode=mode, limit=limit, ratio=ratio,
                               peer=peer, verdict=verdict))
            print(f"  {test:9} {size_name(size):>6}  {sign} {limit:4} x  {mode:4}  "
                  + (f"{ratio:.2f} x {peer}: " if ratio else "") + verdict)
    return result


def memory(directory):
    result = []
    print("\nresident memory per process after an all-to-all of 1 KiB, MiB: "
          "largest now (VmRSS), largest ever (VmHWM)")
    for ranks in (2, 16):
        for transport in ("sluice", "vader"):
            say(f"memory with {ranks} ranks over {transport}")
            rows, why = rows_of(transport, ranks, "pairs", ["memory"], directory, 90,
                                None)
            if not why and len(rows) != ranks:
                why = f"{len(rows)} of {ranks} ranks printed a figure"
            entry = dict(ranks=ranks, transport=transport, failed=why, rows=rows)
            result.append(entry)
            if why:
                print(f"  {ranks:2} ranks  {transport:6}  failed: {why}")
                continue
            now = max(r["vmrss_kib"] for r in rows) / 1024
            high = max(r["vmhwm_kib"] for r in rows) / 1024
            print(f"  {ranks:2} ranks  {transport:6}  {now:6.1f}  {high:6.1f}")
    return result


def sluice_alone(quick, cores):
    """State per idle peer, and sluice perf beside the limits of the machine."""
    tool = os.path.join(RELEASE, "sluice")
    result = {}
    out, why = run([tool, "info", "--json"], 60)
    try:
        if why:
            raise ValueError(why)
        result["memory"] = json.loads(out)["memory"]
        print(f"\nstate per idle peer: {result['memory']['idle_peer_bytes']} bytes; "
              f"mailbox of a process: {result['memory']['mailbox_bytes'] / 1048576:.1f} MiB")
    except (ValueError, KeyError) as e:
        print(f"\nstate per idle peer: \"sluice info --json\" gives none: {e}")
    sizes = {"latency": (["latency"], "8,1K,64K,1M"), "bandwidth": (["bandwidth"], "64K,1M,4M"),
             "single": (["bandwidth", "--window", "1"], "1M,4M"), "rate": (["rate"], "8")}
    result["perf"] = {}
    limits = {}
    for test, (command, wanted) in sizes.items():
        say(f"sluice perf {' '.join(command)}")
        out, why = run([tool, "perf", *command, "--size", wanted, "--cores",
                        f"{cores[0]},{cores[1]}", "--seconds", "0.2" if quick else "0.5",
                        "--json"], 120)
        try:
            if why:
                raise ValueError(why)
            found = json.loads(out)
            rows = found["rows"]
        except (ValueError, KeyError) as e:
            print(f"sluice perf {' '.join(command)} failed: {e}")
            continue
        result["perf"][test] = found
        limits = found.get("limits") or {}
        line = (limits.get("cache_line_half_rtt_ns"),
                limits.get("cache_line_half_rtt_after_ns"))
        where = (f", cache line {line[0]:.0f} ns before, {line[1]:.0f} after"
                 if all(isinstance(x, (int, float)) for x in line) else "")
        unit = {"latency": "us", "rate": "million/s"}.get(test, "MiB/s")
        print(f"sluice perf {' '.join(command)}, {unit}, p50{where}")
        for row in rows:
            p50 = row[VALUE[test]]["p50"]
            beside = ""
            if test == "latency" and where:
                beside = f"   {p50 / line[1]:.1f} cache lines"
            print(f"  {size_name(row['size']):>8}  {show(test, p50)}{beside}")
    if limits:
        print("limits of the machine as sluice perf measured them: "
              + json.dumps(limits, sort_keys=True))
    return result


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="about two minutes instead of fifteen")
    parser.add_argument("--rounds", type=int, help="rounds [default: 6, quick: 2]")
    parser.add_argument("--crowd-only", action="store_true",
                        help="only what is about more ranks than cores")
    parser.add_argument("--lammps", action="store_true",
                        help="LAMMPS's melt too, with more ranks than cores (Debian package lammps)")
    parser.add_argument("--json", metavar="FILE", help="write everything to FILE")
    args = parser.parse_args()
    rounds = args.rounds or (2 if args.quick else 6)
    if rounds < 1:
        die(f"--rounds {rounds}", "there must be at least one round", "Give 1 or more")
    if args.json:
        # A file that cannot be written is told now, not in four minutes.
        try:
            open(args.json, "a").close()
        except OSError as e:
            die(f"--json {args.json}", e.strerror, "Name a file that can be written")
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        die("the benchmark", "only one core is allowed", "Run it with at least two cores")
    if not shutil.which("mpirun.openmpi"):
        die("mpirun.openmpi", "it is not there", "Install the Debian package openmpi-bin")
    if args.lammps and not shutil.which("lmp"):
        die("lmp", "it is not there", "Install the Debian package lammps, or leave out --lammps")
    for name in ("libsluice-fi.so", "sluice"):
        if not os.path.exists(os.path.join(RELEASE, name)):
            die(f"target/release/{name}", "it is not there",
                "Build it with \"make build\"")
    build_probe()
    missing = build_all(list(TRANSPORTS.values()), ["pairs", "halo", "crowd"])
    seconds = 0.15 if args.quick else 0.3
    sizes = QUICK_SIZES if args.quick else SIZES
    plan = [(test, of, seconds) for test, of in sizes.items()]
    started = time.monotonic()
    directory = tempfile.mkdtemp(prefix="bench-")
    try:
        runs, judged, used, alone, together = [], [], [], {}, []
        if not args.crowd_only:
            runs = measure(plan, rounds, cores, directory, missing)
        summary = summarise(runs)
        if not args.crowd_only:
            tables(summary, plan, [t for t in TRANSPORTS if t not in missing], runs)
            judged = verdicts(summary, missing)
            used = memory(directory)
        crowded = crowds(rounds, cores, directory, args.lammps)
        together = collectives(rounds, 2 * seconds, cores, directory, missing)
        if not args.crowd_only:
            alone = sluice_alone(args.quick, cores)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    say(f"{time.monotonic() - started:.0f} s")
    if args.json:
        table = [dict(mode=m, test=t, size=s, transport=x, **figures)
                 for (m, t, s, x), figures in sorted(summary.items())]
        write_json(args.json, dict(cores=cores, missing=missing, summary=table, targets=judged,
                                   memory=used, crowds=crowded, collectives=together,
                                   sluice=alone, runs=runs))
    return 0


if __name__ == "__main__":
    end_with(main)
