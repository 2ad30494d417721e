"""Block masks of flex_attention: which blocks they list beside what their mask_mod says."""

import re
import weakref

import torch
from torch import Tensor

_HIDDEN, _PARTIAL, _FULL = 0, 1, 2  # of a block: not listed; where the mask_mod says; listed as full
_CHUNK = 2**24  # pairs that are compared at a time

# Block mask → the _state in which it was found to show what its mask_mod does.
_same = weakref.WeakKeyDictionary()


def _listed(counts, indices, columns):
    """[B, H, rows of blocks, columns], from numbers and indices of blocks; those behind the numbers are anything."""
    counts, indices = (x[(None,) * (n - x.dim())] for x, n in ((counts, 3), (indices, 4)))
    is_one = torch.arange(indices.shape[-1], device=indices.device) < counts.unsqueeze(-1)
    found = torch.zeros(*indices.shape[:-1], columns + 1, dtype=torch.int8, device=indices.device)
    return found.scatter(-1, torch.where(is_one, indices.long(), columns), 1)[..., :columns]


def _kinds(block_mask, keys):
    """_HIDDEN, _PARTIAL or _FULL of each block, [B, H, rows of blocks, columns]."""
    columns = max(block_mask.kv_indices.shape[-1], -(-keys // block_mask.BLOCK_SIZE[1]))
    kinds = _listed(block_mask.kv_num_blocks, block_mask.kv_indices, columns)
    if block_mask.full_kv_num_blocks is None:
        return kinds
    return torch.maximum(kinds, _FULL * _listed(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, columns))


def _check(block_mask, kinds, sizes):
    """Lists that leave some pairs out of what is asked are refused."""
    for name, n, count in (("batch", 0, "a batch"), ("heads", 1, "a number of heads")):
        if sizes[n] % kinds.shape[n] != 0:
            raise ValueError(f"flex_attention: block_mask: expected {count} that divides {sizes[n]}, got {kinds.shape[n]}")
    covered = kinds.shape[2] * block_mask.BLOCK_SIZE[0], block_mask.kv_indices.shape[-1] * block_mask.BLOCK_SIZE[1]
    for name, size, most in zip(("queries", "keys"), sizes[2:], covered):
        if size > most:
            raise ValueError(f"flex_attention: block_mask: expected one of {size} {name} at least, got one of {most}")


def mask_mod_of(block_mask, sizes, trace):
    """What a mask shows, as a mask_mod: (listed as partial and the mask_mod) or listed as full.

    The mask_mod itself, where that is the same, as it is for what create_block_mask makes: it says more to the engine. That is
    compared once for each mask, pair by pair. trace(mask_mod): its text and the tensors that it reads.
    """
    mask_mod, (rows, columns) = block_mask.mask_mod, block_mask.BLOCK_SIZE
    state = text = None
    if is_known(block_mask.kv_indices) and mask_mod is not None:
        state, text = _state(block_mask, sizes, trace)
        if _is_remembered(block_mask, state):
            return mask_mod
    kinds = _kinds(block_mask, sizes[3])
    _check(block_mask, kinds, sizes)
    is_noop = mask_mod is None or getattr(mask_mod, "__name__", "") == "noop_mask"
    if is_known(kinds):
        kinds = kinds[:, :, : -(-sizes[2] // rows), : -(-sizes[3] // columns)]
        if bool((kinds == _PARTIAL).all()) or (text is not None and not is_noop and _shows_what_its_mod_does(block_mask, kinds, sizes, text)):
            if state is not None and not is_noop:
                _same[block_mask] = state
            return None if is_noop else mask_mod
        if is_noop and bool((kinds != _HIDDEN).all()):
            return None
    batches, heads = kinds.shape[:2]

    def visible(b, h, q, k):
        at_batch = 0 if batches == 1 else b if batches == sizes[0] else b % batches
        at_head = 0 if heads == 1 else h if heads == sizes[1] else h % heads
        kind = kinds[at_batch, at_head, q // rows, k // columns]
        return kind != _HIDDEN if is_noop else (kind == _FULL) | ((kind == _PARTIAL) & mask_mod(b, h, q, k))

    return visible


def is_known(tensor):
    """Whether its numbers can be read now: no graph is made of them."""
    return (
        type(tensor) is Tensor
        and not torch.compiler.is_compiling()
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch._C._get_tracing_state() is None
    )


def _state(block_mask, sizes, trace):
    """(what the comparison depends on, the text of the mask_mod). None: tensors of it do not say whether they were changed."""
    text, tensors = trace(block_mask.mask_mod)
    lists = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
    read = [x for x in (*(getattr(block_mask, name) for name in lists), *tensors) if x is not None]
    if any(x.is_inference() for x in read):
        return None, text
    return (text, tuple(sizes), block_mask.BLOCK_SIZE, [(x, x._version) for x in read]), text


def _is_remembered(block_mask, state):
    """Whether that was compared before, and is the same."""
    known = _same.get(block_mask) if state is not None else None
    if known is None or known[:3] != state[:3] or len(known[3]) != len(state[3]):
        return False
    equal = lambda a, b: a is b or (a.shape == b.shape and a.dtype == b.dtype and a.device == b.device and torch.equal(a, b))
    return all(a._version == n and equal(a, b) for (a, n), (b, _) in zip(known[3], state[3]))


def _limits(shown, rows, columns):
    """[queries, keys] → twice [rows of blocks, columns]: whether any pair of a block is shown, and whether all are."""
    queries, keys = shown.shape
    shown = shown.contiguous().view(torch.uint8)  # whose limits are found in fewer instructions than any and all
    whole = queries - queries % rows
    parts = [part for part in (shown[:whole].view(-1, rows, keys), shown[whole:].unsqueeze(0)) if part.numel()]
    most, least = (torch.cat([limit(part, 1) for part in parts]) for limit in (torch.amax, torch.amin))
    pad = torch.nn.functional.pad
    by_columns = lambda x, value: pad(x, (0, -keys % columns), value=value).unflatten(1, (-1, columns))
    return by_columns(most, 0).amax(2).bool(), by_columns(least, 1).amin(2).bool()


def _shows_what_its_mod_does(block_mask, kinds, sizes, text):
    """Whether the mask_mod is false in all blocks that are not listed, and true in all that are listed as full."""
    from torch.nn.attention.flex_attention import create_mask

    batch, heads, queries, keys = sizes
    rows, columns = min(block_mask.BLOCK_SIZE[0], queries), min(block_mask.BLOCK_SIZE[1], keys)
    batch = batch if re.search(r"\bbatch\b", text) else kinds.shape[0]
    heads = heads if re.search(r"\bhead\b", text) else kinds.shape[1]
    step = max(1, _CHUNK // (rows * keys))
    full, hidden = kinds == _FULL, kinds == _HIDDEN
    for b in range(batch):
        for h in range(heads):
            at = b % kinds.shape[0], h % kinds.shape[1]
            for first in range(0, kinds.shape[2], step):
                begin, end = first * rows, min(queries, (first + step) * rows)
                try:
                    shown = create_mask(
                        lambda bb, hh, q, k: block_mask.mask_mod(bb + b, hh + h, q + begin, k), 1, 1, end - begin, keys, kinds.device
                    )[0, 0]
                except Exception:  # a mod that can be traced and not be computed for many pairs at once: both are asked
                    return False
                place = slice(first, first + step)
                most, least = _limits(shown, rows, columns)
                if (most & hidden[at][place]).any() or (~least & full[at][place]).any():
                    return False
    return True
