#!/usr/bin/env python3
"""Tests the scripts that the other tests rely on.

The last line is `N passed, N failed`.
"""

import contextlib
import glob
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "scripts"))

import bench_base as bench  # noqa: E402
import bench_hosts  # noqa: E402
import demo  # noqa: E402
import release  # noqa: E402
import test as ci  # noqa: E402


def stage(text, code=0, **more):
    """A stage whose command prints `text` and ends with `code`."""
    program = f"import sys; print({text!r}); sys.exit({code})"
    return ci.Stage("a stage", [sys.executable, "-c", program], **more)


def outcome(*args, **more):
    with contextlib.redirect_stdout(io.StringIO()):
        return ci.run(stage(*args, **more))


CARGO = "test result: ok. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out"


class Stages(unittest.TestCase):
    """What scripts/test.py makes of a stage."""

    def test_a_stage_in_which_no_test_ran_fails(self):
        for text in ("", CARGO.format(0, 0, 0), CARGO.format(0, 0, 3), "0 passed, 0 failed",
                     "0 passed, 0 failed, 2 skipped", "5 passed and 0 failed"):
            self.assertEqual(outcome(text).fault, "no test ran", text)

    def test_the_results_of_several_runs_are_added_up(self):
        text = "\n".join([CARGO.format(3, 0, 1), CARGO.format(0, 0, 0), "2 passed, 0 failed"])
        found = outcome(text)
        self.assertEqual((found.passed, found.failed, found.skipped, found.fault), (5, 0, 1, ""))

    def test_a_failure_is_one_whatever_the_status(self):
        self.assertEqual(outcome("4 passed, 2 failed").fault, "2 failed")
        self.assertEqual(outcome(CARGO.format(4, 0, 0), code=101).fault, "exit status 101")
        self.assertEqual(outcome("", code=1, has_tests=False).fault, "exit status 1")

    def test_a_program_of_tests_that_a_signal_has_ended_is_a_failure_beside_others(self):
        ended = "`target/debug/deps/inverse-1` (signal: 6, SIGABRT: process abort signal)"
        said = ["Caused by:", f"  process didn't exit successfully: {ended}", CARGO.format(4, 0, 0)]
        found = outcome("\n".join([*said, CARGO.format(3, 1, 0)]), code=101)
        self.assertEqual((found.passed, found.failed, found.failures), (7, 2, [[ended]]))

    def test_a_check_counts_no_tests(self):
        self.assertEqual(outcome("fine", has_tests=False).fault, "")

    def test_only_some_stages_may_skip_all_of_their_tests(self):
        self.assertEqual(outcome("0 passed, 0 failed, 1 skipped", may_skip=True).fault, "")
        self.assertEqual(outcome("", may_skip=True).fault, "no test ran")

    def test_the_run_fails_with_a_stage_and_stops_at_one_that_is_needed(self):
        def planned(_quick):
            yield stage("1 passed, 0 failed")
            yield stage("7 passed, 1 failed", code=1, is_beside=True)
            yield stage("0 passed, 0 failed")
            yield stage("", code=1, has_tests=False, is_needed=True)
            yield stage("100 passed, 0 failed")

        said = io.StringIO()
        argv, sys.argv = sys.argv, ["test.py"]
        try:
            with contextlib.redirect_stdout(said):
                status = ci.main(planned)
        finally:
            sys.argv = argv
        self.assertEqual(status, 1)
        self.assertEqual(said.getvalue().splitlines()[-1], "8 passed, 3 failed, 0 skipped")
        self.assertIn("a stage: no test ran", said.getvalue())

    def test_what_failed_tests_said_is_told_again_at_the_end(self):
        text = "\n".join([
            "test a::b ... FAILED", "", "failures:", "", "---- a::b stdout ----", "panicked at x:1:",
            "left: 1", "", "", "failures:", "    a::b", "", CARGO.format(1, 1, 0),
            "FAIL a program (0.1 s): why", "ok   another", "1 passed, 1 failed",
        ])
        found = outcome(text)
        self.assertEqual(found.failures, [["a::b", "panicked at x:1:", "left: 1"],
                                          ["a program (0.1 s): why"]])
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            ci.report([(stage(text), found)])
        self.assertEqual(said.getvalue().splitlines()[-5:], [
            "failed: a::b", "    panicked at x:1:", "    left: 1",
            "failed: a program (0.1 s): why", "2 passed, 2 failed, 0 skipped"])

    def test_the_stages_that_are_there_name_their_commands(self):
        full = list(ci.stages(quick=False))
        self.assertGreater(len(full), len(list(ci.stages(quick=True))))
        for one in full:
            script = next((word for word in one.command if word.endswith((".py", ".sh"))), None)
            if script:
                self.assertTrue(os.path.exists(os.path.join(ROOT, script)), script)


