#!/usr/bin/env python3
"""Runs everything that CI runs, one stage after the other, and says how it went.

Each stage prints its own output as it comes. The last line counts the stages'
tests: `N passed, N failed, N skipped`. A stage that is there to run tests fails
if none ran.
"""

import argparse
import io
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# cargo test: "test result: ok. 3 passed; 0 failed; 1 ignored; ..."
CARGO_LINE = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
# Our own runners: "12 passed, 0 failed, 1 skipped"
OWN_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
# What a failed test says for itself: cargo's in some lines, our runners' in one.
CARGO_FAILURE = re.compile(r"^---- (.*) stdout ----$")
OWN_FAILURE = re.compile(r"^FAIL (.*)$")
# What cargo says of a program of tests that was ended by a signal: it has counted nothing.
CARGO_SIGNAL = re.compile(r"^process didn't exit successfully: (.* \(signal: .*\))$")
# How much of it is told again at the end, where people look first.
FAILURE_LINES_MAX = 8
FAILURES_MAX = 10
# Faults done to Portals programs, by what carries their packets: so likely that each is done.
PORTALS_FAULTS = {
    "tcp": "seed=3,drop=0.001,delay=0.002,refuse=0.3,stall=0.002,exhaust=0.0005,short=0.05",
    "shm": "seed=3,away=0.0001,deny=0.02,short=0.05",
}


@dataclass
class Stage:
    """A command, and what is expected of its output."""

    title: str
    command: list
    env: dict = field(default_factory=dict)
    # Tools that check something and count no tests say so.
    has_tests: bool = True
    # Whether later stages make sense if this one fails.
    is_needed: bool = False
    # What it needs comes from outside the package registries, or is a right that the
    # kernel may refuse: then it may skip all of its tests.
    may_skip: bool = False
    # Whether it runs beside the stages that follow: one that uses one core most of the
    # time. Its output is shown at the end.
    is_beside: bool = False


@dataclass
class Outcome:
    """What a stage came to. `fault` is why it failed, and empty if it did not."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    fault: str = ""
    seconds: float = 0.0
    # What failed tests said, the first lines of each.
    failures: list = field(default_factory=list)
    is_telling: bool = False

    def take(self, line):
        """Takes in a line of the stage's output."""
        found = CARGO_LINE.match(line) or OWN_LINE.match(line)
        if found:
            passed, failed, skipped = (int(number or 0) for number in found.groups())
            self.passed += passed
            self.failed += failed
            self.skipped += skipped
        if ended := CARGO_SIGNAL.match(line):
            self.failed += 1
            self.failures.append([ended[1]])
        if headed := CARGO_FAILURE.match(line) or OWN_FAILURE.match(line):
            self.failures.append([headed[1]])
            self.is_telling = line.startswith("----")
        elif line == "failures:":
            self.is_telling = False
        elif self.is_telling and line and len(self.failures[-1]) < FAILURE_LINES_MAX:
            self.failures[-1].append(line)


