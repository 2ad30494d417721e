"""Scores given at run time: a string, or a Python function that is traced once and becomes a string.

    rapt.formula("raw*scale - m*abs(i-j)", visible="j <= i")
    rapt.formula(lambda raw, scale, i, j, m: raw * scale - m * abs(i - j), visible=lambda i, j: j <= i)

docs/formulas.md has the language. A function's arguments are names of the language or of parameters; it may use Python's
operators, NumPy's functions, and those of this module.
"""

import inspect
import numbers
import re
import threading

import numpy as np

from . import _core

_NAMES = {"raw", "scale", "i", "j", "head", "batch", "queries", "keys", "row", "col", "q", "k", "w"}


# Whoever traces a function of PyTorch makes its captured tensors parameters: symbol_of[thread](tensor) is their symbol.
symbol_of: dict = {}


def _tensor_symbol(x):
    """The symbol of a captured tensor; None: x is none, or just a number."""
    if not hasattr(x, "requires_grad"):
        return None
    if symbol_of:
        find = symbol_of[0] if 0 in symbol_of else symbol_of.get(threading.get_ident())  # 0: torch.compile, which asks no thread
        if find is not None:
            return find(x)
    if x.requires_grad:
        raise TypeError("formula: expected an argument of the function for a tensor that learns, got a captured one")
    return None


class Symbol:
    """A number or a condition that is not known yet: what is done to it is written down."""

    __array_priority__ = 1000

    def __init__(self, text, is_condition=False, is_whole=False):
        self.text, self.is_condition, self.is_whole = text, is_condition, is_whole  # whole: a cast to integers changes nothing

    def __repr__(self):
        return f"Symbol({self.text})"

    def __bool__(self):
        raise TypeError(f"formula: expected where(condition, a, b) for a choice, got `if` or `and` on {self.text}")

    def __getitem__(self, index):
        indices = index if isinstance(index, tuple) else (index,)
        return Symbol(f"{self.text}[{', '.join(number(n) for n in indices)}]")

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if method != "__call__" or options or ufunc.__name__ not in FUNCTIONS:
            raise TypeError(f"formula: expected a function of the language, got numpy.{ufunc.__name__}")
        return FUNCTIONS[ufunc.__name__](*inputs)

    def __array_function__(self, function, types, arguments, options):
        if options or function.__name__ not in FUNCTIONS:
            raise TypeError(f"formula: expected a function of the language, got numpy.{function.__name__}")
        return FUNCTIONS[function.__name__](*arguments)

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        name = getattr(function, "__name__", str(function))
        if name not in FUNCTIONS:
            raise TypeError(f"formula: expected a function of the language, got torch.{name}")
        return FUNCTIONS[name](*arguments, **(options or {}))

    def to(self, *given, **options):
        """A cast to a type of numbers: those of integers truncate, of fractions there is one kind. Devices mean nothing."""
        if not self.is_whole and any(isinstance(x, Symbol) and x.is_whole for x in given):
            raise TypeError("formula: to: expected a type of numbers, got a symbol that may be of integers or fractions")
        name = next((n for n in map(_type_name, [*given, *options.values()]) if n), "float")
        if name == "bool":
            return self.bool()
        return trunc(self) if "int" in name else Symbol(number(self)) if self.is_condition else self

    type = astype = type_as = to

    def float(self):
        return self.to("float")

    def int(self):
        return self.to("int")

    double = half = bfloat16 = float
    long = short = char = byte = int

    def new_ones(self, *_, **__):
        return Symbol("(0 == 0)", True)

    def new_zeros(self, *_, **__):
        return Symbol("(0 != 0)", True)

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


