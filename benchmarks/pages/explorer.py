#!/usr/bin/env python3
"""How smoothly the explorer page moves: frames a second in headless Chromium, drawn without a GPU.

    benchmarks/pages/explorer.py build/release/rapt

512 tokens × 8 layers × 8 heads as one page, then 8,192 tokens served. Every frame gets an event: the map is dragged and
zoomed, lines are scrolled, heads are changed. For the served page also the seconds until what is shown is complete.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "pages"))
import arrays  # noqa: E402
from browser import browser, require  # noqa: E402

FRAMES = """
    const [kind, frames, done] = arguments;
    const canvas = document.querySelector("#canvas");
    const box = canvas.getBoundingClientRect();
    canvas.setPointerCapture = () => {};
    const send = (type, x, y, more = {}) => {
      const init = {clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true, pointerId: 1, ...more};
      canvas.dispatchEvent(type === "wheel" ? new WheelEvent(type, init) : new PointerEvent(type, init));
    };
    const acts = {
      drag: (n) => send("pointermove", 500 + 120 * Math.sin(n / 9), 350 + 120 * Math.cos(n / 7)),
      zoom: (n) => send("wheel", 500, 350, {deltaY: n % 60 < 30 ? -40 : 40}),
      hover: (n) => send("pointermove", 300 + (n * 7) % 500, 200 + (n * 5) % 400),
      scroll: (n) => send("wheel", 500, 350, {deltaY: n % 80 < 40 ? 37 : -37}),
      heads: (n) => document.body.dispatchEvent(new KeyboardEvent("keydown", {key: n % 14 < 7 ? "ArrowRight" : "ArrowLeft", bubbles: true})),
    };
    if (kind === "drag") send("pointerdown", 500, 350);
    const times = [];
    const frame = (now) => {
      times.push(now);
      if (times.length > frames) {
        if (kind === "drag") send("pointerup", 500, 350);
        const gaps = times.slice(1).map((t, n) => t - times[n]).sort((a, b) => a - b);
        done({rate: 1000 * (times.length - 1) / (times[times.length - 1] - times[0]), slow: gaps[Math.floor(gaps.length * 0.95)]});
        return;
      }
      acts[kind](times.length);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
"""


def measure(page, name, kinds, frames=150):
    for kind in kinds:
        result = page.driver.execute_async_script(FRAMES, kind, frames)
        print(f"  {name:8} {kind:8} {result['rate']:6.1f} frames/s   95 % of them within {result['slow']:5.1f} ms")


def views(page):
    page.press("+")
    page.press("+")
    measure(page, "map", ["drag", "zoom", "hover", "heads"])
    page.click("#views button[data-view=lines]")
    time.sleep(1)
    measure(page, "lines", ["scroll", "hover", "heads"])
    page.click("#views button[data-view=map]")


def main():
    require()
    rapt = sys.argv[1] if len(sys.argv) > 1 else "build/release/rapt"
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        folder = pathlib.Path(folder)
        page.driver.set_script_timeout(300)
        page.run("return 1;")
        print("512 tokens, 8 layers, 8 heads, one page:")
        arrays.scored(folder / "large", 8, 8, 512, 16)
        begin = time.monotonic()
        subprocess.run([rapt, "explore", folder / "large", "--causal", "top_left", "--out", folder / "large.html"], check=True)
        print(f"  written in {time.monotonic() - begin:.1f} s")
        begin = time.monotonic()
        page.open(folder / "large.html")
        page.wait("document.body.dataset.ready === 'true'")
        print(f"  opened in {time.monotonic() - begin:.1f} s")
        views(page)

        print("8,192 tokens, 2 layers, 4 heads, served:")
        arrays.scored(folder / "long", 2, 4, 8192, 32)
        server = subprocess.Popen([rapt, "explore", folder / "long", "--causal", "top_left", "--serve"],
                                  stdout=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().split()[0]
            begin = time.monotonic()
            page.open(address)
            page.wait("document.querySelector('#thumbs button[title*=entropy]')", 120)
            print(f"  first head after {time.monotonic() - begin:.1f} s")
            page.wait("document.body.dataset.ready === 'true'", 300)
            print(f"  all 8 heads after {time.monotonic() - begin:.1f} s")
            for name, query in {"whole map": "top=0&bottom=8192&left=0&right=8192&height=768&width=768",
                                "part of it": "top=4000&bottom=4500&left=3000&right=4000&height=500&width=1000"}.items():
                begin = time.monotonic()
                page.driver.execute_async_script("fetch(arguments[0]).then((r) => r.arrayBuffer()).then(arguments[1]);",
                                                 f"/api/map?id=1&layer=1&head=2&{query}")
                print(f"  {name}: {time.monotonic() - begin:.2f} s")
            views(page)
        finally:
            server.terminate()
            server.wait()
        if page.errors():
            sys.exit(f"the console complained: {page.errors()}")


if __name__ == "__main__":
    main()
