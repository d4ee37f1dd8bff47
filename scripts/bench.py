#!/usr/bin/env python3
"""Compare Sluice with Open MPI's own shared memory and with UCX, side by side.

Two ranks are pinned to two cores.  The transports run in turn, several rounds.
A cache-line probe brackets each run; the machine is "near" when the half round
trip of a line is under 100 ns and "far" otherwise, and a run counts for a mode
only when both probes agree.  Figures are compared within one mode only.

Then more ranks than cores: a ring with halo exchange and sums (bench/halo.c) on the
same two cores, in pairs with Open MPI's own; with --lammps, LAMMPS's melt as well.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RELEASE = os.path.join(ROOT, "target", "release")
BUILD = os.path.join(ROOT, "target", "bench")
NEAR_BELOW_NS = 100.0

TRANSPORTS = {
    "sluice": ["--mca", "pml", "cm", "--mca", "mtl", "ofi",
               "--mca", "mtl_ofi_provider_include", "sluice",
               "--mca", "btl", "self"],
    "vader": ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"],
    # Open MPI takes UCX for shared memory only when told that any device will do.
    "ucx": ["--mca", "pml", "ucx", "--mca", "btl", "self",
            "--mca", "opal_common_ucx_tls", "any",
            "--mca", "opal_common_ucx_devices", "any"],
}
PEERS = ["vader", "ucx"]

# The targets: test, size, limit; latency at most, the others at least.
TARGETS = [("latency", 8, 1.3), ("latency", 64 << 10, 1.0),
           ("bandwidth", 1 << 20, 1.7), ("bandwidth", 4 << 20, 1.7),
           ("single", 1 << 20, 1.7), ("single", 4 << 20, 1.7), ("rate", 8, 0.7)]
# Ranks on two cores, and how many times Open MPI's own they may take.
CROWDS = [2, 3, 4, 8, 16]
CROWD_LIMIT = 1.2
HALO = {"steps": 1000, "bytes": 4096, "compute_us": 50}
# LAMMPS's melt, as its example has it.
MELT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 10 0 10 0 10
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 50
run 250
"""
VALUE = {"latency": "half_rtt_ns", "bandwidth": "mib_per_s", "single": "mib_per_s",
         "rate": "msgs_per_s"}


def die(what, cause, step):
    sys.exit(f"bench: {what}: {cause}. {step}")


def say(text):
    print(text, file=sys.stderr, flush=True)


def environment(directory=None):
    env = dict(os.environ)
    if directory:
        env["OMPI_MCA_orte_tmpdir_base"] = directory
    if os.geteuid() == 0:
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return env


