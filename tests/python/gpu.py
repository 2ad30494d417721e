"""Whether there is a GPU to test on: modules of tests call `needed` first."""

import pytest

import rapt


def needed():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU that PyTorch can use", allow_module_level=True)
    if rapt._core.cuda_devices() == 0:
        pytest.skip("the module was built without RAPT_CUDA, or its kernels find no GPU", allow_module_level=True)


def busy(torch, milliseconds=20):
    """Work on the current stream that others do not wait for: who ignores the stream reads what is not there yet."""
    torch.cuda._sleep(int(milliseconds * 2_000_000))
