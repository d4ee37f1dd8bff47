#!/usr/bin/env python3
"""Fuzzes all targets, one after the other, for so many minutes in all; counts executions.

It needs a nightly toolchain and cargo-fuzz (cargo install cargo-fuzz). What is found anew is kept
in fuzz/target/found; `--keep` reduces that to what reaches something of its own, and puts it
into fuzz/corpus, which the ordinary tests replay (crates/fuzz). A crash is kept in
fuzz/artifacts, and its target shows it again: fuzz/target/.../TARGET FILE.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FUZZ = os.path.join(ROOT, "fuzz")
FOUND = os.path.join(FUZZ, "target", "found")
CORPUS = os.path.join(FUZZ, "corpus")
TOLD = os.path.join(FUZZ, "target", "executions.json")
TRIPLE = "x86_64-unknown-linux-gnu"
# Longest input, in bytes, and how long one execution may take.
BYTES_MAX = 2000
SECONDS_MAX = 20
# What is kept of a target.
KEPT_FILES_MAX = 120
KEPT_BYTES_MAX = 60_000


def targets():
    """The names of all targets."""
    return sorted(name.removesuffix(".rs") for name in os.listdir(os.path.join(FUZZ, "fuzz_targets")))


def build(sanitizer):
    command = ["cargo", "+nightly", "fuzz", "build", "--sanitizer", sanitizer]
    subprocess.run(command, cwd=FUZZ, check=True)


def program(name):
    return os.path.join(FUZZ, "target", TRIPLE, "release", name)


def fuzz(name, seconds):
    """Fuzzes one target. Executions, and whether it found nothing."""
    found, kept = os.path.join(FOUND, name), os.path.join(CORPUS, name)
    artifacts = os.path.join(FUZZ, "artifacts", name)
    for directory in (found, kept, artifacts):
        os.makedirs(directory, exist_ok=True)
    command = [program(name), found, kept, f"-max_total_time={seconds}", f"-max_len={BYTES_MAX}",
               f"-timeout={SECONDS_MAX}", "-print_final_stats=1",
               f"-artifact_prefix={artifacts}/"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          errors="replace", text=True)
    counted = re.search(r"stat::number_of_executed_units: *(\d+)", done.stdout)
    if done.returncode != 0:
        print("\n".join(done.stdout.splitlines()[-40:]), file=sys.stderr)
    return int(counted[1]) if counted else 0, done.returncode == 0


def keep(name):
    """Puts what reaches something of its own into the corpus, the short before the long."""
    found, kept = os.path.join(FOUND, name), os.path.join(CORPUS, name)
    with tempfile.TemporaryDirectory() as fresh:
        command = [program(name), "-merge=1", f"-max_len={BYTES_MAX}", fresh, kept, found]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        shutil.rmtree(kept, ignore_errors=True)
        os.makedirs(kept)
        files = sorted((os.path.getsize(os.path.join(fresh, file)), file)
                       for file in os.listdir(fresh))
        # Some of every length: the long ones go far, the short ones are many.
        step = max(1, -(-len(files) // KEPT_FILES_MAX))
        room = KEPT_BYTES_MAX
        for size, file in files[::step]:
            if size <= room:
                room -= size
                shutil.copy(os.path.join(fresh, file), os.path.join(kept, file[:16]))
    return len(os.listdir(kept))


def executions():
    """Of each target, in all runs of this checkout."""
    try:
        with open(TOLD) as file:
            return json.load(file)
    except OSError:
        return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=12, metavar="N", help="shared by all")
    parser.add_argument("--only", default="", metavar="A,B", help="these targets")
    parser.add_argument("--sanitizer", default="none", choices=["none", "address"],
                        help="address finds misuse of memory, at a fifth of the speed")
    parser.add_argument("--built", action="store_true", help="they are built already")
    parser.add_argument("--keep", action="store_true", help="reduce what was found to the corpus")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    wanted = args.only.split(",") if args.only else targets()
    if not args.built:
        build(args.sanitizer)
    rows, is_clean = [], True
    for name in wanted:
        count, found_nothing = fuzz(name, max(1, int(args.minutes * 60 / len(wanted))))
        is_clean &= found_nothing
        told = executions()
        told[name] = told.get(name, 0) + count
        with open(TOLD, "w") as file:
            json.dump(told, file, indent=1)
        row = {"target": name, "executions": count, "in_all": told[name], "clean": found_nothing}
        if args.keep:
            row["kept"] = keep(name)
        rows.append(row)
        if not args.json:
            print(f"{'ok' if found_nothing else 'FAIL':4} {name}: {count:,} executions, "
                  f"{told[name]:,} in all runs", flush=True)
    total, in_all = sum(row["executions"] for row in rows), sum(executions().values())
    if args.json:
        print(json.dumps({"targets": rows, "executions": total, "in_all": in_all}, indent=1))
    else:
        print(f"{total:,} executions, {in_all:,} in all runs")
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
