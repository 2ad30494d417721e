#!/usr/bin/env python3
"""Opens pages in headless Chromium and fails where the console complains.

    tests/pages/check_page.py FILE.html|ADDRESS… [--shots DIR]

Each page is opened light and dark; --shots leaves a picture of each.
"""

import pathlib
import sys

from browser import browser, require


def check(targets, shots=None):
    """The complaints, as lines of text."""
    found = []
    for dark in (False, True):
        with browser(dark=dark) as page:
            for n, target in enumerate(targets):
                page.open(target)
                page.wait("document.readyState === 'complete'")
                found += [f"{target}: {message}" for message in page.errors()]
                page.messages.clear()
                if shots:
                    pathlib.Path(shots).mkdir(parents=True, exist_ok=True)
                    page.shot(pathlib.Path(shots) / f"page-{n}-{'dark' if dark else 'light'}.png")
    return found


def main():
    arguments = sys.argv[1:]
    shots = None
    if "--shots" in arguments:
        at = arguments.index("--shots")
        shots = arguments[at + 1]
        del arguments[at:at + 2]
    if not arguments:
        sys.exit("takes at least one page")
    require()
    complaints = check(arguments, shots)
    print("\n".join(complaints) or f"{len(arguments)} pages without a complaint")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
