#!/usr/bin/env python3
"""One rank of `run_mpi4py.py`: runs a part of mpi4py's tests and writes down how each ends."""

import fnmatch
import json
import os
import sys
import unittest

from mpi4py_parts import exclusion


class Recorder(unittest.TestResult):
    """Writes each test's start and outcome as a line of JSON, at once."""

    def __init__(self, path):
        super().__init__()
        self.out = open(path, "w", buffering=1)
        self.bad_subtest = None

    def emit(self, *fields):
        self.out.write(json.dumps(fields) + "\n")

    def startTest(self, test):
        super().startTest(test)
        self.bad_subtest = None
        self.emit("start", test.id())

    def addSuccess(self, test):
        self.emit("passed", test.id(), "")

    def addSkip(self, test, reason):
        self.emit("skipped", test.id(), reason)

    def addFailure(self, test, err):
        self.emit("failed", test.id(), self._exc_info_to_string(err, test))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        # One subtest is told; unittest then reports no success for the whole.
        if err is not None and self.bad_subtest is None:
            self.bad_subtest = subtest
            self.emit("failed", test.id(),
                      f"{subtest}\n{self._exc_info_to_string(err, test)}")

    def addExpectedFailure(self, test, err):
        self.emit("passed", test.id(), "")

    def addUnexpectedSuccess(self, test):
        self.emit("failed", test.id(), "an expected failure did not happen")


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def main(config_path):
    """Runs one part inside an MPI process."""
    with open(config_path) as f:
        config = json.load(f)
    sys.dont_write_bytecode = True
    sys.path.insert(0, config["tests"])
    for name in ("cupy", "numba"):
        sys.modules[name] = None
    import mpi4py
    mpi4py.rc.thread_level = config["thread_level"]
    mpi4py.rc.recv_mprobe = config["mprobe"]
    from mpi4py import MPI
    rank = MPI.COMM_WORLD.Get_rank()
    loader = unittest.TestLoader()
    recorder = Recorder(os.path.join(config["out"], f"{rank}.log"))
    chosen = []
    for module in config["modules"]:
        try:
            chosen.extend(flatten(loader.loadTestsFromName(module)))
        except unittest.SkipTest as why:
            recorder.emit("skipped", module, str(why))
    if config["only"]:
        chosen = [t for t in chosen
                  if exclusion(config["mpi"], t.id(), config["is_spread"], "point-to-point")]
    if config["filter"]:
        chosen = [t for t in chosen if matches(t.id(), config["filter"])]
    recorder.emit("list", [t.id() for t in chosen])
    suite = unittest.TestSuite()
    for test in chosen:
        reason = config["exclusions"] and exclusion(
            config["mpi"], test.id(), config["is_spread"], config["part"])
        if reason:
            recorder.emit("skipped", test.id(), "excluded here: " + reason)
        else:
            suite.addTest(test)
    # Sequences of communicators must be the same on all ranks from the first.
    MPI.COMM_WORLD.Barrier()
    suite.run(recorder)
    MPI.COMM_WORLD.Barrier()
    recorder.emit("done")


def matches(name, pattern):
    return fnmatch.fnmatchcase(name, f"*{pattern}*")


if __name__ == "__main__":
    main(sys.argv[1])
