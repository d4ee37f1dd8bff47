#!/usr/bin/env python3
"""Manual pages from the comments of portals4.h and sluice_job.h.

    man.py [--out DIR]   write a page per function into DIR/man3, portals4(7) into DIR/man7
    man.py --check       only look whether every function is documented, and render each page

The format of the comments is described at the head of portals4.h. Exit status 0: all is well;
1: something is missing, each on a line of standard error.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

CRATE = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = CRATE / "include"
HEADERS = ("portals4.h", "sluice_job.h")
MAN = CRATE.parent.parent / "target" / "man"

BLOCK = re.compile(
    r"/\*\*\n(?P<text>.*?)\*/\n(?P<decl>[^;{}#]*?\b(?P<name>(?:Ptl|SluiceJob)\w+)\((?P<args>[^;]*?)\));",
    re.S,
)
DECLARED = re.compile(r"^[a-z][\w \*]*?\b((?:Ptl|SluiceJob)\w+)\(", re.M)
TAG = re.compile(r"@(brief|param\[(?:in|out|inout)\]|retval|note|see)\s+")
DEFINE = re.compile(r"^#define (PTL_\w+)[ \t]+(\S.*?)[ \t]*(?:/\*(.*?)\*/)?[ \t]*$", re.M)


class Function:
    """One function: its declaration, and what the comment says."""

    def __init__(self, header, match):
        self.header = header
        self.name = match["name"]
        self.decl = match["decl"].strip()
        args = " ".join(match["args"].split())
        self.args = [] if args == "void" else [re.search(r"(\w+)$", a)[1] for a in args.split(",")]
        self.brief, self.params, self.retvals, self.notes, self.see = "", [], [], [], []
        text = re.sub(r"^ \* ?", "", match["text"], flags=re.M)
        parts = TAG.split(text)
        self.stray = parts[0].strip()
        for tag, body in zip(parts[1::2], parts[2::2]):
            body = " ".join(body.split())
            if tag == "brief":
                self.brief = body
            elif tag.startswith("param"):
                self.params.append((tag[6:-1], *self.split(body)))
            elif tag == "retval":
                self.retvals.append(self.split(body))
            elif tag == "note":
                self.notes.append(body)
            else:
                self.see += body.split()

    @staticmethod
    def split(body):
        head, _, rest = body.partition(" ")
        return head, rest.strip()

    @property
    def returns(self):
        return not self.decl.startswith("void ")


def read(header):
    """The functions of a header, and the names of those that it declares."""
    text = (INCLUDE / header).read_text(encoding="ascii")
    functions = [Function(header, match) for match in BLOCK.finditer(text)]
    return functions, DECLARED.findall(re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def codes():
    """The return codes: name and meaning, in order."""
    text = (INCLUDE / HEADERS[0]).read_text(encoding="ascii")
    part = text.split("- return codes */")[1].split("- base types */")[0]
    found = [(name, why.strip()) for name, _, why in DEFINE.findall(part)]
    return [code for code in found if code[0] != "PTL_STATUS_LAST"]


def faults(functions, declared):
    """What is missing or wrong, a line each."""
    names = {f.name for f in functions}
    known = {name for name, _ in codes()}
    text = (INCLUDE / HEADERS[0]).read_text(encoding="ascii")
    constants = {name for name, _, _ in DEFINE.findall(text)} | {"PTL_FAIL"}
    for name in declared:
        if name not in names:
            yield f"{name}: no comment"
    for f in functions:
        at = f"{f.header}: {f.name}:"
        if f.stray:
            yield f"{at} text before the first tag: {f.stray[:40]}"
        if not f.brief.endswith("."):
            yield f"{at} @brief is missing or no sentence"
        given = [name for _, name, _ in f.params]
        if given != f.args:
            yield f"{at} parameters are {f.args}, documented are {given}"
        for way, name, what in f.params:
            if not what:
                yield f"{at} nothing is said of {name}"
            pointer = re.search(rf"(const )?\w+ +\*{name}\b", f.decl)
            wanted = ("in" if pointer[1] else "out") if pointer else "in"
            if way != wanted and not (name == "user_ptr" and way == "in") and way != "inout":
                yield f"{at} {name} is [{way}], its type says [{wanted}]"
        if f.returns and not f.retvals:
            yield f"{at} no @retval"
        if not f.returns and f.retvals:
            yield f"{at} @retval, but it returns nothing"
        seen = set()
        for name, when in f.retvals:
            if name.startswith("PTL_") and name not in known:
                yield f"{at} {name} is no return code"
            if name in seen or not when:
                yield f"{at} {name} stands twice or without a cause"
            seen.add(name)
        if f.name.startswith("Ptl") and f.name not in ("PtlInit", "PtlHandleIsEqual"):
            if f.returns and "PTL_NO_INIT" not in seen:
                yield f"{at} PTL_NO_INIT is missing"
        for name in f.see:
            if name not in names:
                yield f"{at} @see {name}, which is not declared"
        words = " ".join([f.brief, *f.notes, *(w for *_, w in f.params), *(w for _, w in f.retvals)])
        for name in re.findall(r"\b(?:Ptl|SluiceJob)[A-Z]\w+", words):
            if name not in names:
                yield f"{at} speaks of {name}, which is not declared"
        for name in re.findall(r"\bPTL_\w+(?!\w|\*)", words):
            known_prefix = name.endswith("_") and any(c.startswith(name) for c in constants)
            if name not in constants and not known_prefix:
                yield f"{at} speaks of {name}, which is not defined"


def roff(text):
    """Text as troff wants it, names of constants, functions and files in bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"\b((?:Ptl|SluiceJob)[A-Z]\w+)\b(?!\()", r"\\fB\1\\fR(3)", text)
    text = re.sub(r"((?:\bPTL_|\*_OVERFLOW)[\w*]*|\bSLUICE_JOB\w*)", r"\\fB\1\\fR", text)
    return "\\&" + text if text[:1] in ".'" else text


