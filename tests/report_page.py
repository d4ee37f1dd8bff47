#!/usr/bin/env python3
"""Loads a page of `sluice report` in a headless Chromium and looks at it.

Makes a report from a small experiment, opens it without a network at two widths and
in print, and checks that every figure is there, has a size, lies within the page, that
text is large and dark enough, that nothing is fetched and no error is logged, and that
it prints. Then it spoils the page in several ways and checks that each is noticed.
Each check prints one line; the last line is `N passed, N failed`.
"""

import argparse
import base64
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from verdicts import leave

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = (1280, 400)
# A4 at 96 pixels an inch, less the margins that Chromium prints with.
PRINT_WIDTH, PRINT_HEIGHT = 718, 1046
FONT_PX_MIN = 9
CONTRAST_MIN = 4.5
# Far above what it takes on a busy machine.
DEADLINE_SECONDS = 120

EXPERIMENT = """
name = "page"
title = "A page to look at <&>"
about = "Every kind of figure."
seeds = [1, 2]

[stop]
warm_up_cycles = 200
batch_cycles = 200
min_cycles = 400
max_cycles = 800

[base]
topology = { kind = "dragonfly", p = 2, a = 4, h = 2 }
routing = { kind = "minimal" }
traffic = { pattern = { kind = "uniform" }, packet_flits = 4 }
endpoint = { slow = { factor = 4 } }

[[sweep]]
name = "protocol"
variant = [
  { label = "no limit" },
  { label = "limit 2", value = 2, set = { "endpoint.outstanding_packets" = 2 } },
  { label = "limit 8", value = 8, set = { "endpoint.outstanding_packets" = 8 } },
]

[[sweep]]
name = "slow"
title = "share of slow nodes"
key = "endpoint.slow.share"
values = [0.0, 0.02, 0.1]

[[sweep]]
name = "load"
title = "flits offered, a node and cycle"
key = "traffic.load"
values = [0.1, 0.4]

[links]
protocol = "no limit"
slow = 0.1
load = 0.4

[[figure]]
title = "Throughput against the share of slow nodes"
x = "slow"
series = "protocol"
panel = "load"
scale = "log"

[[figure]]
title = "Throughput against outstanding transfers"
x = "protocol"
where = { load = 0.4 }
scale = "log"

[[figure]]
title = "Latency against load"
x = "load"
y = "packet_latency"
where = { slow = 0.0 }

[[expect]]
where = { load = 0.1, slow = 0.0 }
min = 0.05
max = 0.15
reason = "What is offered arrives."
"""
# Two panels, one, one, and the figures that every report has.
FIGURES = 2 + 1 + 1
EVERY_REPORT = ("throughput-over-time", "load-of-the-links")

# Gives a list of what is wrong with the page as it is laid out now.
LOOK = """
(function (names, fontMin, contrastMin, pageHeight) {
  const wrong = [];
  const width = document.documentElement.clientWidth;
  const page = document.documentElement.scrollWidth;
  if (page > width) wrong.push(`the page is ${page} px wide in ${width}`);
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parts = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => 0.2126 * channel(rgb[0]) + 0.7152 * channel(rgb[1]) + 0.0722 * channel(rgb[2]);
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const rgb = parts(getComputedStyle(element).backgroundColor);
      if (rgb.length === 3 || rgb[3] > 0) return rgb;
    }
    return [255, 255, 255];
  };
  const read = (element, size, colour, back, where) => {
    const what = JSON.stringify(element.textContent.trim().slice(0, 30));
    if (size < fontMin) wrong.push(`${where}: ${what} is ${size.toFixed(1)} px`);
    const ratio = contrast(parts(colour), back);
    if (ratio < contrastMin) wrong.push(`${where}: ${what} has a contrast of ${ratio.toFixed(1)}`);
  };
  for (const name of names) {
    const section = document.getElementById(name);
    const svg = section && section.querySelector("figure svg");
    if (!svg) { wrong.push(`the figure ${name} is missing`); continue; }
    const box = svg.getBoundingClientRect();
    if (box.width < 100 || box.height < 100) wrong.push(`${name} is ${box.width} by ${box.height} px`);
    if (box.left < 0 || box.right > width + 0.5) wrong.push(`${name} reaches from ${box.left} to ${box.right} of ${width} px`);
    if (pageHeight && box.height > pageHeight) wrong.push(`${name} is ${box.height} px high on a sheet of ${pageHeight}`);
    if (pageHeight && getComputedStyle(svg.parentElement).breakInside !== "avoid") wrong.push(`${name} may be cut in print`);
    if (svg.getAttribute("role") !== "img" || !svg.getAttribute("aria-label")) wrong.push(`${name} has no role or label`);
    for (const part of ["title", "desc"]) if (!svg.querySelector(part)) wrong.push(`${name} has no ${part}`);
    if (!section.querySelector("table tbody tr")) wrong.push(`${name} has no table of values`);
    if (svg.querySelectorAll("text").length < 4) wrong.push(`${name} has no labels`);
    const scale = box.width / svg.viewBox.baseVal.width;
    for (const text of svg.querySelectorAll("text")) {
      const style = getComputedStyle(text);
      read(text, parseFloat(style.fontSize) * scale, style.fill, [255, 255, 255], name);
      const place = text.getBoundingClientRect();
      if (place.left < box.left - 1 || place.right > box.right + 1 || place.top < box.top - 1 || place.bottom > box.bottom + 1)
        wrong.push(`${name}: ${JSON.stringify(text.textContent.trim())} is cut off`);
    }
  }
  const all = document.querySelectorAll("figure svg").length;
  if (all !== names.length) wrong.push(`there are ${all} figures and not ${names.length}`);
  for (const element of document.querySelectorAll("h1, h2, p, figcaption, th, td, pre")) {
    if (!element.textContent.trim()) continue;
    const style = getComputedStyle(element);
    read(element, parseFloat(style.fontSize), style.color, ground(element), element.tagName);
  }
  if (pageHeight) {
    const rgb = ground(document.body);
    if (light(rgb) < 0.99) wrong.push(`the paper is rgb(${rgb})`);
  }
  return wrong;
})
"""


