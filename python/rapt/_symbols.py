"""Numbers and conditions that are not known yet: what is done to them is written down as a formula's text."""

import math
import numbers
import re
import threading

import numpy as np

# What can be done to them, by the names that NumPy's and PyTorch's functions have; rapt.formulas fills it.
FUNCTIONS: dict = {}

# A tracer of a function of PyTorch makes its captured tensors parameters: tracer_of[thread].symbol(tensor) is their symbol.
tracer_of: dict = {}


def _tracer():
    if not tracer_of:
        return None
    return tracer_of[0] if 0 in tracer_of else tracer_of.get(threading.get_ident())  # 0: torch.compile, which asks no thread


def _tensor_symbol(x):
    """The symbol of a captured tensor; None: x is none, or just a number."""
    if not hasattr(x, "requires_grad"):
        return None
    tracer = _tracer()
    if tracer is not None:
        return tracer.symbol(x)
    if x.requires_grad:
        raise TypeError("formula: expected an argument of the function for a tensor that requires a gradient, got a captured one")
    return None


def name_of(function):
    """The name that FUNCTIONS has for a function of PyTorch; an operator from elsewhere keeps its namespace, which none there has."""
    name = getattr(function, "__name__", str(function))
    if type(function).__module__ == "torch._ops":
        space, name = str(function).split(".")[:2]
        return name if space == "aten" else f"ops.{space}.{name}"
    if name == "where" and hasattr(function, "__objclass__"):  # the method has its condition in the middle
        return "Tensor.where"
    return name.removeprefix("special_")


def call(name, arguments, options):
    """A function of FUNCTIONS, with whatever arguments a caller gave it."""
    try:
        return FUNCTIONS[name](*arguments, **options)
    except TypeError as error:
        if ": expected " in str(error):
            raise
        raise TypeError(f"formula: {name}: expected arguments that formulas know, got others: {error}") from None


class Symbol:
    """A number or a condition that is not known yet: what is done to it is written down."""

    __array_priority__ = 1000

    limits = (-math.inf, math.inf)  # what it lies between, where that is known

    def __init__(self, text, is_condition=False, is_whole=0, limits=limits):
        # whole: 1 where a cast to integers changes nothing, 2 where the type is one of integers
        self.text, self.is_condition, self.is_whole = text, is_condition, is_whole
        self.limits = (0, 1) if is_condition else limits
        if tracer_of and 0 not in tracer_of:
            tracer = _tracer()
            if tracer is not None:
                tracer.wrote()

    def __repr__(self):
        return f"Symbol({self.text})"

    def __bool__(self):
        raise TypeError(f"formula: expected where(condition, a, b) for a choice, got `if` or `and` on {self.text}")

    def __getitem__(self, index):
        indices = index if isinstance(index, tuple) else (index,)
        if all(n is None or n is Ellipsis for n in indices):
            return self.unsqueeze(0)
        return Symbol(f"{self.text}[{', '.join(number(n) for n in indices)}]")

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if method != "__call__" or options or ufunc.__name__ not in FUNCTIONS:
            raise TypeError(f"formula: expected a function of the language, got numpy.{ufunc.__name__}")
        return call(ufunc.__name__, inputs, {})

    def __array_function__(self, function, types, arguments, options):
        if options or function.__name__ not in FUNCTIONS:
            raise TypeError(f"formula: expected a function of the language, got numpy.{function.__name__}")
        return call(function.__name__, arguments, {})

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        name = name_of(function)
        if name not in FUNCTIONS:
            raise TypeError(f"formula: expected a function of the language, got torch.{name}")
        return call(name, arguments, options or {})

    def __getattr__(self, name):
        if name.startswith("_"):  # protocols of Python and of libraries, which ask who has them
            raise AttributeError(name)
        raise TypeError(f"formula: expected an attribute or a method that formulas have, got .{name} of a number that is not known yet")

    on_bits = None  # of those that know the numbers they stand for: on_bits(operator, *operands)

    def _of_tracer(self, name):
        tracer = _tracer()
        if tracer is None:
            raise TypeError(f"formula: expected .{name} of a symbol of flex_attention, got that of another")
        return tracer

    @property
    def device(self):
        return self._of_tracer("device").device

    @property
    def dtype(self):
        return self._of_tracer("dtype").type_of(self)

    shape, ndim = (), 0

    def dim(self):
        return 0

    def size(self, dim=None):
        if dim is not None:
            raise TypeError(f"formula: size: expected none of a number's dimensions, which has 0, got {dim}")
        return ()

    def numel(self):
        return 1

    def is_floating_point(self):
        return not self.is_condition and self.is_whole < 2

    def clone(self, **_):
        return self

    contiguous = clone

    def unsqueeze(self, dim):  # a number beside a row
        return self

    squeeze = unsqueeze

    def detach(self):
        if self.is_floating_point():
            raise TypeError("formula: detach: expected an index or a condition, which have no gradient, got a number that has one")
        return self

    def to(self, *given, **options):
        """A cast to a type of numbers: those of integers truncate, of fractions there is one kind. Devices mean nothing."""
        for x in (*given, *options.values()):
            kind = _kind(x) if isinstance(x, Symbol) else _type_name(x)
            if kind == "bool":
                return self.bool()
            if "int" in kind:
                return FUNCTIONS["trunc"](self).as_integer()
            if kind:
                return Symbol(number(self), is_whole=1 if whole(self) else 0, limits=self.limits)
        return self

    def as_integer(self):
        """This whole number, as one whose type is one of integers."""
        return Symbol(self.text, is_whole=2, limits=self.limits)

    type = astype = type_as = to

    def float(self):
        return self.to("float")

    def int(self):
        return self.to("int")

    double = half = bfloat16 = float
    long = short = char = byte = int

    def new_full(self, size, fill_value, **options):
        sizes = (size,) if isinstance(size, numbers.Integral) else tuple(size)
        if any(n != 1 for n in sizes):
            raise TypeError(f"formula: expected the size of one number, (), got {sizes}")
        return full_like(self, fill_value, **options)

    def new_ones(self, *size, **options):
        return self.new_full(options.pop("size", size[0] if len(size) == 1 else size), 1, **options)

    def new_zeros(self, *size, **options):
        return self.new_full(options.pop("size", size[0] if len(size) == 1 else size), 0, **options)

    def new_tensor(self, value, **options):
        return full_like(self, value, **options)

    def bool(self):
        return Symbol(f"({condition(self)})", True)


