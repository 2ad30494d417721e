"""The kinds of mods that PyTorch's documentation and attention-gym have, written anew, and what a mod may do to its arguments."""

import numpy
import pytest
import torch
from test_flex import B, D, H, S, causal, dense
from torch.nn import functional
from torch.nn.attention.flex_attention import AuxRequest, and_masks, create_block_mask, noop_mask, or_masks

from rapt.torch import flex_attention


def sliding(width):
    return lambda b, h, q, k: (q >= k) & (q - k <= width)


def dilated(width, dilation):
    return lambda b, h, q, k: (abs(q - k) <= width) & ((q - k) % dilation == 0)


def prefix_lm(length):
    return or_masks(lambda b, h, q, k: k < length, causal)


def documents(inner, lengths):
    """Documents in one row, each masked by its own positions."""
    ends = torch.tensor(lengths).cumsum(0)
    starts = torch.cat([torch.zeros(1, dtype=torch.long), ends])
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    own = lambda n: n - starts[document[n]]
    return lambda b, h, q, k: (document[q] == document[k]) & inner(b, h, own(q), own(k))


def in_groups(inner, size):
    """Batches laid one after the other in one row."""
    return lambda b, h, q, k: (q // size == k // size) & inner(b, h, q % size, k % size)


def neighbourhood(place, columns, rows, width, height):
    """Windows around a pixel that stay within the image."""

    def mask(b, h, q, k):
        (qx, qy), (kx, ky) = place(q), place(k)
        x, y = qx.clamp(width // 2, columns - 1 - width // 2), qy.clamp(height // 2, rows - 1 - height // 2)
        return ((x - kx).abs() <= width // 2) & ((y - ky).abs() <= height // 2)

    return mask


def in_rows(columns):
    return lambda n: (n % columns, n // columns)


def in_tiles(columns, width, height):
    def place(n):
        tile, inner = n // (width * height), n % (width * height)
        return tile % (columns // width) * width + inner % width, tile // (columns // width) * height + inner // width

    return place


def on_z_order(n):
    def even_bits(code):
        code = code & 0x55555555
        for shift, kept in ((1, 0x33333333), (2, 0x0F0F0F0F), (4, 0x00FF00FF), (8, 0x0000FFFF)):
            code = (code | (code >> shift)) & kept
        return code

    return even_bits(n), even_bits(n >> 1)


def sliding_tiles(columns, rows, tile, kernel, text):
    """Tiles of an image that see the tiles around their own, with text behind the image that all queries see."""
    image, across, down = columns * rows, columns // tile, rows // tile
    left, right = kernel // 2, kernel // 2 + kernel % 2 - 1

    def place(n):
        return n // tile**2 // across, n // tile**2 % across

    def mask(b, h, q, k):
        (qy, qx), (ky, kx) = place(q), place(k)
        y, x = qy.clamp(left, down - 1 - right), qx.clamp(left, across - 1 - right)
        near = (ky >= y - left) & (ky <= y + right) & (kx >= x - left) & (kx <= x + right)
        is_image = (q < image) & (k < image)
        return (is_image & near) | ((q < image) & (k >= image) & (k < image + text)) | ((q >= image) & (k < image + text))

    return mask


def of_images(intervals, length):
    """Text that sees the images whose interval it is in: keys are images of `length` tokens each."""
    image = torch.arange(len(intervals)).repeat_interleave(length)
    chained = lambda rows, n: rows[n].movedim(-1, 0) if isinstance(n, torch.Tensor) and n.ndim else rows[n]  # of many at once

    def mask(b, h, q, k):
        interval = chained(intervals, image[k])
        return (q >= interval[0]) & (q < interval[1])

    return mask


def spatial_or_prompt(prompt, frame):
    near = lambda b, h, q, k: torch.abs(q - k) < frame
    across = lambda b, h, q, k: torch.abs((q - prompt) % frame - (k - prompt) % frame) < 2
    return or_masks(near, across, lambda b, h, q, k: q < prompt, lambda b, h, q, k: k < prompt)


def chosen_tiles(tile, count, sees):
    """Queries of a tile see the tiles that were chosen for it."""
    chosen = torch.stack([torch.randperm(S // tile)[:count] for _ in range(B * H * S // tile)]).view(B, H, S // tile, count)
    return lambda b, h, q, k: sees(chosen[b, h, q // tile], k // tile)


def any_of(row, n):
    return (row == n.unsqueeze(-1)).any(dim=-1)


MASKS = {
    "causal": (causal, S),
    "sliding window": (sliding(6), S),
    "dilated sliding window": (dilated(9, 3), S),
    "prefix": (prefix_lm(7), S),
    "documents": (documents(causal, [11, 9, 20]), S),
    "documents without a mask of their own": (documents(noop_mask, [11, 9, 20]), S),
    "groups": (in_groups(causal, 8), S),
    "groups without a mask of their own": (in_groups(noop_mask, 8), S),
    "nothing hidden and a window": (and_masks(noop_mask, sliding(6)), S),
    "nothing hidden or a window": (or_masks(sliding(2), and_masks(noop_mask, sliding(6))), S),
    "neighbourhood": (neighbourhood(in_rows(8), 8, 6, 3, 5), 48),
    "neighbourhood in tiles": (neighbourhood(in_tiles(8, 4, 2), 8, 6, 3, 3), 48),
    "neighbourhood on the Z-order curve": (neighbourhood(on_z_order, 8, 8, 3, 5), 64),
    "sliding tiles": (sliding_tiles(8, 6, 2, 2, 5), 56),
    "sliding tiles of odd kernels": (sliding_tiles(8, 6, 2, 3, 5), 56),
    "images and text": (of_images(torch.tensor([[0, 9], [3, 30], [9, 40]]), 8), 24),
    "sparse video": (spatial_or_prompt(5, 7), S),
    "chosen tiles": (chosen_tiles(5, 3, any_of), S),
    "chosen tiles by isin": (chosen_tiles(5, 4, lambda row, n: torch.isin(n, row) if n.ndim == 0 else any_of(row, n)), S),
    "tiles in a range": (chosen_tiles(5, 3, lambda row, n: ((row - 1 <= n[..., None]) & ~(row < n[..., None] - 4)).all(-1)), S),
    "tiles about the mean": (chosen_tiles(5, 2, lambda row, n: (n * 2 + 2 >= row.sum(-1)) & torch.any(row != 9, -1)), S),
}


def compared(q, k, v, score_mod, mask_mod, *learned):
    """Forward and backward against PyTorch's eager operations on dense scores."""
    block_mask = None if mask_mod is None else create_block_mask(mask_mod, *q.shape[:2], q.shape[2], k.shape[2], device="cpu", BLOCK_SIZE=16)
    out, expected = flex_attention(q, k, v, score_mod, block_mask), dense(q, k, v, score_mod, mask_mod)
    torch.testing.assert_close(out, expected)
    inputs = (q, k, v, *learned)
    for a, b in zip(*(torch.autograd.grad(x.sin().sum(), inputs) for x in (out, expected))):
        torch.testing.assert_close(a, b)


def numbers(keys=S):
    return [torch.randn(B, H, n, D, dtype=torch.float64, requires_grad=True) for n in (keys if keys >= S else S, keys, keys)]


@pytest.mark.parametrize("name", MASKS)
def test_mask(name):
    torch.manual_seed(2)
    mask_mod, keys = MASKS[name]
    q, k, v = numbers(keys)
    compared(q, k, v, None, mask_mod)
    compared(q, k, v, lambda s, b, h, i, j: torch.where(i > j, s * 0.5, s), mask_mod)


# What a score_mod does to its arguments; i and j are places.
SCORES = {
    "alibi": lambda s, b, h, i, j: s + (j - i) * torch.exp2(-((h + 1) * 8.0 / H)),
    "soft capping": lambda s, b, h, i, j: 5 * torch.tanh(s / 5),
    "relative": lambda s, b, h, i, j: s + (i - j),
    "relative in heads": lambda s, b, h, i, j: torch.where(h % 2 == 0, s + (i - j), s),
    "a fill": lambda s, b, h, i, j: s.masked_fill(i < j, -float("inf")),
    "torch's fill": lambda s, b, h, i, j: torch.masked_fill(s, (i < j) & (h < 2), -2.5),
    "a method where": lambda s, b, h, i, j: s.where(i >= j, -float("inf")),
    "a tensor's where": lambda s, b, h, i, j: s * torch.tensor(2.0, dtype=torch.float64).where(i >= j, 0.5),
    "numbers like": lambda s, b, h, i, j: torch.where(i > j, torch.zeros_like(s), torch.full_like(s, 0.3)) + s * torch.ones_like(s),
    "integers like": lambda s, b, h, i, j: s + torch.full_like(i, 2) * torch.zeros_like(i > j) + torch.full_like(j, 0.7, dtype=torch.float64),
    "new numbers": lambda s, b, h, i, j: torch.where(i > j, s, s.new_zeros(())) + s.new_full((), 0.2) + i.new_ones(()) / 4 + s.new_tensor(0.5),
    "types and devices": lambda s, b, h, i, j: s + torch.tensor(0.25, dtype=s.dtype, device=s.device) * (i - j).to(s.dtype).to(s.device),
    "type of a difference": lambda s, b, h, i, j: s + ((i - j) * 0.4).to((i - j).dtype) + (i / 3).type_as(i) + (i > j).to(s.dtype),
    "copies": lambda s, b, h, i, j: s.clone() * (i - j).detach().contiguous(),
    "shapes": lambda s, b, h, i, j: s + len(i.shape if i.ndim == 0 else ()) + (0.5 if s.is_floating_point() and not i.is_floating_point() else 9),
    "gelu": lambda s, b, h, i, j: functional.gelu(s, approximate="tanh") + torch.nn.GELU()(s * 2),
    "logarithm of an activation": lambda s, b, h, i, j: torch.log(functional.gelu(s) + 1.0),
    "error function": lambda s, b, h, i, j: torch.erf(s) + s.erfc() * torch.special.erf(s * 3),
    "units with exponentials": lambda s, b, h, i, j: functional.elu(s, 0.7) + functional.celu(s, 1.3) + functional.selu(s) + functional.mish(s),
    "units of pieces": lambda s, b, h, i, j: functional.leaky_relu(s, 0.1) + functional.relu6(s * 5) + functional.hardtanh(s) - functional.hardswish(s * 3) * functional.hardsigmoid(s),
    "signs and shrinkage": lambda s, b, h, i, j: functional.softsign(s) + functional.tanhshrink(s) + functional.logsigmoid(s * 9),
    "silu": lambda s, b, h, i, j: functional.silu(s) - torch.relu(s) + functional.relu(s * 2),
    "softplus": lambda s, b, h, i, j: functional.softplus(s) + functional.softplus(s * 30, beta=2, threshold=5),
    "logarithms": lambda s, b, h, i, j: s + torch.log1p(i.double()) + torch.log10(j.double() + 1) + torch.log2((i - j).double() + 100) + torch.special.log1p(s * s),
    "expm1": lambda s, b, h, i, j: torch.expm1(s) + (s * 1e-9).expm1() * 1e9,
    "remainders": lambda s, b, h, i, j: s + torch.fmod(i - j, 5) + (i - j).fmod(3.5) + (j - i) % 3 + torch.remainder(i - j, 4),
    "limits": lambda s, b, h, i, j: s.clamp_min(-0.5) + torch.clamp_max(s, 0.25) + s.clip(max=1.0),
}


@pytest.mark.parametrize("name", SCORES)
def test_score(name):
    torch.manual_seed(4)
    compared(*numbers(), SCORES[name], None)


REFUSED = {
    "gelu: expected approximate none or tanh, got 'fast'": lambda s, b, h, i, j: functional.gelu(s, approximate="fast"),
    "expected an attribute or a method that formulas have, got .cumsum of a number": lambda s, b, h, i, j: s.cumsum(0),
    "got .item of a number that is not known yet": lambda s, b, h, i, j: s + i.item(),
    "got .T of a number": lambda s, b, h, i, j: s.T,
    "detach: expected an index or a condition": lambda s, b, h, i, j: s.detach(),
    r"expected the size of one number, \(\), got \(3,\)": lambda s, b, h, i, j: s.new_zeros(3),
    "size: expected none of a number's dimensions": lambda s, b, h, i, j: s.size(0),
    "abs: expected arguments that formulas know, got others": lambda s, b, h, i, j: torch.abs(s, out=torch.ones(1)),
    "expected a function that formulas have, got torch.lerp": lambda s, b, h, i, j: torch.lerp(s, s, 0.5),
    "got a row: index every dimension": lambda s, b, h, i, j: torch.ones(3, 3)[i].cumsum(0),
    "expected a number, got Vector": lambda s, b, h, i, j: torch.where(torch.ones(3, 3)[i] == j, s, 0),
    "expected a number of a captured tensor, got a row": lambda s, b, h, i, j: s if torch.ones(3, 3)[i] > j else -s,
    "got a row": lambda s, b, h, i, j: torch.ones(3, 3, 3)[i] + j,
    "expected at most 256 numbers in a row of a captured tensor, got 300": lambda s, b, h, i, j: s + torch.ones(3, 300)[i].sum(),
    "sum: expected the last dimension without keepdim, got dim=1": lambda s, b, h, i, j: s + torch.ones(3, 3)[i].sum(1),
    "expected rows of 3 numbers, got one of another length": lambda s, b, h, i, j: s + (torch.ones(3, 3)[i] * torch.ones(3, 4)[j]).sum(),
    "expected an index for every dimension of a captured tensor, got a slice": lambda s, b, h, i, j: torch.ones(3, 3)[i, :],
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    q = torch.randn(1, 1, 4, 8)
    with pytest.raises(TypeError, match=message):
        flex_attention(q, q, q, REFUSED[message])


def test_negative_indices_count_from_the_end():
    """As PyTorch's: also in tables of tables, and behind casts. An index beyond a dimension is none of the next row."""
    torch.manual_seed(11)
    table = torch.randn(S, dtype=torch.float64, requires_grad=True)
    wide = torch.randn(B, S, H + 3, S, dtype=torch.float64, requires_grad=True)
    pages = torch.randint(-S, S, (B, S))
    mods = [
        (lambda s, b, h, i, j: s + table[j - 6], table),
        (lambda s, b, h, i, j: s + table[-1] * table[i - S], table),
        (lambda s, b, h, i, j: s + table[pages[b, j]], table),
        (lambda s, b, h, i, j: s + wide[b, i, h - 2, j - 3] * wide[-1, 0, -2, j], wide),
        (lambda s, b, h, i, j: s + table[((i - j) / 2).int()], table),
        (lambda s, b, h, i, j: s + table[(i * 1.0 - j).round().long()] * table[(~(i - j < 3)).long() - 1], table),
    ]
    q, k, v = numbers()
    for mod, learned in mods:
        compared(q, k, v, mod, None, learned)
    compiled = torch.compile(lambda q, k, v: flex_attention(q, k, v, mods[3][0]), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, v), dense(q, k, v, mods[3][0]))
    beyond = flex_attention(q, k, v, lambda s, b, h, i, j: s + wide[b, i, h + 5, j])
    assert beyond[:, 2:].isnan().all() and not beyond[:, :2].isnan().any()
    with pytest.raises(IndexError, match="expected an index of a captured tensor from -7 to 6, got -8"):
        flex_attention(q, k, v, lambda s, b, h, i, j: s + wide[b, i, -8, j])


def test_indices_that_are_not_negative_stay_as_they_are(monkeypatch):
    """Tables of offsets are known to the engine by their index."""
    from rapt.torch import flex

    table, pages = torch.randn(2 * S), torch.arange(S)
    mods = [
        lambda s, b, h, i, j: s + table[j - i + S - 1],
        lambda s, b, h, i, j: s + table[(i - j).clamp(-8, 8) + 8],
        lambda s, b, h, i, j: s + table[torch.log2(abs(i - j) + 1.0).floor().int()],
        lambda s, b, h, i, j: s + table[(i - j) % 7] * table[(j - i) // 2 + S] * table[pages[i]],
        lambda s, b, h, i, j: s + table[torch.where(i > j, i - j, 0).clamp(min=0) + h] * table[-(-j) + (i > j)],
    ]
    for mod in mods:
        text = flex.trace(mod, None, (B, H, S, S), torch.float32, torch.device("cpu"))[0].score
        assert "< 0" not in text, text


def test_too_many_indices():
    q, table = torch.randn(1, 1, 4, 8), torch.ones(9)
    with pytest.raises(IndexError, match="expected 1 index in a captured tensor, got 2"):
        flex_attention(q, q, q, lambda s, b, h, i, j: s + table[i, j])


@torch.library.custom_op("rapt_test::tanh", mutates_args=())
def half_tanh(x: torch.Tensor, y: torch.Tensor, factor: float) -> torch.Tensor:
    """Named like a function of PyTorch, and another."""
    return torch.tanh(x) * factor + y.abs()


half_tanh.register_autograd(
    lambda ctx, g: (g * 0.5 * (1 - torch.tanh(ctx.x) ** 2), None, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0])
)


class _Tanh(torch.autograd.Function):
    """As attention-gym has an approximate tanh: an operator, with a gradient from its result."""

    @staticmethod
    def forward(x):
        return torch.ops.rapt_test.tanh(x, torch.zeros_like(x), 0.5)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        return grad * (0.5 - 2 * ctx.saved_tensors[0] ** 2)


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


def test_operators_of_others():
    """Those whose code is Python's are what they compute, whatever their names are."""
    torch.manual_seed(8)
    compared_to = lambda s, b, h, i, j: 6 * (torch.tanh(s / 3) * 0.5 + (i - j).abs())
    q, k, v = numbers()
    for mod in (
        lambda s, b, h, i, j: 6 * torch.ops.rapt_test.tanh(s / 3, i - j, 0.5),
        lambda s, b, h, i, j: 6 * half_tanh(s / 3, j - i, 0.5),
        lambda s, b, h, i, j: 6 * (_Tanh.apply(s / 3) + (i - j).abs()),
    ):
        out, expected = flex_attention(q, k, v, mod), dense(q, k, v, compared_to)
        torch.testing.assert_close(out, expected)
        for a, b in zip(*(torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (out, expected))):
            torch.testing.assert_close(a, b)
    near = flex_attention(q, k, v, None, create_block_mask(lambda b, h, i, j: torch.ops.rapt_test.tanh((i - j).double(), i, 0.0) >= j, None, None, S, S, device="cpu"))
    torch.testing.assert_close(near, dense(q, k, v, None, causal))


def test_operators_that_leave_pytorch_are_refused():
    @torch.library.custom_op("rapt_test::by_numpy", mutates_args=())
    def by_numpy(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(numpy.tanh(x.numpy()))

    q = torch.randn(1, 1, 4, 8)
    with pytest.raises(TypeError, match="expected a function that formulas have, got torch.numpy"):
        flex_attention(q, q, q, lambda s, b, h, i, j: by_numpy(s))


def test_gradients_that_are_no_derivatives_are_refused():
    q, k, v = numbers()

    def without(s, b, h, i, j):
        with torch.no_grad():
            part = s * 2
        return s + part

    for mod in (without, lambda s, b, h, i, j: _Rounded.apply(s)):
        with pytest.raises(TypeError, match="expected a gradient that is the derivative of the result, got another one"):
            flex_attention(q, k, v, mod)
        with torch.no_grad():
            torch.testing.assert_close(flex_attention(q, k, v, mod), dense(q, k, v, mod))
    with torch.no_grad():
        flex_attention(q, k, v, lambda s, b, h, i, j: s * 2)


def _rounded_in_a_helper(s):
    return _Rounded.apply(s) if True else s


apply_rounded = _Rounded.apply


@pytest.mark.parametrize("full", [True, False])
def test_gradients_that_are_no_derivatives_are_refused_while_compiling(full):
    q, k, v = numbers()

    def without(s, b, h, i, j):
        with torch.no_grad():
            part = s * 2
        return s + part

    outside = [without, lambda s, b, h, i, j: _Rounded.apply(s), lambda s, b, h, i, j: s + _rounded_in_a_helper(s), lambda s, b, h, i, j: apply_rounded(s)]
    for mod in outside[: 4 if full else 1]:
        with pytest.raises(RuntimeError, match="expected a gradient that is the derivative of the result, got another one"):
            torch.compile(lambda q: flex_attention(q, k, v, mod), fullgraph=full, backend="aot_eager")(q)

    def inside(q):
        table = q[0, 0, 0] * 2
        return flex_attention(q, k, v, lambda s, b, h, i, j: _Rounded.apply(s) + table[h])

    with pytest.raises(RuntimeError, match="expected a gradient that is the derivative of the result, got another one"):
        torch.compile(inside, fullgraph=full, backend="aot_eager")(q)

    class Box:
        def __init__(self, tensor):
            self.tensor = tensor

    def of_the_graph(q):
        box = Box(q.sum())
        part = lambda s: _Rounded.apply(s)
        return flex_attention(q, k, v, lambda s, b, h, i, j: part(s) * box.tensor)

    with pytest.raises(RuntimeError, match="score_mod: expected one that is defined outside the compiled function"):
        torch.compile(of_the_graph, fullgraph=full, backend="aot_eager")(q)
    with torch.no_grad():
        compiled = torch.compile(lambda q: flex_attention(q, k, v, outside[1]), fullgraph=full, backend="aot_eager")
        torch.testing.assert_close(compiled(q), dense(q, k, v, outside[1]))


def test_derivatives_by_hand_are_taken_while_compiling():
    """Gradients of an autograd.Function that are derivatives, beside tensors of the graph."""
    q, k, v = numbers()

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0]

    def call(q, factor, named):
        table, shift = q.detach()[0, 0, :, 0] * factor, [0.5, 2]
        inner = lambda s: Square.apply(s * 0.5)
        return flex_attention(q, k, v, lambda s, b, h, i, j: inner(s) + table[i] * shift[1] + named["one"][j])

    named = {"one": torch.randn(S, dtype=torch.float64)}
    out, expected = torch.compile(call, fullgraph=True, backend="aot_eager")(q, 3, named), call(q, 3, named)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(*(torch.autograd.grad(x.sin().sum(), q)[0] for x in (out, expected)))


def test_functions_of_pytorch_by_their_operators():
    q = torch.randn(1, 1, 4, 8)
    torch.testing.assert_close(
        flex_attention(q, q, q, lambda s, b, h, i, j: torch.ops.aten.tanh(s)), dense(q, q, q, lambda s, b, h, i, j: torch.tanh(s))
    )


def test_rope_beside_latent_attention():
    torch.manual_seed(5)
    q, k, v = numbers()
    query_rope, key_rope = (torch.randn(B, n, S, 12, dtype=torch.float64, requires_grad=True) for n in (H, 1))
    out = flex_attention(q, k, v, lambda s, b, h, i, j: s + 0.3 * torch.dot(query_rope[b, h, i], key_rope[b, h // H, j]))
    scores = q @ k.transpose(-1, -2) * D**-0.5 + 0.3 * query_rope @ key_rope.transpose(-1, -2)
    expected = scores.softmax(-1) @ v
    torch.testing.assert_close(out, expected)
    inputs = (q, k, v, query_rope, key_rope)
    for a, b in zip(*(torch.autograd.grad(x.sin().sum(), inputs) for x in (out, expected))):
        torch.testing.assert_close(a, b)


def test_largest_scores():
    q, k, v = (torch.randn(B, H, S, D, requires_grad=True) for _ in range(3))
    table = torch.randn(H, requires_grad=True)
    mod = lambda s, b, h, i, j: s * table[h] - 0.1 * (i - j)
    block_mask = create_block_mask(lambda b, h, i, j: i > j, None, None, S, S, device="cpu", BLOCK_SIZE=16)
    request = AuxRequest(lse=True, max_scores=True)
    out, found = flex_attention(q, k, v, mod, block_mask, return_aux=request)
    apart = torch.arange(S)[:, None] - torch.arange(S)
    scores = (q @ k.mT * D**-0.5 * table[:, None, None] - 0.1 * apart).masked_fill(apart <= 0, -torch.inf)
    torch.testing.assert_close(out, dense(q, k, v, mod, lambda b, h, i, j: i > j), atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(found.lse, scores.logsumexp(-1), atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(found.max_scores, scores.amax(-1), atol=2e-6, rtol=1e-5, check_stride=False)
    assert found.max_scores[0, 0, 0] == -torch.inf  # a row that sees nothing
    assert found.lse.requires_grad and not found.max_scores.requires_grad
    assert flex_attention(q, k, v, return_aux=AuxRequest(max_scores=True))[1].lse is None
    assert flex_attention(q, k, v, return_aux=AuxRequest(lse=True))[1].max_scores is None
    call = lambda q, k, v: flex_attention(q, k, v, mod, block_mask, return_aux=request)[1].max_scores
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")(q, k, v)
    torch.testing.assert_close(compiled, found.max_scores)
    each = lambda q, k, v: flex_attention(q, k, v, mod, return_aux=request)[1].max_scores
    torch.testing.assert_close(torch.vmap(each)(*(x[:, None] for x in (q, k, v)))[:, 0], each(q, k, v))
    with pytest.raises(ValueError, match="return_aux: expected None where return_lse is set"):
        flex_attention(q, k, v, return_lse=True, return_aux=request)


def test_attributes_and_fills_compile_in_one_graph():
    def mod(s, b, h, i, j):
        half = torch.full_like(s, 0.5).masked_fill(i > j, 0.25) * torch.ones_like(s)
        return s * half + (i - j).to(s.dtype) * s.new_tensor(0.1) + functional.silu(s).where(i > 3, torch.zeros_like(s))

    q, k, v = (x.float() for x in numbers())
    mask = and_masks(noop_mask, causal)
    call = lambda q, k, v: flex_attention(q, k, v, mod, mask).sin()
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")(q, k, v)
    torch.testing.assert_close(compiled, dense(q, k, v, mod, mask).sin(), atol=1e-5, rtol=1e-4)
