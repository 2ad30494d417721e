#!/usr/bin/env python3
"""The report of `rapt reproduce`, opened in headless Chromium: report_test.py RAPT"""

import base64
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, require

RAPT = None

# The darker of two colours over the lighter, as WCAG defines it.
CONTRAST = """
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const light = color => {
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      const linear = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const ground = element => {
      for (let e = element; e; e = e.parentElement) {
        const color = getComputedStyle(e).backgroundColor;
        if (color !== 'rgba(0, 0, 0, 0)') return color;
      }
      return 'white';
    };
    let worst = [99, ''];
    for (const e of document.querySelectorAll('h1, h2, p, a, th, td, dt, dd, code, caption, figcaption, summary, span')) {
      const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < worst[0]) worst = [ratio, e.tagName + ' ' + e.textContent.slice(0, 40)];
    }
    return worst;
"""


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.report = pathlib.Path(cls.folder.name) / "report"
        subprocess.run([RAPT, "reproduce", "examples", "order", "convolution", "shared_attention", "--quick", "--out",
                        str(cls.report)], check=True, capture_output=True, timeout=200)
        cls.pages = {dark: Browser(dark=dark) for dark in (False, True)}

    @classmethod
    def tearDownClass(cls):
        for page in cls.pages.values():
            page.close()
        cls.folder.cleanup()

    def open(self, dark=False, width=1400):
        page = self.pages[dark]
        page.driver.set_window_size(width, 900)
        page.open(self.report / "index.html")
        page.wait("document.readyState === 'complete'")
        return page

    def test_loads_without_complaints_and_asks_for_nothing(self):
        for dark in (False, True):
            page = self.open(dark)
            self.assertEqual(page.errors(), [])
            self.assertEqual(page.run("return performance.getEntriesByType('resource').map(e => e.name)"), [])

    def test_follows_the_colours_of_the_system_and_can_be_read(self):
        grounds = []
        for dark in (False, True):
            page = self.open(dark)
            grounds.append(page.run("return getComputedStyle(document.body).backgroundColor"))
            ratio, where = page.run(CONTRAST)
            self.assertGreaterEqual(ratio, 4.5, where)
            paper = page.run("return getComputedStyle(document.querySelector('figure .page')).fill")
            self.assertEqual(paper, grounds[-1], "pictures have the colour of the page")
        self.assertNotEqual(*grounds)

    def test_fits_narrow_and_wide_screens(self):
        for width in (500, 900, 1400, 2200):
            page = self.open(width=width)
            over = page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            self.assertLessEqual(over, 0, f"at {width} pixels")

    def test_contents_lead_to_their_parts(self):
        page = self.open()
        targets = page.run("return [...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
        self.assertEqual(targets, ["#claims", "#part-examples", "#part-order", "#part-convolution", "#part-shared_attention"])
        page.run("document.documentElement.style.scrollBehavior = 'auto'")
        page.click("nav a[href='#part-convolution']")
        page.wait("Math.abs(document.querySelector('#part-convolution').getBoundingClientRect().top) < 80")

    def test_works_by_keyboard(self):
        from selenium.webdriver.common.keys import Keys
        page = self.open()
        page.driver.find_element("tag name", "body").send_keys(Keys.TAB)
        self.assertEqual(page.run("return document.activeElement.className"), "skip")
        self.assertGreaterEqual(page.run("return document.activeElement.getBoundingClientRect().left"), 0)
        summary = page.driver.find_element("css selector", "summary")
        self.assertFalse(page.run("return document.querySelector('details').open"))
        summary.send_keys(Keys.ENTER)
        self.assertTrue(page.run("return document.querySelector('details').open"))

    def test_paper_is_light_and_has_no_menu(self):
        page = self.open(dark=True)
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        try:
            self.assertEqual(page.run("return getComputedStyle(document.querySelector('nav')).display"), "none")
            self.assertEqual(page.run("return getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
            self.assertEqual(page.run("return getComputedStyle(document.querySelector('figure .page')).fill"), "rgb(255, 255, 255)")
        finally:
            page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        page.run("window.dispatchEvent(new Event('beforeprint'))")
        self.assertTrue(page.run("return [...document.querySelectorAll('details')].every(d => d.open)"))

    def test_paper_has_few_pages(self):
        page = self.open()
        paper = page.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
        pages = len(re.findall(rb"/Type */Page\b(?!s)", base64.b64decode(paper["data"])))
        # These four parts hold all long tables of numbers; the other seven add about five pages.
        self.assertGreater(pages, 1)
        self.assertLessEqual(pages, 10)

    def test_pictures_have_names_for_those_who_do_not_see_them(self):
        page = self.open()
        count = page.run("return document.querySelectorAll('figure > svg').length")
        named = page.run("""return [...document.querySelectorAll('figure > svg')].filter(s => s.getAttribute('role') === 'img'
            && s.querySelector(':scope > title').textContent && s.querySelector(':scope > desc').textContent).length""")
        self.assertGreater(count, 5)
        self.assertEqual(named, count)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("takes the path of rapt")
    RAPT = sys.argv.pop(1)
    require()
    unittest.main(verbosity=1)