def run(command, limit, env=None):
    """Run a command in a group of its own; return (output, None) or (output, why not)."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=env,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        why = None
        try:
            code = process.wait(timeout=limit)
            if code:
                why = f"it ended with {code}"
        except subprocess.TimeoutExpired:
            why = f"it was killed at its time limit of {limit} s"
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if process.poll() is not None:
                    break
                try:
                    os.killpg(process.pid, number)
                    process.wait(timeout=5)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass
        out.seek(0)
        err.seek(0)
        if why:
            lines = [x.strip() for x in err.read().decode(errors="replace").splitlines()]
            said = [x for x in lines if x and not set(x) <= {"-"}]
            why += (", saying: " + " / ".join(said)[:300]) if said else ""
        return out.read().decode(errors="replace"), why


class NotBuilt(Exception):
    """A program of ours did not compile: what, why, and what to do about it."""


def build_one(name, compiler, flags, packages, folder="bench"):
    os.makedirs(BUILD, exist_ok=True)
    step = f"Install the Debian packages {packages}"
    if not shutil.which(compiler):
        raise NotBuilt(compiler, "it is not there", step)
    _, why = run([compiler, "-O2", *flags, os.path.join(ROOT, folder, name + ".c"),
                  "-o", os.path.join(BUILD, name)], 120)
    if why:
        raise NotBuilt(f"{folder}/{name}.c does not compile", why, step)


def build_probe():
    build_one("cacheline", "cc", ["-pthread"], "gcc and libc6-dev")


def build():
    for name in ("pairs", "halo"):
        build_one(name, "mpicc.openmpi", [], "libopenmpi-dev, gcc and libc6-dev")
    build_probe()


def probe(cores):
    out, why = run([os.path.join(BUILD, "cacheline"), *map(str, cores)], 60)
    if why:
        die("the cache-line probe", why, "Run bench/cacheline.c by hand")
    return float(out)


def mode_of(ns):
    return "near" if ns < NEAR_BELOW_NS else "far"


def mpirun(transport, ranks, program, directory, bind, limit, cores=None):
    """Run a program under mpirun; return its output and why it failed, if it did."""
    command = ["mpirun.openmpi", "-n", str(ranks), *TRANSPORTS[transport]]
    command += (["--map-by", "core", "--bind-to", "core"] if bind
                else ["--oversubscribe", "--bind-to", "none"])
    if transport == "sluice":
        # The stated thresholds: figures of two days are to be compared.
        command += ["-x", "FI_PROVIDER_PATH=" + RELEASE, "-x", "FI_SLUICE_TUNE=off"]
    command += program
    if cores:
        command = ["taskset", "-c", ",".join(map(str, cores)), *command]
    return run(command, limit, environment(directory))


def rows_of(transport, ranks, name, arguments, directory, bind, limit, cores=None):
    """Run a program of bench/; return its rows and why it failed, if it did."""
    program = [os.path.join(BUILD, name), *map(str, arguments)]
    out, why = mpirun(transport, ranks, program, directory, bind, limit, cores)
    rows = []
    for line in out.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            pass
    return rows, why or (None if rows else "it printed no figures")


def size_name(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def measure(transports, plan, rounds, cores, directory, missing):
    """Run all rounds; return the runs, each with its probes and rows."""
    runs = []
    for number in range(rounds):
        # Every round begins with another transport, so that none is always first.
        order = transports[number % len(transports):] + transports[:number % len(transports)]
        for test, sizes, seconds in plan:
            for transport in order:
                if transport in missing:
                    continue
                before = probe(cores)
                rows, why = rows_of(transport, 2, "pairs", [test, seconds, *sizes], directory, True,
                                    30 + 10 * seconds * len(sizes))
                after = probe(cores)
                if why:
                    if transport != "ucx":
                        die(f"{test} over {transport}", why,
                            "Run the tests of this transport first")
                    missing[transport] = why
                    say(f"UCX is left out: {test} over it failed: {why}. "
                        "Install the Debian package libucx0, or compare without it.")
                    continue
                mode = mode_of(before)
                counts = mode == mode_of(after)
                runs.append(dict(round=number + 1, test=test, transport=transport,
                                 probe_before_ns=before, probe_after_ns=after,
                                 mode=mode if counts else None, rows=rows))
                say(f"round {number + 1} of {rounds}  {test:9} {transport:6} "
                    f"probes {before:4.0f} and {after:4.0f} ns: "
                    + (mode if counts else "does not count, the mode changed"))
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
    best = (min if test == "latency" else max)(peers, key=peers.get)
    return ours["p50"] / peers[best], best


def show(test, value):
    return {"latency": lambda: f"{value / 1000:.3f}", "bandwidth": lambda: f"{value:.0f}",
            "single": lambda: f"{value:.0f}",
            "rate": lambda: f"{value / 1e6:.2f}"}[test]()


def tables(summary, plan, transports, runs):
    heads = {"latency": "half round trip, us: p50 (p99)",
             "bandwidth": "bandwidth with a window of 64, MiB/s: p50 (99 % reach)",
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
    print("\ntargets, Sluice to the better peer"
          + (" (UCX is not there: vader alone)" if "ucx" in missing else ""))
    for test, size, limit in TARGETS:
        sign = "<=" if test == "latency" else ">="
        for mode in ("near", "far"):
            ratio, peer = compare(summary, mode, test, size)
            if ratio is None:
                verdict = "not measured"
            else:
                met = ratio <= limit if test == "latency" else ratio >= limit
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
            rows, why = rows_of(transport, ranks, "pairs", ["memory"], directory, False, 90)
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


def halo_us(transport, ranks, directory, cores):
    """Microseconds a step of bench/halo.c."""
    rows, why = rows_of(transport, ranks, "halo", HALO.values(), directory, False, 60, cores)
    if why:
        die(f"halo with {ranks} ranks over {transport}", why,
            "Run the tests of this transport first")
    return rows[0]["us_per_step"]


def melt_seconds(transport, ranks, directory, cores):
    """Seconds of LAMMPS's loop."""
    script = os.path.join(directory, "in.melt")
    with open(script, "w") as file:
        file.write(MELT)
    out, why = mpirun(transport, ranks, ["lmp", "-in", script, "-log", "none"], directory, False,
                      120, cores)
    found = re.search(r"^Loop time of ([0-9.]+) ", out, re.M)
    if why or not found:
        die(f"LAMMPS with {ranks} ranks over {transport}", why or "it printed no loop time",
            "Run it by hand")
    return float(found.group(1))


