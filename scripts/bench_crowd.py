"""More ranks than cores: a ring with halo exchange and sums (bench/halo.c), in pairs with Open
MPI's own shared memory; collectives (bench/crowd.c) beside all peers; with --lammps, LAMMPS's
melt."""

import os
import re
import statistics

from bench_base import die, rows_in, say
from bench_peers import OURS, PEERS, TRANSPORTS

# Ranks on two cores, and how many times Open MPI's own they may take.
CROWDS = [2, 3, 4, 8, 16]
CROWD_LIMIT = 1.2
# The same for collectives, and the best of all peers.
COLLECTIVE_CROWDS = [8, 16]
COLLECTIVE_LIMIT = 1.1
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

def rows_of(transport, ranks, name, arguments, directory, limit, cores):
    """Runs a program of bench/; its rows and why it failed, if it did."""
    transport = TRANSPORTS[transport]
    program = [transport.program(name), *map(str, arguments)]
    out, why = transport.run(ranks, program, directory, limit, cores)
    rows = rows_in(out)
    return rows, why or (None if rows else "it printed no figures")


def halo_us(transport, ranks, directory, cores):
    """Microseconds a step of bench/halo.c."""
    rows, why = rows_of(transport, ranks, "halo", HALO.values(), directory, 60, cores)
    if why:
        die(f"halo with {ranks} ranks over {transport}", why,
            "Run the tests of this transport first")
    return rows[0]["us_per_step"]


def melt_seconds(transport, ranks, directory, cores):
    """Seconds of LAMMPS's loop."""
    script = os.path.join(directory, "in.melt")
    with open(script, "w") as file:
        file.write(MELT)
    out, why = TRANSPORTS[transport].run(ranks, ["lmp", "-in", script, "-log", "none"],
                                         directory, 120, cores)
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


def collectives(rounds, seconds, cores, directory, missing):
    """All-to-all, barrier and sum with more ranks than cores, beside all peers in turn."""
    found = {}
    names = [name for name in TRANSPORTS if name not in missing]
    for ranks in COLLECTIVE_CROWDS:
        for number in range(rounds):
            for name in names[number % len(names):] + names[:number % len(names)]:
                say(f"round {number + 1} of {rounds}  collectives with {ranks} ranks over {name}")
                rows, why = rows_of(name, ranks, "crowd", [seconds], directory,
                                    60 + 20 * seconds, cores)
                if why and name == OURS:
                    die(f"collectives with {ranks} ranks over Sluice", why,
                        "Run the tests of this transport first")
                if why:
                    say(f"{name} with {ranks} ranks is left out: {why}")
                for row in rows:
                    key = (row["test"], row["size"], ranks)
                    found.setdefault(key, {}).setdefault(name, []).append(row["us"]["p50"])
    return judged(found)


def judged(found):
    """Prints each collective's medians by transport, and the verdict beside the best peer."""
    result = []
    print("\ncollectives on two cores, us: medians of the rounds")
    for (test, size, ranks), figures in found.items():
        medians = {name: statistics.median(all_) for name, all_ in figures.items()}
        peers = {name: us for name, us in medians.items() if name in PEERS}
        shown = "  ".join(f"{name} {us:.1f}" for name, us in medians.items())
        entry = dict(test=test, size=size, ranks=ranks, us=medians, limit=COLLECTIVE_LIMIT)
        what = f"{ranks:2} ranks  {test} {size or ''}".rstrip()
        if OURS in medians and peers:
            best = min(peers, key=peers.get)
            ratio = medians[OURS] / peers[best]
            entry.update(ratio=ratio, peer=best,
                         verdict="met" if ratio <= COLLECTIVE_LIMIT else "missed")
            shown += f"  {ratio:.2f} x {best}, wanted {COLLECTIVE_LIMIT}: {entry['verdict']}"
        print(f"  {what:24}  {shown}")
        result.append(entry)
    return result
