#!/usr/bin/env python3
"""The explorer page, driven in headless Chromium: explorer_test.py RAPT"""

import arrays
from browser import Browser
from explorer_page import SVG, PageTest, end, main, rapt, serve


class Arrays(PageTest):
    @classmethod
    def prepare(cls):
        tokens = [f"t{n}" for n in range(12)]
        arrays.weights(cls.path / "plain", 2, 3, 12, 12, tokens)
        rapt("explore", cls.path / "plain", "--out", cls.path / "plain.html")
        arrays.weights(cls.path / "hostile", 1, 2, len(arrays.HOSTILE), len(arrays.HOSTILE), arrays.HOSTILE)
        rapt("explore", cls.path / "hostile", "--out", cls.path / "hostile.html")
        arrays.weights(cls.path / "grid", 2, 3, 12, 12)
        arrays.write_npy(cls.path / "grid" / "image.npy", [6, 8], [n / 48 for n in range(48)])
        (cls.path / "grid" / "metrics.jsonl").write_text("".join(
            f'{{"epoch": {e}, "centers": {[[[0.1 * e, 0.2 * e]] * 3] * 2}, "covariances": {[[[[1, 0], [0, 0.5]]] * 3] * 2}}}\n'
            for e in range(1, 5)))
        rapt("explore", cls.path / "grid", "--grid", "3,4", "--out", cls.path / "grid.html")

    def test_hover_gives_the_value(self):
        self.open(self.path / "plain.html")
        # Find the cell of query 5 and key 5 in the drawing itself, then point at it.
        drawing = self.saved_svg()
        place = {t.text: (float(t.get("x")), float(t.get("y"))) for t in drawing.iter(f"{SVG}text")}
        rows = [t for t in drawing.iter(f"{SVG}text") if t.text == "t5"]
        self.assertEqual(len(rows), 2)
        row = next(t for t in rows if t.get("text-anchor") == "end")
        column = next(t for t in rows if t is not row)
        self.assertTrue(place)
        self.page.pointer("pointermove", float(column.get("x")), float(row.get("y")))
        self.assertEqual(self.page.text("#readout"), "query 5 “t5” → key 5 “t5”: 0.9082")
        self.page.pointer("pointerleave", 0, 0)
        self.assertEqual(self.page.text("#readout"), "")

    def test_click_chooses_a_head(self):
        self.open(self.path / "plain.html")
        before = self.pixels()
        self.page.click("[data-layer='1'][data-head='2']")
        self.settle()
        self.assertNotEqual(self.pixels(), before)
        self.assertEqual(self.page.run("return document.querySelector('#thumbs [aria-pressed=true]').dataset.head"), "2")
        self.assertIn("layer 1", self.page.text("#facts"))

    def test_keys_move_and_switch(self):
        self.open(self.path / "plain.html")
        self.page.press("ArrowRight")
        self.page.press("ArrowDown")
        chosen = self.page.run("return {...document.querySelector('#thumbs [aria-pressed=true]').dataset}")
        self.assertEqual((chosen["layer"], chosen["head"]), ("1", "1"))
        before = self.pixels()
        self.page.press("2")
        self.settle()
        self.assertEqual(self.page.run("return document.querySelector('#views [aria-pressed=true]').dataset.view"), "lines")
        self.assertNotEqual(self.pixels(), before)
        theme = self.page.run("return document.documentElement.dataset.theme")
        self.page.press("t")
        self.assertNotEqual(self.page.run("return document.documentElement.dataset.theme"), theme)
        self.page.press("?")
        self.assertTrue(self.page.run("return document.querySelector('#keys').open"))

    def test_wheel_and_drag_move_the_map(self):
        self.open(self.path / "plain.html")
        whole = self.pixels()
        self.page.pointer("wheel", 300, 250, deltaY=-500)
        self.settle()
        closer = self.pixels()
        self.assertNotEqual(closer, whole)
        self.page.pointer("pointerdown", 400, 300)
        self.page.pointer("pointermove", 340, 240)
        self.page.pointer("pointerup", 340, 240)
        self.settle()
        self.assertNotEqual(self.pixels(), closer)
        self.page.press("0")
        self.page.pointer("pointerleave", 0, 0)
        self.settle()
        self.assertEqual(self.pixels(), whole)

    def test_contrast_changes_colours(self):
        self.open(self.path / "plain.html")
        seen = set()
        for name in ("linear", "root", "log", "row"):
            self.page.run("const s = document.querySelector('#contrast'); s.value = arguments[0]; s.dispatchEvent(new Event('change'));", name)
            self.settle()
            seen.add(self.pixels())
        self.assertEqual(len(seen), 4)

    def test_filters_leave_heads_out(self):
        self.open(self.path / "plain.html")
        self.assertEqual(self.page.text("#filter-count"), "6 of 6 heads")
        self.page.run("""const s = document.querySelector("[data-filter=entropy-most]"); s.value = 30; s.dispatchEvent(new Event("input"));""")
        # The second layer spreads more weight everywhere.
        self.assertEqual(self.page.text("#filter-count"), "3 of 6 heads")
        out = self.page.run("return [...document.querySelectorAll('#thumbs .out')].map((b) => b.dataset.layer)")
        self.assertEqual(out, ["1", "1", "1"])
        self.page.press("ArrowDown")
        self.assertIn("layer 0", self.page.text("#facts"))
        self.page.click("#filter-reset")
        self.assertEqual(self.page.text("#filter-count"), "6 of 6 heads")

    def test_lines_follow_the_weights(self):
        self.open(self.path / "plain.html")
        self.page.press("2")
        self.settle()
        lines = list(self.saved_svg().iter(f"{SVG}line"))
        # Head 0 looks at its own place, and at nothing else by more than the threshold.
        self.assertEqual(len(lines), 12)
        for line in lines:
            self.assertEqual(line.get("y1"), line.get("y2"))
        self.page.click("[data-chip='1']")
        self.settle()
        self.assertEqual(len(list(self.saved_svg().iter(f"{SVG}line"))), 24)
        self.page.run("const s = document.querySelector('#least'); s.value = 100; s.dispatchEvent(new Event('input'));")
        self.settle()
        self.assertEqual(len(list(self.saved_svg().iter(f"{SVG}line"))), 0)

    def test_exports_are_valid(self):
        self.open(self.path / "plain.html")
        for view in ("map", "lines"):
            self.page.click(f"#views button[data-view={view}]")
            self.settle()
            drawing = self.saved_svg()
            self.assertEqual(drawing.tag, f"{SVG}svg")
            words = [t.text for t in drawing.iter(f"{SVG}text")]
            for n in range(12):
                self.assertEqual(words.count(f"t{n}"), 2, view)
            self.assertTrue(self.png()[0].startswith(view))
        drawing = self.saved_svg("[data-export=overview-svg]")
        self.assertEqual(len(list(drawing.iter(f"{SVG}image"))), 6)
        self.assertTrue(self.png("[data-export=overview-png]")[0].startswith("heads"))

    def test_hostile_tokens_are_inert(self):
        self.open(self.path / "hostile.html")
        for view in ("map", "lines"):
            self.page.click(f"#views button[data-view={view}]")
            self.settle()
            for y in range(90, 500, 15):
                self.page.pointer("pointermove", 200, y)
                self.page.pointer("pointermove", 500, y)
            words = [t.text for t in self.saved_svg().iter(f"{SVG}text")]
            self.assertTrue(any(w and w.startswith("<script>") for w in words), view)
        self.assertIsNone(self.page.run("return window.hacked === undefined ? null : window.hacked"))
        self.assertEqual(self.page.run("return document.querySelectorAll('img, svg, iframe').length"), 0)

    def test_clicking_a_pixel(self):
        self.open(self.path / "grid.html")
        self.assertEqual(self.page.run("return document.querySelector('#views [aria-pressed=true]').dataset.view"), "image")
        words = [t.text for t in self.saved_svg().iter(f"{SVG}text")]
        self.assertIn("from the place in row 0, column 0", words)
        before = self.pixels()
        self.page.pointer("pointerdown", 180, 140)
        self.page.pointer("pointerup", 180, 140)
        self.settle()
        words = [t.text for t in self.saved_svg().iter(f"{SVG}text")]
        self.assertIn("from the place in row 1, column 1", words)
        self.assertNotEqual(self.pixels(), before)

    def test_epochs_move_the_centres(self):
        self.open(self.path / "grid.html")
        self.assertEqual(self.page.text("#epoch-number").strip(), "4")
        last = self.saved_svg()
        self.assertEqual(len(list(last.iter(f"{SVG}ellipse"))), 6 * 3)
        self.page.press(",")
        self.settle()
        self.assertEqual(self.page.text("#epoch-number").strip(), "3")
        at = lambda d: [(e.get("cx"), e.get("cy")) for e in d.iter(f"{SVG}ellipse")]
        self.assertNotEqual(at(self.saved_svg()), at(last))

    def test_dark_from_the_system(self):
        dark = Browser(dark=True)
        try:
            dark.open(self.path / "plain.html")
            dark.wait("document.body.dataset.ready === 'true'")
            self.assertEqual(dark.run("return document.documentElement.dataset.theme"), "dark")
            self.assertEqual(dark.errors(), [])
        finally:
            dark.close()