def crowds(rounds, cores, directory, lammps):
    """More ranks than cores, in pairs that begin with each transport in turn."""
    result = []
    programs = [("halo", "us a step", halo_us)]
    if lammps:
        programs.append(("melt", "s", melt_seconds))
    for name, unit, take in programs:
        print(f"\n{name} on two cores, {unit}: median of {rounds} pairs (all)")
        for ranks in CROWDS:
            figures = {"sluice": [], "vader": []}
            for number in range(rounds):
                order = list(figures) if number % 2 else list(figures)[::-1]
                for transport in order:
                    say(f"pair {number + 1} of {rounds}  {name} with {ranks} ranks "
                        f"over {transport}")
                    figures[transport].append(take(transport, ranks, directory, cores))
            medians = {t: statistics.median(found) for t, found in figures.items()}
            ratio = medians["sluice"] / medians["vader"]
            verdict = "met" if ratio <= CROWD_LIMIT else "missed"
            result.append(dict(program=name, ranks=ranks, unit=unit, figures=figures, ratio=ratio,
                               limit=CROWD_LIMIT, verdict=verdict))
            shown = "  ".join(f"{t} {medians[t]:.4g} ({', '.join(f'{x:.4g}' for x in found)})"
                              for t, found in figures.items())
            print(f"  {ranks:2} ranks  {shown}  {ratio:.2f} x, wanted {CROWD_LIMIT}: {verdict}")
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
                        help="about one minute instead of five")
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
                "Build it with \"cargo build --release\"")
    try:
        build()
    except NotBuilt as why:
        die(*why.args)
    if args.quick:
        plan = [("latency", [8, 1024, 65536, 1 << 20], 0.15),
                ("bandwidth", [65536, 1 << 20, 4 << 20], 0.2),
                ("single", [1 << 20, 4 << 20], 0.2), ("rate", [8], 0.3)]
    else:
        plan = [("latency", [8, 64, 1024, 8192, 65536, 1 << 20, 4 << 20], 0.3),
                ("bandwidth", [8192, 65536, 1 << 20, 4 << 20], 0.5),
                ("single", [1 << 20, 4 << 20], 0.5), ("rate", [8], 0.6)]
    started = time.monotonic()
    missing = {}
    directory = tempfile.mkdtemp(prefix="bench-")
    try:
        runs, judged, used, alone = [], [], [], {}
        if not args.crowd_only:
            runs = measure(list(TRANSPORTS), plan, rounds, cores, directory, missing)
        summary = summarise(runs)
        if not args.crowd_only:
            tables(summary, plan, [t for t in TRANSPORTS if t not in missing], runs)
            judged = verdicts(summary, missing)
            used = memory(directory)
        crowded = crowds(rounds, cores, directory, args.lammps)
        if not args.crowd_only:
            alone = sluice_alone(args.quick, cores)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    say(f"{time.monotonic() - started:.0f} s")
    if args.json:
        table = [dict(mode=m, test=t, size=s, transport=x, **figures)
                 for (m, t, s, x), figures in sorted(summary.items())]
        with open(args.json, "w") as f:
            json.dump(dict(cores=cores, missing=missing, summary=table, targets=judged,
                           memory=used, crowds=crowded, sluice=alone, runs=runs), f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
