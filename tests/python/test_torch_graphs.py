"""rapt.attend in PyTorch's graphs: operators, torch.compile, functional transforms."""

import pytest
import torch
from test_torch import as_tensors, tensors
from torch.func import functional_call, grad, vmap

import rapt
import rapt.torch
from rapt.torch import _options


def arguments(q, **options):
    from rapt._attend import OPTIONS

    options.setdefault("softcap", 0.0)
    return _options.to_arguments(q, tuple(map(options.get, OPTIONS)))


OPTIONS = [
    {},
    dict(score="alibi", params={"m": torch.rand(4, dtype=torch.float64, requires_grad=True)}, causal="bottom_right"),
    dict(score="t5", params={"table": torch.randn(4, 8, dtype=torch.float64, requires_grad=True), "max_distance": 16}),
    dict(bias=torch.randn(1, 4, 1, 9, dtype=torch.float64, requires_grad=True), mask=torch.rand(7, 9) < 0.8, window=(3, 2)),
    dict(key_lengths=[4, 9], first_query=torch.tensor([1, 2]), rotary=(4, 100.0, True)),
]


@pytest.mark.parametrize("options", OPTIONS)
def test_opcheck(options):
    q, k, v = tensors(grad=True)
    checks = torch.library.opcheck(torch.ops.rapt.attend.default, (q, k, [v], *arguments(q, **options)))
    assert set(checks.values()) == {"SUCCESS"}


def side_by_side(*tensors):
    return [t.transpose(1, 2).contiguous().transpose(1, 2).detach().requires_grad_(t.requires_grad) for t in tensors]


def test_opcheck_of_heads_side_by_side():
    q, k, v = side_by_side(*tensors(grad=True))
    checks = torch.library.opcheck(torch.ops.rapt.attend.default, (q, k, [v], *arguments(q)))
    assert set(checks.values()) == {"SUCCESS"}
    compiled = torch.compile(lambda x: rapt.attend(*(t.transpose(1, 2) for t in x)).transpose(1, 2).flatten(-2), fullgraph=True)
    x = torch.randn(3, 2, 7, 4, 8, dtype=torch.float64, requires_grad=True)
    expected = rapt.attend(*(t.transpose(1, 2) for t in x)).transpose(1, 2).flatten(-2)
    torch.testing.assert_close(compiled(x), expected)
    torch.testing.assert_close(*(torch.autograd.grad(y.pow(2).sum(), x)[0] for y in (compiled(x), expected)))


@pytest.mark.parametrize("arrange", [lambda *t: t, side_by_side])
def test_opcheck_of_the_backward_operator(arrange):
    q, k, v = arrange(*tensors())
    given = arguments(q)
    out, _, rows = torch.ops.rapt.attend(q, k, [v], *given)
    call = ([torch.randn_like(out)], None, [out], rows, q, k, [v], *given)
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    checks = torch.library.opcheck(torch.ops.rapt.attend_backward.default, call, test_utils=tests)
    assert set(checks.values()) == {"SUCCESS"}


@pytest.mark.parametrize("options", OPTIONS)
def test_compile_in_one_graph(options):
    q, k, v = tensors(grad=True)

    def call(q, k, v):
        return rapt.attend(q * 2, k, v, **options).sin()

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    eager, traced = call(q, k, v), compiled(q, k, v)
    torch.testing.assert_close(traced, eager, atol=0, rtol=0)
    expected = torch.autograd.grad(eager.sum(), (q, k, v))
    for a, b in zip(torch.autograd.grad(traced.sum(), (q, k, v)), expected):
        torch.testing.assert_close(a, b, atol=0, rtol=0)


def test_compile_with_inductor_and_dynamic_shapes():
    def call(x):
        return rapt.torch.scaled_dot_product_attention(x, x, x, is_causal=True) + 1

    compiled = torch.compile(call, fullgraph=True, dynamic=True)
    for length in (5, 9, 17):
        x = torch.randn(2, 4, length, 8)
        torch.testing.assert_close(compiled(x), call(x))


