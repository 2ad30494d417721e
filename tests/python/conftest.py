"""`make test` runs what needs NumPy alone. `make test-python` sets RAPT_TEST_ALL: then a library that is missing is an error."""

import os

import pytest

NEEDS = {
    "test_torch.py": "torch",
    "test_torch_graphs.py": "torch",
    "test_torch_inputs.py": "torch",
    "test_cuda.py": "torch",
    "test_cuda_others.py": "torch",
    "test_modules.py": "torch",
    "test_flex.py": "torch",
    "test_flex_mods.py": "torch",
    "test_flex_blocks.py": "torch",
    "test_flex_kinds.py": "torch",
    "test_transformers.py": "transformers",
    "test_jax.py": "jax",
    "test_onnx.py": "onnx",
    "test_examples.py": "torch",
    "test_cifar10.py": "torch",
    "test_scenes.py": "torch",
    "test_types.py": "mypy",
}

collect_ignore = [] if os.environ.get("RAPT_TEST_ALL") else list(NEEDS)


_skipped = {}


@pytest.hookimpl
def pytest_runtest_logreport(report):
    _note(report)


@pytest.hookimpl
def pytest_collectreport(report):
    _note(report)


def _note(report):
    if report.skipped and isinstance(report.longrepr, tuple):
        _skipped[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")


@pytest.hookimpl
def pytest_sessionfinish(session):
    """RAPT_SKIPPED: the file whose lines scripts/run_tests and .ci/run print, one for each test that did not run."""
    path = os.environ.get("RAPT_SKIPPED")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"  {name}: {reason}\n" for name, reason in sorted(_skipped.items()))
            file.writelines(f"  tests/python/{name}: `make test-python` runs it\n" for name in collect_ignore)
