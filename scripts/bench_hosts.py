#!/usr/bin/env python3
"""Compare Sluice with its peers between two hosts, over one rail and over two.

The hosts are those of a lab (`sluice lab`), so this needs root and a kernel that allows
one; where that is not so, it says why and ends. Two ranks, one on each host and each on a
core of its own, run bench/pairs.c. The transports run in turn, several rounds, one pair of
processes at a time; a figure is the median over rounds. Peers are Open MPI's own TCP
(`btl tcp`), libfabric's (`mtl ofi`, provider tcp), and UCX (`pml ucx`) if Debian's libucx0 is
there. They are told their devices; Sluice finds them.

Then overlap, over one rail of a known rate (tests/mpi/overlap.c): a receive is posted, its
rank computes for as long as the transfer takes alone, without a call, and then waits. 100 %
is a transfer that costs the computation nothing, 0 % one that waits for the computation's
end. Sluice is measured without its progress thread and with it. The thread has no core of its
own: it takes that of the computation.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time

import bench_base as bench
from bench_peers import TRANSPORTS

NAME = f"bench-{os.getpid()}"
TOOL = os.path.join(bench.RELEASE, "sluice")
PEERS = ["btl", "ofi", "ucx"]
COMPARED = ["sluice", *PEERS]
NAMES = {"sluice": "Sluice", "btl": "btl tcp", "ofi": "libfabric tcp", "ucx": "UCX tcp"}
# Those of the overlap: the second is Sluice with its thread.
THREAD = "sluice-thread"
OVERLAPPING = ["sluice", THREAD, *PEERS]
NAMES[THREAD] = "Sluice, thread"
OVERLAP_SIZE = 4 << 20
OVERLAP_REPETITIONS = 31
# Transports that use one device at most.
ONE_RAIL = {"ofi": "libfabric's tcp uses one device"}
# Test, sizes, seconds for each size.
PLAN = [("latency", [8], 1.0), ("rate", [8], 1.0),
        ("bandwidth", [64 << 10, 1 << 20, 4 << 20], 1.0)]
UNITS = {"latency": "us", "rate": "million/s", "bandwidth": "MiB/s"}
LIMIT_SECONDS = 120
# Each rank on a core of its own: to the launcher each host has all of them.
PINNED = ('if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then core={}; else core={}; fi; '
          'exec taskset -c "$core" "$@"')


def devices(rails):
    return ",".join(f"r{rail}" for rail in range(rails))


def options(transport, rails):
    """What tells Open MPI and the transport to use these rails."""
    named = devices(rails)
    if transport == THREAD:
        return [*options("sluice", rails), "-x", "FI_SLUICE_PROGRESS=thread"]
    if transport == "sluice":
        return [*TRANSPORTS["sluice"].words]
    if transport == "btl":
        return ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp",
                "--mca", "btl_tcp_if_include", named]
    if transport == "ofi":
        return ["--mca", "pml", "cm", "--mca", "mtl", "ofi",
                "--mca", "mtl_ofi_provider_include", "tcp", "--mca", "btl", "self",
                "-x", "FI_TCP_IFACE=" + named]
    return [*TRANSPORTS["ucx"].words, "-x", "UCX_TLS=tcp,self", "-x", "UCX_NET_DEVICES=" + named]


def run_program(transport, rails, program, cores, directory):
    """Run a program between the hosts; return the documents it printed, one a line, and why
    it failed, if it did."""
    command = [TOOL, "lab", "exec", "--name", NAME, "head", "--", "mpirun.openmpi",
               "--host", "h0:1,h1:1", "-np", "2", "--bind-to", "none",
               *options(transport, rails),
               "sh", "-c", PINNED.format(*cores), "sh", *map(str, program)]
    out, why = bench.run(command, LIMIT_SECONDS, bench.environment(directory))
    rows = bench.rows_in(out)
    return rows, why or (None if rows else "it printed no figures")


def rows_of(transport, rails, test, seconds, sizes, cores, directory):
    """Run bench/pairs.c; return its rows and why it failed, if it did."""
    program = [os.path.join(bench.BUILD, "pairs"), test, seconds, *sizes]
    return run_program(transport, rails, program, cores, directory)


def overlap(rounds, cores, directory, missing):
    """All rounds of the overlap, over one rail; what was found, by transport."""
    program = [os.path.join(bench.BUILD, "overlap"), "--json", "--size", OVERLAP_SIZE,
               "--repetitions", OVERLAP_REPETITIONS, "--compute", 1, "--first", "receiver",
               "--side", "receive", "--any-core"]
    found = {}
    for number in range(rounds):
        turn = number % len(OVERLAPPING)
        for transport in OVERLAPPING[turn:] + OVERLAPPING[:turn]:
            if transport in missing:
                continue
            bench.say(f"overlap, round {number + 1} of {rounds}: {NAMES[transport]}")
            documents, why = run_program(transport, 1, program, cores, directory)
            if why:
                missing[transport] = why
                found.pop(transport, None)
                bench.say(f"{NAMES[transport]} is left out: overlap failed: {why}")
                continue
            found.setdefault(transport, []).extend(documents[0]["rows"])
    return found


def overlap_rows(rate, found):
    """The median over rounds of each transport."""
    def median(rows, name):
        return round(statistics.median(row[name] for row in rows), 2)

    return [{"rails": 1, "rate": rate, "transport": transport, "test": "overlap",
             "size": OVERLAP_SIZE, "first": "receiver", "side": "receive",
             "overlap_pct": {"p50": median(rows, "overlap_pct")},
             **{name: median(rows, name) for name in ("comm_us", "compute_us", "total_us")},
             "rounds": len(rows)} for transport, rows in found.items()]


def overlap_table(rate, rows, left_out):
    """For people: a line for the overlap, and one for the transfer alone."""
    print(f"\n1 rail of {rate}: a receive of {bench.size_name(OVERLAP_SIZE)} beside computation, "
          "receiver first, no calls in between")
    print(f"  {'':24}" + "".join(f"{NAMES[row['transport']]:>16}" for row in rows))
    print(f"  {'overlap, %':24}" + "".join(f"{row['overlap_pct']['p50']:>16.1f}" for row in rows))
    print(f"  {'transfer alone, us':24}" + "".join(f"{row['comm_us']:>16.0f}" for row in rows))
    for transport, why in left_out.items():
        print(f"  {NAMES[transport]}: {why}")


def measure(rails, transports, rounds, seconds, cores, directory, missing):
    """All rounds over so many rails; the figures by transport, test and size."""
    found = {}
    for number in range(rounds):
        # Every round begins with another transport, so that none is always first.
        turn = number % len(transports)
        for test, sizes, share in PLAN:
            for transport in transports[turn:] + transports[:turn]:
                if transport in missing:
                    continue
                bench.say(f"{rails} rails, round {number + 1} of {rounds}: {test} over "
                          f"{NAMES[transport]}")
                rows, why = rows_of(transport, rails, test, share * seconds, sizes, cores,
                                    directory)
                if why and transport == "sluice":
                    bench.die(f"{test} over Sluice", why, "Run tests/run_hosts.py first")
                if why:
                    missing[transport] = why
                    bench.say(f"{NAMES[transport]} is left out: {test} failed: {why}")
                    continue
                for row in rows:
                    key = (transport, row["test"], row["size"])
                    found.setdefault(key, []).append(row[bench.VALUE[row["test"]]])
    return found


def summary(rails, found):
    """The median over rounds of each figure."""
    rows = []
    for (transport, test, size), figures in found.items():
        medians = {name: statistics.median(one[name] for one in figures) for name in figures[0]}
        rows.append({"rails": rails, "transport": transport, "test": test, "size": size,
                     bench.VALUE[test]: medians, "rounds": len(figures)})
    return rows


def table(rails, rows, left_out):
    """For people: a line for each test and size, and Sluice beside the best peer."""
    present = [t for t in COMPARED if any(row["transport"] == t for row in rows)]
    print(f"\n{rails} rail{'s' if rails > 1 else ''}: p50, medians over rounds")
    print(f"  {'':24}" + "".join(f"{NAMES[t]:>16}" for t in present) + "   Sluice / best peer")
    for test, sizes, _ in PLAN:
        for size in sizes:
            p50 = {row["transport"]: row[bench.VALUE[test]]["p50"] for row in rows
                   if (row["test"], row["size"]) == (test, size)}
            cells = [bench.show(test, p50[t]) if t in p50 else "-" for t in present]
            peers = {t: p50[t] for t in PEERS if t in p50}
            said = "-"
            if peers and "sluice" in p50:
                best = (min if test == "latency" else max)(peers, key=peers.get)
                said = f"{p50['sluice'] / peers[best]:.2f} x {NAMES[best]}"
            what = f"{test} {bench.size_name(size)}, {UNITS[test]}"
            print(f"  {what:24}" + "".join(f"{cell:>16}" for cell in cells) + f"   {said:>18}")
    for transport, why in left_out.items():
        print(f"  {NAMES[transport]}: {why}")


def lab(command, *words):
    return bench.run([TOOL, "lab", command, "--name", NAME, *words], 60)


def compare(args, cores, directory):
    """The figures over each number of rails."""
    results, reasons = [], []
    for rails in [] if args.overlap_only else args.rails:
        words = ["--rails", str(rails), "--congestion", args.congestion]
        if args.rate:
            words += ["--rate", args.rate]
        _, why = lab("up", *words)
        if why:
            print(f"between two hosts: skipped: {why}")
            return results, reasons + [dict(rails=rails, skipped=why)]
        try:
            left_out = {t: why for t, why in ONE_RAIL.items() if rails > 1}
            missing = dict(left_out)
            found = measure(rails, COMPARED, args.rounds, args.seconds, cores, directory,
                            missing)
        finally:
            lab("down")
        rows = summary(rails, found)
        table(rails, rows, missing)
        results += rows
        reasons += [dict(rails=rails, transport=t, skipped=why) for t, why in missing.items()]
    rows, skipped = compare_overlap(args, cores, directory)
    return results + rows, reasons + skipped


def compare_overlap(args, cores, directory):
    rate = args.overlap_rate
    _, why = lab("up", "--rails", "1", "--congestion", args.congestion, "--rate", rate)
    if why:
        print(f"overlap between two hosts: skipped: {why}")
        return [], [dict(test="overlap", skipped=why)]
    missing = {}
    try:
        found = overlap(args.rounds, cores, directory, missing)
    finally:
        lab("down")
    rows = overlap_rows(rate, found)
    overlap_table(rate, sorted(rows, key=lambda row: OVERLAPPING.index(row["transport"])), missing)
    return rows, [dict(test="overlap", transport=t, skipped=why) for t, why in missing.items()]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rails", default="1,2", metavar="LIST",
                        type=lambda text: [int(word) for word in text.split(",")],
                        help="numbers of rails [default: 1,2]")
    parser.add_argument("--rate", metavar="RATE",
                        help="of each rail, as `sluice lab up` has it [default: no limit]")
    parser.add_argument("--congestion", default="reno", metavar="NAME",
                        help="TCP's congestion control of all [default: reno]")
    parser.add_argument("--rounds", type=int, default=3, help="rounds [default: 3]")
    parser.add_argument("--seconds", type=float, default=0.5,
                        help="time for each size [default: 0.5]")
    parser.add_argument("--overlap-only", action="store_true", help="nothing but the overlap")
    parser.add_argument("--overlap-rate", default="10gbit", metavar="RATE",
                        help="of the overlap's rail [default: 10gbit]")
    parser.add_argument("--json", metavar="FILE", help="write everything to FILE")
    args = parser.parse_args()
    if args.rounds < 1 or min(args.rails) < 1:
        bench.die("--rounds and --rails", "there must be at least one", "Give 1 or more")
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        bench.die("the benchmark", "only one core is allowed", "Run it with at least two cores")
    if not shutil.which("mpirun.openmpi"):
        bench.die("mpirun.openmpi", "it is not there", "Install the Debian package openmpi-bin")
    for name in ("libsluice-fi.so", "sluice"):
        if not os.path.exists(os.path.join(bench.RELEASE, name)):
            bench.die(f"target/release/{name}", "it is not there",
                      "Build it with \"make build\"")
    try:
        packages = "libopenmpi-dev, gcc and libc6-dev"
        bench.build_one("pairs", "mpicc.openmpi", [], packages)
        bench.build_one("overlap", "mpicc.openmpi", ["-std=gnu11", "-pthread"], packages,
                        os.path.join("tests", "mpi"))
    except bench.NotBuilt as why:
        bench.die(*why.args)
    started = time.monotonic()
    directory = tempfile.mkdtemp(prefix="bench-hosts-")
    try:
        results, reasons = compare(args, cores, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    bench.say(f"{time.monotonic() - started:.0f} s")
    if args.json:
        bench.write_json(args.json, dict(cores=cores, congestion=args.congestion, rate=args.rate,
                                         rows=results, skipped=reasons))
    return 0


if __name__ == "__main__":
    bench.end_with(main)
