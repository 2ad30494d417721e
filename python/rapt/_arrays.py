"""Arrays of the caller's kind: how results are made, and how what the engine cannot read becomes what it can."""

import functools
import sys
import warnings

import numpy as np


@functools.lru_cache(maxsize=None)
def numpy_type(name):
    """The NumPy type of that name; bfloat16 is the one of ml_dtypes."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise TypeError("bfloat16: expected the package ml_dtypes for arrays of NumPy, got none; pip install ml_dtypes") from error
    return np.dtype(ml_dtypes.bfloat16)


def numpy_empty(shape, name):
    return np.empty(shape, name if name != "bfloat16" else numpy_type(name))


def is_torch(array):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_jax(array):
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


def is_cupy(array):
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def allocator(array):
    """(allocate, finish): allocate(shape, type name) makes what the engine writes, finish(it) is of the array's kind."""
    if isinstance(array, np.ndarray):
        return numpy_empty, _same
    if is_torch(array):
        import torch

        device = array.device
        return (lambda shape, name: torch.empty(shape, dtype=getattr(torch, name), device=device)), _same
    if is_jax(array):
        for device in array.devices():
            if device.platform != "cpu":
                raise ValueError(f"rapt: expected arrays of JAX on cpu outside rapt.attend and its gradients, got one on {device}")
        return numpy_empty, functools.partial(_of_namespace, _namespace(array))
    if is_cupy(array):
        return functools.partial(_cupy_empty, array.device), _same
    if hasattr(array, "__array_namespace__"):
        return numpy_empty, functools.partial(_of_namespace, _namespace(array))
    return numpy_empty, _same


def _cupy_empty(device, shape, name):
    import cupy

    with device:
        return cupy.empty(shape, numpy_type(name))


def stream_of(array):
    """The current stream of the library whose array lies on a GPU, as an address; None on a CPU."""
    if is_torch(array):
        if not array.is_cuda:
            return None
        import torch

        return torch.cuda.current_stream(array.device).cuda_stream
    if is_cupy(array):
        import cupy

        with array.device:
            return cupy.cuda.get_current_stream().ptr
    return None


def on_device(array, value):
    """Numbers, lists and arrays of NumPy as an array beside one on a GPU: the few numbers of a parameter are copied."""
    if is_torch(array):
        import torch

        return value if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value, np.float32), device=array.device)
    import cupy

    with array.device:
        return value if isinstance(value, cupy.ndarray) else cupy.asarray(np.asarray(value, np.float32))


def _same(array):
    return array


def _namespace(array):
    if is_jax(array):
        import jax.numpy

        return jax.numpy
    return array.__array_namespace__()


def _of_namespace(namespace, array):
    if array.dtype.name != "bfloat16":  # of which NumPy makes no DLPack
        try:
            return namespace.from_dlpack(array)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
            pass
    return namespace.asarray(array)


def refuse_learning(operation, v, **arrays):
    """Where q is no tensor, the result is none either: a tensor that requires a gradient would silently get no gradient."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return
    params = arrays.pop("params") or {}
    arrays.update(params if hasattr(params, "keys") else {})
    arrays.update({f"v[{n}]": one for n, one in enumerate(v)} if isinstance(v, (list, tuple)) else {"v": v})
    for name, array in arrays.items():
        if isinstance(array, torch.Tensor) and array.requires_grad:
            raise TypeError(f"{operation}: q: expected a tensor of PyTorch where {name} requires a gradient, got another kind of array")


def refuse_learned(operation, **numbers):
    """Numbers of the call that are tensors which learn: they would silently get no gradient."""
    for name, value in numbers.items():
        if getattr(value, "requires_grad", False):
            import torch

            if torch.is_grad_enabled():
                way = "multiply q by it" if name == "scale" else "detach it"
                raise TypeError(f"{operation}: {name}: expected a number, got a tensor that requires a gradient, which would get none; {way}")


def warn_of_gradients(operation, *arrays):
    """Said once for every operation: the result of tensors that learn has no gradient."""
    if operation in _copied or not any(getattr(array, "requires_grad", False) for array in arrays):
        return
    import torch

    if torch.is_grad_enabled():
        _copied.add(operation)
        warnings.warn(
            f"{operation}: the result has no gradient, and tensors that learn were given; rapt.attend has one, "
            "or say torch.no_grad()",
            RuntimeWarning,
            stacklevel=3,
        )


def plain(array):
    """A tensor without its graph, which holds the numbers that it stands for: the engine reads memory."""
    return array.detach().resolve_conj().resolve_neg() if is_torch(array) else array


_copied = set()


def contiguous(array, operation, name):
    """A copy with contiguous rows. Said once for every argument: a copy costs what the caller may want to save."""
    if (operation, name) not in _copied:
        _copied.add((operation, name))
        warnings.warn(
            f"{operation}: {name}: the last dimension is not contiguous or a stride is negative, so every call copies the array",
            RuntimeWarning,
            stacklevel=3,
        )
    if is_torch(array):
        return array.contiguous()
    if is_cupy(array):
        import cupy

        return cupy.ascontiguousarray(array)
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(np.asarray(array))


def parameter(value, operation, name):
    """A Python number or a list of them as an array of float64."""
    try:
        return np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{operation}: {name}: expected numbers, got {value!r}") from error


def integers(like):
    """A function (shape, rank, columns) that makes what statistics counts in: [array, address] of int64 where `like` lies."""

    def make(shape, rank, columns):
        sizes = tuple(shape[3 - (rank - 1) :]) + ((columns,) if columns else ())
        if is_torch(like):
            import torch

            tensor = torch.empty(sizes, dtype=torch.int64, device=like.device)
            return tensor, tensor.data_ptr()
        if is_cupy(like):
            array = _cupy_empty(like.device, sizes, "int64")
            return array, array.data.ptr
        array = np.empty(sizes, np.int64)
        return array, array.ctypes.data

    return make