def test_compile_a_module():
    module = rapt.torch.MultiHeadAttention(32, 4, score="t5", causal="top_left")
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 9, 32)
    expected = torch.autograd.grad(module(x).sum(), list(module.parameters()))
    for a, b in zip(torch.autograd.grad(compiled(x).sum(), list(module.parameters())), expected):
        torch.testing.assert_close(a, b)


VMAPS = [(0, 0, 0), (0, None, None), (None, 1, None), (1, 0, 2), (None, None, 0)]


@pytest.mark.parametrize("dims", VMAPS)
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_vmap(dims, rank):
    inputs = tensors(key_heads=4)
    inputs = [x if rank == 4 else x[0] if rank == 3 else x[0, 0] for x in inputs]
    mapped = [x if d is None else torch.stack([x, 2 * x, -x], d) for x, d in zip(inputs, dims)]
    result = vmap(rapt.attend, dims)(*mapped)
    for n in range(3):
        one = [x if d is None else x.select(d, n) for x, d in zip(mapped, dims)]
        torch.testing.assert_close(result[n], rapt.attend(*one))


def test_vmap_of_a_bias_a_mask_and_parameters():
    q, k, v = tensors()
    bias = torch.randn(3, 4, 7, 9, dtype=torch.float64)
    masks = torch.rand(3, 7, 9) < 0.7
    slopes = torch.rand(3, 4, dtype=torch.float64)
    got = vmap(lambda b, m: rapt.attend(q, k, v, bias=b, mask=m, key_lengths=[4, 9]))(bias, masks)
    lengths = torch.tensor([4, 9])
    inside = vmap(lambda b: rapt.attend(q, k, v, bias=b, first_query=lengths, key_lengths=lengths))(bias)
    learned = vmap(lambda m: rapt.attend(q, k, v, score="alibi", params={"m": m}))(slopes)
    for n in range(3):
        torch.testing.assert_close(got[n], rapt.attend(q, k, v, bias=bias[n], mask=masks[n], key_lengths=[4, 9]))
        one = rapt.attend(q, k, v, bias=bias[n], first_query=[4, 9], key_lengths=[4, 9])
        torch.testing.assert_close(inside[n], one)
        torch.testing.assert_close(learned[n], rapt.attend(q, k, v, score="alibi", params={"m": slopes[n]}))


def test_vmap_of_formulas_that_read_the_batch():
    """The vmapped dimension is part of the batch, but is none of the batch that a formula sees."""
    x = torch.randn(3, 2, 2, 6, 8, dtype=torch.float64)
    rows = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 1, 2]], dtype=torch.float64)
    table = torch.randn(2, 6, dtype=torch.float64)
    scores = [
        (rapt.formula("raw*scale + 0.5*batch*j"), None),
        (rapt.formula("raw*scale", visible="rows[batch, i] == rows[batch, j]"), {"rows": rows}),
    ]
    calls = [lambda a, s=s, p=p: rapt.attend(a, a, a, score=s, params=p) for s, p in scores]
    calls.append(lambda a: rapt.torch.flex_attention(a, a, a, lambda s, b, h, i, j: s + table[b, j]))
    calls.append(lambda a: rapt.torch.flex_attention(a, a, a, None, lambda b, h, i, j: rows[b, i] == rows[b, j]))
    for call in calls:
        torch.testing.assert_close(vmap(call)(x), torch.stack([call(one) for one in x]))
        slope = grad(lambda a: call(a).sin().sum())
        torch.testing.assert_close(vmap(slope)(x), torch.stack([slope(one) for one in x]))


def test_results_that_nobody_used_have_no_gradient():
    """Graphs give zeros for them; only softmax has a gradient of lse."""
    q, k, v = tensors(grad=True)

    def both(q, k, v):
        return rapt.attend(q, k, v, normalizer="sparsemax", return_lse=True)

    expected = torch.autograd.grad(both(q, k, v)[0].sin().sum(), (q, k, v))
    out, lse = torch.compile(both, fullgraph=True, backend="aot_eager")(q, k, v)
    for a, b in zip(torch.autograd.grad(out.sin().sum(), (q, k, v), retain_graph=True), expected):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(grad(lambda x: both(x, k, v)[0].sin().sum())(q), expected[0])
    with pytest.raises(ValueError, match="grad_lse: expected the normaliser softmax"):
        lse.sum().backward()
    with pytest.raises(ValueError, match="grad_lse: expected the normaliser softmax"):
        grad(lambda x: both(x, k, v)[1].sum())(q)


