#!/usr/bin/env python3
"""Runs the small twins of the experiments and the reference cases of the simulator.

Each expectation of an experiment and each figure of a reference case prints one line;
the last line is `N passed, N failed`. Results of earlier runs are not used. One experiment
(`--shared`) is run by four ranks under mpirun as well, of which one is killed, and resumed.
Experiments are also run with a parameter changed (`PERTURBED`), and the verdict must change.
"""

import argparse
import filecmp
import glob
import json
import os
import shutil
import signal
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


# A cost of the processes' simulator that no experiment on credits sets.
CREDITS_COST = ("[base.program]\n", "[base.cost]\ncredit_receive_ns = 20000\n\n[base.program]\n")
# By small experiment, and for that of full size too: what is written there, what is written instead, and the column of an
# expectation that must no longer hold.
PERTURBED = {
    "multirail-fig5-small": [
        ("chunk_ns = 200\n", "chunk_ns = 20000\n", "mb_per_s"),
        ("fragment_bytes = 67108864", "fragment_bytes = 33554432", "rail_chunks_max"),
        ("latency_ns = 1000\n", "latency_ns = 100000\n", "mb_per_s"),
    ],
    "speculative-fig3-small": [
        ("interface_ns = 3000", "interface_ns = 30000", "overlap_pct"),
        ('label = "announced", set = {}',
         'label = "announced", set = { "rail.chunk_claims" = false }', "overlap_pct"),
    ],
    "speculative-fig4-small": [
        ("kib_ns = 816", "kib_ns = 1632", "arrived_us"),
        ('label = "announced", set = {}',
         'label = "announced", set = { "rail.chunk_claims" = false }', "arrived_us"),
    ],
    "rdrp-slow-sink-small": [
        ("hop_ns = 450\n", "hop_ns = 9000\n", "fast_delay_us"),
        ("\npacket_ns = 51\n", "\npacket_ns = 102\n", "fast_delay_us"),
        ("load_percent = 45", "load_percent = 60", "kept_pct"),
        ('"rail.reads" = true', '"rail.reads" = false', "kept_pct"),
    ],
    "extoll-fig9-small": [("bytes = 2044", "bytes = 2048", "credit_ratio")],
    "extoll-fig19-small": [("slots = 30", "slots = 60", "overhead"),
                           ('"dynamic"', '"static"', "delayed")],
    "extoll-fig25-small": [("slots = 16", "slots = 64", "time_us")],
    "extoll-fig4-small": [(*CREDITS_COST, "overhead")],
    "extoll-fig6-small": [(*CREDITS_COST, "overhead")],
    "extoll-fig10-small": [(*CREDITS_COST, "overhead")],
    "extoll-fig15-small": [(*CREDITS_COST, "overhead")],
    "extoll-fig16-small": [(*CREDITS_COST, "overhead")],
    "extoll-fig18-small": [(*CREDITS_COST, "overhead")],
    "extoll-fig20-small": [(*CREDITS_COST, "overhead")],
    "extoll-fig27-small": [(*CREDITS_COST, "overhead")],
    "rdrp-fig1-small": [("bias = 1.0", "bias = 2.0", "accepted"),
                        ("load = 1.0", "load = 0.3", "accepted")],
    "rdrp-fig4-small": [("load = 1.0", "load = 0.3", "marks")],
    "rdrp-fig5-small": [("load = 1.0", "load = 0.3", "accepted")],
    "rdrp-operating-point-small": [("load = 1.0", "load = 0.3", "accepted")],
}
# Those that take a few seconds together.
PERTURBED_QUICK = ("multirail-fig5-small", "speculative-fig3-small", "speculative-fig4-small",
                   "rdrp-slow-sink-small")


def full_size(name):
    """The experiment that a small one is small of."""
    return name.removesuffix("-small")


def text_of(name):
    with open(os.path.join(ROOT, "experiments", f"{name}.toml"), encoding="utf-8") as file:
        return file.read()


def table(sluice, only):
    """Whether PERTURBED has each experiment, and fits it, of small and of full size."""
    title = "table of perturbed parameters"
    if only not in title:
        return
    names = {item["name"] for item in ask(sluice, "sim", "list")["experiments"]}
    small = {name for name in names if name.endswith("-small")}
    verdicts = [(name in PERTURBED, f"{name} has parameters to be changed") for name in sorted(small)]
    for name in sorted(PERTURBED):
        for size in (name, full_size(name)):
            text = text_of(size)
            fits = all(before in text for before, _, _ in PERTURBED[name])
            verdicts.append((fits and "[[expect]]" in text, f"{size} has what is changed, and expects something"))
    yield title, verdicts


