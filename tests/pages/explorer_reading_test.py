#!/usr/bin/env python3
"""What a reader of the explorer page meets, in headless Chromium: explorer_reading_test.py RAPT"""

import math
import random
import struct
import time

import arrays
from explorer_page import SVG, PageTest, end, main, rapt, serve, tool

ARABIC = "ابتثجحخد"
LONG = [f"a-rather-long-token-with-the-number-{n}" for n in range(9)]


def small_sequences(out, *more):
    rapt("train", *more, "--epochs", 1, "--batch", 16, "--out", out)


class Reading(PageTest):
    """Arrays: labels, saved pictures, values, filters."""

    @classmethod
    def prepare(cls):
        def page(name, layers, heads, queries, keys, tokens=None, files=()):
            arrays.weights(cls.path / name, layers, heads, queries, keys, tokens)
            for file, lines in files:
                (cls.path / name / file).write_text("".join(f"{line}\n" for line in lines))
            rapt("explore", cls.path / name, "--out", cls.path / f"{name}.html")

        page("letters", 2, 2, 9, 9, list("attent") + ["é", "👩‍👩‍👧", "ب"])
        page("long", 2, 2, 9, 9, LONG)
        page("mixed", 1, 2, 3, 3, ["a", "word", "b"])
        page("one", 1, 1, 9, 9, LONG)
        page("apart", 1, 2, 9, 9, None, [("queries.txt", LONG), ("keys.txt", list("abcdefghi"))])
        page("oblong", 1, 2, 4, 9)

    def dark(self):
        self.page.run("if (document.documentElement.dataset.theme !== 'dark') document.querySelector('#theme').click();")

    def test_single_characters_stand_upright(self):
        self.open(self.path / "letters.html")
        above = [t for t in self.saved_svg().iter(f"{SVG}text") if t.get("text-anchor") == "middle" and len(t.text) > 0
                 and not t.text[0].isdigit()]
        self.assertEqual([t.text.strip("\u2068\u2069") for t in above], list("attent") + ["é", "👩‍👩‍👧", "ب"])
        self.assertTrue(all(t.get("transform") is None for t in above))
        # Among words, which are turned.
        self.open(self.path / "long.html")
        turned = [t for t in self.saved_svg().iter(f"{SVG}text") if t.get("transform")]
        self.assertEqual([t.text for t in turned], LONG)
        self.open(self.path / "apart.html")
        self.assertFalse([t for t in self.saved_svg().iter(f"{SVG}text") if t.get("transform")])

    def test_saved_pictures_are_cropped_and_whole(self):
        for name in ("long", "letters"):
            self.open(self.path / f"{name}.html")
            for view in ("map", "lines"):
                self.page.click(f"#views button[data-view={view}]")
                self.settle()
                _, size, _, margins = self.png()
                frame = self.page.run("const f = document.querySelector('#frame'); return [f.clientWidth, f.clientHeight]")
                # Twelve pixels around, twice as large; a letter may be a little smaller than its line.
                for margin in margins:
                    self.assertGreaterEqual(margin, 20, (name, view, margins))
                    self.assertLessEqual(margin, 40, (name, view, margins))
                if name == "letters":
                    self.assertLess(size[0], 2 * frame[0])
                words = self.words()
                if name == "long":
                    for token in LONG:
                        self.assertEqual(words.count(token), 2, view)
        self.page.click("#views button[data-view=map]")
        margins = self.png("[data-export=overview-png]")[3]
        self.assertTrue(all(20 <= margin <= 40 for margin in margins), margins)

    def test_saved_pictures_are_light_and_have_names(self):
        self.open(self.path / "long.html")
        self.dark()
        self.page.click("[data-layer='1'][data-head='1']")
        self.settle()
        shown = self.pixels()
        name, _, paper, _ = self.png()
        self.assertEqual((name, paper), ("map-layer-1-head-1.png", [255, 255, 255]))
        self.assertEqual(self.pixels(), shown)
        self.page.run("document.querySelector('#paper').value = 'dark';")
        self.assertLess(max(self.png()[2]), 60)
        self.page.run("document.querySelector('#paper').value = 'light';")
        self.page.press("2")
        self.page.click("[data-chip='0']")
        self.settle()
        self.assertEqual(self.png()[0], "lines-layer-1-heads-0-1.png")
        self.assertEqual(self.png("[data-export=overview-png]")[:1], ("heads-attention.png",))

    def test_values_are_at_the_pointer(self):
        self.open(self.path / "long.html")
        boxes = """const t = document.querySelector('#tip').getBoundingClientRect();
            const c = document.querySelector('#canvas').getBoundingClientRect();
            return [t.left - c.left, t.top - c.top, t.right - c.left, t.bottom - c.top, c.width, c.height];"""
        seen = 0
        for x, y in ((260, 300), (300, 330), (500, 500), (560, 600)):
            self.page.pointer("pointermove", x, y)
            text = self.page.text("#readout")
            if not text:
                continue
            seen += 1
            self.assertEqual(self.page.text("#tip"), text)
            left, top, right, bottom, width, height = self.page.run(boxes)
            away = math.hypot(max(left - x, 0, x - right), max(top - y, 0, y - bottom))
            self.assertTrue(0 < away < 30, away)
            self.assertTrue(0 <= left and right <= width and 0 <= top and bottom <= height)
        self.assertGreaterEqual(seen, 2)
        self.page.pointer("pointerleave", 0, 0)
        self.assertTrue(self.page.run("return document.querySelector('#tip').hidden"))

    def test_distance_where_it_means_something(self):
        for name, offered in (("long", True), ("apart", False), ("oblong", False)):
            self.open(self.path / f"{name}.html")
            found = [self.page.run("return document.querySelector('[data-filter=distance-least]') !== null"),
                     "Distance" in self.page.text("#facts"),
                     "distance" in self.page.run("return document.querySelector('#thumbs button').title")]
            self.assertEqual(found, [offered] * 3, name)

    def test_one_head_has_no_filters(self):
        shown = "return document.querySelector('#filters').getClientRects().length > 0"
        self.open(self.path / "one.html")
        self.assertFalse(self.page.run(shown))
        self.open(self.path / "long.html")
        self.assertTrue(self.page.run(shown))

    def test_a_phone_gets_the_map_first(self):
        try:
            self.page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                             {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True})
            self.open(self.path / "long.html")
            frame, overview, wide = self.page.run("""
                const box = (s) => document.querySelector(s).getBoundingClientRect();
                return [[box("#frame").top, box("#frame").bottom, box("#frame").width], box("#overview").top,
                        document.documentElement.scrollWidth];""")
            self.assertLess(frame[0], 250)
            self.assertLessEqual(frame[1], min(844, overview))
            self.assertGreater(frame[1] - frame[0], 300)
            self.assertLessEqual(wide, 390)
            # A finger asks by touching.
            for kind in ("pointerdown", "pointerup", "pointerleave"):
                self.page.pointer(kind, frame[2] / 2, 250, pointerType="touch")
            self.assertRegex(self.page.text("#tip"), "query . .* → key . ")
            self.assertFalse(self.page.run("return document.querySelector('#tip').hidden"))
            # Two of them come closer.
            self.assertEqual(len(set(LONG) & set(self.words())), len(LONG))
            self.page.pointer("pointerdown", 180, 250, pointerId=1, pointerType="touch")
            self.page.pointer("pointerdown", 220, 250, pointerId=2, pointerType="touch")
            self.page.pointer("pointermove", 300, 250, pointerId=2, pointerType="touch")
            for finger in (1, 2):
                self.page.pointer("pointerup", 200, 250, pointerId=finger, pointerType="touch")
            self.settle()
            self.assertIn(len(set(LONG) & set(self.words())), range(1, len(LONG)))
        finally:
            self.page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def test_numbers_begin_with_0(self):
        self.open(self.path / "long.html")
        self.assertEqual(self.page.run("return [...document.querySelectorAll('#thumbs .column')].map((e) => e.textContent)"), ["0", "1"])
        self.assertEqual(self.page.run("return [...document.querySelectorAll('#thumbs .layer')].map((e) => e.textContent)"), ["", "0", "1"])
        self.assertIn("head 0", [t.text for t in self.saved_svg("[data-export=overview-svg]").iter(f"{SVG}text")])


