"""Scores given at run time: a string, or a Python function that is traced once and becomes a string.

    rapt.formula("raw*scale - m*abs(i-j)", visible="j <= i")
    rapt.formula(lambda raw, scale, i, j, m: raw * scale - m * abs(i - j), visible=lambda i, j: j <= i)

docs/formulas.md has the language. A function's arguments are names of the language or of parameters; it may use Python's
operators, NumPy's functions, and those of this module.
"""

import inspect
import math

import numpy as np

from . import _core
from ._symbols import FUNCTIONS, Symbol, call, condition, corners, full_like, limits, number, whole
from ._words import counted


def _as_symbol(x):
    return x if isinstance(x, Symbol) else Symbol(number(x), is_whole=whole(x), limits=limits(x))


def _both_conditions(a, b):
    return all(isinstance(x, (bool, np.bool_)) or (isinstance(x, Symbol) and x.is_condition) for x in (a, b))


_ARITHMETIC = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


def _infix(operator, is_condition=False):
    function = _ARITHMETIC.get(operator)

    def write(a, b):
        between = Symbol.limits if function is None else corners(function, a, b)
        return Symbol(f"({number(a)} {operator} {number(b)})", is_condition, whole(a, b) if operator in "+-*" else 0, between)

    return write


def _call(name, count=1, is_whole=False):
    def write(*x):
        if len(x) != count:
            raise TypeError(f"formula: {name}: expected {counted(count, 'argument')}, got {len(x)}")
        level = max(1, whole(*x)) if is_whole else whole(*x) if name in _KEEP_WHOLE else 0
        between = corners(_MONOTONE[name], *x) if name in _MONOTONE else Symbol.limits
        if name == "abs":
            low, high = limits(x[0])
            between = max(0, low, -high), max(-low, high)
        return Symbol(f"{name}({', '.join(number(y) for y in x)})", is_whole=level, limits=between)

    return write


_KEEP_WHOLE = ("abs", "min", "max")
_floor = lambda x: math.floor(x) if -math.inf < x < math.inf else x
_log = lambda x: x if x == math.inf else math.log(x) if x > 0 else -math.inf
_MONOTONE = {"min": min, "max": max, "floor": _floor, "sign": lambda x: (x > 0) - (x < 0), "log": _log}


def where(c, a, b):
    if _both_conditions(a, b):
        c, a, b = condition(c), condition(a), condition(b)
        return Symbol(f"((({c}) and ({a})) or (not ({c}) and ({b})))", True)
    (low, high), (other_low, other_high) = limits(a), limits(b)
    between = min(low, other_low), max(high, other_high)
    return Symbol(f"where({condition(c)}, {number(a)}, {number(b)})", is_whole=whole(a, b), limits=between)


def _quotient(a, b):
    """The limits of a / b; known where b is a number, or of one sign."""
    low, high = limits(b)
    return corners(lambda x, y: x / y, a, b) if low > 0 or high < 0 else Symbol.limits


def floor_divide(a, b):
    low, high = _quotient(a, b)
    return Symbol(f"floor({number(a)}/{number(b)})", is_whole=max(1, whole(a, b)), limits=(_floor(low), _floor(high)))


def remainder(a, b):
    text = f"({number(a)} - {number(b)}*floor({number(a)}/{number(b)}))"
    low, high = limits(b)  # the sign is that of b
    return Symbol(text, is_whole=whole(a, b), limits=(min(low, 0), max(high, 0)))


