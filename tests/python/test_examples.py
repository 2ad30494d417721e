"""Every script in examples/python, and the code blocks of docs/python.md."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples" / "python").glob("*.py"))
PAGE = (ROOT / "docs" / "python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def test_there_are_five():
    assert len(SCRIPTS) >= 5 and len(BLOCKS) >= 5


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script):
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0 and result.stdout, result.stderr


def test_the_page():
    """The blocks run one after the other, in one module."""
    result = subprocess.run([sys.executable, "-c", "\n".join(BLOCKS)], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