class Release(unittest.TestCase):
    """What scripts/release.py builds, by what is there to train it."""

    PLAIN = ([], ["--release", "--workspace"])

    def built(self, folder, words=(), status=0, **changed):
        """Flags and words of each cargo build, and what is said."""
        builds, said = [], io.StringIO()

        def cargo(_title, words, flags, _env=None):
            builds.append((flags, words))
            return 0

        def merge(_tool, _paths, profile):
            with open(profile, "w", encoding="ascii") as file:
                file.write("counts")

        changed = dict(cargo=cargo, merge=merge, TRAINING=folder, said_by_rustc=lambda *_: "rustc",
                       profdata_tool=lambda _: "llvm-profdata", run_programs=lambda _: None) | changed
        with contextlib.redirect_stderr(said), contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(sys, "argv", ["release.py", *words]))
            stack.enter_context(mock.patch.object(release.shutil, "which", lambda name: name))
            for name, value in changed.items():
                stack.enter_context(mock.patch.object(release, name, value))
            self.assertEqual(release.main(), status)
        return builds, said.getvalue()

    def test_counts_are_taken_once_for_the_same_sources(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = [f"-Cprofile-use={folder}/sluice.profdata"]
            [(counting, _), trained], _ = self.built(folder)
            self.assertEqual(counting, [f"-Cprofile-generate={folder}/counts"])
            self.assertEqual(trained, (flags, self.PLAIN[1]))
            self.assertEqual(self.built(folder)[0], [trained])
            of_others = self.built(folder, said_by_rustc=lambda *_: "rustc 9.9")
            self.assertEqual(len(of_others[0]), 2)

    def test_without_counts_it_is_built_as_cargo_does_and_it_says_why(self):
        def fails(_):
            raise release.NotTrained("there is no /dev/shm")

        with tempfile.TemporaryDirectory() as folder:
            builds, said = self.built(folder, run_programs=fails)
            self.assertEqual(builds[-1], self.PLAIN)
            self.assertIn("there is no /dev/shm", said)
            # And it is tried again.
            self.assertEqual(len(self.built(folder)[0]), 2)
            # Counts of what was there before are none of what is there now.
            self.built(folder, run_programs=fails, said_by_rustc=lambda *_: "rustc 9.9")
            self.assertEqual(len(self.built(folder)[0]), 2)

    def test_where_it_must_be_trained_it_fails_but_not_for_want_of_a_tool(self):
        def fails(_):
            raise release.NotTrained("a program ended with 1")

        def misses(_):
            raise release.Missing("there is no llvm-profdata")

        with tempfile.TemporaryDirectory() as folder:
            builds, _ = self.built(folder, ["--must"], status=1, run_programs=fails)
            self.assertNotIn(self.PLAIN, builds)
            self.assertEqual(self.built(folder, ["--must"], profdata_tool=misses)[0], [self.PLAIN])
            with mock.patch.dict(os.environ, CARGO_BUILD_TARGET="aarch64-unknown-linux-gnu"):
                self.assertEqual(self.built(folder, ["--must"])[0], [self.PLAIN])

    def test_it_need_not_be_trained(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.built(folder, ["--plain"])[0], [self.PLAIN])

    def test_the_sources_are_there(self):
        for pattern in release.SOURCES:
            found = glob.glob(os.path.join(ROOT, pattern), recursive=True)
            self.assertTrue(found and all(map(os.path.isfile, found)), pattern)

    def test_counts_are_weighted_by_the_greatest(self):
        ran = []

        def run(command, *_):
            ran.append(command)
            return f"Maximum function count: {dict(few=3, many=3000).get(command[-1], 0)}"

        with tempfile.TemporaryDirectory() as folder, mock.patch.object(release, "run", run), \
                mock.patch.object(os, "replace", lambda *_: None):
            release.merge("llvm-profdata", ["few", "many"], os.path.join(folder, "profile"))
            self.assertEqual(ran[-1][-2:], ["--weighted-input=1000,few", "--weighted-input=1,many"])
            for paths in ([], ["none"]):
                with self.assertRaises(release.NotTrained):
                    release.merge("llvm-profdata", paths, os.path.join(folder, "profile"))


class Hosts(unittest.TestCase):
    """What scripts/bench_hosts.py tells the transports that it compares."""

    def test_each_transport_is_told_its_devices(self):
        for transport in [*bench_hosts.COMPARED, *bench_hosts.OVERLAPPING]:
            words = " ".join(bench_hosts.options(transport, 2))
            self.assertIn("--mca pml", words, transport)
            # Sluice finds them.
            self.assertEqual("r0,r1" in words, not transport.startswith("sluice"), transport)


class Demo(unittest.TestCase):
    """What scripts/demo.py does without a part of its tools."""

    def mode(self, compiler):
        """What it knows of the machine's mode with this compiler, and what it says."""
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(said), \
                mock.patch.object(bench, "BUILD", folder), \
                mock.patch.dict(os.environ, PATH=folder), \
                mock.patch.object(os, "sched_getaffinity", lambda _: {0, 1}):
            if compiler:
                path = os.path.join(folder, "cc")
                with open(path, "w", encoding="ascii") as file:
                    file.write(compiler)
                os.chmod(path, 0o755)
            return demo.Mode().now(), said.getvalue()

    def test_a_probe_that_does_not_compile_leaves_the_mode_unknown(self):
        broken = "#!/bin/sh\necho 'stdio.h: No such file or directory' >&2; exit 1\n"
        now, said = self.mode(broken)
        self.assertIsNone(now)
        self.assertIn("stdio.h", said)
        self.assertIn("libc6-dev", said)

    def test_without_a_compiler_the_mode_is_unknown(self):
        now, said = self.mode(None)
        self.assertIsNone(now)
        self.assertIn("gcc", said)

    def figures(self, modes, broken=()):
        """What demo.figures makes of one range, of these probes, and of peers that fail."""
        def measure(_sizes, transport, _folder):
            if transport in broken:
                raise demo.Failed("it does not run")
            return {8: {"sluice": 2e-6, "vader": 4e-6, "ucx": 1e-6}[transport]}

        machine = mock.Mock()
        machine.now.side_effect = [(mode, 1.0) for mode in modes]
        said = io.StringIO()
        with contextlib.redirect_stderr(said), mock.patch.object(demo, "measure", measure), \
                mock.patch.object(demo, "RANGES", [(8, 8, 1)]):
            return demo.figures("", machine, ["vader", "ucx"]), said.getvalue()

    def test_a_range_is_run_again_when_the_mode_changes_but_not_for_ever(self):
        near, moved = ["near"] * 4, ["near", "near", "far", "near"]
        [part], said = self.figures(moved + near)
        self.assertEqual((part["mode"], len(part["probes"])), ("near", 4))
        self.assertEqual(said.count("once more"), 1)
        [part], said = self.figures(moved * demo.TRIES_MAX)
        self.assertEqual((part["mode"], said.count("once more")), ("changed", demo.TRIES_MAX - 1))

    def test_sluice_is_compared_with_the_best_that_is_there(self):
        parts, _ = self.figures(["near"] * 4)
        [row] = demo.table(parts)
        self.assertEqual((row["best"], row["speed_ratio"], row["shm_us"]), ("ucx", 0.5, 1.0))
        parts, said = self.figures(["near"] * 4, broken=["ucx"])
        [row] = demo.table(parts)
        self.assertEqual((row["best"], row["speed_ratio"]), ("vader", 2.0))
        self.assertIn("UCX is left out: it does not run", said)
        with self.assertRaises(demo.Failed):
            self.figures(["near"] * 4, broken=["ucx", "vader"])
        with self.assertRaises(demo.Failed):
            self.figures(["near"] * 4, broken=["sluice"])


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad - len(result.skipped)} passed, {bad} failed", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