def _whole(*x):
    return all(y.is_whole if isinstance(y, Symbol) else isinstance(y, numbers.Integral) for y in x)


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
        text = repr(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
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


def _both_conditions(a, b):
    return all(isinstance(x, (bool, np.bool_)) or (isinstance(x, Symbol) and x.is_condition) for x in (a, b))


def _infix(operator, is_condition=False):
    def write(a, b):
        return Symbol(f"({number(a)} {operator} {number(b)})", is_condition, operator in "+-*" and _whole(a, b))

    return write


def _call(name, count=1, is_whole=False):
    def write(*x):
        if len(x) != count:
            raise TypeError(f"formula: {name}: expected {count} arguments, got {len(x)}")
        return Symbol(f"{name}({', '.join(number(y) for y in x)})", is_whole=is_whole or (name in _KEEP_WHOLE and _whole(*x)))

    return write


_KEEP_WHOLE = ("abs", "min", "max")


def where(c, a, b):
    if _both_conditions(a, b):
        c, a, b = condition(c), condition(a), condition(b)
        return Symbol(f"((({c}) and ({a})) or (not ({c}) and ({b})))", True)
    return Symbol(f"where({condition(c)}, {number(a)}, {number(b)})", is_whole=_whole(a, b))


def floor_divide(a, b):
    return Symbol(f"floor({number(a)}/{number(b)})", is_whole=True)


def remainder(a, b):
    return Symbol(f"({number(a)} - {number(b)}*floor({number(a)}/{number(b)}))", is_whole=_whole(a, b))


def divide(a, b, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if rounding_mode == "trunc":
        return trunc(divide(a, b))
    if rounding_mode is not None:
        raise TypeError(f"formula: div: expected rounding_mode floor, trunc or None, got {rounding_mode}")
    return Symbol(f"({number(a)} / {number(b)})")


def clip(x, low=None, high=None, min=None, max=None):
    low, high = min if low is None else low, max if high is None else high
    text = number(x)
    text = text if low is None else f"max({text}, {number(low)})"
    limits = [limit for limit in (low, high) if limit is not None]
    return Symbol(text if high is None else f"min({text}, {number(high)})", is_whole=_whole(x, *limits))


def trunc(x):
    if _whole(x):
        return x if isinstance(x, Symbol) else Symbol(number(x), is_whole=True)
    if isinstance(x, Symbol) and x.is_condition:
        return Symbol(number(x), is_whole=True)
    return Symbol(f"(sign({number(x)})*floor(abs({number(x)})))", is_whole=True)


def round_(x, decimals=0):
    """To the nearest integer, halves to the even one, as NumPy and PyTorch round."""
    if decimals:
        raise TypeError(f"formula: round: expected no decimals, got {decimals}")
    x = number(x)
    up = f"floor({x} + 0.5)"
    return Symbol(f"({up} - where({up} - {x} == 0.5, {up} - 2*floor({up}/2), 0))", is_whole=True)


def logical_and(a, b):
    return Symbol(f"({condition(a)} and {condition(b)})", True)


def logical_or(a, b):
    return Symbol(f"({condition(a)} or {condition(b)})", True)


def logical_not(a):
    return Symbol(f"(not ({condition(a)}))", True)


def logical_xor(a, b):
    return Symbol(f"(({condition(a)} and not ({condition(b)})) or (not ({condition(a)}) and {condition(b)}))", True)


def _on_conditions(name, function=None):
    """Operators on bits: of conditions, or of symbols that know the numbers they stand for."""

    def write(*x):
        if function is not None and _both_conditions(x[0], x[-1]):
            return function(*x)
        known = next((one for one in x if hasattr(one, "on_bits")), None)
        if known is None:
            raise TypeError(f"formula: {name}: expected conditions, or bits of an index of flex_attention, got numbers")
        return known.on_bits(name, *x)

    return write


abs_ = _call("abs")
exp, log, sqrt, tanh = _call("exp"), _call("log"), _call("sqrt"), _call("tanh")
sigmoid, sin, cos, floor, sign = _call("sigmoid"), _call("sin"), _call("cos"), _call("floor", is_whole=True), _call("sign", is_whole=True)
minimum, maximum = _call("min", 2), _call("max", 2)
exp2 = lambda x: Symbol(f"2^({number(x)})")
log2 = lambda x: Symbol(f"(log({number(x)})/log(2))")
log1p = lambda x: Symbol(f"log(1 + {number(x)})")
square = lambda x: Symbol(f"({number(x)})^2", is_whole=_whole(x))
power = lambda a, b: Symbol(f"({number(a)})^({number(b)})")
negative = lambda x: Symbol(f"(-{number(x)})", is_whole=_whole(x))
ceil = lambda x: Symbol(f"(-floor(-{number(x)}))", is_whole=True)
relu = lambda x: maximum(x, 0)
reciprocal = lambda x: Symbol(f"(1 / {number(x)})")
rsqrt = lambda x: Symbol(f"(1 / sqrt({number(x)}))")
add, subtract, multiply = _infix("+"), _infix("-"), _infix("*")


def _sum(write):
    return lambda a, b, alpha=1: write(a, b if alpha == 1 else multiply(b, alpha))


def _equal(operator, same):
    compare = _infix(operator, True)

    def write(a, b):
        if _both_conditions(a, b):
            return logical_not(logical_xor(a, b)) if same else logical_xor(a, b)
        return compare(a, b)

    return write


# By the names that NumPy's and PyTorch's functions have.
FUNCTIONS = {
    "where": where, "abs": abs_, "absolute": abs_, "exp": exp, "exp2": exp2, "log": log, "log2": log2, "log1p": log1p,
    "sqrt": sqrt, "tanh": tanh, "sigmoid": sigmoid, "sin": sin, "cos": cos, "floor": floor, "sign": sign, "sgn": sign,
    "minimum": minimum, "maximum": maximum, "min": minimum, "max": maximum, "clip": clip, "clamp": clip, "square": square,
    "power": power, "pow": power, "negative": negative, "neg": negative, "add": _sum(add), "sub": _sum(subtract),
    "subtract": _sum(subtract), "rsub": lambda a, b: subtract(b, a), "mul": multiply, "multiply": multiply, "div": divide,
    "divide": divide, "true_divide": divide, "floor_divide": floor_divide, "remainder": remainder, "mod": remainder,
    "less": _infix("<", True), "less_equal": _infix("<=", True), "greater": _infix(">", True),
    "greater_equal": _infix(">=", True), "equal": _equal("==", True), "not_equal": _equal("!=", False),
    "lt": _infix("<", True), "le": _infix("<=", True), "gt": _infix(">", True), "ge": _infix(">=", True),
    "eq": _equal("==", True), "ne": _equal("!=", False), "logical_and": logical_and, "logical_or": logical_or,
    "logical_not": logical_not, "logical_xor": logical_xor, "bitwise_and": _on_conditions("&", logical_and),
    "bitwise_or": _on_conditions("|", logical_or), "bitwise_xor": _on_conditions("^", logical_xor),
    "ceil": ceil, "trunc": trunc, "fix": trunc, "round": round_, "rint": round_, "around": round_, "relu": relu,
    "reciprocal": reciprocal, "rsqrt": rsqrt,
    "bitwise_not": _on_conditions("~", logical_not), "invert": _on_conditions("~", logical_not),
    "bitwise_left_shift": _on_conditions("<<"), "bitwise_right_shift": _on_conditions(">>"),
}  # fmt: skip

_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}  # fmt: skip
for _name, _function in _OPERATORS.items():
    _write = FUNCTIONS[_function]
    setattr(Symbol, f"__{_name}__", lambda a, b, write=_write: write(a, b))
    setattr(Symbol, f"__r{_name}__", lambda a, b, write=_write: write(b, a))
    for _prefix in ("", "r", "i"):  # PyTorch names a method by its dunder
        _swapped = _prefix == "r"
        FUNCTIONS[f"__{_prefix}{_name}__"] = (lambda a, b, write=_write: write(b, a)) if _swapped else _write
for _name in ("to", "type", "type_as", "int", "long", "short", "char", "byte", "float", "double", "half", "bfloat16", "bool"):
    FUNCTIONS[_name] = lambda x, *given, name=_name, **options: getattr(x, name)(*given, **options)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Symbol, f"__{_name}__", lambda a, b, write=FUNCTIONS[_name]: write(a, b))
    FUNCTIONS[f"__{_name}__"] = FUNCTIONS[_name]