def test_numbers_are_those_of_eager_calls():
    """A Python number is one of float64 where any of q, k and v is."""
    q, k, v = tensors()
    call = lambda q, k, v: rapt.attend(q, k, v, score="alibi", params={"m": [0.1, 0.3, 0.7, 0.9]})
    for inputs in ((q, k, v), (q.float(), k, v)):
        torch.testing.assert_close(torch.compile(call, fullgraph=True, backend="aot_eager")(*inputs), call(*inputs), atol=1e-14, rtol=0)


def test_gradients_for_each_sample():
    module = rapt.torch.MultiHeadAttention(16, 2).double()
    params = dict(module.named_parameters())
    x = torch.randn(3, 5, 16, dtype=torch.float64)
    loss = lambda p, one: functional_call(module, p, (one[None],)).square().sum()
    got = vmap(grad(loss), (None, 0))(params, x)
    for n in range(3):
        expected = torch.autograd.grad(loss(params, x[n]), list(params.values()))
        for name, gradient in zip(params, expected):
            torch.testing.assert_close(got[name][n], gradient)


def test_many_gradients_at_once():
    q, k, v = tensors(grad=True)
    m = torch.rand(4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(1, 4, 1, k.shape[2], dtype=torch.float64, requires_grad=True)
    call = lambda q, k, v, m, bias: rapt.attend(q, k, v, score="alibi", params={"m": m}, bias=bias, return_lse=True)
    inputs = (q, k, v, m, bias)
    out, lse = call(*inputs)
    grads = torch.randn(3, *out.shape, dtype=torch.float64), torch.randn(3, *lse.shape, dtype=torch.float64)
    together = torch.autograd.grad((out, lse), inputs, grads, is_grads_batched=True, retain_graph=True)
    mapped = vmap(lambda g, h: torch.autograd.grad((out, lse), inputs, (g, h), retain_graph=True))(*grads)
    twice = vmap(vmap(lambda g: torch.autograd.grad(out, inputs, g, retain_graph=True)))(grads[0][:, None])
    for n in range(3):
        each = torch.autograd.grad((out, lse), inputs, (grads[0][n], grads[1][n]), retain_graph=True)
        of_out = torch.autograd.grad(out, inputs, grads[0][n], retain_graph=True)
        for a, b, c, d, e in zip(together, mapped, each, twice, of_out):
            assert torch.equal(a[n], c) and torch.equal(b[n], c) and torch.equal(d[n, 0], e)
    jacobian = torch.autograd.functional.jacobian
    of = lambda q: rapt.attend(q, k, v).sum((0, 1))
    assert torch.equal(jacobian(of, q, vectorize=True), jacobian(of, q))


def test_twice_is_refused_in_graphs():
    q, k, v = tensors(grad=True)
    with pytest.raises(RuntimeError, match="attend: expected one differentiation, got two"):
        grad(lambda x: grad(lambda y: rapt.attend(y, k, v).sum())(x).sum())(q)
    with pytest.raises(RuntimeError, match="attend: expected gradients in reverse mode"):
        torch.func.hessian(lambda x: rapt.attend(x, k, v).sum())(q)


def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        q, k, v = torch.empty(2, 8, 100, 64), torch.empty(2, 2, 50, 64), torch.empty(2, 2, 50, 32)
        out, lse = rapt.attend(q, k, v, return_lse=True)
    assert out.shape == (2, 8, 100, 32) and lse.shape == (2, 8, 100)


def test_export():
    class Model(torch.nn.Module):
        def forward(self, x):
            return rapt.attend(x, x, x, causal="top_left")

    x = torch.randn(1, 2, 5, 8)
    program = torch.export.export(Model(), (x,))
    torch.testing.assert_close(program.module()(x), rapt.attend(x, x, x, causal="top_left"))