def perturbed(sluice, name, changes):
    """The verdicts of an experiment, each with a parameter changed."""
    text = text_of(name)
    for before, after, column in changes:
        if before not in text:
            yield False, f"{before.strip()!r} is not in the file; PERTURBED needs another parameter"
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "changed.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(before, after))
            found = ask(sluice, "sim", "run", path, "--out", os.path.join(folder, "out"))
        wrong = [each["what"] for each in found["expectations"] if not each["holds"]]
        hit = any(what.split(" ")[0] == column for what in wrong)
        changed = " ".join(after.split())
        yield hit, f"with {changed} {len(wrong)} expectations do not hold, one of {column}"


RANKS = 4
# No run of an experiment that is shared here takes longer.
DEADLINE_S = 1800
# How often a run is started anew to be cut short.
CUTS_MAX = 10
# The results that do not depend on how long anything took.
FILES = ("results.csv", "summary.csv", "series.csv")


def ended(folder):
    """How many simulations the journals of a folder have."""
    lines = 0
    for path in glob.glob(os.path.join(folder, "journal*.jsonl")):
        with open(path, encoding="utf-8") as file:
            lines += sum(line.startswith('{"run"') for line in file)
    return lines


def ranks_of(launcher):
    """The processes that a launcher has started."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8") as file:
                pid, rest = file.read().split(" (", 1)
        except OSError:
            continue
        name, rest = rest.rsplit(") ", 1)
        if name == "sluice" and int(rest.split()[1]) == launcher:
            found.append(int(pid))
    return found


def under_mpirun(sluice, name, folder):
    command = ["mpirun", "-n", str(RANKS), "--oversubscribe"]
    command += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command += [sluice, "sim", "run", name, "--out", folder, "--no-expect"]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def wait_for(launcher):
    """The exit status of a launcher, which is ended when it is late; none then."""
    try:
        return launcher.wait(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if launcher.poll() is None:
            # It ends its ranks.
            launcher.terminate()
            launcher.wait(timeout=DEADLINE_S)


def kill_one(sluice, name, folder, count):
    """Kills a rank as soon as a simulation has ended. How many of so many are left then."""
    launcher = under_mpirun(sluice, name, folder)
    until = time.monotonic() + DEADLINE_S
    while launcher.poll() is None and not ended(folder) and time.monotonic() < until:
        time.sleep(0.005)
    ranks = ranks_of(launcher.pid)
    if ranks:
        os.kill(ranks[-1], signal.SIGKILL)
    wait_for(launcher)
    return count - ended(folder) if ranks else 0


def shared(sluice, name):
    """Name and verdicts of an experiment that ranks share, beside one process."""
    with tempfile.TemporaryDirectory() as home:
        one, whole, cut = (os.path.join(home, each) for each in ("one", "whole", "cut"))
        subprocess.run([sluice, "sim", "run", name, "--out", one, "--no-expect"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def same(folder):
            found, wrong, errors = filecmp.cmpfiles(one, folder, FILES, shallow=False)
            return len(found) == len(FILES) and not wrong and not errors

        status = wait_for(under_mpirun(sluice, name, whole))
        count = ended(whole)
        verdicts = [(status == 0 and same(whole), f"{RANKS} ranks give the bytes of one process"),
                    (count == ended(one), f"they have run {count} simulations, each of them once")]
        for _ in range(CUTS_MAX):
            left = kill_one(sluice, name, cut, ended(one))
            if left:
                break
            # On a busy machine all may have ended before.
            shutil.rmtree(cut, ignore_errors=True)
        verdicts.append((left > 0, f"a rank was killed while {left} simulations had not ended"))
        status = wait_for(under_mpirun(sluice, name, cut))
        verdicts.append((status == 0 and same(cut), "the same command resumes, to the same bytes"))
    return verdicts


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
    parser.add_argument("--shared", default="rdrp-slow-sink-small", metavar="NAME",
                        help="the experiment that ranks share [default: %(default)s]")
    parser.add_argument("--perturb", default="quick", choices=("no", "quick", "all", "full"),
                        help="which experiments are run with parameters changed; all takes some "
                             "ten minutes, full (those of full size, choose with --only) "
                             "hours [default: %(default)s]")
    args = parser.parse_args()
    if not os.access(args.sluice, os.X_OK):
        print(f"{args.sluice} is not there; next: make build")
        print("0 passed, 1 failed")
        return 1
    passed = failed = 0
    def ranks(sluice, only):
        name = f"{args.shared}, shared by ranks"
        if shutil.which("mpirun") and only in name:
            yield name, shared(sluice, args.shared)

    def changed(sluice, only):
        is_full = args.perturb == "full"
        quick = {"no": (), "quick": PERTURBED_QUICK}
        for each in quick.get(args.perturb, PERTURBED):
            experiment = full_size(each) if is_full else each
            name = f"{experiment}, perturbed"
            if only in name:
                yield name, list(perturbed(sluice, experiment, PERTURBED[each]))

    for source in (experiments, references, ranks, table, changed):
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
