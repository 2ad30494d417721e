"""rapt.torch.flex_attention: PyTorch's documented mods and attention-gym's kinds, against the scores as a dense matrix."""

import math

import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask, and_masks, create_block_mask, or_masks

from rapt.torch import flex_attention

B, H, S, D = 2, 4, 40, 16


def dense(query, key, value, score_mod=None, mask_mod=None, scale=None):
    """Every pair of query and key, as PyTorch documents it."""
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = query @ key.transpose(-1, -2) * (scale or query.shape[-1] ** -0.5)
    places = [torch.arange(n) for n in scores.shape]
    b, h, q, k = torch.meshgrid(*places, indexing="ij")
    if score_mod is not None:
        scores = score_mod(scores, b, h, q, k)
    if mask_mod is not None:
        scores = scores.masked_fill(~mask_mod(b, h, q, k), -math.inf)
    hidden = (scores == -math.inf).all(-1, keepdim=True)
    return torch.where(hidden, 0.0, scores.masked_fill(hidden, 0.0).softmax(-1)) @ value


def causal(b, h, q, k):
    return q >= k


def alibi(heads):
    def mod(score, b, h, q, k):
        return score + torch.exp2(-((h + 1) * 8.0 / heads)) * (k - q)

    return mod


def chained(tensor, *places):
    """tensor[a][b]…, which means tensor[a, b, …] where places are single numbers, as they are to a mod."""
    if isinstance(places[0], torch.Tensor):
        return tensor[places]
    for place in places:
        tensor = tensor[place]
    return tensor