def divide(a, b, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if rounding_mode == "trunc":
        return trunc(divide(a, b))
    if rounding_mode is not None:
        raise TypeError(f"formula: div: expected rounding_mode floor, trunc or None, got {rounding_mode}")
    return Symbol(f"({number(a)} / {number(b)})", limits=_quotient(a, b))


def clip(x, low=None, high=None, min=None, max=None):
    low, high = min if low is None else low, max if high is None else high
    text, level = number(x), whole(x, *(limit for limit in (low, high) if limit is not None))
    if low is not None:
        x = Symbol(f"max({text}, {number(low)})", limits=corners(_MONOTONE["max"], x, low))
    if high is not None:
        x = Symbol(f"min({number(x)}, {number(high)})", limits=corners(_MONOTONE["min"], x, high))
    return Symbol(number(x), is_whole=level, limits=limits(x))


def trunc(x):
    if whole(x):
        return x if isinstance(x, Symbol) and not x.is_condition else Symbol(number(x), is_whole=whole(x), limits=limits(x))
    low, high = limits(x)
    return Symbol(f"(sign({number(x)})*floor(abs({number(x)})))", is_whole=1, limits=(-_floor(-low), _floor(high)))


def round_(x, decimals=0):
    """To the nearest integer, halves to the even one, as NumPy and PyTorch round."""
    if decimals:
        raise TypeError(f"formula: round: expected no decimals, got {decimals}")
    if whole(x):
        return trunc(x)
    (low, high), x = limits(x), number(x)
    between = _floor(low), -_floor(-high)
    up = f"floor({x} + 0.5)"
    return Symbol(f"({up} - where({up} - {x} == 0.5, {up} - 2*floor({up}/2), 0))", is_whole=1, limits=between)


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
        known = next((one for one in x if getattr(one, "on_bits", None)), None)
        if known is None:
            raise TypeError(f"formula: {name}: expected conditions, or bits of an index of flex_attention, got numbers")
        return known.on_bits(name, *x)

    return write


abs_ = _call("abs")
exp, log, sqrt, tanh = _call("exp"), _call("log"), _call("sqrt"), _call("tanh")
sigmoid, erf, sin, cos = _call("sigmoid"), _call("erf"), _call("sin"), _call("cos")
floor, sign = _call("floor", is_whole=True), _call("sign", is_whole=True)
minimum, maximum = _call("min", 2), _call("max", 2)
exp2 = lambda x: Symbol(f"2^({number(x)})")
log2 = lambda x: Symbol(f"(log({number(x)})/log(2))", limits=corners(lambda n: _log(n) / math.log(2), x))
log1p = lambda x: Symbol(f"log(1 + {number(x)})", limits=corners(lambda n: _log(1 + n), x))
square = lambda x: Symbol(f"({number(x)})^2", is_whole=whole(x), limits=(0, math.inf))
power = lambda a, b: Symbol(f"({number(a)})^({number(b)})")
negative = lambda x: Symbol(f"(-{number(x)})", is_whole=whole(x), limits=corners(lambda n: -n, x))
ceil = lambda x: Symbol(f"(-floor(-{number(x)}))", is_whole=max(1, whole(x)), limits=corners(lambda n: -_floor(-n), x))
reciprocal = lambda x: Symbol(f"(1 / {number(x)})")
rsqrt = lambda x: Symbol(f"(1 / sqrt({number(x)}))")
add, subtract, multiply = _infix("+"), _infix("-"), _infix("*")
fmod = lambda a, b: subtract(a, multiply(b, trunc(divide(a, b))))
masked_fill = lambda x, mask, value: where(mask, value, x)
log10 = lambda x: Symbol(f"(log({number(x)})/log(10))")
expm1 = lambda x: Symbol(f"(tanh({number(x)}/2)*(exp({number(x)}) + 1))")  # without the difference of what is nearly equal


def relu(x, inplace=False):
    return maximum(x, 0)


def silu(x, inplace=False):
    return Symbol(f"({number(x)}*sigmoid({number(x)}))")


def softplus(x, beta=1, threshold=20):
    """As PyTorch has it: x itself where beta·x is above the threshold."""
    x, scaled = number(x), number(multiply(x, beta))
    return Symbol(f"where({scaled} > {number(threshold)}, {x}, log(1 + exp(min({scaled}, {number(threshold)})))/{number(beta)})")


def gelu(x, approximate="none"):
    if approximate not in ("none", "tanh"):
        raise TypeError(f"formula: gelu: expected approximate none or tanh, got {approximate!r}")
    x = number(x)
    if approximate == "none":
        return Symbol(f"(0.5*{x}*(1 + erf({x}*{math.sqrt(0.5)!r})))")
    return Symbol(f"(0.5*{x}*(1 + tanh({math.sqrt(2 / math.pi)!r}*({x} + 0.044715*({x})^3))))")


def logsigmoid(x):
    x = number(x)
    return Symbol(f"(min({x}, 0) - log(1 + exp(-abs({x}))))")


def elu(x, alpha=1.0, inplace=False):
    return add(maximum(x, 0), multiply(alpha, expm1(minimum(x, 0))))


def celu(x, alpha=1.0, inplace=False):
    return add(maximum(x, 0), multiply(alpha, expm1(divide(minimum(x, 0), alpha))))


def selu(x, inplace=False):
    return multiply(1.0507009873554805, elu(x, 1.6732632423543772))


def leaky_relu(x, negative_slope=0.01, inplace=False):
    return where(_infix(">", True)(x, 0), x, multiply(x, negative_slope))


def hardtanh(x, min_val=-1.0, max_val=1.0, inplace=False):
    return clip(x, min_val, max_val)


def hardsigmoid(x, inplace=False):
    return divide(clip(add(x, 3), 0, 6), 6)


def hardswish(x, inplace=False):
    return multiply(x, hardsigmoid(x))


def mish(x, inplace=False):
    return multiply(x, tanh(softplus(x)))


def _sum(write):
    return lambda a, b, alpha=1: write(a, b if alpha == 1 else multiply(b, alpha))


def _equal(operator, same):
    compare = _infix(operator, True)

    def write(a, b):
        if _both_conditions(a, b):
            return logical_not(logical_xor(a, b)) if same else logical_xor(a, b)
        return compare(a, b)

    return write


FUNCTIONS |= {
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
    "reciprocal": reciprocal, "rsqrt": rsqrt, "fmod": fmod, "expm1": expm1, "log10": log10, "silu": silu, "softplus": softplus,
    "gelu": gelu, "erf": erf, "erfc": lambda x: subtract(1, erf(x)), "log_sigmoid": logsigmoid, "logsigmoid": logsigmoid,
    "elu": elu, "celu": celu, "selu": selu, "leaky_relu": leaky_relu, "mish": mish, "hardtanh": hardtanh,
    "relu6": lambda x, inplace=False: clip(x, 0, 6), "hardsigmoid": hardsigmoid, "hardswish": hardswish,
    "softsign": lambda x: divide(x, add(1, abs_(x))), "tanhshrink": lambda x: subtract(x, tanh(x)), "masked_fill": masked_fill, "full_like": full_like,
    "Tensor.where": lambda x, c, other: where(c, x, other), "clamp_min": lambda x, min: maximum(x, min),
    "clamp_max": lambda x, max: minimum(x, max), "zeros_like": lambda x, **options: full_like(x, 0, **options),
    "ones_like": lambda x, **options: full_like(x, 1, **options),
    "bitwise_not": _on_conditions("~", logical_not), "invert": _on_conditions("~", logical_not),
    "bitwise_left_shift": _on_conditions("<<"), "bitwise_right_shift": _on_conditions(">>"),
}  # fmt: skip


def _unless_row(write):
    """An operator with a number. Rows of a captured tensor (rapt.torch) have operators of their own."""
    return lambda a, b: NotImplemented if hasattr(type(b), "in_rows") else write(a, b)


_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}  # fmt: skip
for _name, _function in _OPERATORS.items():
    _write = FUNCTIONS[_function]
    setattr(Symbol, f"__{_name}__", _unless_row(_write))
    setattr(Symbol, f"__r{_name}__", lambda a, b, write=_write: write(b, a))
    for _prefix in ("", "r", "i"):  # PyTorch names a method by its dunder
        _swapped = _prefix == "r"
        FUNCTIONS[f"__{_prefix}{_name}__"] = (lambda a, b, write=_write: write(b, a)) if _swapped else _write