class Runs(PageTest):
    """Arabic, one head, and scenes."""

    @classmethod
    def prepare(cls):
        rng = random.Random(5)
        lines = {"".join(rng.choice(ARABIC) for _ in range(rng.randint(3, 6))) for _ in range(60)}
        (cls.path / "arabic.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in sorted(lines)))
        small_sequences(cls.path / "arabic", "--data", cls.path / "arabic.tsv", "--attention", "dot", "--hidden", 8)
        cls.said = tool("explore", cls.path / "arabic", "--text", "ابZتZ", "--target", "تQب", "--out", cls.path / "arabic.html").stderr
        rapt("explore", cls.path / "arabic", "--text", "ابتث", "--target", "ثت", "--out", cls.path / "pure.html")
        small_sequences(cls.path / "scenes", "scenes", "--size", 16, "--train-size", 4, "--valid-size", 2, "--test-size", 3,
                        "--width", 8, "--inner", 8, "--window", 4)
        rapt("explore", cls.path / "scenes", "--image", 2, "--out", cls.path / "scenes.html")
        cls.server, cls.address = serve(cls.path / "arabic", "--text", "ابت")

    @classmethod
    def tearDownClass(cls):
        status = end(cls.server)
        super().tearDownClass()
        assert status == 0, status

    def ranges(self, selector, *parts):
        """Left and right edge of each part of an element's text, as it is drawn."""
        return self.page.run("""
            const [selector, ...parts] = arguments;
            const walker = document.createTreeWalker(document.querySelector(selector), NodeFilter.SHOW_TEXT);
            const nodes = [];
            while (walker.nextNode()) nodes.push(walker.currentNode);
            return parts.map(([part, after]) => {
              let skip = after;
              for (const node of nodes) {
                const at = node.data.indexOf(part, Math.min(skip, node.data.length));
                if (at < 0) { skip = Math.max(0, skip - node.data.length); continue; }
                const range = document.createRange();
                range.setStart(node, at);
                range.setEnd(node, at + part.length);
                const box = range.getBoundingClientRect();
                return [box.left, box.right];
              }
              return null;
            });""", selector, *parts)

    def test_arabic_stays_on_its_side(self):
        for page, parts in (("pure", (["ابتث", 0], ["→", 0], ["ثت", 4])), ("arabic", (["ابZتZ", 0], ["→", 0], ["تQب", 0]))):
            self.open(self.path / f"{page}.html")
            source, arrow, target = self.ranges("#subtitle", *parts)
            self.assertLessEqual(source[1], arrow[0] + 1, page)
            self.assertLessEqual(arrow[1], target[0] + 1, page)
        # Query before key before the number, though both are Arabic.
        for x, y in ((90, 60), (140, 60), (90, 150)):
            self.page.pointer("pointermove", x, y)
            text = self.page.text("#tip")
            self.assertRegex(text, "^query ")
            key = text.index("key")
            parts = self.ranges("#tip", ["query", 0], [text[text.index("“") + 1:text.index("”")], 0], ["→", 0], ["key", 0],
                                [text[text.index("“", key) + 1:text.index("”", key)], key], ["0.", key])
            edges = [part[0] for part in parts]
            self.assertEqual(edges, sorted(edges), text)
        self.page.press("3")
        self.settle()
        number, word, probability = self.ranges("#readout", ["step 0", 0], ["ت", 0], ["with", 0])
        self.assertTrue(number[1] <= word[0] and word[1] <= probability[0])

    def test_unknown_symbols_are_named(self):
        rest = "is not in the vocabulary; it is read as unknown"
        *warnings, wrote = self.said.splitlines()
        self.assertEqual(warnings, [f"rapt: explore: 'Z' {rest}", f"rapt: explore: target: 'Q' {rest}"])
        self.assertRegex(wrote, r"^wrote .*arabic\.html: 1 layer, 1 head, \d+ kB$")
        self.open(self.path / "arabic.html")
        lines = "return [...document.querySelectorAll('#warnings p')].map((p) => p.textContent)"
        self.assertEqual(self.page.run(lines), [f"'Z' {rest}", f"target: 'Q' {rest}"])
        self.open(self.address)
        self.assertTrue(self.page.run("return document.querySelector('#warnings').hidden"))
        self.page.run("document.querySelector('#live-text').value = 'ابx'; document.querySelector('#live-run').click();")
        self.page.wait("!document.querySelector('#warnings').hidden")
        self.assertEqual(self.page.run(lines), [f"'x' {rest}"])

    def test_one_head_is_not_averaged(self):
        self.open(self.path / "arabic.html")
        self.page.press("3")
        self.settle()
        self.assertTrue(self.page.run("return document.querySelector('#step-mean') === null"))
        self.assertTrue(any(word.endswith("head 0") for word in self.words()), self.words())
        self.assertNotIn("Distance", self.page.text("#facts"))

    def test_steps_have_a_scale(self):
        self.open(self.path / "arabic.html")
        self.page.press("3")
        self.settle()
        drawing = self.saved_svg()
        boxes = [r for r in drawing.iter(f"{SVG}rect") if r.get("height") == "24"]
        scale = [r for r in drawing.iter(f"{SVG}rect") if r.get("height") == "8"]
        self.assertEqual(len(scale), 64)
        # The scale ends at the largest weight, which is told at the pointer.
        values = []
        for box in boxes[:5]:
            self.page.pointer("pointermove", float(box.get("x")) + 4, float(box.get("y")) + 4)
            self.assertRegex(self.page.text("#tip"), "^key . ")
            values.append(float(self.page.text("#tip").split(": ")[1]))
        self.assertAlmostEqual(sum(values), 1, delta=2e-3)
        labels = [t for t in drawing.iter(f"{SVG}text") if t.get("font-size") == "10"]
        self.assertEqual(labels[0].text, "0")
        self.assertAlmostEqual(float(labels[2].text), max(values), delta=0.01)
        margins = self.png()[3]
        self.assertTrue(all(margin >= 20 for margin in margins), margins)
        self.assertEqual(self.png()[0].split("-")[:2], ["steps", "0"])

    def test_scenes_have_grids_of_their_own(self):
        self.open(self.path / "scenes.html")
        groups = self.page.run("return [...document.querySelectorAll('#groups button')].map((b) => b.dataset.group)")
        self.assertEqual(groups, ["encoder", "decoder"])
        self.page.click("#groups button[data-group=decoder]")
        self.settle()
        words = self.words()
        self.assertIn("decoder.0.shared — scaled_dot, 4 windows", words)
        # The place in the middle of the picture: (4, 4) of 8 × 8 cells, (2, 2) of 4 × 4.
        self.page.run("window.scrollTo(0, 0)")
        drawing = self.saved_svg()
        photo = next(drawing.iter(f"{SVG}image"))
        x, y, side = (float(photo.get(name)) for name in ("x", "y", "width"))
        self.page.pointer("pointerdown", x + side * 0.55, y + side * 0.55)
        self.page.pointer("pointerup", x + side * 0.55, y + side * 0.55)
        self.settle()
        drawing = self.saved_svg()
        self.assertIn("from the place in row 4, column 4", [t.text for t in drawing.iter(f"{SVG}text")])
        marks = [r for r in drawing.iter(f"{SVG}rect") if r.get("stroke") == "#ff2d55"]
        shares = set()
        for mark, image in zip(marks, drawing.iter(f"{SVG}image")):
            shares.add(tuple(round((float(mark.get(a)) - float(image.get(a))) / float(image.get(b)), 3)
                             for a, b in (("x", "width"), ("y", "height"))))
        self.assertEqual(shares, {(0.5, 0.5)})
        self.assertEqual(self.png()[0], "image-2-row-4-column-4.png")


    def test_texts_beside_a_small_image_keep_apart(self):
        try:
            for height in (600, 844):
                self.page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                                 {"width": 390, "height": height, "deviceScaleFactor": 1, "mobile": True})
                self.open(self.path / "scenes.html")
                self.page.click("[data-export=view-svg]")
                boxes = self.page.run("""
                    const drawing = new DOMParser().parseFromString(arguments[0], "image/svg+xml").documentElement;
                    document.body.append(drawing);
                    const boxes = [...drawing.querySelectorAll("text")].map((t) => {
                      const {left, top, right, bottom} = t.getBoundingClientRect();
                      return [t.textContent, left, top, right, bottom];
                    });
                    drawing.remove();
                    return boxes;""", self.page.downloaded(".svg")[1].decode())
                self.assertGreaterEqual(len(boxes), 3)
                for n, (one, left, top, right, bottom) in enumerate(boxes):
                    for other, *box in boxes[n + 1:]:
                        self.assertFalse(left < box[2] and box[0] < right and top < box[3] - 3 and box[1] < bottom - 3,
                                         (height, one, other))
        finally:
            self.page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


