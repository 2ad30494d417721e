"""Rapt through its C interface (rapt/c.h), over the memory of PyTorch tensors."""

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int, c_int16, c_int32, c_int64, c_size_t, c_void_p

import torch

DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3, torch.bool: 4}
NORMALIZERS = {"softmax": 0, "argmax": 1, "sparsemax": 2, "entmax15": 3, "sigmoid": 4}
CAUSAL = {None: 0, "top_left": 1, "bottom_right": 2}


class Array(Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("device", c_int16), ("device_index", c_int16), ("shape", c_int64 * 4), ("strides", c_int64 * 4)]


class Parameter(Structure):
    _fields_ = [("name", c_char_p), ("value", Array)]


class Setting(Structure):
    _fields_ = [("name", c_char_p), ("value", c_double)]


class Options(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("score", c_char_p),
        ("parameters", POINTER(Parameter)),
        ("parameter_count", c_size_t),
        ("settings", POINTER(Setting)),
        ("setting_count", c_size_t),
        ("grid", c_int64 * 2),
        ("scale", c_double),
        ("has_scale", c_int32),
        ("normalizer", c_int32),
        ("softcap", c_double),
        ("bias", Array),
        ("mask", Array),
        ("causal", c_int32),
        ("has_window", c_int32),
        ("window_left", c_int64),
        ("window_right", c_int64),
        ("key_lengths", POINTER(c_int64)),
        ("key_length_count", c_size_t),
        ("query_starts", POINTER(c_int64)),
        ("key_starts", POINTER(c_int64)),
        ("start_count", c_size_t),
        ("threads", c_int32),
        ("path", c_int32),
        ("normalizer_parameters", POINTER(Parameter)),
        ("normalizer_parameter_count", c_size_t),
        ("first_query", POINTER(c_int64)),
        ("first_query_count", c_size_t),
        ("first_key", c_int64),
        ("has_first_key", c_int32),
        ("rotary_interleaved", c_int32),
        ("rotary_dims", c_int64),
        ("rotary_base", c_double),
        ("stream", c_void_p),
    ]


class Inputs(Structure):
    _fields_ = [("struct_size", c_size_t), ("q", Array), ("k", Array), ("v", POINTER(Array)), ("v_count", c_size_t)]


class Outputs(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("out", POINTER(Array)),
        ("out_count", c_size_t),
        ("lse", Array),
        ("weights", c_void_p),
        ("weights_count", c_size_t),
        ("statistics", c_void_p),
        ("saved", c_void_p),
    ]


class Gradients(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("q", Array),
        ("k", Array),
        ("v", POINTER(Array)),
        ("v_count", c_size_t),
        ("bias", Array),
        ("parameters", POINTER(Parameter)),
        ("parameter_count", c_size_t),
    ]


class RaptError(Exception):
    pass


def array_of(tensor):
    """The tensor aligned to the right: [H] is [1, 1, 1, H]."""
    if tensor.dim() > 4 or (tensor.shape[-1] > 1 and tensor.stride(-1) != 1):
        raise RaptError(f"a tensor of shape {tuple(tensor.shape)} and strides {tensor.stride()} cannot be passed")
    missing = 4 - tensor.dim()
    shape = [1] * missing + list(tensor.shape)
    strides = [0] * missing + list(tensor.stride())
    kind, index = (1, tensor.device.index or 0) if tensor.is_cuda else (0, 0)
    return Array(tensor.data_ptr(), DTYPES[tensor.dtype], kind, index, (c_int64 * 4)(*shape), (c_int64 * 4)(*strides))


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.rapt_last_error.restype = c_char_p
        self.c.rapt_version.restype = c_char_p
        self.c.rapt_isa.restype = c_char_p
        self.c.rapt_saved_create.restype = c_void_p
        self.c.rapt_saved_free.argtypes = [c_void_p]
        self.c.rapt_attend_forward.argtypes = [POINTER(Inputs), POINTER(Outputs), POINTER(Options)]
        self.c.rapt_attend_backward.argtypes = [
            POINTER(Inputs), POINTER(Array), POINTER(Array), c_void_p, POINTER(Gradients), POINTER(Options)]
        for name in ("options", "inputs", "outputs", "gradients"):
            getattr(self.c, f"rapt_{name}_init").argtypes = [c_void_p, c_size_t]

    def isa(self):
        return self.c.rapt_isa().decode()

    def version(self):
        return self.c.rapt_version().decode()

    def use_openmp_threads(self, folder):
        """Works on the threads of the OpenMP runtime that is loaded, first of all one from `folder`. Whether there is one."""
        if not hasattr(self.c, "rapt_use_openmp_threads"):
            return False
        return self.c.rapt_use_openmp_threads(folder.encode()) == 1

    def use_own_threads(self):
        self.c.rapt_use_host_threads(None)

    def made(self, kind, name):
        struct = kind()
        getattr(self.c, f"rapt_{name}_init")(byref(struct), ctypes.sizeof(struct))
        return struct

    def check(self, status):
        if status != 0:
            raise RaptError(self.c.rapt_last_error().decode())


