"""How tests of whole programs end, and how that is told: a line for each test, then the sum.

`tests/run_*.py` use it. `scripts/test.py` reads the last line.
"""

import json
import signal
import sys
import time


class Failed(Exception):
    """A test did not show what it should; the text says why."""


class Skipped(Exception):
    """A test cannot run here; the text says why."""


def check(holds, said):
    """Fails the test unless something holds; `said` is what was seen instead."""
    if not holds:
        raise Failed(f"unexpected: {said}")


class Verdicts:
    """What became of each test."""

    def __init__(self, is_json=False):
        self.is_json = is_json
        self.out = sys.stderr if is_json else sys.stdout
        self.results = []

    def judge(self, title, call, why_not="", broken=""):
        """Runs a test and tells what became of it, which it gives too: ok, FAIL or skip.

        What the test gives is a note to people. `why_not` says why it cannot run here, `broken`
        why it fails before it has begun.
        """
        start = time.monotonic()
        try:
            if why_not:
                raise Skipped(why_not)
            if broken:
                raise Failed(broken)
            verdict, note = "ok", call() or ""
        except Skipped as why:
            verdict, note = "skip", str(why)
        except Failed as why:
            verdict, note = "FAIL", str(why)
        seconds = time.monotonic() - start
        self.results.append({"test": title, "verdict": verdict, "seconds": round(seconds, 3),
                             "note": note})
        took = "" if verdict == "skip" else f" ({seconds:.1f} s)"
        said = f": {note}" if note else ""
        print(f"{verdict:4} {title}{took}{said}", file=self.out, flush=True)
        return verdict

    def count(self, verdict):
        return sum(result["verdict"] == verdict for result in self.results)

    def end(self, **more):
        """Tells the sum; gives the exit status. JSON has `more` too."""
        passed, failed, skipped = map(self.count, ("ok", "FAIL", "skip"))
        if self.is_json:
            print(json.dumps({**more, "passed": passed, "failed": failed, "skipped": skipped,
                              "tests": self.results}, indent=1))
        print(f"{passed} passed, {failed} failed, {skipped} skipped", file=self.out, flush=True)
        return 1 if failed or not self.results else 0


def methods(tests, filtered=""):
    """The methods of an object that are tests, with the titles they have."""
    for name in dir(tests):
        title = name.removeprefix("test_").replace("_", " ")
        if name.startswith("test_") and filtered in title:
            yield title, getattr(tests, name)


def leave(main):
    """Ends the program as `main` does. Whoever ends it by a signal finds nothing left behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