def captured():
    """Mods with the tensors that they capture."""
    number = lambda *shape: torch.randn(shape, dtype=torch.float64, requires_grad=True)
    slopes, one = number(H), number()
    relative, by_head = number(2 * S - 1), number(H, 2 * S - 1)
    whole, per_head, per_batch = number(S, S), number(H, S, S), number(B, H, S, S)
    documents = torch.arange(S) // 7
    rows = torch.stack([torch.arange(S) // 5, torch.arange(S) // 9])
    prefix = torch.tensor([5, 11])
    keep = torch.rand(B, S) < 0.8
    return [
        ("no mod", None, None, []),
        ("identity", lambda s, b, h, q, k: s, None, []),
        ("relative positions", lambda s, b, h, q, k: s + (q - k), None, []),
        ("alibi", alibi(H), causal, []),
        ("learned slopes", lambda s, b, h, q, k: s - slopes[h] * torch.abs(q - k), causal, [slopes]),
        ("a learned number", lambda s, b, h, q, k: s * one + 1, causal, [one]),
        ("soft capping", lambda s, b, h, q, k: 20 * torch.tanh(s / 20), causal, []),
        ("table of offsets", lambda s, b, h, q, k: s + relative[q - k + S - 1], None, [relative]),
        ("table of a head", lambda s, b, h, q, k: s + by_head[h, k - q + (S - 1)], None, [by_head]),
        ("dense bias", lambda s, b, h, q, k: s + whole[q, k], None, [whole]),
        ("dense bias of a head", lambda s, b, h, q, k: s + per_head[h, q, k], None, [per_head]),
        ("dense bias of a batch", lambda s, b, h, q, k: s + per_batch[b, h, q, k], causal, [per_batch]),
        ("rows of rows", lambda s, b, h, q, k: s + chained(per_batch, b, h, q, k), None, [per_batch]),
        ("causal by score", lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")), None, []),
        ("sliding window", None, lambda b, h, q, k: (q >= k) & (q - k <= 6), []),
        ("dilated window", None, lambda b, h, q, k: (abs(q - k) <= 9) & (abs(q - k) % 3 == 0), []),
        ("documents", None, lambda b, h, q, k: (documents[q] == documents[k]) & (q >= k), []),
        ("documents of a batch", None, lambda b, h, q, k: chained(rows, b, q) == chained(rows, b, k), []),
        ("prefix", None, lambda b, h, q, k: (k < prefix[b]) | (q >= k), []),
        ("padding", None, lambda b, h, q, k: keep[b, k] & (q >= k), []),
        ("neighbourhood", None, lambda b, h, q, k: ((q // 8 - k // 8).abs() <= 1) & ((q % 8 - k % 8).abs() <= 2), []),
        ("of some heads", None, lambda b, h, q, k: torch.where(h % 2 == 0, q >= k, q <= k), []),
        ("not and xor", None, lambda b, h, q, k: ~(q < k) ^ (k == 3), []),
        ("all of them", None, and_masks(causal, or_masks(lambda b, h, q, k: k < 4, lambda b, h, q, k: q - k < 5)), []),
        ("T5", lambda s, b, h, q, k: s + by_head[h, torch.clamp(torch.log2((q - k).abs() + 1.0), max=9).floor().int()], causal, [by_head]),
        ("distance of squares", lambda s, b, h, q, k: s - ((q - k) ** 2) / (2 * one**2), causal, [one]),
        ("logarithm of the length", lambda s, b, h, q, k: s * torch.log(q.double() + 1).clamp(min=1.0), causal, []),
        ("the score on the right", lambda s, b, h, q, k: 1.0 / (s * s + 1) + 2 - s, None, []),
        ("a quotient by the score", lambda s, b, h, q, k: 1.0 / (1.0 / s), None, []),
        ("casts", lambda s, b, h, q, k: s + ((q - k) / 3).int() + ((q - k) * 0.4).to(torch.int64) + (k > q).int(), None, []),
        ("cast to a table's index", lambda s, b, h, q, k: s + relative[((k - q) / 2).long() + S - 1], None, [relative]),
        ("roundings", lambda s, b, h, q, k: s + ((q - k) / 2).round() + ((q - k) / 3).ceil() + torch.trunc((q - k) / 4.0), None, []),
        ("inverses", lambda s, b, h, q, k: torch.relu(s) + torch.rsqrt(q.double() + 1) + torch.reciprocal(k.double() + 1) + (s.square() + 1).rsqrt(), None, []),
        ("a choice of conditions", None, lambda b, h, q, k: torch.where(h > 1, q >= k, keep[b, k]) & (k != 2), []),
        ("a choice of true and false", None, lambda b, h, q, k: ~torch.where(q < k, True, False), []),
        ("division towards 0", lambda s, b, h, q, k: s + torch.div(q - k, 3, rounding_mode="trunc"), None, []),
        ("sigmoid gate", lambda s, b, h, q, k: s * torch.sigmoid(slopes[h] * (k - q)), None, [slopes]),
    ]  # fmt: skip


@pytest.mark.parametrize("case", range(len(captured())), ids=[name.replace(" ", "_") for name, *_ in captured()])
def test_mod(case):
    torch.manual_seed(case)
    _, score_mod, mask_mod, learned = captured()[case]
    q, k, v = (torch.randn(B, H, S, D, dtype=torch.float64, requires_grad=True) for _ in range(3))
    block_mask = None if mask_mod is None else create_block_mask(mask_mod, B, H, S, S, device="cpu", BLOCK_SIZE=16)
    out = flex_attention(q, k, v, score_mod, block_mask)
    expected = dense(q, k, v, score_mod, mask_mod)
    torch.testing.assert_close(out, expected, atol=1e-10, rtol=1e-10)
    inputs = [q, k, v, *learned]
    mine = torch.autograd.grad(out.sin().sum(), inputs)
    theirs = torch.autograd.grad(expected.sin().sum(), inputs)
    for a, b in zip(mine, theirs):
        torch.testing.assert_close(a, b, atol=1e-8, rtol=1e-8)


RIGHT = {
    "+": lambda s: 2 + s, "-": lambda s: 2 - s, "*": lambda s: 2 * s, "/": lambda s: 2 / s, "//": lambda s: 2 // s,
    "%": lambda s: 2 % s, "**": lambda s: 2**s, "- of -": lambda s: 1 - (2 - s), "/ of /": lambda s: 1 / (2 / s),
    "sub": lambda s: torch.sub(2, s), "div": lambda s: torch.tensor(2.0) / s, "rsub": lambda s: torch.rsub(s, 2),
    "tensor **": lambda s: torch.tensor(2.0) ** s, "neg": lambda s: -s, "<": lambda s: torch.where(0.3 < s, s, -s),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_the_score_on_the_right(name):
    torch.manual_seed(3)
    q, k, v = (torch.rand(1, 2, 9, D, dtype=torch.float64) + 0.1 for _ in range(3))
    mod = lambda s, b, h, i, j: RIGHT[name](s)
    torch.testing.assert_close(flex_attention(q, k, v, mod), dense(q, k, v, mod))


def test_large_captured_integers():
    documents = 2**24 + torch.arange(S) // 5
    mask = lambda b, h, q, k: documents[q] == documents[k]
    q, k, v = (torch.randn(1, 2, S, D) for _ in range(3))
    with pytest.raises(ValueError, match="expected captured integers within ±16777216, which float32 holds"):
        flex_attention(q, k, v, block_mask=mask)
    out = flex_attention(*(x.double() for x in (q, k, v)), block_mask=mask)
    torch.testing.assert_close(out, dense(*(x.double() for x in (q, k, v)), None, mask))
    small = documents.int()  # none of this type is too large for float64
    out = flex_attention(*(x.double() for x in (q, k, v)), block_mask=lambda b, h, q, k: small[q] == small[k])
    torch.testing.assert_close(out, dense(*(x.double() for x in (q, k, v)), None, mask))
    with pytest.raises(RuntimeError, match="expected captured integers within"):
        torch.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=mask), fullgraph=True, backend="aot_eager")(q, k, v)


def test_groups_scale_and_lse():
    q, k, v = torch.randn(B, H, 30, D), torch.randn(B, 2, S, D), torch.randn(B, 2, S, 8)
    out, lse = flex_attention(q, k, v, scale=0.3, enable_gqa=True, return_lse=True)
    torch.testing.assert_close(out, dense(q, k, v, scale=0.3), atol=1e-5, rtol=1e-5)
    scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) * 0.3
    torch.testing.assert_close(lse, scores.logsumexp(-1), atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="key: expected 4 heads as in query, got 2; enable_gqa=True"):
        flex_attention(q, k, v)


def test_it_agrees_with_pytorchs_own():
    from torch.nn.attention.flex_attention import flex_attention as theirs

    q, k, v = (torch.randn(B, H, S, D) for _ in range(3))
    block_mask = create_block_mask(causal, None, None, S, S, device="cpu")
    for score_mod in (None, alibi(H)):
        expected = theirs(q, k, v, score_mod, block_mask)
        torch.testing.assert_close(flex_attention(q, k, v, score_mod, block_mask), expected, atol=2e-6, rtol=1e-5)


def test_blocks_without_a_mask_mod():
    counts = torch.tensor([[[1, 2, 1]]], dtype=torch.int32)
    indices = torch.tensor([[[[0, 1, 2], [0, 1, 2], [2, 0, 1]]]], dtype=torch.int32)
    block_mask = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=16)
    q, k, v = (torch.randn(1, H, 48, D) for _ in range(3))
    listed = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 1]], dtype=torch.bool)
    expected = dense(q, k, v, None, lambda b, h, i, j: listed[i // 16, j // 16])
    torch.testing.assert_close(flex_attention(q, k, v, block_mask=block_mask), expected, atol=1e-5, rtol=1e-5)


def test_what_cannot_be_traced():
    q = torch.randn(1, 1, 4, 8)
    table = torch.randn(4, 4)
    with pytest.raises(TypeError, match="expected where\\(condition, a, b\\) for a choice"):
        flex_attention(q, q, q, lambda s, b, h, i, j: s if i > j else s + 1)
    with pytest.raises(TypeError, match="expected a function that formulas have, got torch.cumsum"):
        flex_attention(q, q, q, lambda s, b, h, i, j: torch.cumsum(s, 0))
    with pytest.raises(TypeError, match="index every dimension|got a row|expected a number"):
        flex_attention(q, q, q, lambda s, b, h, i, j: s + table[i])
    with pytest.raises(TypeError, match="expected conditions, or bits of an index of flex_attention, got numbers"):
        flex_attention(q, q, q, None, lambda b, h, i, j: (i + 1) & 3)


def test_it_compiles_in_one_graph():
    q, k, v = (torch.randn(B, H, S, D, requires_grad=True) for _ in range(3))
    table = torch.randn(H, 2 * S - 1, requires_grad=True)

    def call(q, k, v):
        return flex_attention(q, k, v, lambda s, b, h, i, j: s + table[h, i - j + S - 1]) * 2

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    expected = torch.autograd.grad(call(q, k, v).sin().sum(), (q, k, v, table))
    for a, b in zip(torch.autograd.grad(compiled(q, k, v).sin().sum(), (q, k, v, table)), expected):
        torch.testing.assert_close(a, b)


def test_numbers_that_change_compile_anew():
    q, k, v = (torch.randn(1, 2, S, D) for _ in range(3))
    call = lambda width, factor: flex_attention(q, k, v, lambda s, b, h, i, j: s * factor + (i - j) // width)
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for width, factor in ((3, 0.5), (7, 0.25), (11, 0.75)):
        torch.testing.assert_close(compiled(width, factor), call(width, factor))


def test_threads_trace_their_own_mods():
    from concurrent.futures import ThreadPoolExecutor

    q = torch.randn(1, 1, 8, 4, dtype=torch.float64)
    numbers = [torch.tensor(float(n)) for n in range(8)]

    def call(n):
        return [flex_attention(q, q, q, lambda s, b, h, i, j: s * numbers[n] + numbers[n] * (i - j)) for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        for n, outs in enumerate(pool.map(call, range(8))):
            expected = dense(q, q, q, lambda s, b, h, i, j: s * n + n * (i - j))
            for out in outs:
                torch.testing.assert_close(out, expected)


def z_order(code):
    """The even bits of a number, together: one coordinate of a place on the Z-order curve."""
    code = code & 0x55555555
    for shift, kept in ((1, 0x33333333), (2, 0x0F0F0F0F), (4, 0x00FF00FF), (8, 0x0000FFFF)):
        code = (code | (code >> shift)) & kept
    return code


def test_bits_of_indices():
    """Neighbourhoods on the Z-order (Morton) curve, as attention-gym has them: bits of an index become a table."""

    def near(b, h, q, k):
        apart = lambda of: abs(z_order(of(q)).clamp(1, 6) - z_order(of(k))) <= 1
        return apart(lambda n: n) & apart(lambda n: n >> 1)

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 64, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    for options in ({"mask_mod": near}, {"score_mod": lambda s, b, h, q, k: s + ((q ^ 3) + (5 & k)) * 0.01 + (1 << h)}):
        call = dict(score_mod=options.get("score_mod"), block_mask=options.get("mask_mod"))
        out, expected = flex_attention(q, k, v, **call), dense(q, k, v, **options)
        torch.testing.assert_close(out, expected)
        for a, b in zip(*(torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (out, expected))):
            torch.testing.assert_close(a, b)
    with pytest.raises(TypeError, match="&: expected bits of one index and of integers, got those of others"):
        flex_attention(q, k, v, lambda s, b, h, q, k: s + (q & k))


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_products_of_captured_rows(key_heads):
    """Multi-head latent attention's score, as attention-gym has it: rows of captured tensors beside those of query and key."""
    torch.manual_seed(0)
    number = lambda *shape: torch.randn(shape, dtype=torch.float64, requires_grad=True)
    q, k, v = number(2, 4, 9, 8), number(2, key_heads, 11, 8), number(2, key_heads, 11, 8)
    query_rope, key_rope, own = number(2, 4, 9, 64), number(2, 1, 11, 64), number(4, 11, 64)
    mods = [
        lambda s, b, h, i, j: s + 0.7 * torch.dot(query_rope[b, h, i], key_rope[b, h // 4, j]),
        lambda s, b, h, i, j: torch.tanh(torch.dot(own[h, j], query_rope[b, h, i]) * 0.2 + s) - 0.1 * abs(i - j),
        lambda s, b, h, i, j: s + torch.inner(query_rope[0, 1, i], key_rope[b, 0, j]) + 0.5 * torch.dot(query_rope[b][h][i], own[h, j]),
    ]
    product = lambda a, b: a @ b.transpose(-1, -2)
    by_hand = [
        lambda s: s + 0.7 * product(query_rope, key_rope),
        lambda s: torch.tanh(s + 0.2 * product(query_rope, own)) - 0.1 * (torch.arange(9)[:, None] - torch.arange(11)).abs(),
        lambda s: s + product(query_rope[0, 1], key_rope) + 0.5 * product(query_rope, own),
    ]
    for mod, scores in zip(mods, by_hand):
        for scale in (None, 0.3):
            out = flex_attention(q, k, v, mod, scale=scale, enable_gqa=True)
            full = [x.repeat_interleave(4 // key_heads, 1) for x in (k, v)]
            expected = scores(product(q, full[0]) * (scale or 8**-0.5)).softmax(-1) @ full[1]
            torch.testing.assert_close(out, expected)
            inputs = (q, k, v, query_rope, key_rope, own)
            found = (torch.autograd.grad(x.sin().sum(), inputs, allow_unused=True) for x in (out, expected))
            for a, b in zip(*found):
                torch.testing.assert_close(a, b) if b is not None else None


@pytest.mark.parametrize("key_heads", [1, 2])
def test_products_of_captured_rows_compile_in_one_graph(key_heads):
    torch.manual_seed(1)
    number = lambda *shape: torch.randn(shape, dtype=torch.float64, requires_grad=True)
    inputs = number(2, 4, 9, 8), number(2, key_heads, 11, 8), number(2, key_heads, 11, 8)
    query_rope, key_rope, own = number(2, 4, 9, 6), number(2, 1, 11, 6), number(4, 11, 6)

    def call(q, k, v):
        rope = lambda s, b, h, i, j: s + 0.7 * torch.dot(query_rope[b, h, i], key_rope[b, h // 4, j])
        more = lambda s, b, h, i, j: s + torch.dot(own[(h - 4) + 4, j], query_rope[b, h, i])
        return torch.cat([flex_attention(q, k, v, mod, enable_gqa=True) for mod in (rope, more)])

    torch._dynamo.reset()
    out, expected = torch.compile(call, fullgraph=True, backend="aot_eager")(*inputs), call(*inputs)
    torch.testing.assert_close(out, expected)
    for a, b in zip(*(torch.autograd.grad(x.sin().sum(), (*inputs, query_rope, key_rope, own)) for x in (out, expected))):
        torch.testing.assert_close(a, b)


def test_products_of_captured_rows_that_are_no_columns():
    q = torch.randn(1, 2, 5, 8)
    with pytest.raises(TypeError, match="dot: expected a product of captured rows that is added to the score"):
        flex_attention(q, q, q, lambda s, b, h, i, j: s * torch.dot(q[b, h, i], q[b, h, j]))
    with pytest.raises(TypeError, match="dot: expected one score with a product of captured rows, got others beside it"):
        flex_attention(q, q, q, lambda s, b, h, i, j: torch.where(i > j, s, s + torch.dot(q[b, h, i], q[b, h, j])))
    with pytest.raises(TypeError, match="dot: expected a row at batch, head and one position"):
        flex_attention(q, q, q, lambda s, b, h, i, j: s + torch.dot(q[b, h, i], q[b, h, (i + j) // 2]))
    with pytest.raises(TypeError, match="dot: expected rows of one length, got 8 and 4"):
        flex_attention(q, q, q, lambda s, b, h, i, j: s + torch.dot(q[b, h, i], q[..., :4].contiguous()[b, h, j]))