class Long(PageTest):
    """8,192 tokens, which only a server can show."""

    LENGTH, DIM, HEADS = 8192, 8, 2

    @classmethod
    def prepare(cls):
        arrays.scored(cls.path / "long", 1, cls.HEADS, cls.LENGTH, cls.DIM)
        cls.server, cls.address = serve(cls.path / "long")

    @classmethod
    def tearDownClass(cls):
        status = end(cls.server)
        super().tearDownClass()
        assert status == 0, status

    def weight(self, query, key):
        """softmax(q·k/√D) of head 0 by its definition."""
        def numbers(name):
            content = (self.path / "long" / name).read_bytes()
            count = self.LENGTH * self.DIM
            return struct.unpack_from(f"<{count}f", content, 10 + struct.unpack_from("<H", content, 8)[0])
        q, k = numbers("q.npy"), numbers("k.npy")
        q = q[query * self.DIM:(query + 1) * self.DIM]
        e = [math.exp(sum(a * b for a, b in zip(q, k[j * self.DIM:(j + 1) * self.DIM])) / math.sqrt(self.DIM))
             for j in range(self.LENGTH)]
        return e[key] / sum(e)

    def test_the_page_stays_usable(self):
        self.page.open(self.address)
        self.page.wait("document.body.dataset.ready === 'true'", seconds=120)
        self.settle()
        self.assertEqual(self.page.text("#message"), "")
        self.page.pointer("pointermove", 300, 300)
        self.assertIn("the largest near it", self.page.text("#tip"))
        blank = self.pixels()
        # Closer, until the values themselves are there, also under a pointer that never rests.
        self.page.run("""
            const c = document.querySelector("#canvas"), b = c.getBoundingClientRect();
            window.restless = setInterval(() =>
                c.dispatchEvent(new PointerEvent("pointermove", {clientX: b.left + 300, clientY: b.top + 300})), 10);""")
        for _ in range(14):
            self.page.pointer("wheel", 300, 300, deltaY=-400)
        self.page.wait("""(() => {
            const c = document.querySelector("#canvas"), b = c.getBoundingClientRect();
            c.dispatchEvent(new PointerEvent("pointermove", {clientX: b.left + 300, clientY: b.top + 300}));
            return /: [0-9.e-]+$/.test(document.querySelector("#tip").textContent); })()""", seconds=60)
        self.page.run("clearInterval(window.restless);")
        self.assertNotEqual(self.pixels(), blank)
        # "query 17 → key 25: 0.001", where tokens have no names.
        words = self.page.text("#tip").replace(":", "").split()
        self.assertAlmostEqual(float(words[5]) / self.weight(int(words[1]), int(words[4])), 1, delta=2e-2)
        # Lines and another head, while events are answered.
        start = time.monotonic()
        self.page.press("2")
        self.page.press("ArrowRight")
        self.settle()
        self.assertLess(time.monotonic() - start, 30)
        self.page.wait("document.querySelector('#facts').textContent.includes('Head1')")
        self.assertEqual(self.page.text("#message"), "")


if __name__ == "__main__":
    main()