for _name in ("to", "type", "type_as", "int", "long", "short", "char", "byte", "float", "double", "half", "bfloat16", "bool"):
    FUNCTIONS[_name] = lambda x, *given, name=_name, **options: getattr(_as_symbol(x), name)(*given, **options)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Symbol, f"__{_name}__", _unless_row(FUNCTIONS[_name]))
    FUNCTIONS[f"__{_name}__"] = FUNCTIONS[_name]
Symbol.__round__ = lambda a, decimals=0: round_(a, decimals)
Symbol.__trunc__, Symbol.__floor__, Symbol.__ceil__ = (lambda a: trunc(a)), (lambda a: floor(a)), (lambda a: ceil(a))
Symbol.__neg__ = lambda a: negative(a)
Symbol.__abs__ = lambda a: abs_(a)
Symbol.__invert__ = lambda a: FUNCTIONS["invert"](a)
Symbol.__hash__ = object.__hash__
for _name in ("abs", "exp", "log", "sqrt", "tanh", "sigmoid", "sin", "cos", "floor", "sign", "square", "clamp", "clip", "pow",
              "exp2", "log2", "log1p", "log10", "expm1", "ceil", "trunc", "fix", "round", "relu", "reciprocal", "rsqrt",
              "logical_and", "logical_or", "logical_not", "logical_xor", "minimum", "maximum", "fmod", "remainder", "floor_divide",
              "div", "mul", "add", "sub", "masked_fill", "clamp_min", "clamp_max", "eq", "ne", "lt", "le", "gt", "ge",
              "erf", "erfc"):  # fmt: skip
    setattr(Symbol, _name, lambda self, *x, name=_name, **options: call(name, (self, *x), options))
Symbol.where = lambda self, *x: call("Tensor.where", (self, *x), {})


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
    """A score that was given as text; immutable, and equal to one of the same text. `parameters` lists what it takes.

    >>> import rapt
    >>> made = rapt.formula("raw*scale - m*abs(i-j)", visible="j <= i")
    >>> made.visible, [parameter["name"] for parameter in made.parameters], made == rapt.formula("raw*scale")
    ('j <= i', ['m'], False)
    """

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
