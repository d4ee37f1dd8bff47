#!/usr/bin/env python3
"""Runs everything that CI runs, one stage after the other, and says how it went.

Each stage prints its own output as it comes. The last line counts the stages'
tests: `N passed, N failed, N skipped`.
"""

import argparse
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# cargo test: "test result: ok. 3 passed; 0 failed; 1 ignored; ..."
CARGO_LINE = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
# Our own runners: "12 passed, 0 failed, 1 skipped"
OWN_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


def stages(quick):
    loom_env = {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": "target/loom"}
    yield "formatting", ["cargo", "fmt", "--all", "--check"], {}
    yield "clippy", ["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], {}
    yield "documentation", ["cargo", "doc", "--workspace", "--no-deps", "--quiet"], {
        "RUSTDOCFLAGS": "-D warnings"
    }
    yield "release build", ["cargo", "build", "--release", "--workspace"], {}
    yield "unit and integration tests", ["cargo", "test", "--workspace", "--no-fail-fast"], {}
    yield "model checking of the mailbox's ring, bell and chunk claims", [
        "cargo", "test", "-p", "sluice-rail", "--release", "--lib",
    ], loom_env
    yield "manual pages", [sys.executable, "crates/libportals/scripts/man.py", "--check"], {}
    yield "Portals conformance page", [sys.executable, "scripts/conformance.py", "--check"], {}
    yield "Portals programs", [sys.executable, "tests/run_portals.py"], {}
    yield "Portals programs that make progress themselves", [
        sys.executable, "tests/run_portals.py", "--env", "PTL_PROGRESS=poll",
        "-n", "2", "--variant", "logical-me,physical-le",
    ], {}
    yield "report page in a headless Chromium", [sys.executable, "tests/report_page.py"], {}
    # Survivors have long to notice here: how long it takes them is no question of a test.
    yield "processes that are killed", [
        sys.executable, "tests/run_kills.py", "--trials", "30", "--seconds", "30",
    ], {}
    yield "small experiments and reference cases of the simulator", [
        sys.executable, "tests/run_experiments.py",
    ], {}
    yield "swarm of random programs", [sys.executable, "tests/run_swarm.py"], {}
    if quick:
        return
    yield "sluice run and sluice doctor", [sys.executable, "tests/run_command.py"], {}
    yield "MPI programs", [sys.executable, "tests/run_mpi.py"], {}
    yield "mpi4py's test suite", [sys.executable, "tests/run_mpi4py.py"], {}


def run(command, extra_env):
    """Runs a stage; gives its exit code and its counts of tests."""
    counts = [0, 0, 0]
    env = dict(os.environ, **extra_env)
    process = subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        found = CARGO_LINE.match(line) or OWN_LINE.match(line.strip())
        if found:
            for i, number in enumerate(found.groups()):
                counts[i] += int(number or 0)
    return process.wait(), counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the MPI stages")
    args = parser.parse_args()
    passed = failed = skipped = 0
    summary = []
    for title, command, env in stages(args.quick):
        print(f"== {title}", flush=True)
        start = time.monotonic()
        code, counts = run(command, env)
        seconds = time.monotonic() - start
        passed += counts[0]
        failed += counts[1]
        skipped += counts[2]
        if code != 0 and counts[1] == 0:
            # The stage itself failed: it counts as one.
            failed += 1
        verdict = "ok" if code == 0 else "FAILED"
        summary.append(f"{verdict:7} {seconds:6.1f} s  {title}")
        if code != 0 and title in ("formatting", "clippy", "release build"):
            break
    print("== summary")
    print("\n".join(summary))
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
