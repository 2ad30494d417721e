"""The Python blocks of README.md and docs/: those of a page run one after the other, in one program."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = {}
for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    if blocks:
        PAGES[str(page.relative_to(ROOT))] = blocks


def test_there_are_pages():
    assert {"README.md", "docs/api.md", "docs/python.md"} <= set(PAGES) and len(PAGES["docs/python.md"]) >= 5


@pytest.mark.parametrize("page", PAGES)
def test_page(page, tmp_path):
    if any(re.search(r"^import (torch|jax|transformers)", block, re.M) for block in PAGES[page]):
        if not os.environ.get("RAPT_TEST_ALL"):
            pytest.skip("`make test-python` runs it")
    # Where librapt_attend.so is, for the page that calls it through ctypes.
    libraries = os.pathsep.join(filter(None, [os.environ.get("RAPT_LIBRARIES"), os.environ.get("LD_LIBRARY_PATH")]))
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries, "PYTHONPATH": paths}
    command = [sys.executable, "-c", "\n".join(PAGES[page])]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
