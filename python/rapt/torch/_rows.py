"""Products of captured rows in a score_mod, as multi-head latent attention has them: rows become columns of query and key."""

import math
import re

import torch

from .._symbols import Symbol

_WAY = "cat(query * scale, rows) and cat(key, rows) with scale=1 are the same score"


class Product(Symbol):
    """factor · (a · b) of two captured rows. It may be added to the score, and nothing else."""

    def __init__(self, a, b, factor=1.0):
        self.rows, self.factor = (a, b), factor
        self.is_condition, self.is_whole = False, 0

    @property
    def text(self):
        raise TypeError(f"flex_attention: dot: expected a product of captured rows that is added to the score, got another use of it; {_WAY}")

    def __mul__(self, factor):
        return Product(*self.rows, self.factor * factor) if isinstance(factor, (int, float)) else super().__mul__(factor)

    def __add__(self, other):
        return other + self if isinstance(other, Score) else super().__add__(other)

    __rmul__ = __mul__
    __hash__ = object.__hash__


class Score(Symbol):
    """The score that a mod is given, with the products that were added to it."""

    def __init__(self, used, products=()):
        self.used, self.products = used, products  # used: a list of the one kind of score that the formula has
        self.is_condition, self.is_whole = False, 0

    @property
    def text(self):
        if self.used and tuple(map(id, self.used[0])) != tuple(map(id, self.products)):
            raise TypeError(f"flex_attention: dot: expected one score with a product of captured rows, got others beside it; {_WAY}")
        self.used[:] = [self.products]
        return "raw" if self.products else "(raw*scale)"

    def __add__(self, other):
        return Score(self.used, (*self.products, other)) if isinstance(other, Product) else super().__add__(other)

    __radd__ = __add__
    __hash__ = object.__hash__


def _value(text, known, floor):
    """What an index's text comes to: numbers, the names in `known`, arithmetic and floor, as this package writes them."""
    tokens = re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?|\w+|\S", text)[::-1]  # the next one is the last

    def one():
        token = tokens.pop()
        if token == "-":
            return -one()
        if token == "floor":
            return floor(one())
        if token == "(":
            found = total()
            tokens.pop()
            return found
        return known[token] if token in known else float(token)

    def product():
        found = one()
        while tokens and tokens[-1] in "*/":
            found = found * one() if tokens.pop() == "*" else found / one()
        return found

    def total():
        found = product()
        while tokens and tokens[-1] in "+-":
            found = found + product() if tokens.pop() == "+" else found - product()
        return found

    return total()


def _names(index):
    return set(re.findall(r"[a-z_]\w*", index.text)) - {"floor"} if isinstance(index, Symbol) else set()


def _places(row, sizes):
    """The indices of a captured row as numbers, for every batch, head and position: [B, H, S] by broadcasting."""
    known = {}
    for axis, (name, size) in enumerate(sizes.items()):
        known[name] = torch.arange(size, device=row.tensor.device).view([-1 if n == axis else 1 for n in range(3)])
    found = []
    for index in row.indices:
        if not isinstance(index, Symbol):
            found.append(index)
            continue
        if _names(index) - set(known):
            raise TypeError(f"flex_attention: dot: expected a row at batch, head and one position, got one at {index.text}; {_WAY}")
        value = _value(index.text, known, torch.floor)
        found.append(value.long() if isinstance(value, torch.Tensor) else int(value))
    return found


def _same_in_groups(row, heads, group):
    """Whether all heads of a group read the same row: asked of numbers, which torch.compile knows while it traces."""
    for index in row.indices:
        names = _names(index)
        if "head" not in names or group == 1:
            continue
        if names != {"head"}:
            return False
        places = [_value(index.text, {"head": head}, math.floor) for head in range(heads)]
        if any(places[head] != places[head - head % group] for head in range(heads)):
            return False
    return True


def _gather(row, sizes):
    """[B, H, S, columns] of a captured row."""
    found = row.tensor[tuple(_places(row, sizes))]
    return found.expand(*sizes.values(), found.shape[-1])


def widened(query, key, products, scale):
    """(query, key) with the products' rows as further columns, for a scale of 1."""
    batch, heads, queries, _ = query.shape
    keys, group = key.shape[2], heads // key.shape[1]
    sides = [query * (query.shape[-1] ** -0.5 if scale is None else scale)], [key]
    for product in products:
        rows = sorted(product.rows, key=lambda row: any(isinstance(n, Symbol) and re.search(r"\bj\b", n.text) for n in row.indices))
        if rows[0].tensor.shape[-1] != rows[1].tensor.shape[-1]:
            raise TypeError(f"flex_attention: dot: expected rows of one length, got {rows[0].tensor.shape[-1]} and {rows[1].tensor.shape[-1]}")
        sides[0].append(product.factor * _gather(rows[0], {"batch": batch, "head": heads, "i": queries}).to(query.dtype))
        of_keys = _gather(rows[1], {"batch": batch, "head": heads, "j": keys}).to(key.dtype)
        if _same_in_groups(rows[1], heads, group):
            of_keys = of_keys[:, ::group]
        elif sides[1][0].shape[1] != heads:  # heads that share a key have rows of their own
            sides[1][:] = [x.repeat_interleave(group, 1) for x in sides[1]]
            group = 1
        sides[1].append(of_keys)
    return torch.cat(sides[0], -1), torch.cat([x.expand(batch, -1, -1, -1) for x in sides[1]], -1)