class Browser:
    """A Chromium spoken to over a pair of pipes, in the DevTools protocol."""

    def __init__(self, program, profile):
        self.profile = profile
        to_browser, self.to_browser = os.pipe()
        self.from_browser, from_browser = os.pipe()

        def pipes():
            # It reads its commands from 3 and writes to 4.
            high = [os.dup2(fd, fd + 100) for fd in (to_browser, from_browser)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [
            program, "--headless", "--remote-debugging-pipe", "--disable-gpu",
            "--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking",
            "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={profile}", "about:blank",
        ]
        if os.getuid() == 0:
            command.insert(1, "--no-sandbox")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=pipes, close_fds=False,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.deadline = time.monotonic() + DEADLINE_SECONDS
        self.rest = b""
        self.number = 0
        self.events = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Network.emulateNetworkConditions", offline=True, latency=0,
            downloadThroughput=0, uploadThroughput=0,
        )

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        # Its helpers end a little later, and one may have made a file meanwhile.
        deadline = time.monotonic() + DEADLINE_SECONDS
        while os.path.exists(self.profile):
            try:
                shutil.rmtree(self.profile)
            except OSError:
                if time.monotonic() > deadline:
                    raise

    def message(self):
        while b"\0" not in self.rest:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self.from_browser], [], [], left)[0]:
                raise RuntimeError("the browser does not answer")
            data = os.read(self.from_browser, 1 << 20)
            if not data:
                raise RuntimeError(f"the browser has ended: status {self.process.wait()}")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(command).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def load(self, path):
        """Loads a file to its end; what it fetches and logs goes to the events."""
        self.events.clear()
        self.call("Page.navigate", url=f"file://{path}")
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"]["description"])
        return result["result"]["value"]


def complaints(browser, path, names):
    """All that is wrong with a page."""
    browser.load(path)
    wrong = []
    for width in WIDTHS:
        browser.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900,
            deviceScaleFactor=1, mobile=False,
        )
        wrong += [f"{width} px: {text}" for text in look(browser, names, 0)]
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=PRINT_WIDTH, height=PRINT_HEIGHT,
        deviceScaleFactor=1, mobile=False,
    )
    browser.call("Emulation.setEmulatedMedia", media="print")
    wrong += [f"print: {text}" for text in look(browser, names, PRINT_HEIGHT)]
    pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=False)["data"])
    browser.call("Emulation.setEmulatedMedia", media="")
    sheets = len(re.findall(rb"/Type\s*/Page\b", pdf))
    if not pdf.startswith(b"%PDF") or sheets < 2:
        wrong.append(f"it prints {sheets} sheets")
    return wrong + events(browser.events, path)


def look(browser, names, height):
    arguments = ", ".join(json.dumps(each) for each in (names, FONT_PX_MIN, CONTRAST_MIN, height))
    return browser.value(f"{LOOK}({arguments})")


