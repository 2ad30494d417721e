#!/usr/bin/env python3
"""How many sheets the whole quick report takes in print: report_paper_test.py RAPT"""

import base64
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, require

RAPT = None
SHEETS = 15  # docs/reproduce.md


class ReportOnPaperTest(unittest.TestCase):
    def test_the_whole_report_has_few_sheets(self):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report"
            # Claims about a busy machine's speed may fail; what is printed is the same.
            done = subprocess.run([RAPT, "reproduce", "--quick", "--out", str(report)], capture_output=True, text=True)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.check_epochs(report)
            parts = subprocess.run([RAPT, "reproduce", "--list"], check=True, capture_output=True, text=True).stdout
            page = Browser()
            try:
                page.open(report / "index.html")
                page.wait("document.readyState === 'complete'")
                self.assertEqual(page.run("return document.querySelectorAll('nav a[href*=part-]').length"),
                                 len(re.findall(r"^\S", parts, re.MULTILINE)))
                paper = page.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
            finally:
                page.close()
            sheets = len(re.findall(rb"/Type */Page\b(?!s)", base64.b64decode(paper["data"])))
            print(f"{sheets} sheets")
            self.assertGreater(sheets, SHEETS // 2)
            self.assertLessEqual(sheets, SHEETS)

    def check_epochs(self, report):
        """What a part says of its training is what its runs have."""
        sections = re.split(r'<section id="part-', (report / "index.html").read_text())[1:]
        said = {section[:section.index('"')]: section for section in sections}
        for part in ("reversal", "case", "positions", "images", "multitask"):
            lines = {len(path.read_text().splitlines()) for path in (report / "runs" / part).glob("**/metrics.jsonl")}
            self.assertEqual(len(lines), 1, f"{part}: {lines}")
            titles = re.findall(r"<(?:caption|summary)>[^<]*after (\d+) epochs?", said[part])
            here = re.findall(r"This quick run train(?:s|ed)(?: a small model)?(?: for)? (\d+) epochs?", said[part])
            self.assertGreater(len(titles), 0, part)
            self.assertEqual({int(number) for number in titles + here}, lines, part)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("takes the path of rapt")
    RAPT = sys.argv.pop(1)
    require()
    unittest.main(verbosity=1)