Symbol.__round__ = lambda a, decimals=0: round_(a, decimals)
Symbol.__trunc__, Symbol.__floor__, Symbol.__ceil__ = (lambda a: trunc(a)), (lambda a: floor(a)), (lambda a: ceil(a))
Symbol.__neg__ = lambda a: negative(a)
Symbol.__abs__ = lambda a: abs_(a)
Symbol.__invert__ = lambda a: FUNCTIONS["invert"](a)
Symbol.__hash__ = object.__hash__
for _name in ("abs", "exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos", "floor", "sign", "square", "clamp", "clip", "pow",
              "exp2", "log2", "log1p", "ceil", "trunc", "fix", "round", "relu", "reciprocal", "rsqrt", "logical_and", "logical_or", "logical_not", "minimum", "maximum"):  # fmt: skip
    setattr(Symbol, _name, lambda self, *x, write=FUNCTIONS[_name], **options: write(self, *x, **options))


def text_of(given, is_condition=False):
    """The text of a text or of a function."""
    if given is None:
        return ""
    if isinstance(given, str):
        return given
    if not callable(given):
        raise TypeError(f"formula: expected a text or a function, got {type(given).__name__}")
    result = given(*(Symbol(name) for name in inspect.signature(given).parameters))
    return condition(result) if is_condition else number(result)


class Formula:
    """A score that was given as text; immutable, and equal to one of the same text. `parameters` lists what it takes."""

    __slots__ = ("score", "pair", "visible", "encoded")

    def __init__(self, score="", pair="", visible=""):
        for name, value in (("score", score), ("pair", pair), ("visible", visible)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "encoded", "\x1f" + "\x1f".join((score, pair, visible)))

    def __setattr__(self, name, value):
        raise AttributeError("Formula: expected to stay as it was made")

    @property
    def parameters(self):
        return _core.formula_parameters(self.score, self.pair, self.visible)

    def __eq__(self, other):
        return isinstance(other, Formula) and self.encoded == other.encoded

    def __hash__(self):
        return hash(self.encoded)

    def __reduce__(self):
        return Formula, (self.score, self.pair, self.visible)

    def __repr__(self):
        parts = [repr(self.score)] + [f"{n}={getattr(self, n)!r}" for n in ("pair", "visible") if getattr(self, n)]
        return f"rapt.formula({', '.join(parts)})"


def formula(score="", *, pair=None, visible=None) -> Formula:
    """A score of your own, for `rapt.attend(..., score=formula, params={…})`: forward and backward, with no compiler.

    score    a text or a function of raw, scale, i, j, head, batch, …: the score of a pair of query and key
    pair     of q, k and w: what each dimension adds to raw, in place of q·k
    visible  a condition of i, j, …: which pairs are seen

    >>> import numpy as np, rapt
    >>> kerple = rapt.formula("raw*scale - a*log(1 + b*abs(i-j))", visible="j <= i")
    >>> q = np.random.rand(1, 2, 5, 8)
    >>> rapt.attend(q, q, q, score=kerple, params={"a": [1.0, 2.0], "b": 0.5}).shape
    (1, 2, 5, 8)
    """
    made = Formula(text_of(score), text_of(pair), text_of(visible, True))
    made.parameters  # what is wrong is said here, not at the first call
    return made
