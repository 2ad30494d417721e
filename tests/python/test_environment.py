"""scripts/python_env and `make python-module` where packages, headers or virtual environments are missing."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/usr/bin/env bash\n" + text)
    path.chmod(0o755)


@pytest.fixture
def tree(tmp_path):
    """A tree with the Makefile and python_env alone; cmake writes down what it is asked."""
    script(tmp_path / "scripts/bootstrap", "exit 0\n")
    shutil.copy(ROOT / "scripts/python_env", tmp_path / "scripts/python_env")
    shutil.copy(ROOT / "Makefile", tmp_path / "Makefile")
    script(tmp_path / "bin/cmake", f'echo "$*" >> {tmp_path}/asked\n')
    return tmp_path


def make(tree):
    environment = {**os.environ, "PATH": f"{tree}/bin:{os.environ['PATH']}", "PIP_NO_INDEX": "1", "MAKEFLAGS": ""}
    environment.pop("PYTHONPATH", None)
    result = subprocess.run(["make", "python-module"], cwd=tree, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return (tree / "asked").read_text(), result.stderr


def fake_environment(tree, header, nanobind):
    """A virtual environment whose Python knows packages' folders, and answers as told."""
    packages = tree / "build/python/venv/lib/python3.11/site-packages"
    for name in ("numpy", "pytest", "ml_dtypes", "nanobind"):
        (packages / name).mkdir(parents=True)
    script(
        tree / "build/python/venv/bin/python",
        f'if [[ $1 == -c ]]; then exit {0 if header else 1}; fi\necho {tree}/nanobind_cmake; exit {0 if nanobind else 1}\n',
    )


def test_without_virtual_environments(tree):
    script(tree / "bin/python3", "exit 1\n")
    asked, said = make(tree)
    assert "-DRAPT_BUILD_PYTHON=OFF" in asked and "makes no virtual environments" in said


def test_without_packages(tree):
    script(tree / "bin/python3", f'exec {sys.executable} -m venv --without-pip "${{@: -1}}"\n')
    asked, said = make(tree)
    assert "-DRAPT_BUILD_PYTHON=OFF" in asked and "cannot be installed here" in said


@pytest.mark.parametrize("header, nanobind, said", [(False, True, "Python.h is missing"), (True, False, "nanobind cannot be imported")])
def test_without_a_header_or_nanobind(tree, header, nanobind, said):
    fake_environment(tree, header, nanobind)
    (tree / "build/python/ready").write_text("of an earlier run\n")
    asked, error = make(tree)
    assert "-DRAPT_BUILD_PYTHON=OFF" in asked and said in error
    assert not (tree / "build/python/ready").exists()


def test_with_everything(tree):
    fake_environment(tree, True, True)
    asked, _ = make(tree)
    assert "-DRAPT_BUILD_PYTHON=ON" in asked and f"-Dnanobind_DIR={tree}/nanobind_cmake" in asked
