#!/usr/bin/env python3
"""Checks the conformance pages against the headers and the tests.

docs/portals4-conformance.md: every function of both headers has a row with at least one
test, every numbered behaviour has a row, and every test that the page names exists: `put`
is the program tests/portals/put.c, and `file::function` is a test function of that file,
or of a file in a folder of that name, below crates/.

docs/libfabric-conformance.md: every test that it names exists, where `file.c::function` is
a function of a program in crates/provider/tests/c, or of what they share (`client.h`), and
so does every file of the provider. Every such program is named and run.
"""

import argparse
import importlib.util
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join("docs", "portals4-conformance.md")
HEADERS = [os.path.join("crates", "libportals", "include", name)
           for name in ("portals4.h", "sluice_job.h")]
PROGRAMS = os.path.join("tests", "portals")
BEHAVIOURS = range(1, 23)
FABRIC_PAGE = os.path.join("docs", "libfabric-conformance.md")
PROVIDER = os.path.join("crates", "provider")
MARKERS = ("<!-- results:reference -->", "<!-- results:shmem -->")

PROTOTYPE = re.compile(r"^(?:int|void|const char \*)\s*(\w+)\(", re.M)
CODE = re.compile(r"`([^`]+)`")
# A test function, or a scenario that a macro makes tests of.
TEST = re.compile(r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*fn (\w+)\(")
SCENARIO = re.compile(r"^pub fn (\w+)<W: World>\(", re.M)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def functions():
    """All functions of the headers."""
    found = []
    for header in HEADERS:
        found += PROTOTYPE.findall(re.sub(r"/\*.*?\*/", "", read(header), flags=re.S))
    return found


def programs():
    """The C programs that the runner runs, and the harness they share: name, then text."""
    path = os.path.join(ROOT, "tests", "run_portals.py")
    spec = importlib.util.spec_from_file_location("run_portals", path)
    runner = importlib.util.module_from_spec(spec)
    # It uses what stands beside it.
    sys.path.insert(0, os.path.dirname(path))
    spec.loader.exec_module(runner)
    names = [name for name, *_ in runner.PROGRAMS] + ["harness"]
    paths = {name: os.path.join(PROGRAMS, name + ".c") for name in names}
    return {name: read(path) for name, path in paths.items()
            if os.path.exists(os.path.join(ROOT, path))}


def rust_tests():
    """The names under which a page may call each Rust test: `file::function`."""
    names = set()
    for folder, folders, files in os.walk(os.path.join(ROOT, "crates")):
        folders[:] = [name for name in folders if name != "target"]
        for file in files:
            if not file.endswith(".rs"):
                continue
            text = read(os.path.join(folder, file))
            tests = TEST.findall(text)
            if os.path.basename(folder) == "conformance":
                # Only those that are listed become tests.
                listed = read(os.path.join(folder, "mod.rs"))
                tests += [name for name in SCENARIO.findall(text)
                          if re.search(rf"^\s+{name}$", listed, re.M)]
            for place in (file[:-3], os.path.basename(folder)):
                names.update(f"{place}::{name}" for name in tests)
    return names


def rows(page):
    """The tables' rows: line number, first cell without its marks, the last cell."""
    for number, line in enumerate(page.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) > 1 and not set(line) <= set("|-: "):
            yield number, cells[0].strip("`"), cells[-1]


class FabricPage:
    """What is wrong with the page of libfabric."""

    # Of a row with four cells: in which file of the provider.
    CELLS, WHERE = 4, 2
    # What the page calls a test before there are any.
    EXAMPLE = "file::function"

    def __init__(self, rust):
        self.faults, self.named, self.rust = [], set(), rust
        folder = os.path.join(PROVIDER, "tests", "c")
        self.c = {name: read(os.path.join(folder, name))
                  for name in sorted(os.listdir(os.path.join(ROOT, folder)))}
        self.runner = read(os.path.join(PROVIDER, "tests", "provider.rs"))

    def check(self, page):
        for number, line in enumerate(page.splitlines(), 1):
            for code in CODE.findall(line):
                named = code.split("::") if code != self.EXAMPLE else []
                if len(named) == 2 and not self.is_there(*named):
                    self.faults.append(f"{FABRIC_PAGE}:{number}: there is no test {code}")
            cells = line.strip().strip("|").split("|") if line.startswith("|") else []
            for file in CODE.findall(cells[self.WHERE]) if len(cells) == self.CELLS else []:
                path = os.path.join(PROVIDER, "src", file)
                if file.endswith(".rs") and not os.path.exists(os.path.join(ROOT, path)):
                    self.faults.append(f"{FABRIC_PAGE}:{number}: there is no file {path}")
        for name in self.programs():
            if name not in self.named:
                self.faults.append(f"{FABRIC_PAGE}: the program {name} is named nowhere")
            if not re.search(rf'(?:compile\(&dir, |every_way\()"{name[:-2]}"', self.runner):
                self.faults.append(f"{FABRIC_PAGE}: no test runs the program {name}")

    def programs(self):
        """Those that are run; the others are what they share."""
        return [name for name in self.c if name.endswith(".c")]

    def is_there(self, file, function):
        """Whether there is such a test. Notes the program that has it."""
        if not file.endswith((".c", ".h")):
            return f"{file}::{function}" in self.rust
        self.named.add(file)
        defined = rf"^(?:static )?[\w *]*\b{re.escape(function)}\("
        return file in self.c and bool(re.search(defined, self.c[file], re.M))


class Check:
    def __init__(self):
        self.faults = []
        self.c, self.rust = programs(), rust_tests()

    def fault(self, line, text):
        self.faults.append(f"{PAGE}:{line}: {text}")

    def tests(self, line, cell, function):
        """Counts the tests of a cell that exist, and complains of the others."""
        count = 0
        for name in CODE.findall(cell):
            if "::" in name:
                if name not in self.rust:
                    self.fault(line, f"there is no test function {name} below crates/")
                    continue
            elif name not in self.c:
                self.fault(line, f"there is no program {name} in {PROGRAMS} that the runner runs")
                continue
            elif function and not any(
                re.search(rf"\b{function}\b", self.c[file]) for file in (name, "harness")
            ):
                self.fault(line, f"{name}.c does not call {function}")
                continue
            count += 1
        return count

    def page(self, page):
        known = functions()
        with_tests = dict.fromkeys(known, False)
        numbers = set()
        for line, first, last in rows(page):
            if re.fullmatch(r"(Ptl|SluiceJob)\w+", first):
                if first not in with_tests:
                    self.fault(line, f"no header has a function {first}")
                elif with_tests[first]:
                    self.fault(line, f"{first} has a row already")
                elif self.tests(line, last, first):
                    with_tests[first] = True
            elif re.fullmatch(r"\d+", first):
                numbers.add(int(first))
                if not self.tests(line, last, None):
                    self.fault(line, f"behaviour {first} has no test")
        self.faults += [f"{PAGE}: {name} has no row with a test that exists"
                        for name, found in with_tests.items() if not found]
        self.faults += [f"{PAGE}: behaviour {number} has no row"
                        for number in BEHAVIOURS if number not in numbers]
        self.faults += [f"{PAGE}: behaviour {number} is not one of {BEHAVIOURS[-1]}"
                        for number in sorted(numbers - set(BEHAVIOURS))]
        self.faults += [f"{PAGE}: the marker {marker} is gone"
                        for marker in MARKERS if page.count(marker) != 1]
        named = set(CODE.findall(page))
        self.faults += [f"{PAGE}: the program {name} is named nowhere"
                        for name in self.c if name not in named]
        return len(known)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="check the pages (all there is to do)")
    if not parser.parse_args().check:
        parser.error("say --check")
    check = Check()
    count = check.page(read(PAGE))
    fabric = FabricPage(check.rust)
    fabric.check(read(FABRIC_PAGE))
    for fault in check.faults + fabric.faults:
        print(fault, file=sys.stderr)
    if check.faults or fabric.faults:
        return 1
    print(f"Portals: {count} functions and {len(BEHAVIOURS)} behaviours, with their tests; "
          f"libfabric: {len(fabric.programs())} programs, all named")
    return 0


if __name__ == "__main__":
    sys.exit(main())
