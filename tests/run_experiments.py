#!/usr/bin/env python3
"""Runs the small twins of the experiments and the reference cases of the simulator.

Each expectation of an experiment and each figure of a reference case prints one line;
the last line is `N passed, N failed`. Results of earlier runs are not used.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from verdicts import leave

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What the command answers when all went well, and when something is not as expected.
STATUS_JUDGED = (0, 3)


def ask(sluice, *args):
    """The JSON document that a command prints; what it says goes to our own output."""
    done = subprocess.run([sluice, *args, "--json"], stdout=subprocess.PIPE, check=False)
    if done.returncode not in STATUS_JUDGED:
        raise RuntimeError(f"sluice {' '.join(args)}: status {done.returncode}")
    return json.loads(done.stdout)


def experiments(sluice, only):
    """Name and verdicts of each small experiment."""
    for item in ask(sluice, "sim", "list")["experiments"]:
        name = item["name"]
        if not name.endswith("-small") or only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = ask(sluice, "sim", "run", name, "--out", os.path.join(folder, "out"))
        verdicts = []
        for each in found["expectations"]:
            value = "unknown" if each["value"] is None else f"{each['value']:.3f}"
            half = "" if each["half_width"] is None else f" ± {each['half_width']:.3f}"
            limits = f"{each['min']} to {each['max']}".replace("None", "any")
            note = f"; {each['note']}" if each["note"] else ""
            verdicts.append((each["holds"], f"{each['what']} is {value}{half}, wanted {limits}{note}"))
        yield name, verdicts


def references(sluice, only):
    """Name and verdicts of each reference case."""
    cases = {}
    for row in ask(sluice, "sim", "validate")["rows"]:
        if only in row["case"]:
            text = f"{row['figure']} is {row['ours']:.4g}, the reference has {row['theirs']:.4g}"
            cases.setdefault(row["case"], []).append((row["agrees"], text))
    yield from cases.items()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sluice", default=os.path.join(ROOT, "target", "release", "sluice"),
                        help="the command [default: %(default)s]")
    parser.add_argument("--only", default="", metavar="TEXT", help="only what has this in its name")
    args = parser.parse_args()
    if not os.access(args.sluice, os.X_OK):
        print(f"{args.sluice} is not there; next: make build")
        print("0 passed, 1 failed")
        return 1
    passed = failed = 0
    for source in (experiments, references):
        start = time.monotonic()
        for name, verdicts in source(args.sluice, args.only):
            print(f"{name} ({time.monotonic() - start:.0f} s)")
            for holds, text in verdicts:
                passed, failed = passed + bool(holds), failed + (not holds)
                print(f"  {'ok' if holds else 'FAILED':7} {text}")
            sys.stdout.flush()
            start = time.monotonic()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    leave(main)