def stages(quick):
    python = sys.executable
    yield Stage("formatting", ["cargo", "fmt", "--all", "--check"],
                has_tests=False, is_needed=True)
    yield Stage("clippy", ["cargo", "clippy", "--workspace", "--all-targets", "--",
                           "-D", "warnings"], has_tests=False, is_needed=True)
    yield Stage("documentation", ["cargo", "doc", "--workspace", "--no-deps", "--quiet"],
                {"RUSTDOCFLAGS": "-D warnings"}, has_tests=False)
    yield Stage("licences, versions and sources of dependencies", ["scripts/deny.sh"],
                has_tests=False, is_beside=True)
    yield Stage("unsafe code under Miri", ["scripts/miri.sh"], may_skip=True, is_beside=True)
    yield Stage("release build", [python, "scripts/release.py", "--plain" if quick else "--must"],
                has_tests=False, is_needed=True)
    yield Stage("unit and integration tests", ["cargo", "test", "--workspace", "--no-fail-fast"])
    yield Stage("the scripts themselves", [python, "tests/run_scripts.py"])
    yield Stage("model checking of the mailbox's ring, bell and chunk claims", [
        "cargo", "test", "-p", "sluice-rail", "--release", "--lib",
    ], {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": "target/loom"})
    yield Stage("manual pages", [python, "crates/libportals/scripts/man.py", "--check"],
                has_tests=False)
    yield Stage("conformance pages", [python, "scripts/conformance.py", "--check"],
                has_tests=False)
    yield Stage("Portals programs", [python, "tests/run_portals.py"])
    yield Stage("Portals programs that make progress themselves", [
        python, "tests/run_portals.py", "--env", "PTL_PROGRESS=poll",
        "-n", "2", "--variant", "logical-me,physical-le",
    ])
    yield Stage("Portals programs over TCP", [
        python, "tests/run_portals.py", "--env", "PTL_RAILS=tcp",
        "-n", "2", "--variant", "logical-le,physical-me",
    ])
    # The protocol of the Rportals paper, to which the other one is compared.
    for rails in ("shm", "tcp"):
        yield Stage(f"recovery by a pause of all processes, over {rails}", [
            python, "tests/run_portals.py", "--only", "recover", "--variant", "logical-me,physical-le",
            "--env", "PTL_RECOVERY=pause", "--env", f"PTL_RAILS={rails}",
        ])
    yield Stage("report page in a headless Chromium", [python, "tests/report_page.py"])
    # Survivors have long to notice here: how long it takes them is no question of a test.
    yield Stage("processes that are killed", [
        python, "tests/run_kills.py", "--trials", "30", "--seconds", "30",
    ])
    yield Stage("small experiments and reference cases of the simulator",
                [python, "tests/run_experiments.py"])
    yield Stage("swarm of random programs", [python, "tests/run_swarm.py"])
    if quick:
        return
    yield Stage("sluice run and sluice doctor", [python, "tests/run_command.py"])
    yield Stage("hosts as network namespaces", [python, "tests/run_lab.py"], may_skip=True)
    yield Stage("programs that lack something of the system",
                [python, "tests/run_exhaustion.py"], may_skip=True)
    yield Stage("MPI programs", [python, "tests/run_mpi.py"])
    yield Stage("random MPI programs", [python, "tests/run_random.py"])
    # Assertions of debug builds are looked at as well, and it is built sooner.
    yield Stage("a build that does faults on purpose", [
        "cargo", "build", "-p", "sluice-provider", "-p", "sluice-libportals-so",
        "--features", "sluice-provider/faults,sluice-libportals-so/faults",
        "--target-dir", "target/faulty",
    ], has_tests=False)
    for rails, faults in PORTALS_FAULTS.items():
        yield Stage(f"Portals programs while {rails} does faults", [
            python, "tests/run_portals.py", "--lib", "target/faulty/debug", "--faults", faults,
            "--env", f"PTL_RAILS={rails}", "-n", "2", "--variant", "logical-me,physical-le",
        ])
    yield Stage("MPI programs of which ranks are killed, stopped, forked, or many, and faults", [
        python, "tests/run_faults.py", "--trials", "2", "--stops", "1", "--rounds", "10", "--short",
        "--faulty-dir", "target/faulty/debug",
    ])
    yield Stage("MPI programs across hosts", [python, "tests/run_hosts.py"], may_skip=True)
    yield Stage("Portals programs across hosts", [
        python, "tests/run_portals.py", "--hosts", "2",
        "-n", "4", "--variant", "logical-me,physical-le",
    ], may_skip=True)
    yield Stage("Portals programs across hosts that find each other by the key of their job", [
        python, "tests/run_portals.py", "--hosts", "2", "--env", "PTL_JOB_KEY=no secret of anybody",
        "-n", "2,4", "--variant", "logical-me,physical-le", "--only", "again,gone,hello,map,put",
    ], may_skip=True)
    yield Stage("MPI programs under the MPIs of PyPI", [python, "tests/run_mpis.py"],
                may_skip=True)
    # Open MPI 4.1 has no partitioned requests.
    yield Stage("random MPI programs under Open MPI 5", [
        python, "tests/run_random.py", "--mpi", "target/mpis/openmpi", "--rails", "shm,tcp",
        "--fixed", "60", "--drawn", "20",
    ], may_skip=True)
    yield Stage("packages for pip and Debian", [python, "tests/run_packages.py"])
    yield Stage("mpi4py's test suite", [python, "tests/run_mpi4py.py"])
    # What takes a minute; docs/running.md has the whole of it.
    yield Stage("mpi4py's test suite under the MPIs of PyPI", [
        python, "tests/run_mpi4py.py", "--mpi", "mpich", "--mpi", "impi", "--mpi", "openmpi",
        "--ranks", "2", "--part", "point-to-point", "--part", "communicator", "--part", "windows",
        "--time-limit", "240",
    ], may_skip=True)


def run(stage, out=None):
    """Runs a stage and writes its output to `out`; gives its outcome."""
    out = out or sys.stdout
    start = time.monotonic()
    outcome = Outcome()
    process = subprocess.Popen(
        stage.command, cwd=ROOT, env=dict(os.environ, **stage.env), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )
    for line in process.stdout:
        out.write(line)
        out.flush()
        outcome.take(line.strip())
    code = process.wait()
    outcome.fault = fault(stage, outcome, code)
    outcome.seconds = time.monotonic() - start
    return outcome


def fault(stage, outcome, code):
    """Why a stage failed; empty if it did not."""
    if outcome.failed:
        return f"{outcome.failed} failed"
    if code:
        return f"exit status {code}"
    ran = outcome.passed or (stage.may_skip and outcome.skipped)
    if stage.has_tests and not ran:
        return "no test ran"
    return ""


def main(all_stages=stages):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the MPI stages")
    args = parser.parse_args()
    done, beside = [], []
    with ThreadPoolExecutor() as pool:
        for stage in all_stages(args.quick):
            if stage.is_beside:
                out = io.StringIO()
                beside.append((stage, out, pool.submit(run, stage, out)))
                continue
            print(f"== {stage.title}", flush=True)
            done.append((stage, run(stage)))
            if done[-1][1].fault and stage.is_needed:
                break
        for stage, out, running in beside:
            outcome = running.result()
            print(f"== {stage.title}\n{out.getvalue()}", flush=True)
            done.append((stage, outcome))
    return report(done)


def report(done):
    """Prints how the stages went; gives the exit status."""
    total = Outcome()
    summary = []
    for stage, outcome in done:
        total.passed += outcome.passed
        # A stage that failed without a failed test counts as one.
        total.failed += max(outcome.failed, 1 if outcome.fault else 0)
        total.skipped += outcome.skipped
        verdict = "FAILED" if outcome.fault else "ok"
        why = f": {outcome.fault}" if outcome.fault else ""
        summary.append(f"{verdict:7} {outcome.seconds:6.1f} s  {stage.title}{why}")
    print("== summary")
    print("\n".join(summary))
    failures = [failure for _, outcome in done for failure in outcome.failures]
    for title, *said in failures[:FAILURES_MAX]:
        print(f"failed: {title}", *said, sep="\n    ")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped", flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
