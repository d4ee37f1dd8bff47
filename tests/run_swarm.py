#!/usr/bin/env python3
"""Runs a swarm of random programs: seeds that are always the same, and seeds of the day.

The seeds of a day follow from its number, which is printed with the command that runs
them again. A failing seed prints one line that replays it. The last line is
`N passed, N failed`.
"""

import argparse
import json
import os
import subprocess
import time

from verdicts import leave

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Together some two minutes on two cores.
FIXED = range(0, 10_000)
DAYS_SEEDS = 10_000
SECONDS_OF_A_DAY = 86_400
# What the command answers when nothing is wrong, and when a seed failed.
STATUS_JUDGED = (0, 1)
# Of the worlds with large messages, at least so many write one to an announced receive.
ANNOUNCED_SHARE_MIN = 0.2
# Of all worlds, at least so many survive each fault, and come by each path.
SHARE_MIN = 0.02
# Of all worlds, at least so many take a path that needs something at one moment.
RARE_SHARE_MIN = 0.005
RARE = {"remote_origins_lost", "remote_partly_at_once"}
# The same of programs of Portals calls, whose rarest paths take several calls in a row.
PORTALS_SHARE_MIN = 0.005
# Of their worlds, at least so many take a path that needs a loss at one moment.
PORTALS_RARE_SHARE_MIN = 0.002
PORTALS_RARE = {"peers_given_up", "lost_at_target", "moves_failed", "lasting_partition"}
# The faults of these.
PORTALS_FAULTS = {
    "connection_lost", "connection_lost_at_one_end", "connection_refused", "flapping", "silence",
    "swallowed", "slow", "late_arrival", "acknowledgements_lost", "partition", "process_computes",
    "process_computes_long", "process_stopped", "process_died", "lasting_partition",
    "rail_returned", "frame_altered", "frame_lost", "frame_duplicated", "frames_reordered",
}


def seeds_of(day):
    """The seeds of a day; no two days share one, and none is fixed."""
    return range(DAYS_SEEDS * (day + 1), DAYS_SEEDS * (day + 2))


def run(sluice, title, seeds):
    """Runs seeds and prints what became of them. Counts of what holds and what does not."""
    span = f"{seeds.start}..{seeds.stop}"
    print(f"{title}: sluice sim swarm --seeds {span}", flush=True)
    command = [sluice, "sim", "swarm", "--seeds", span, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode not in STATUS_JUDGED:
        print(f"  FAILED  status {done.returncode}")
        return 0, 1
    found = json.loads(done.stdout)
    worlds = found["worlds_with"]
    for failure in found["failures"]:
        what = failure["what"].replace("\n", " ")
        print(f"  FAILED  seed {failure['seed']}: {what}; replay: {failure['replay']}")
    is_met = worlds["announced_used"] >= ANNOUNCED_SHARE_MIN * worlds["large_messages"]
    is_met = is_met or found["failed"] > 0
    survived = {name: counts["survived"] for name, counts in found["faults"].items()}
    counted = list(survived.items()) + list(worlds.items())
    least = {name: RARE_SHARE_MIN for name in RARE}
    rare = [name for name, count in counted
            if count < least.get(name, SHARE_MIN) * found["seeds"]]
    if rare and not found["failed"]:
        print(f"  FAILED  too few worlds with {', '.join(rare)}")
        is_met = False
    counts = ", ".join(f"{name} {count}" for name, count in worlds.items())
    print(f"  {'ok' if is_met else 'FAILED':7} {found['seeds']} worlds in {found['seconds']:.0f} s,"
          f" with {counts}; survived faults:"
          f" {', '.join(f'{name} {count}' for name, count in survived.items())}", flush=True)
    failed = found["failed"] + (not is_met)
    return found["seeds"] - found["failed"] + is_met, failed


def run_portals(sluice, title, seeds):
    """The same of programs of Portals calls, which are compared with a model."""
    span = f"{seeds.start}..{seeds.stop}"
    print(f"{title}: sluice sim swarm --portals --seeds {span}", flush=True)
    command = [sluice, "sim", "swarm", "--portals", "--seeds", span, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode not in STATUS_JUDGED:
        print(f"  FAILED  status {done.returncode}")
        return 0, 1
    found = json.loads(done.stdout)
    for failure in found["failures"]:
        what = failure["what"].replace("\n", " ")
        print(f"  FAILED  seed {failure['seed']}: {what}; replay: {failure['replay']}")
    worlds = found["worlds_with"]
    # Of the kinds of faults, those that these worlds draw.
    survived = {name: counts["survived"] for name, counts in found["faults"].items()
                if name in PORTALS_FAULTS}
    counted = list(survived.items()) + list(worlds.items())
    least = {name: PORTALS_RARE_SHARE_MIN for name in PORTALS_RARE}
    rare = [name for name, count in counted
            if count < least.get(name, PORTALS_SHARE_MIN) * found["seeds"]]
    is_met = not rare or found["failed"] > 0
    if not is_met:
        print(f"  FAILED  too few worlds with {', '.join(rare)}")
    counts = ", ".join(f"{name} {count}" for name, count in worlds.items())
    print(f"  {'ok' if is_met else 'FAILED':7} {found['seeds']} worlds in {found['seconds']:.0f} s,"
          f" with {counts}; survived faults:"
          f" {', '.join(f'{name} {count}' for name, count in survived.items())}", flush=True)
    return found["seeds"] - found["failed"] + is_met, found["failed"] + (not is_met)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sluice", default=os.path.join(ROOT, "target", "release", "sluice"),
                        help="the command [default: %(default)s]")
    parser.add_argument("--day", type=int, default=int(time.time()) // SECONDS_OF_A_DAY,
                        metavar="N", help="days since 1970-01-01 [default: today's number]")
    args = parser.parse_args()
    if args.day < 0:
        parser.error("--day must not be negative")
    if not os.access(args.sluice, os.X_OK):
        print(f"{args.sluice} is not there; next: make build")
        print("0 passed, 1 failed")
        return 1
    passed = failed = 0
    for title, seeds in (("fixed seeds", FIXED), (f"day {args.day}", seeds_of(args.day))):
        for runs in (run, run_portals):
            holds, does_not = runs(args.sluice, title, seeds)
            passed, failed = passed + holds, failed + does_not
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    leave(main)
