"""Block masks of flex_attention: listed as full, or listed as partial and shown by the mask_mod."""

import pytest
import torch
from test_flex import B, D, H, S, causal, dense
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, noop_mask

from rapt.torch import _blocks, flex, flex_attention

SIZE = 8
BLOCKS = S // SIZE


def numbers(batch=B, heads=H, length=S):
    return [torch.randn(batch, heads, length, D, dtype=torch.float64, requires_grad=True) for _ in range(3)]


def ordered(listed):
    """(numbers, indices) of listed blocks; what stands behind the numbers is nonsense."""
    order = listed.int().argsort(dim=-1, descending=True, stable=True).int()
    counts = listed.sum(-1, dtype=torch.int32)
    behind = torch.arange(order.shape[-1]) >= counts[..., None]
    return counts, order.masked_fill(behind, 77)


def mask_of(partial, full, mask_mod, size=SIZE):
    """A BlockMask made directly, of what is listed in [B, H, rows, columns]."""
    lists = ordered(partial) + (ordered(full) if full is not None else (None, None))
    length = partial.shape[-1] * size
    return BlockMask((length, length), *lists, None, None, None, None, (size, size), mask_mod or noop_mask)


def shown(partial, full, mask_mod, size=SIZE):
    """Pair by pair."""

    def mask(b, h, q, k):
        at = b % partial.shape[0], h % partial.shape[1], q // size, k // size
        inner = torch.ones_like(q >= k) if mask_mod is None else mask_mod(b, h, q, k)
        return (partial[at] & inner) if full is None else full[at] | (partial[at] & inner)

    return mask


def lists(*shape, seed=0):
    kind = torch.randint(0, 3, (*shape, BLOCKS, BLOCKS), generator=torch.Generator().manual_seed(seed))
    return kind == 1, kind == 2


def compared(block_mask, mask, attention=flex_attention, inputs=None):
    q, k, v = inputs or numbers()
    out, expected = attention(q, k, v, None, block_mask), dense(q, k, v, None, mask)
    torch.testing.assert_close(out, expected)
    for a, b in zip(*(torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (out, expected))):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("shape", [(1, 1), (B, 1), (1, H), (B, H), (1, 2)])
@pytest.mark.parametrize("mask_mod", [causal, None, lambda b, h, q, k: (q + k + h) % 3 != b])
def test_lists_and_a_mask_mod(shape, mask_mod):
    partial, full = lists(*shape, seed=sum(shape))
    compared(mask_of(partial, full, mask_mod), shown(partial, full, mask_mod))
    compared(mask_of(partial, None, mask_mod), shown(partial, None, mask_mod))


def test_chosen_blocks():
    """As video sparse attention chooses them: blocks by a score, the last one cut off by a mask_mod."""
    length = S - 3
    scores = torch.randn(B, H, BLOCKS, BLOCKS)
    partial = torch.zeros(B, H, BLOCKS, BLOCKS, dtype=torch.bool).scatter(-1, scores.topk(2).indices, True)
    cut = lambda b, h, q, k: (q < length) & (k < length)
    compared(mask_of(partial, None, cut), shown(partial, None, cut))


def test_lists_compile_in_one_graph():
    partial, full = lists(1, H)
    for block_mask, mask in (
        (mask_of(partial, full, causal), shown(partial, full, causal)),
        (mask_of(partial, full, None), shown(partial, full, None)),
        (create_block_mask(causal, None, None, S, S, device="cpu", BLOCK_SIZE=16), causal),
    ):
        call = torch.compile(lambda q, k, v, _, mask=block_mask: flex_attention(q, k, v, None, mask), fullgraph=True, backend="aot_eager")
        compared(block_mask, mask, lambda q, k, v, _, mask, call=call: call(q, k, v, None))


def test_lists_under_vmap():
    partial, full = lists(1, H)
    block_mask = mask_of(partial, full, causal)
    x = torch.randn(3, B, H, S, D, dtype=torch.float64)
    call = lambda x: flex_attention(x, x, x, None, block_mask)
    torch.testing.assert_close(torch.vmap(call)(x), torch.stack([call(one) for one in x]))


def texts(monkeypatch):
    """What the engine is given to see."""
    found, attend = [], flex._api.attend
    monkeypatch.setattr(flex._api, "attend", lambda *x, **options: found.append(options["score"].visible) or attend(*x, **options))
    return found


def test_what_create_block_mask_makes_is_its_mask_mod(monkeypatch):
    """Offsets stay ranges of keys, and the comparison is done once."""
    seen, compares = texts(monkeypatch), []
    compare = _blocks._shows_what_its_mod_does
    monkeypatch.setattr(_blocks, "_shows_what_its_mod_does", lambda *x: compares.append(1) or compare(*x))
    q, k, v = numbers()
    documents = torch.arange(S) // 7
    for mask_mod in (causal, lambda b, h, i, j: documents[i] == documents[j], lambda b, h, i, j: (j <= i + h) & (j != b)):
        for sizes in ((None, None), (B, H)):
            if sizes == (None, None) and mask_mod is not causal:
                continue
            block_mask = create_block_mask(mask_mod, *sizes, S, S, device="cpu", BLOCK_SIZE=SIZE)
            seen.clear(), compares.clear()
            for _ in range(3):
                flex_attention(q, k, v, None, block_mask)
            flex_attention(q, k, v, None, mask_mod)
            assert len(set(seen)) == 1 and len(compares) == 1
    block_mask = create_block_mask(lambda b, h, i, j: (i & 24) >= (j & 24), None, None, S, S, device="cpu", BLOCK_SIZE=SIZE)
    compares.clear()
    for _ in range(2):  # bits become a table, anew in every call
        compared(block_mask, block_mask.mask_mod)
    assert len(compares) == 1
    documents[:] = torch.arange(S) // 9  # the lists are those of before
    block_mask = create_block_mask(lambda b, h, i, j: documents[i] == documents[j], None, None, S, S, device="cpu", BLOCK_SIZE=SIZE)
    flex_attention(q, k, v, None, block_mask)
    documents[:] = torch.arange(S) // 11
    kinds = block_mask.to_dense()[0, 0].bool()
    full = _blocks._listed(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, BLOCKS)[0, 0].bool()
    mask = lambda b, h, i, j: full[i // SIZE, j // SIZE] | (kinds[i // SIZE, j // SIZE] & (documents[i] == documents[j]))
    compared(block_mask, mask)


def test_what_lists_leave_out_is_refused():
    q, k, v = numbers()
    small = create_block_mask(causal, None, None, S - 16, S, device="cpu", BLOCK_SIZE=SIZE)
    with pytest.raises(ValueError, match="block_mask: expected one of 40 queries at least, got one of 24"):
        flex_attention(q, k, v, None, small)
    small = create_block_mask(causal, None, None, S, S - 16, device="cpu", BLOCK_SIZE=SIZE)
    with pytest.raises(ValueError, match="block_mask: expected one of 40 keys at least, got one of 24"):
        flex_attention(q, k, v, None, small)
    with pytest.raises(ValueError, match="block_mask: expected a number of heads that divides 4, got 3"):
        flex_attention(q, k, v, None, create_block_mask(causal, None, 3, S, S, device="cpu", BLOCK_SIZE=SIZE))


def test_no_queries_and_blocks_larger_than_the_call():
    mask = create_block_mask(causal, None, None, S, S, device="cpu", BLOCK_SIZE=128)
    compared(mask, causal)
    q, k, v = numbers(length=S - 9)
    compared(mask, causal, inputs=(q, k, v))
    assert flex_attention(q[:, :, :0], k, v, None, mask).shape == (B, H, 0, D)