def title(name, section):
    return f'.TH {name} {section} "" "Sluice" "Portals 4"\n'


def declaration(f):
    """The declaration, one parameter to a line, as the header has it."""
    lines = [line.strip() for line in f.decl.splitlines()]
    head = lines[0]
    indent = " " * (head.index("(") + 1)
    code = "\n".join([head, *(indent + " ".join(line.split()) for line in lines[1:])]) + ";"
    return code.replace("\\", "\\e").replace("-", "\\-")


def page(f, functions):
    """The page of a function."""
    out = [title(f.name, 3), ".SH NAME\n"]
    brief = f.brief[0].lower() + f.brief[1:].rstrip(".")
    out.append(f"{f.name} \\- {roff(brief)}\n")
    out.append(f".SH SYNOPSIS\n.nf\n.B #include <{f.header}>\n.PP\n{declaration(f)}\n.fi\n")
    if f.params:
        out.append(".SH PARAMETERS\n")
        for way, name, what in f.params:
            mark = "" if way == "in" else f" [{way}]"
            out.append(f".TP\n\\fI{name}\\fR{mark}\n{roff(sentence(what))}\n")
    if f.notes:
        out.append(".SH DESCRIPTION\n" + ".PP\n".join(roff(note) + "\n" for note in f.notes))
    if f.retvals:
        out.append(".SH RETURN VALUE\n")
        for name, when in f.retvals:
            out.append(f".TP\n.B {name.strip(chr(34))}\n{roff(when)}\n")
    others = [f"\\fB{name}\\fR(3)" for name in f.see] + ["\\fBportals4\\fR(7)"]
    out.append(".SH SEE ALSO\n" + ",\n".join(others) + "\n")
    return "".join(out)


