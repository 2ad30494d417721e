"""The last dimension of a captured tensor in a mod, number by number: (chosen[b, h, q_idx // 64] == kv_idx // 64).any(-1)."""

import functools
import operator

from .._symbols import FUNCTIONS, Symbol, call, name_of

_MOST = 256  # numbers in a row: a formula's text is limited
_A_ROW = "flex_attention: expected a number of a captured tensor, got a row: index every dimension"


class Read:
    """A captured tensor at some indices, as long as it has dimensions left: tensor[b] of tensor[b][j]."""

    in_rows = True  # operators of single numbers leave it to this class

    def __init__(self, captured, tensor, indices):
        self.captured, self.tensor, self.indices = captured, tensor, indices

    def __getitem__(self, index):
        indices = index if isinstance(index, tuple) else (index,)
        return self.captured.read(self.tensor, self.indices + indices)

    def vector(self):
        if self.tensor.dim() != len(self.indices) + 1:
            raise TypeError(_A_ROW)
        if self.tensor.shape[-1] > _MOST:
            raise TypeError(f"flex_attention: expected at most {_MOST} numbers in a row of a captured tensor, got {self.tensor.shape[-1]}")
        return Vector([self[n] for n in range(self.tensor.shape[-1])])

    def __len__(self):
        return self.tensor.shape[len(self.indices)]

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        return Vector.__torch_function__(function, types, arguments, options)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in _REDUCTIONS:
            raise TypeError(_A_ROW)
        return getattr(self.vector(), name)

    __hash__ = object.__hash__


def _refuse_choice(row):
    raise TypeError(_A_ROW)


def _read(x):
    return x.vector() if isinstance(x, Read) else x


class Vector:
    in_rows = True

    def __init__(self, numbers):
        self.numbers = numbers

    def each(self, function, *others):
        """The function of each number, beside one number or a vector of as many."""
        others = [_read(x) for x in others]
        lists = [x.numbers if isinstance(x, Vector) else [x] * len(self.numbers) for x in others]
        if any(len(x) != len(self.numbers) for x in lists):
            raise TypeError(f"flex_attention: expected rows of {len(self.numbers)} numbers, got one of another length")
        return Vector([function(*x) for x in zip(self.numbers, *lists)])

    def reduced(self, name, dim=-1, keepdim=False):
        if dim not in (-1, 0, None) or keepdim:
            raise TypeError(f"flex_attention: {name}: expected the last dimension without keepdim, got dim={dim}, keepdim={keepdim}")
        function, empty = _REDUCTIONS[name]
        return functools.reduce(function, self.numbers) if self.numbers else empty

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        return self.numbers[operator.index(index)]

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        name, options = name_of(function), options or {}
        arguments = [_read(x) for x in arguments]
        if name in _REDUCTIONS and isinstance(arguments[0], Vector):
            return arguments[0].reduced(name, *arguments[1:], **options)
        if name == "isin" and isinstance(arguments[0], Symbol) and not options:
            return arguments[1].each(operator.eq, arguments[0]).reduced("any")
        if name not in FUNCTIONS:
            raise TypeError(_A_ROW)
        first = next(n for n, x in enumerate(arguments) if isinstance(x, Vector))
        rest = (*arguments[:first], *arguments[first + 1 :])
        return arguments[first].each(lambda x, *others: call(name, (*others[:first], x, *others[first:]), options), *rest)

    __hash__ = object.__hash__


_REDUCTIONS = {"any": (FUNCTIONS["logical_or"], False), "all": (FUNCTIONS["logical_and"], True), "sum": (FUNCTIONS["add"], 0)}
for _name in _REDUCTIONS:
    setattr(Vector, _name, lambda self, *dim, name=_name, **options: self.reduced(name, *dim, **options))
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_"):
    _function, _name = getattr(operator, _name), _name.strip("_")
    for _class in (Read, Vector):
        setattr(_class, f"__{_name}__", lambda a, b, function=_function: _read(a).each(function, b))
        setattr(_class, f"__r{_name}__", lambda a, b, function=_function: _read(a).each(lambda x, y: function(y, x), b))
for _class in (Read, Vector):
    _class.__neg__, _class.__invert__ = lambda a: _read(a).each(operator.neg), lambda a: _read(a).each(operator.invert)
    _class.__bool__ = _refuse_choice
