"""Operators and gradients of others in a mod: operators written in Python are traced through, gradients have to be derivatives."""

import torch
from torch.overrides import TorchFunctionMode

from .._symbols import Symbol

# Where a mod's own gradient is compared with differences; none is a usual place of a kink.
_SCORES = (-2.71, -1.13, -0.37, 0.29, 0.83, 1.61, 3.07)
_STEP = 1e-3
_KEYS = {"cpu": torch._C.DispatchKey.CPU, "cuda": torch._C.DispatchKey.CUDA}


class Through(TorchFunctionMode):
    """While an operator's code computes with numbers: what it calls is done to symbols too, by `write`."""

    def __init__(self, write):
        super().__init__()
        self._write = write
        self._symbols = {}  # id of a tensor → (the tensor, its symbol)

    def _symbol(self, x):
        return self._symbols[id(x)][1] if id(x) in self._symbols else x

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = options or {}
        result = function(*arguments, **options)
        written = self._write(function, types, tuple(map(self._symbol, arguments)), {n: self._symbol(x) for n, x in options.items()})
        if isinstance(written, Symbol):
            self._symbols[id(result)] = result, written
        return result

    def call(self, operator, arguments):
        """The symbol of an operator's result; None: its code is not Python's."""
        given, device = list(arguments), "cpu"
        for n, x in enumerate(given):
            if isinstance(x, Symbol):
                dtype = torch.bool if x.is_condition else torch.int64 if x.is_whole == 2 else torch.float32
                given[n], device = torch.ones((), dtype=dtype, device=x.device), x.device.type
                self._symbols[id(given[n])] = given[n], x
        operator = getattr(operator, "default", operator)  # of the overloads
        with self:  # the operator itself would be seen first; redispatch enters its code at once
            result = operator.redispatch(torch._C.DispatchKeySet(_KEYS[device]), *given)
        found = self._symbol(result)
        return found if isinstance(found, Symbol) else None


def refuse_other_gradients(score_mod, device):
    """A mod whose gradient by the score is not the derivative of what it computes; formulas have no other."""
    number = lambda x: torch.tensor(x, dtype=torch.float64, device=device)
    places = [torch.tensor(n, device=device) for n in (0, 0, 0, 0)]
    for at in _SCORES:
        score = number(at).requires_grad_()
        with torch.enable_grad():
            result = score_mod(score, *places)
            gradient = torch.autograd.grad(result, score)[0].item() if result.requires_grad else 0.0
        above, below = (score_mod(number(at + step), *places).item() for step in (_STEP, -_STEP))
        if not abs(gradient - (above - below) / (2 * _STEP)) <= 1e-2 * (1 + abs(gradient)):
            raise TypeError(
                "flex_attention: score_mod: expected a gradient that is the derivative of the result, got another one of "
                f"torch.no_grad or an autograd.Function, {gradient:g} at a score of {at:g}"
            )
