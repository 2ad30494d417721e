"""A headless Chromium for the tests of pages, through Debian's chromium-driver and python3-selenium."""

import contextlib
import os
import pathlib
import shutil
import sys
import time

SKIPPED = 77  # what ctest counts as skipped


def require():
    """Imports Selenium, or ends the program as skipped with the reason."""
    missing = [tool for tool in ("chromium", "chromedriver") if not shutil.which(tool)]
    try:
        import selenium.webdriver  # noqa: F401
    except ImportError:
        missing.append("python3-selenium")
    if missing:
        print(f"skipped: not installed: {', '.join(missing)}")
        sys.exit(SKIPPED)


class Browser:
    def __init__(self, downloads=None, width=1400, height=900, dark=False):
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        options = Options()
        options.binary_location = shutil.which("chromium")
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},{height}",
                     "--hide-scrollbars", "--no-first-run", "--disable-background-networking"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        if dark:
            arguments.append("--force-dark-mode")
        for argument in arguments:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        if downloads:
            # A page that saves several files would have to ask.
            options.add_experimental_option("prefs", {"profile.default_content_setting_values.automatic_downloads": 1})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.driver.set_page_load_timeout(120)
        self.downloads = pathlib.Path(downloads) if downloads else None
        if downloads:
            self.driver.execute_cdp_cmd("Browser.setDownloadBehavior",
                                        {"behavior": "allow", "downloadPath": str(downloads)})
        self.messages = []

    def open(self, target):
        """A path or an address."""
        text = str(target)
        self.driver.get(text if "://" in text else pathlib.Path(text).resolve().as_uri())

    def errors(self):
        """What the console complained of since the page was opened."""
        self.messages += [entry["message"] for entry in self.driver.get_log("browser")
                          if entry["level"] in ("SEVERE", "WARNING")]
        return self.messages

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition, seconds=30, what="the page"):
        """Waits until a JavaScript expression is true; its value."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(f"return ({condition});")
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"{what}: waited in vain for {condition}; console: {self.errors()}")
            time.sleep(0.03)

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click();", selector)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent;", selector)

    def pointer(self, kind, x, y, selector="#canvas", **more):
        """A pointer or wheel event at a place of an element."""
        self.run("""
            const [selector, kind, x, y, more] = arguments;
            const element = document.querySelector(selector);
            const box = element.getBoundingClientRect();
            const init = {clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true, pointerId: 1, ...more};
            element.setPointerCapture = () => {};
            element.dispatchEvent(kind === "wheel" ? new WheelEvent(kind, init) : new PointerEvent(kind, init));
        """, selector, kind, x, y, more)

    def press(self, key):
        self.run("""document.activeElement.blur();
            document.body.dispatchEvent(new KeyboardEvent("keydown", {key: arguments[0], bubbles: true, cancelable: true}));""", key)

    def downloaded(self, suffix, seconds=20):
        """The bytes of the one new download that ends so; it is removed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            files = [f for f in self.downloads.iterdir() if f.name.endswith(suffix)]
            busy = list(self.downloads.glob("*.crdownload"))
            if files and not busy:
                content = files[0].read_bytes()
                name = files[0].name
                files[0].unlink()
                return name, content
            time.sleep(0.05)
        raise AssertionError(f"no download that ends in {suffix}: {list(self.downloads.iterdir())}")

    def shot(self, path):
        self.driver.save_screenshot(str(path))

    def close(self):
        self.driver.quit()


@contextlib.contextmanager
def browser(**options):
    one = Browser(**options)
    try:
        yield one
    finally:
        one.close()