class Attention:
    """One call, its arguments built once: forward() and backward() only cross the border."""

    def __init__(self, library, q, k, v, *, threads=0, score=None, parameters=None, grid=None, softcap=0.0, bias=None,
                 causal=None, window=None, normalizer="softmax", gradients=True, stream=None, starts=None):
        self.library = library
        self.out = torch.empty(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
        parameters = parameters or {}
        self.kept = [q, k, v, bias, parameters]
        options = library.made(Options, "options")
        options.score = score.encode() if score else None
        options.threads = threads
        options.stream = stream
        if starts:
            self.starts = (c_int64 * len(starts))(*starts)
            options.query_starts = options.key_starts = self.starts
            options.start_count = len(starts)
        options.softcap = softcap
        options.normalizer = NORMALIZERS[normalizer]
        options.causal = CAUSAL[causal]
        if window:
            options.has_window, options.window_left, options.window_right = 1, window[0], window[1]
        if grid:
            options.grid[0], options.grid[1] = grid
        if bias is not None:
            options.bias = array_of(bias)
        self.parameters = (Parameter * max(len(parameters), 1))(
            *[Parameter(name.encode(), array_of(value)) for name, value in parameters.items()])
        options.parameters = self.parameters
        options.parameter_count = len(parameters)
        self.options = options

        self.inputs = library.made(Inputs, "inputs")
        self.inputs.q, self.inputs.k = array_of(q), array_of(k)
        self.v = (Array * 1)(array_of(v))
        self.inputs.v, self.inputs.v_count = self.v, 1
        self.outputs = library.made(Outputs, "outputs")
        self.out_array = (Array * 1)(array_of(self.out))
        self.outputs.out, self.outputs.out_count = self.out_array, 1
        self.saved = c_void_p(library.c.rapt_saved_create())
        if gradients:
            self.prepare_gradients(q, k, v, bias, parameters)

    def prepare_gradients(self, q, k, v, bias, parameters):
        self.grads = {"q": torch.empty_like(q), "k": torch.empty_like(k), "v": torch.empty_like(v)}
        self.grad_out = torch.empty_like(self.out)
        self.grad_out_array = (Array * 1)(array_of(self.grad_out))
        wanted = self.library.made(Gradients, "gradients")
        wanted.q, wanted.k = array_of(self.grads["q"]), array_of(self.grads["k"])
        self.dv = (Array * 1)(array_of(self.grads["v"]))
        wanted.v, wanted.v_count = self.dv, 1
        if bias is not None:
            self.grads["bias"] = torch.empty_like(bias)
            wanted.bias = array_of(self.grads["bias"])
        # A parameter may be called v.
        for name, value in parameters.items():
            self.grads[f"parameter {name}"] = torch.empty_like(value)
        self.grad_parameters = (Parameter * max(len(parameters), 1))(
            *[Parameter(name.encode(), array_of(self.grads[f"parameter {name}"])) for name in parameters])
        wanted.parameters, wanted.parameter_count = self.grad_parameters, len(parameters)
        self.gradients = wanted

    def __del__(self):
        if getattr(self, "saved", None):
            self.library.c.rapt_saved_free(self.saved)

    def forward(self, keep=False):
        """keep: the row sums that backward() starts from."""
        self.outputs.saved = self.saved if keep else None
        self.library.check(self.library.c.rapt_attend_forward(
            byref(self.inputs), byref(self.outputs), byref(self.options)))
        return self.out

    def backward(self, saved=True):
        self.library.check(self.library.c.rapt_attend_backward(
            byref(self.inputs), self.out_array, self.grad_out_array, self.saved if saved else None,
            byref(self.gradients), byref(self.options)))
        return self.grads
