#!/usr/bin/env python3
"""Kills a process among others that exchange messages, at a random moment, many times.

Each trial runs a few ranks of tests/fabric/kills.c over the provider, without MPI, whose
launcher would end the others. One is killed (SIGKILL): before it was told of the others,
before they began, soon after, or later; or it gets no more memory, which ends it. Each
survivor then looks that its operations on the dead, and new ones, end in time with an error
that names it, and that those with the other survivors go on. What is drawn in a trial depends
on its seed alone.
"""

import argparse
import json
import os
import random
import re
import select
import subprocess
import sys
import tempfile
import time

from verdicts import Failed, leave

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARY = "libsluice-fi.so"
# How long a trial may take besides what is measured.
PATIENCE_SECONDS = 150
# When the victim is killed: how likely in percent, and how long after that begins.
MOMENTS = {
    "before it knows the others": (15, 0.0),
    "before it begins": (20, 0.003),
    "early": (35, 0.003),
    "later": (20, 0.080),
    "without memory": (10, 0.080),
}
SETTINGS = [
    {},
    {"FI_SLUICE_BULK": "ring"},
    {"FI_SLUICE_SEGMENT": "file"},
    {"FI_SLUICE_PROGRESS": "thread"},
    # Two slots a sender, so that messages wait at their senders.
    {"FI_SLUICE_UNEXPECTED_BYTES": "46000"},
]


class Rank:
    """A process of a trial, and the lines that it says."""

    def __init__(self, command, env, log):
        self.log = log
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0,
        )
        self.said = b""

    def tell(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            raise Failed("a rank ended") from None

    def hear(self, until):
        """The next line that it says."""
        while b"\n" not in self.said:
            left = until - time.monotonic()
            ready, _, _ = select.select([self.process.stdout], [], [], max(left, 0))
            if not ready:
                raise Failed("a rank said nothing")
            got = os.read(self.process.stdout.fileno(), 4096)
            if not got:
                self.process.wait()
                raise Failed(f"a rank ended with code {self.process.returncode}")
            self.said += got
        line, self.said = self.said.split(b"\n", 1)
        return line.decode()

    def log_text(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def written(self):
        return self.log_text().strip()[-500:]

    def starve(self):
        """Takes its memory away, of which it ends and says why."""
        self.tell("starve")
        try:
            code = self.process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed("a rank without memory did not end") from None
        # Some of libfabric's providers make an exit of the signal.
        said = re.search(r"^memory allocation of \d+ bytes failed", self.log_text(), re.M)
        if code == 0 or not said:
            raise Failed(f"a rank without memory ended with code {code}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


def plan_of(seed):
    """What is drawn for a trial."""
    draw = random.Random(seed)
    moment = draw.choices(list(MOMENTS), [weight for weight, _ in MOMENTS.values()])[0]
    return {
        "seed": seed,
        "moment": moment,
        "after_seconds": draw.random() * MOMENTS[moment][1],
        "settings": draw.choice(SETTINGS),
        "victim_drawn": draw.random(),
    }


def run_trial(args, program, folder, plan):
    """The figures of each survivor."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("FI_")}
    env.update(plan["settings"], FI_PROVIDER_PATH=args.build_dir, FI_SLUICE_TUNE="off")
    victim = int(plan["victim_drawn"] * args.ranks)
    moment = plan["moment"]
    until = time.monotonic() + PATIENCE_SECONDS
    ranks = []
    try:
        for rank in range(args.ranks):
            log = tempfile.TemporaryFile(dir=folder)
            command = [program, str(rank), str(args.ranks), str(plan["seed"]), str(args.seconds)]
            ranks.append(Rank(command, env, log))
        lines = [rank.hear(until) for rank in ranks]
        told = [f"{rank.process.pid} {line.split()[1]}" for rank, line in zip(ranks, lines)]
        survivors = [rank for number, rank in enumerate(ranks) if number != victim]
        if moment == "before it knows the others":
            ranks[victim].kill()
        for number, rank in enumerate(ranks):
            if number != victim or moment in ("early", "later", "without memory"):
                rank.tell("\n".join(told))
        if moment != "before it knows the others":
            time.sleep(plan["after_seconds"])
            if moment == "without memory":
                ranks[victim].starve()
            ranks[victim].kill()
        for rank in survivors:
            rank.tell(f"dead {victim}")
        figures = [[float(word) for word in rank.hear(until).split()[1:]] for rank in survivors]
        for rank in survivors:
            rank.tell("stop")
        for rank in survivors:
            try:
                code = rank.process.wait(timeout=PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                raise Failed("a rank did not stop") from None
            if code != 0:
                raise Failed("a rank ended in error")
        return figures
    except Failed as reason:
        for rank in ranks:
            rank.kill()
        raise Failed("\n".join([str(reason), *(rank.written() for rank in ranks)])) from None
    finally:
        for rank in ranks:
            rank.close()
            rank.log.close()


def build(folder):
    program = os.path.join(folder, "kills")
    subprocess.run(
        ["cc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
         "-I", os.path.join(ROOT, "crates", "provider", "tests", "c"), "-o", program,
         os.path.join(ROOT, "tests", "fabric", "kills.c"), "-lfabric"],
        check=True,
    )
    return program


def spread(sorted_figures):
    last = len(sorted_figures) - 1
    shares = {"p50": last // 2, "p99": last * 99 // 100, "max": last}
    return {name: sorted_figures[at] for name, at in shares.items()} if sorted_figures else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S",
                        help="of the first trial; the next ones follow")
    parser.add_argument("--ranks", type=int, default=3, metavar="N", choices=range(2, 9))
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S",
                        help="within which operations on the dead must end")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "target", "release"),
                        help=f"where {LIBRARY} is")
    args = parser.parse_args()
    if not os.path.exists(os.path.join(args.build_dir, LIBRARY)):
        print(f"{args.build_dir} has no {LIBRARY}; make build", file=sys.stderr)
        return 2
    failures, ended_ms, later_ms, moments = [], [], [], {}
    pending = 0
    with tempfile.TemporaryDirectory(prefix="sluice-kills-") as folder:
        program = build(folder)
        for trial in range(args.trials):
            plan = plan_of(args.seed + trial)
            moments[plan["moment"]] = moments.get(plan["moment"], 0) + 1
            try:
                for ended, later, was_pending, _ in run_trial(args, program, folder, plan):
                    ended_ms.append(ended)
                    later_ms.append(later)
                    pending += int(was_pending)
            except Failed as reason:
                failures.append(dict(plan, reason=str(reason)))
                print(f"seed {plan['seed']} ({plan['moment']}, {plan['settings']}): {reason}",
                      file=sys.stderr, flush=True)
            if (trial + 1) % 25 == 0 or trial + 1 == args.trials:
                print(f"{trial + 1} of {args.trials} trials, {len(failures)} failed",
                      file=sys.stderr, flush=True)
    ended_ms.sort()
    later_ms.sort()
    passed = args.trials - len(failures)
    if args.json:
        print(json.dumps({
            "test": "kills", "trials": args.trials, "seed": args.seed, "ranks": args.ranks,
            "passed": passed, "moments": moments, "operations_on_the_dead": pending,
            "ended_ms": spread(ended_ms), "later_ms": spread(later_ms), "failures": failures,
        }, indent=1))
    else:
        if ended_ms:
            print(f"operations on the dead ended within {ended_ms[-1]:.1f} ms, "
                  f"later ones within {later_ms[-1]:.1f} ms")
        print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    leave(main)