def sentence(text):
    """A parameter's words as a sentence."""
    # A word with a capital or an underscore in it is a name, and stays.
    first = text.split(" ", 1)[0]
    text = text if re.search(r"[_A-Z0-9]", first) else text[0].upper() + text[1:]
    return text if text.endswith(".") else text + "."


def overview(functions):
    """portals4(7): the nouns, all functions, the return codes."""
    out = [title("portals4", 7), ".SH NAME\nportals4 \\- the Portals 4 network programming interface\n"]
    out.append(
        ".SH SYNOPSIS\n.nf\n.B #include <portals4.h>\n.PP\n"
        "cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs portals4)\n.fi\n"
    )
    out.append(".SH DESCRIPTION\n" + ".PP\n".join(roff(text) + "\n" for text in ABOUT))
    for header in HEADERS:
        out.append(f".SH FUNCTIONS OF {header}\n")
        for f in functions:
            if f.header == header:
                out.append(f".TP\n\\fB{f.name}\\fR(3)\n{roff(f.brief)}\n")
    out.append(".SH RETURN CODES\n")
    for name, why in codes():
        out.append(f".TP\n.B {name}\n{roff(sentence(why))}\n")
    out.append(
        ".PP\n" + roff("Every function may also return PTL_FAIL if the library itself fails; it "
        "then says why on standard error.") + "\n"
    )
    return "".join(out)


ABOUT = (
    "A process opens a network interface with PtlNIInit and names others by rank, after PtlSetMap, "
    "or by node and process identifier. What it lets others reach, it puts into the lists of a "
    "portal table entry: PtlPTAlloc, PtlMEAppend, PtlLEAppend. Others write there with PtlPut, "
    "read with PtlGet and combine with PtlAtomic, PtlFetchAtomic and PtlSwap; their side's memory "
    "is in a descriptor, by PtlMDBind.",
    "What happens is told by events, which PtlEQGet, PtlEQWait and PtlEQPoll take from queues, and "
    "by counters, which PtlCTGet, PtlCTWait and PtlCTPoll read. A counter may set further "
    "operations going: PtlTriggeredPut and its like.",
    "An interface with matching selects the entry by match bits and initiator; one without takes "
    "the first of the list. What finds no entry in the priority list may land in the overflow "
    "list, and waits there until an entry is appended that it matches, or a search finds it.",
    "Data moves without any call of the target. Functions may be called from any thread, and not "
    "from a signal handler.",
    "How the processes of a job find each other is not Portals' business. SluiceJobInit and "
    "SluiceJobMap do it for programs that have no other way.",
)


def render(text, name):
    """Complaints of the formatter about a page; none without a formatter."""
    if not shutil.which("groff"):
        return []
    result = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-rLL=100n"],
        input=text.encode(), capture_output=True, check=False,
    )
    if result.returncode == 0 and not result.stderr and result.stdout.strip():
        return []
    said = result.stderr.decode(errors="replace").strip()
    return [f"{name}: {line}" for line in said.splitlines()] or [f"{name}: does not render"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, look for faults")
    parser.add_argument("--out", type=pathlib.Path, default=MAN, help="where (default: target/man)")
    options = parser.parse_args()

    functions, declared = [], []
    for header in HEADERS:
        found, names = read(header)
        functions += found
        declared += names
    wrong = list(faults(functions, declared))
    if wrong:
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    pages = {f"man3/{f.name}.3": page(f, functions) for f in functions}
    pages["man7/portals4.7"] = overview(functions)
    if options.check:
        for name, text in pages.items():
            wrong += render(text, name)
        if not shutil.which("groff"):
            print("man.py: groff is not installed, pages were not rendered", file=sys.stderr)
        if wrong:
            print(*wrong, sep="\n", file=sys.stderr)
            return 1
        print(f"{len(functions)} functions, every one documented")
        return 0
    for name, text in pages.items():
        path = options.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    print(f"{len(pages)} pages in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
