"""What `help` shows: the options of every function, and examples that run."""

import doctest
import importlib
import inspect
import os
import sys

import pytest

import rapt
from rapt import _core, _options

# The module, and the library beyond NumPy that its examples need.
MODULES = {
    "_attend": None,
    "formulas": None,
    "notebook": None,
    "explorer": None,
    "onnx": None,
    "torch.functional": "torch",
    "torch.flex": "torch",
    "torch.modules": "torch",
    "transformers": "transformers",
}


def module_named(name):
    if MODULES[name] and not os.environ.get("RAPT_TEST_ALL"):
        pytest.skip("`make test-python` runs it")
    return importlib.import_module(f"rapt.{name}")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(module_named(name))
    assert result.failed == 0 and result.attempted > 1
    if "rapt.torch" in sys.modules:  # whose threads an example has given back
        _core.use_openmp(os.path.dirname(sys.modules["torch"].__file__), sys.modules["torch"].get_num_threads)


@pytest.mark.parametrize("name", [name for name, library in MODULES.items() if library])
def test_everything_public_has_one(name):
    module = module_named(name)
    public = rapt.torch.__all__ if name.startswith("torch.") else ["attention", "register", "record"]
    found = [getattr(module, n) for n in public if getattr(getattr(module, n, None), "__module__", "") == module.__name__]
    assert found and [f.__name__ for f in found if ">>> " not in f.__doc__] == []


@pytest.mark.parametrize("name", rapt.__all__)
def test_every_name_of_the_package_has_one(name):
    assert ">>> " in getattr(rapt, name).__doc__


def test_options_are_those_of_attend():
    options = [p for p in inspect.signature(rapt.attend).parameters.values() if p.kind is p.KEYWORD_ONLY and p.name != "return_lse"]
    # TypedDict keeps annotations as ForwardRef.
    typed = {name: getattr(kind, "__forward_arg__", kind) for name, kind in _options.Options.__annotations__.items()}
    assert typed == {p.name: p.annotation for p in options}


@pytest.mark.parametrize("function", [rapt.weights, rapt.statistics, rapt.gradients, rapt.partial, rapt.Plan])
def test_options_are_shown(function):
    parameters = inspect.signature(function).parameters
    assert set(_options.Options.__annotations__) <= set(parameters)
    assert all(p.kind is not p.VAR_KEYWORD and p.annotation is not p.empty for p in parameters.values())