class Run(PageTest):
    @classmethod
    def prepare(cls):
        rapt("train", "reverse", "--model", "transformer", "--width", 16, "--heads", 2, "--layers", 2, "--inner", 16,
             "--epochs", 1, "--train-size", 60, "--valid-size", 5, "--test-size", 5, "--max-length", 6, "--batch", 16,
             "--out", cls.path / "run")
        rapt("explore", cls.path / "run", "--text", "abcd", "--target", "dcba", "--out", cls.path / "run.html")
        cls.server, cls.address = serve(cls.path / "run", "--text", "abcd")

    @classmethod
    def tearDownClass(cls):
        status = end(cls.server)
        super().tearDownClass()
        assert status == 0, status

    def test_encoder_decoder_and_source(self):
        self.open(self.path / "run.html")
        groups = self.page.run("return [...document.querySelectorAll('#groups button')].map((b) => b.dataset.group)")
        self.assertEqual(groups, ["encoder", "decoder", "cross"])
        seen = set()
        for group in groups:
            self.page.click(f"#groups button[data-group={group}]")
            self.settle()
            words = [t.text for t in self.saved_svg().iter(f"{SVG}text")]
            self.assertEqual("<begin>" in words, group == "decoder")
            self.assertEqual("<end>" in words, group == "cross")
            seen.add(self.pixels())
        self.assertEqual(len(seen), 3)

    def test_steps(self):
        self.open(self.path / "run.html")
        self.page.press("3")
        self.settle()
        self.assertTrue(self.page.text("#readout").startswith("step 0: “d” with probability"))
        first = self.pixels()
        self.page.click("#step-next")
        self.settle()
        self.assertTrue(self.page.text("#readout").startswith("step 1: “c”"))
        self.assertNotEqual(self.pixels(), first)
        words = [t.text for t in self.saved_svg().iter(f"{SVG}text")]
        self.assertIn("Step 1: what was likely", words)
        self.page.run("const s = document.querySelector('#step'); s.value = 4; s.dispatchEvent(new Event('input'));")
        self.settle()
        self.assertTrue(self.page.text("#readout").startswith("step 4: “<end>”"))
        self.page.run("const c = document.querySelector('#step-mean'); c.checked = false; c.dispatchEvent(new Event('change'));")
        self.settle()
        words = [t.text for t in self.saved_svg().iter(f"{SVG}text")]
        self.assertTrue(any(w and w.endswith("decoder.0.cross, head 0") for w in words), words)

    def test_a_text_is_run_live(self):
        self.open(self.address)
        self.page.run("document.querySelector('#live-text').value = 'bbdaa'; document.querySelector('#live-target').value = 'ab';"
                      "document.querySelector('#live-run').click();")
        self.page.wait("document.querySelector('#subtitle').textContent.startsWith('bbdaa → ab')")
        self.settle()
        words = [t.text for t in self.saved_svg().iter(f"{SVG}text")]
        self.assertEqual(words.count("d"), 1)
        self.page.run("document.querySelector('#live-text').value = ''; document.querySelector('#live-run').click();")
        self.page.wait("!document.querySelector('#message').hidden")
        self.assertIn("expected at least one token", self.page.text("#message"))
        # The browser itself notes the refusal.
        self.page.errors()
        self.page.messages[:] = [m for m in self.page.messages if "400" not in m]

    def test_served_maps_are_those_of_the_page(self):
        pictures = []
        for target in (self.path / "run.html", self.address):
            self.open(target)
            if target == self.address:
                self.page.run("document.querySelector('#live-target').value = 'dcba'; document.querySelector('#live-run').click();")
                self.page.wait("document.querySelector('#subtitle').textContent.includes('→ dcba')")
            self.settle()
            self.page.click("#groups button[data-group=encoder]")
            self.settle()
            pictures.append([t.text for t in self.saved_svg().iter(f"{SVG}text")])
        self.assertEqual(pictures[0], pictures[1])

    def test_tags_in_a_live_text_are_inert(self):
        self.open(self.address)
        self.page.run("document.querySelector('#live-text').value = '<img src=x onerror=window.hacked=1>';"
                      "document.querySelector('#live-run').click();")
        self.page.wait("document.querySelector('#subtitle').textContent.startsWith('<img')")
        self.settle()
        self.assertIsNone(self.page.run("return window.hacked === undefined ? null : window.hacked"))


if __name__ == "__main__":
    main()
