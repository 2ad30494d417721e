"""The options that all functions of the package share, for editors and type checkers, and for `help`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence, TypedDict, TypeVar

if TYPE_CHECKING:
    from .formulas import Formula

Array = Any  # of NumPy, PyTorch, JAX, or anything with DLPack
Function = TypeVar("Function", bound=Callable[..., Any])


class PartOptions(TypedDict, total=False):
    """Those of `attend` but for first_key, which `partial` has under its own default."""

    score: str | Formula | None
    params: Mapping[str, Array | float] | None
    causal: str | None
    normalizer: str | None
    scale: float | None
    softcap: float
    bias: Array | None
    mask: Array | None
    window: tuple[int, int] | None
    key_lengths: Array | Sequence[int] | int | None
    first_query: Array | Sequence[int] | int | None
    query_starts: Array | Sequence[int] | None
    key_starts: Array | Sequence[int] | None
    grid: tuple[int, int] | None
    rotary: int | tuple | None
    threads: int | None
    path: str | None


class Options(PartOptions, total=False):
    """Those of `attend`."""

    first_key: int | None


def shown(attend: Callable[..., Any]) -> Callable[[Function], Function]:
    """A decorator: the signature that `help` and notebooks show has attend's keywords in place of **options."""
    known = inspect.signature(attend).parameters

    def show(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        names = {p.name for p in own}
        more = [p for p in known.values() if p.name in Options.__annotations__ and p.name not in names]
        setattr(function, "__signature__", signature.replace(parameters=own + more))
        return function

    return show