_CASTS = {"long": "int64", "short": "int16", "half": "float16", "double": "float64"}
_TYPE = re.compile(r"(bfloat|float|u?int)\d*|bool|double|half|long|short")


def _type_name(given):
    """The name of what a cast was given, where that is a type: torch.int32, np.int32, int, "int32"."""
    if given is None or isinstance(given, (bool, Symbol)):
        return ""
    text = given.__name__ if isinstance(given, type) else str(getattr(given, "dtype", given))
    text = text.rsplit(".", 1)[-1].lower().replace("tensor", "")
    return _CASTS.get(text, text) if _TYPE.fullmatch(text) else ""


def limits(x):
    """Two numbers that x lies between."""
    if isinstance(x, Symbol):
        return x.limits
    if isinstance(x, (int, float)):
        return x, x
    return (float(x), float(x)) if isinstance(x, numbers.Real) else Symbol.limits


def corners(function, *x):
    """The limits of a function that is monotone in each of its arguments."""
    low, high = limits(x[0])
    if len(x) == 1:
        found = [function(low), function(high)]
    else:
        found = [function(a, b) for a in (low, high) for b in limits(x[1])]
    if any(n != n for n in found):  # 0·∞, ∞/∞
        return Symbol.limits
    return min(found), max(found)


def _kind(x):
    return "bool" if x.is_condition else "int" if x.is_whole == 2 else "float"


def whole(*x):
    """What a Symbol's is_whole says, of all of them."""
    return min(map(_whole, x))


def _whole(x):
    if isinstance(x, Symbol):
        return 2 if x.is_condition else x.is_whole
    if isinstance(x, (int, float)):  # asked first: numbers of a graph that may change have no other attributes
        return 2 if isinstance(x, int) else 0
    if hasattr(x, "is_floating_point"):  # a captured tensor
        return 0 if x.is_floating_point() else 2
    return 2 if isinstance(x, numbers.Integral) else 0


def number(x):
    """The text of a number."""
    if isinstance(x, Symbol):
        return f"where({x.text}, 1, 0)" if x.is_condition else x.text
    if isinstance(x, (bool, np.bool_)):
        return "1" if x else "0"
    if isinstance(x, numbers.Number):
        value = float(x)
        if value != value:
            raise TypeError("formula: expected a number, got NaN")
        if value in (float("inf"), -float("inf")):
            return "inf" if value > 0 else "(-inf)"
        # Formatted, not repr: torch.compile then takes a number that changes from call to call as it is now.
        text = f"{int(value)}" if value == int(value) and abs(value) < 2**53 else f"{value}"
        return f"({text})" if value < 0 else text
    found = _tensor_symbol(x)
    if found is not None:
        return number(found)
    if hasattr(x, "item") and getattr(x, "ndim", None) == 0:
        return number(x.item())
    raise TypeError(f"formula: expected a number, got {type(x).__name__}")


def condition(x):
    found = None if isinstance(x, Symbol) else _tensor_symbol(x)
    x = x if found is None else found
    if isinstance(x, Symbol):
        return x.text if x.is_condition else f"{x.text} != 0"
    if hasattr(x, "item"):
        x = x.item()
    return "0 == 0" if x else "0 != 0"


def full_like(x, fill_value, dtype=None, **_):
    """A number of x's type, or of another; where it is stored means nothing."""
    if isinstance(fill_value, Symbol):
        made = fill_value
    else:
        made = Symbol(number(fill_value), is_whole=whole(fill_value), limits=limits(fill_value))
    return made.to(x if dtype is None else dtype)
