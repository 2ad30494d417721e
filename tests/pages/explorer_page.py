"""What the tests of the explorer page share: one browser, pages made by rapt, and saved pictures looked at."""

import base64
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
import zlib

from browser import Browser, require

RAPT = None
SVG = "{http://www.w3.org/2000/svg}"


def tool(*arguments):
    """The finished process of rapt."""
    return subprocess.run([RAPT, *map(str, arguments)], check=True, capture_output=True, text=True, timeout=120)


def rapt(*arguments):
    return tool(*arguments).stdout


def serve(*arguments):
    """A server of `rapt explore`, and its address."""
    server = subprocess.Popen([RAPT, "explore", *map(str, arguments), "--serve"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    return server, server.stdout.readline().split()[0]


def end(server):
    """Asks a server to end, as a shell does; its exit status."""
    server.terminate()
    status = server.wait(timeout=20)
    server.stdout.close()
    server.stderr.close()
    return status


def png_size(content):
    """Width and height of a PNG whose parts are all sound."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts, size = 8, [], None
    while at < len(content):
        length, kind = struct.unpack(">I4s", content[at:at + 8])
        body = content[at + 8:at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack(">I", content[at + 8 + length:at + 12 + length])[0]
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
        parts.append(kind)
        at += 12 + length
    assert parts[-1] == b"IEND" and b"IDAT" in parts
    return size


class PageTest(unittest.TestCase):
    """One browser for all tests; a test opens its own page."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        downloads = cls.path / "downloads"
        downloads.mkdir()
        cls.page = Browser(downloads=downloads)
        cls.prepare()

    @classmethod
    def tearDownClass(cls):
        cls.page.close()
        cls.folder.cleanup()

    @classmethod
    def prepare(cls):
        pass

    def tearDown(self):
        self.assertEqual(self.page.errors(), [], "the console complained")
        self.page.messages.clear()

    def open(self, target):
        self.page.open(target)
        self.page.wait("document.body.dataset.ready === 'true'")
        self.settle()

    def settle(self):
        """Until everything asked for is drawn."""
        self.page.driver.execute_async_script(
            "const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 60);")

    def pixels(self):
        """A fingerprint of what the canvas shows."""
        return self.page.run("""const c = document.querySelector("#canvas");
            const copy = document.createElement("canvas");
            copy.width = c.width; copy.height = c.height;
            const to = copy.getContext("2d", {willReadFrequently: true});
            to.drawImage(c, 0, 0);
            const d = to.getImageData(0, 0, c.width, c.height).data;
            let h = 0; for (let n = 0; n < d.length; n += 4) h = (h * 31 + d[n] + 3 * d[n + 1] + 7 * d[n + 2]) | 0; return h;""")

    def saved_svg(self, selector="[data-export=view-svg]"):
        self.page.click(selector)
        return xml.etree.ElementTree.fromstring(self.page.downloaded(".svg")[1])

    def words(self):
        """All texts of the saved view."""
        return [t.text for t in self.saved_svg().iter(f"{SVG}text")]

    def png(self, selector="[data-export=view-png]"):
        """The saved picture's name and size, the colour of its paper, and how far what is drawn stays from its edges."""
        self.page.click(selector)
        name, content = self.page.downloaded(".png")
        size = png_size(content)
        seen = self.page.driver.execute_async_script("""
            const [url, done] = arguments;
            const image = new Image();
            image.onload = () => {
              const c = document.createElement("canvas");
              [c.width, c.height] = [image.width, image.height];
              const to = c.getContext("2d");
              to.drawImage(image, 0, 0);
              const d = to.getImageData(0, 0, c.width, c.height).data;
              const margins = [c.width, c.height, c.width, c.height];
              for (let y = 0; y < c.height; ++y)
                for (let x = 0; x < c.width; ++x) {
                  const n = 4 * (y * c.width + x);
                  if (Math.abs(d[n] - d[0]) + Math.abs(d[n + 1] - d[1]) + Math.abs(d[n + 2] - d[2]) < 30) continue;
                  [x, y, c.width - 1 - x, c.height - 1 - y].forEach((m, k) => { margins[k] = Math.min(margins[k], m); });
                }
              done({paper: [d[0], d[1], d[2]], margins});
            };
            image.src = url;""", "data:image/png;base64," + base64.b64encode(content).decode())
        return name, size, seen["paper"], seen["margins"]


def main():
    """Of a file of tests: FILE_test.py RAPT"""
    global RAPT
    if len(sys.argv) < 2:
        sys.exit("takes the path of rapt")
    RAPT = sys.argv.pop(1)
    require()
    unittest.main(module="__main__", verbosity=1)
