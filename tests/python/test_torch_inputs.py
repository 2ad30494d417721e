"""What a call on tensors is given: arrays of other kinds, tensors that are marked, what changes before the backward pass."""

import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import torch
from test_torch import tensors

import rapt
import rapt.torch

OPTIONS = dict(score="alibi", params={"m": [0.5, 0.25, 0.1, 0.2]}, causal="bottom_right")


def test_a_fresh_process_compiles_one_graph():
    program = """
        import rapt, sys, torch
        q = torch.randn(1, 2, 5, 8, requires_grad=True)
        call = lambda q: rapt.attend(q, q, q, causal="top_left") * 2
        out = torch.compile(call, fullgraph=True, backend="aot_eager")(q)
        out.sum().backward()
        print((out - call(q)).abs().max().item(), q.grad.abs().sum().item() > 0)
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert result.stdout == "0.0 True\n", result


@pytest.mark.parametrize("changed", ["key_lengths", "first_query", "params", "array", "dict", "tensor", "bias"])
def test_what_changes_before_the_backward_pass(changed):
    def run(change):
        torch.manual_seed(1)
        q, k, v = (torch.randn(2, 4, 9, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
        slopes = np.array([0.5, 0.25, 0.1, 0.2])
        slopes = slopes if changed == "array" else slopes.tolist()
        lengths, first = [5, 7], [0, 3]
        lengths = torch.tensor(lengths) if changed == "tensor" else lengths
        params, bias = {"m": slopes}, np.zeros((9, 9)) if changed == "bias" else None
        out = rapt.attend(
            q, k, v, score="alibi", params=params, key_lengths=lengths, first_query=first, bias=bias, causal="top_left"
        )
        if change:
            if changed in ("key_lengths", "tensor"):
                lengths[0] = lengths[1] = 2
            elif changed == "first_query":
                first[0] = 4
            elif changed == "dict":
                params["m"] = [9.0] * 4
            elif changed == "bias":
                bias[:] = np.arange(9)
            else:
                slopes[0] = 3.0
        return torch.autograd.grad(out.square().sum(), (q, k, v))

    for a, b in zip(run(True), run(False)):
        torch.testing.assert_close(a, b, atol=0, rtol=0)


def test_arrays_of_numpy_beside_a_tensor():
    q, k, v = tensors(grad=True)
    bias, mask = torch.randn(4, 7, 9, dtype=torch.float64), torch.rand(7, 9) < 0.7
    expected = rapt.attend(q, k, v, bias=bias, mask=mask, **OPTIONS)
    plain = lambda *x: [one.detach().numpy() for one in x]
    own_k, own_v, own_bias, own_mask = plain(k, v, bias, mask)
    out = rapt.attend(q, own_k, own_v, bias=own_bias, mask=own_mask, **OPTIONS)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(*(torch.autograd.grad(x.sin().sum(), q)[0] for x in (out, expected)))
    with torch.no_grad():
        torch.testing.assert_close(rapt.attend(q, own_k, [own_v, v])[0], rapt.attend(q, k, v))
    with pytest.raises(TypeError, match="attend: k: expected an array, got list"):
        rapt.attend(q, [[1.0]], v)


def test_tensors_that_learn_beside_an_array_of_numpy():
    q, k, v = tensors(grad=True)
    array = q.detach().numpy()
    for given in ((k, v), (k.detach(), v), (k.detach(), [v.detach(), v])):
        with pytest.raises(TypeError, match="attend: q: expected a tensor of PyTorch where .* requires a gradient"):
            rapt.attend(array, *given)
    slopes = torch.rand(4, requires_grad=True)
    with pytest.raises(TypeError, match="where m requires a gradient"):
        rapt.attend(array, array, array, score="alibi", params={"m": slopes})
    with torch.no_grad():
        np.testing.assert_array_equal(rapt.attend(array, k, v), rapt.attend(q, k, v).numpy())


def test_negative_views():
    """Such a tensor holds the numbers with their signs turned."""
    q, k, v = tensors(key_heads=4)
    bias = torch.randn(7, 9, dtype=torch.float64)
    slopes = torch.rand(4, dtype=torch.float64)
    view = torch._neg_view
    expected = rapt.attend(-q, -k, -v, bias=-bias, score="alibi", params={"m": -slopes})
    cases = [((view(q), -k, -v), -bias, -slopes), ((-q, view(k), -v), -bias, -slopes), ((-q, -k, view(v)), -bias, -slopes),
             ((-q, -k, -v), view(bias), -slopes), ((-q, -k, -v), -bias, view(slopes))]  # fmt: skip
    for inputs, own_bias, own_slopes in cases:
        torch.testing.assert_close(rapt.attend(*inputs, bias=own_bias, score="alibi", params={"m": own_slopes}), expected)
    q.requires_grad_()
    seed = torch.randn(expected.shape, dtype=torch.float64)
    given = torch.autograd.grad(rapt.attend(q, k, v), q, view(seed))[0]
    torch.testing.assert_close(given, torch.autograd.grad(rapt.attend(q, k, v), q, -seed)[0])


def test_negative_views_where_nothing_is_differentiated():
    q, k, v = tensors(key_heads=4)
    view, bias = torch._neg_view, torch.randn(7, 9, dtype=torch.float64)
    out = torch.randn(2, 4, 7, 5, dtype=torch.float64)
    maximum, total = torch.randn(2, 4, 7, dtype=torch.float64), torch.rand(2, 4, 7, dtype=torch.float64)
    calls = [
        (q, lambda x: rapt.weights(x, k)),
        (k, lambda x: rapt.weights(q, x)),
        (bias, lambda x: rapt.weights(q, k, bias=x)),
        (q, lambda x: rapt.statistics(x, k).entropy),
        (v, lambda x: rapt.partial(q, k, x).out),
        (out, lambda x: rapt.merge([rapt.Partial(x, maximum, total)]).out),
        (out, lambda x: rapt.gradients(q, k, v, x)[0]),
        (out, lambda x: rapt.gradients(q, k, [v], [x])[1]),
        (maximum, lambda x: rapt.gradients(q, k, v, out, grad_lse=x)[0]),
        (k, lambda x: rapt.gradients(q, x, v, out)[0]),
        (k, lambda x: torch.from_numpy(rapt.attend(q.numpy(), x, v))),
        (bias, lambda x: torch.from_numpy(rapt.attend(q.numpy(), k, v, bias=x))),
    ]
    for given, call in calls:
        torch.testing.assert_close(call(view(given)), call(-given))
    with pytest.raises(ValueError, match="Plan: q: expected a tensor of its own numbers, got a view of negated ones"):
        rapt.Plan(view(q), k, v)
    plan = rapt.Plan(q, k, v)
    with pytest.raises(ValueError, match="Plan: out: expected a tensor of its own numbers"):
        plan.run(out=view(out))
    torch.testing.assert_close(plan.run(out=out), rapt.attend(q, k, v))


def test_numbers_that_learn_are_refused():
    """They are no tensors of the graph: their gradient would be missing without a word."""
    q, k, v = tensors(key_heads=4)
    half = torch.tensor(0.5, requires_grad=True)
    calls = [
        lambda scale: rapt.attend(q, k, v, scale=scale),
        lambda scale: rapt.attend(q.numpy(), k.numpy(), v.numpy(), scale=scale),
        lambda scale: rapt.attend(q, k, v, softcap=scale),
        lambda scale: rapt.torch.scaled_dot_product_attention(q, k, v, scale=scale),
        lambda scale: rapt.torch.flex_attention(q, k, v, scale=scale),
        lambda scale: rapt.torch.flex_attention(q, k, v, lambda s, b, h, i, j: i * 0.5, scale=scale),
        torch.compile(lambda scale: rapt.attend(q, k, v, scale=scale), backend="aot_eager"),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="(scale|softcap): expected a number, got a tensor that requires a gradient"):
            call(half)
    for call in calls[:-1]:
        expected = call(0.5)
        torch.testing.assert_close(call(half.detach()), expected)
        with torch.no_grad():
            torch.testing.assert_close(call(half), expected)


def test_parts_say_that_they_have_no_gradient(monkeypatch):
    monkeypatch.setattr(rapt._arrays, "_copied", set())
    q, k, v = tensors(grad=True)
    with pytest.warns(RuntimeWarning, match="partial: the result has no gradient"):
        part = rapt.partial(q, k, v)
    learned = rapt.Partial(part.out.requires_grad_(), part.row_max, part.row_sum)
    with pytest.warns(RuntimeWarning, match="merge: the result has no gradient"):
        rapt.merge([learned])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rapt.partial(q, k, v)  # said once
        rapt._arrays._copied.clear()
        with torch.no_grad():
            rapt.partial(q, k, v)


def test_subclasses_are_seen():
    class Counted(torch.Tensor):
        seen = 0

        @classmethod
        def __torch_function__(cls, function, types, arguments=(), options=None):
            cls.seen += "attend" in str(function)
            return super().__torch_function__(function, types, arguments, options or {})

    q, k, v = tensors(key_heads=4)
    bias = torch.randn(7, 9, dtype=torch.float64)
    expected = rapt.attend(q, k, v, bias=bias)
    of = lambda x: x.as_subclass(Counted)
    for inputs, own in (((q, of(k), v), bias), ((q, k, of(v)), bias), ((q, k, v), of(bias))):
        before = Counted.seen
        out = rapt.attend(*inputs, bias=own)
        assert isinstance(out, Counted) and Counted.seen > before
        torch.testing.assert_close(out.as_subclass(torch.Tensor), expected)


@pytest.mark.filterwarnings("ignore")
def test_jit_tracing_records_the_call():
    q, k, v = tensors(key_heads=4)
    traced = torch.jit.trace(lambda q, k, v: rapt.attend(q, k, v, causal="top_left") * 2, (q, k, v))
    other = tensors(key_heads=4)
    torch.testing.assert_close(traced(*other), rapt.attend(*other, causal="top_left") * 2)


def test_forward_mode_is_refused():
    from torch.autograd import forward_ad

    q, k, v = tensors()
    with forward_ad.dual_level():
        rapt.attend(q, k, v)  # nothing is differentiated
        for n in range(3):
            inputs = [q, k, v]
            inputs[n] = forward_ad.make_dual(inputs[n], torch.ones_like(inputs[n]))
            with pytest.raises(RuntimeError, match="attend: expected gradients in reverse mode"):
                rapt.attend(*inputs)
    with pytest.raises(RuntimeError, match="attend: expected gradients in reverse mode|jvp|forward"):
        torch.func.jvp(lambda x: rapt.attend(x, k, v), (q,), (torch.ones_like(q),))