def events(happened, path):
    """What the page fetched or logged that it should not have."""
    wrong = []
    for event in happened:
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if url != f"file://{path}" and not url.startswith("data:"):
                wrong.append(f"it fetches {url}")
        elif method == "Runtime.exceptionThrown":
            wrong.append("a script has failed: " + params["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] == "error":
            wrong.append("an error is logged")
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            wrong.append("an error is logged: " + params["entry"]["text"])
    return wrong


def spoiled(page, name):
    """Ways to spoil a page: what is done, the page, a part of what must be said."""
    section = page.index(f'<section id="{name}">')
    svg, end = page.index("<svg ", section), page.index("</svg>", section) + len("</svg>")
    inside = page[svg:end]
    missing = f"the figure {name} is missing"
    yield "a figure taken out", page[:svg] + page[end:], missing
    empty = inside[: inside.index(">") + 1] + "</svg>"
    yield "a figure emptied", page[:svg] + empty + page[end:], "has no labels"

    def with_css(css):
        return page.replace("</style>", css + "</style>", 1)

    yield "a figure too wide", with_css("svg { min-width: 1500px }"), "the page is"
    yield "a figure hidden", with_css("figure { display: none }"), f"{name} is 0 by 0 px"
    yield "small text", with_css("td { font-size: 7px }"), "is 7.0 px"
    yield "small text in figures", with_css("svg text { font-size: 10px }"), "is 5.6 px"
    yield "pale text", with_css("p { color: #aaa }"), "has a contrast of 2.3"
    yield "dark paper", with_css("body { background: #222 !important }"), "the paper is"
    yield "figures cut in print", with_css("figure { break-inside: auto !important }"), "may be cut"

    def with_body(html):
        return page.replace("</main>", html + "</main>", 1)

    image = '<img alt="" src="http://192.0.2.1/x.png">'
    yield "something fetched", with_body(image), "it fetches http://192.0.2.1/x.png"
    yield "a script that fails", with_body("<script>nothing()</script>"), "a script has failed"


def make_report(sluice, folder):
    """Runs the experiment; gives the page and the names of its figures."""
    file, out = os.path.join(folder, "page.toml"), os.path.join(folder, "out")
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(EXPERIMENT)
    # What comes out is not what is looked at here.
    run = [sluice, "sim", "run", file, "--out", out, "--no-expect", "--json"]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    report = subprocess.run([sluice, "report", out, "--json"], check=True, stdout=subprocess.PIPE)
    return os.path.join(out, "report.html"), json.loads(report.stdout)["figures"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sluice", default=os.path.join(ROOT, "target", "release", "sluice"),
                        help="the command [default: %(default)s]")
    args = parser.parse_args()
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if not program:
        print("no Chromium is installed; next: make deps")
        print("0 passed, 1 failed")
        return 1
    if not os.access(args.sluice, os.X_OK):
        print(f"{args.sluice} is not there; next: make build")
        print("0 passed, 1 failed")
        return 1
    counts = {True: 0, False: 0}

    def say(title, wrong):
        counts[not wrong] += 1
        print(f"{'FAILED' if wrong else 'ok':7} {title}")
        for text in wrong[:10]:
            print(f"        {text}")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as folder:
        path, names = make_report(args.sluice, folder)
        asked = [name for name in names if not name.startswith(EVERY_REPORT)]
        wrong = [] if len(asked) == FIGURES else [f"{len(asked)} figures and not {FIGURES}: {asked}"]
        wrong += [f"no {name}" for name in EVERY_REPORT if not any(n.startswith(name) for n in names)]
        say("the report has the figures that were asked for", wrong)
        browser = Browser(program, os.path.join(folder, "profile"))
        try:
            say("the page is whole and legible", complaints(browser, path, names))
            with open(path, encoding="utf-8") as stream:
                page = stream.read()
            for title, text, part in spoiled(page, names[0]):
                other = os.path.join(folder, "spoiled.html")
                with open(other, "w", encoding="utf-8") as stream:
                    stream.write(text)
                found = complaints(browser, other, names)
                unnoticed = [f"not noticed: {part}; found {found[:3]}"]
                say(f"noticed: {title}", [] if any(part in each for each in found) else unnoticed)
        finally:
            browser.close()
    print(f"{counts[True]} passed, {counts[False]} failed")
    return 1 if counts[False] else 0


if __name__ == "__main__":
    leave(main)
