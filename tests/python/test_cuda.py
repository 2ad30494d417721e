"""rapt.attend on PyTorch's tensors on a GPU: numbers, gradients, streams, devices, graphs."""

import gpu
import numpy as np
import oracle
import pytest

gpu.needed()

import torch  # noqa: E402
from test_numpy import NAMES, problem  # noqa: E402

import rapt  # noqa: E402
import rapt.torch  # noqa: E402

F = torch.nn.functional


def on_gpu(x, dtype=torch.float32, **options):
    return torch.tensor(np.asarray(x), dtype=dtype, device="cuda", **options)


def tensors(grad=False, dtype=torch.float32, heads=4, key_heads=2, queries=70, keys=90, dim=16, value_dim=24):
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype).requires_grad_(grad)
    return make(2, heads, queries, dim), make(2, key_heads, keys, dim), make(2, key_heads, keys, value_dim)


@pytest.mark.parametrize("score", NAMES)
def test_every_mechanism(score):
    q, k, v, options = problem(score)
    expected, weights, lse = oracle.attend(q, k, v, **options)
    params = {n: x if np.isscalar(x) else on_gpu(x, requires_grad=True) for n, x in (options["params"] or {}).items()}
    inputs = [on_gpu(x, requires_grad=True) for x in (q, k, v)]
    out, got_lse = rapt.attend(*inputs, return_lse=True, **{**options, "params": params})
    assert out.device == inputs[0].device and got_lse.device == out.device
    np.testing.assert_allclose(out.detach().cpu(), expected, atol=2e-5)
    np.testing.assert_allclose(got_lse.detach().cpu(), lse, atol=2e-5)
    found = rapt.weights(inputs[0], inputs[1], **{**options, "params": params})
    np.testing.assert_allclose(found.cpu(), weights, atol=2e-5)
    grad = np.random.default_rng(3).standard_normal(expected.shape)
    (out * on_gpu(grad)).sum().backward()
    dq, dk, dv, d = rapt.gradients(q, k, v, grad, **options)  # on the CPU in float64, which test_gradients.py checks
    for mine, theirs in zip(inputs, (dq, dk, dv)):
        assert mine.grad.is_cuda
        np.testing.assert_allclose(mine.grad.cpu(), theirs, atol=2e-4)
    for name, tensor in params.items():
        if isinstance(tensor, torch.Tensor):
            np.testing.assert_allclose(tensor.grad.cpu().reshape(d[name].shape), d[name], atol=1e-3, err_msg=name)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [None, "top_left", "bottom_right"])
def test_half_precision_against_pytorch(dtype, causal):
    q, k, v = tensors(True, dtype, key_heads=4, queries=128, keys=128, dim=64, value_dim=64)
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal is not None)
    out = rapt.attend(q, k, v, causal=causal)
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, atol=2e-2, rtol=2e-2)
    seed = torch.randn_like(out)
    for mine, theirs in zip(*(torch.autograd.grad(x, (q, k, v), seed.to(x.dtype)) for x in (out, expected))):
        torch.testing.assert_close(mine, theirs, atol=5e-2, rtol=5e-2)


def test_numbers_and_arrays_as_parameters():
    q, k, v = tensors()
    slopes = [0.5, 0.25, 0.1, 0.2]
    expected = rapt.attend(q, k, v, score="alibi", params={"m": on_gpu(slopes)})
    for given in (slopes, np.array(slopes), np.array(slopes, np.float32), tuple(slopes)):
        torch.testing.assert_close(rapt.attend(q, k, v, score="alibi", params={"m": given}), expected, atol=0, rtol=0)
    assert rapt.weights(q, k, score="cosine", params={"tau": 2.0}).is_cuda
    assert rapt.gradients(q, k, v, torch.ones_like(expected), score="alibi", params={"m": slopes})[3]["m"].is_cuda


def late(q):
    """A copy of q that is made on the current stream, behind other work."""
    later = torch.zeros_like(q)
    gpu.busy(torch)
    later.copy_(q)
    return later


def test_work_follows_the_current_stream():
    q, k, v = tensors()
    slopes = torch.rand(4, device="cuda")
    options = dict(score="alibi", params={"m": slopes}, causal="top_left")
    expected = rapt.attend(q, k, v, **options)
    seed = torch.randn_like(expected)
    expected_dq = torch.autograd.grad(rapt.attend(q.requires_grad_(), k, v, **options), q, seed)[0]
    q = q.detach()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        out = rapt.attend(late(q), k, v, **options)
        weights = rapt.weights(late(q), k, **options)
        entropy = rapt.statistics(late(q), k, **options).entropy
        dq = rapt.gradients(late(q), k, v, seed, **options)[0]
        learned = late(q).requires_grad_()
        graded = torch.autograd.grad(rapt.attend(learned, k, v, **options), learned, seed)[0]
        through = torch.ops.rapt.attend(late(q), k, [v], *rapt.torch._options.to_arguments(q, packed(**options)))[0]
        plan = rapt.Plan(q, k, v, **options)
        planned = plan.run(late(q)).clone()
    stream.synchronize()
    for mine in (out, through, planned):
        torch.testing.assert_close(mine, expected, atol=0, rtol=0)
    for mine in (dq, graded):
        torch.testing.assert_close(mine, expected_dq, atol=0, rtol=0)
    torch.testing.assert_close(weights, rapt.weights(q, k, **options), atol=0, rtol=0)
    torch.testing.assert_close(entropy, rapt.statistics(q, k, **options).entropy, atol=0, rtol=0)
    with pytest.raises(ValueError, match="Plan: run: expected the stream that was current when the plan was made"):
        plan.run()


def packed(**options):
    options.setdefault("softcap", 0.0)
    return tuple(map(options.get, rapt._attend.OPTIONS))


def test_calls_do_not_wait():
    q, k, v = tensors()
    rapt.attend(q, k, v)
    torch.cuda.synchronize()
    done = torch.cuda.Event()
    gpu.busy(torch, 200)
    rapt.attend(q, k, v)
    done.record()
    assert not done.query()
    torch.cuda.synchronize()


def test_many_calls_need_no_more_memory():
    q, k, v = tensors(True)
    train = lambda: rapt.attend(q, k, v).sum().backward()
    train()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(20):
        train()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


def test_devices_are_not_mixed():
    q, k, v = tensors(key_heads=4)
    bias, mask = torch.randn(70, 90), torch.rand(70, 90) < 0.5
    cases = [
        ((q, k.cpu(), v), {}, "k: expected an array on cuda:0 as q is, got one on cpu"),
        ((q, k, v.cpu()), {}, "v: expected an array on cuda:0 as q is, got one on cpu"),
        ((q.cpu(), k, v), {}, "k: expected an array on cpu as q is, got one on cuda:0"),
        ((q, k, [v, v.cpu()]), {}, r"expected an array on cuda:0 as q is, got one on cpu"),
        ((q, k, v), dict(bias=bias), "bias: expected an array on cuda:0 as q is, got one on cpu"),
        ((q, k, v), dict(mask=mask), "mask: expected an array on cuda:0 as q is, got one on cpu"),
        ((q, k, v), dict(score="alibi", params={"m": torch.rand(4)}), "'m': expected an array on cuda:0 as q is, got one on cpu"),
        ((q.cpu().numpy(), k, v), {}, "k: expected an array on cpu as q is, got one on cuda:0"),
    ]
    for inputs, options, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            rapt.attend(*inputs, **options)
        if not isinstance(inputs[0], np.ndarray) and not isinstance(inputs[2], list):
            with pytest.raises(ValueError, match=sentence):
                rapt.gradients(*inputs, torch.ones(2, 4, 70, 24, device=inputs[0].device), **options)
    with pytest.raises(ValueError, match="out: expected"):
        rapt.Plan(q, k, v).run(out=torch.empty(2, 4, 70, 24))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU")
def test_several_devices():
    q, k, v = tensors()
    with pytest.raises(ValueError, match="k: expected an array on cuda:0 as q is, got one on cuda:1"):
        rapt.attend(q, k.to("cuda:1"), v)
    other = [x.to("cuda:1") for x in (q, k, v)]
    torch.testing.assert_close(rapt.attend(*other).cpu(), rapt.attend(q, k, v).cpu(), atol=0, rtol=0)


def test_streams_side_by_side():
    """Calls on several streams at once have their own workspaces and their own bits."""
    q, k, v = (x.detach() for x in tensors(False, torch.bfloat16, key_heads=4, queries=1100, keys=1100, dim=128, value_dim=128))
    seed = torch.randn_like(q)
    run = lambda x: rapt.gradients(x, k, v, seed, causal="top_left")[:3]
    inputs = [q * (1 + n / 4) for n in range(4)]
    expected = [run(x) for x in inputs]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in inputs]
    for _ in range(5):
        found = []
        for x, stream in zip(inputs, streams):
            with torch.cuda.stream(stream):
                found.append(run(x))
        torch.cuda.synchronize()
        for mine, theirs in zip(found, expected):
            for a, b in zip(mine, theirs):
                assert torch.equal(a, b)


def test_what_a_gpu_does_not_compute_is_refused():
    q, k, v = tensors()
    with pytest.raises(ValueError, match="expected f32, bf16 or f16, got f64"):
        rapt.attend(q.double(), k.double(), v.double())
    with pytest.raises(ValueError, match="the reference path was asked for"):
        rapt.attend(q, k, v, path="reference")
    with pytest.raises(ValueError, match="merge: .* expected an array on cpu, got one on cuda:0"):
        rapt.merge([rapt.partial(q, k, v), rapt.partial(q, k, v)])


def test_other_outputs_lie_on_the_device():
    q, k, v = tensors()
    part = rapt.partial(q, k, v, first_key=3)
    assert part.out.is_cuda and part.lse.is_cuda
    facts = rapt.statistics(q, k, top_k=3)
    assert facts.top_indices.is_cuda and facts.argmax.is_cuda and facts.top_indices.dtype == torch.int64
    host = rapt.statistics(q.cpu(), k.cpu(), top_k=3)
    torch.testing.assert_close(facts.top_indices.cpu(), torch.as_tensor(host.top_indices))
    torch.testing.assert_close(facts.entropy.cpu(), torch.as_tensor(host.entropy), atol=1e-4, rtol=1e-4)
    outs = rapt.attend(q, k, [v, 2 * v])
    torch.testing.assert_close(outs[1], 2 * outs[0])


def test_masks_lengths_and_bias():
    q, k, v = tensors()
    mask, bias = torch.rand(2, 1, 70, 90, device="cuda") < 0.7, torch.randn(1, 4, 70, 90, device="cuda", requires_grad=True)
    lengths = torch.tensor([40, 90], device="cuda")
    options = dict(causal="bottom_right", window=(50, 3), softcap=3.0)
    out = rapt.attend(q, k, v, mask=mask, bias=bias, key_lengths=lengths, **options)
    host = [x.cpu().double() for x in (q, k, v)]
    own = bias.detach().cpu().double().requires_grad_()
    expected = rapt.attend(*host, mask=mask.cpu(), bias=own, key_lengths=[40, 90], **options)
    torch.testing.assert_close(out.cpu().double(), expected, atol=1e-5, rtol=1e-4)
    out.sin().sum().backward()
    expected.sin().sum().backward()
    torch.testing.assert_close(bias.grad.cpu().double(), own.grad, atol=1e-4, rtol=1e-3)


def test_the_same_bits_in_every_run():
    q, k, v = tensors(True)
    run = lambda: torch.autograd.grad(rapt.attend(q, k, v, causal="top_left").sin().sum(), (q, k, v))
    for a, b in zip(run(), run()):
        torch.testing.assert_close(a, b, atol=0, rtol=0)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(backend):
    q, k, v = tensors(True)
    table = torch.randn(4, 32, device="cuda", requires_grad=True)
    call = lambda q, k, v: rapt.attend(q, k, v, score="t5", params={"table": table}) * 2
    seed = torch.randn(2, 4, 70, 24, device="cuda")
    expected = call(q, k, v)
    out = torch.compile(call, fullgraph=True, backend=backend)(q, k, v)
    torch.testing.assert_close(out, expected)
    for mine, theirs in zip(*(torch.autograd.grad(x, (q, k, v, table), seed) for x in (out, expected))):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_in_graphs(dtype):
    """The fast kernels keep more than two numbers a row, which graphs carry too."""
    q, k, v = tensors(True, dtype, key_heads=4, queries=128, keys=128, dim=64, value_dim=64)
    call = lambda q, k, v: rapt.attend(q, k, v, causal="top_left")
    seed = torch.randn(2, 4, 128, 64, device="cuda", dtype=dtype)
    expected = torch.autograd.grad(call(q.double().cpu(), k.double().cpu(), v.double().cpu()), (q, k, v), seed.double().cpu())
    eager = torch.autograd.grad(call(q, k, v), (q, k, v), seed)
    compiled = torch.autograd.grad(torch.compile(call, fullgraph=True, backend="aot_eager")(q, k, v), (q, k, v), seed)
    functional = torch.func.vjp(call, q.detach(), k.detach(), v.detach())[1](seed)
    for found in (eager, compiled, functional):
        for mine, theirs in zip(found, expected):
            torch.testing.assert_close(mine, theirs, atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_graphs_carry_what_rounding_removed(dtype):
    """Without it the backward pass would repeat the forward pass: it is read, and gives an eager call's bits."""
    q, k, v = tensors(True, dtype, key_heads=4, queries=128, keys=128, dim=64, value_dim=64)
    seed = torch.randn(2, 4, 128, 64, device="cuda", dtype=dtype)
    given = rapt.torch._options.to_arguments(q, packed(causal="top_left"))
    out, _, rows = torch.ops.rapt.attend(q, k, [v], *given)
    gradient = lambda rows: torch.ops.rapt.attend_backward([seed], None, [out], rows, q, k, [v], *given)[0]
    statistics = 2 * 2 * 4 * 128
    assert rows.numel() == statistics + 2 * 4 * 128 * 64 // 2
    eager = torch.autograd.grad(rapt.attend(q, k, v, causal="top_left"), q, seed)[0]
    torch.testing.assert_close(gradient(rows), eager, atol=0, rtol=0)
    others = rows.detach().clone()
    others[statistics:] = 0
    assert not torch.equal(gradient(others), eager)


def test_graphs_of_calls_without_a_remainder():
    """Where the kernels of every call ran, what a later call could take for a remainder is NaN, so that it is not believed."""
    q, k, v = (x.detach() for x in tensors(False, torch.bfloat16, key_heads=4, queries=128, keys=128, dim=64, value_dim=64))
    seed = torch.randn(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16)
    slow = rapt.torch._options.to_arguments(q, packed(path="generic"))
    out, _, rows = torch.ops.rapt.attend(q, k, [v], *slow)
    assert rows[2 * 2 * 4 * 128 :].isnan().all()
    fast = rapt.torch._options.to_arguments(q, packed())
    expected = torch.ops.rapt.attend_backward([seed], None, [out], rows, q, k, [v], *slow)
    for mine, theirs in zip(torch.ops.rapt.attend_backward([seed], None, [out], rows, q, k, [v], *fast), expected):
        torch.testing.assert_close(mine, theirs, atol=2e-2, rtol=2e-2)


def test_vmap_of_gradients_in_half_precision():
    q, k, v = (x.detach() for x in tensors(False, torch.bfloat16, key_heads=4, queries=70, keys=70, dim=64, value_dim=64))
    gradient = torch.func.grad(lambda x: rapt.attend(x, k, v).float().sin().sum())
    many = torch.stack([q, -q, 2 * q])
    for mine, x in zip(torch.func.vmap(gradient)(many), many):
        torch.testing.assert_close(mine, gradient(x), atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "sigmoid"])
def test_compiled_gradients_do_not_wait(normalizer):
    q, k, v = tensors(True)
    call = lambda q, k, v: rapt.attend(q, k, v, normalizer=normalizer, return_lse=True)
    expected = torch.autograd.grad(call(q, k, v)[0].sum(), (q, k, v))
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.autograd.grad(compiled(q, k, v)[0].sum(), (q, k, v))
    out, lse = compiled(q, k, v)
    seed = torch.ones_like(out)
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = torch.autograd.grad(out, (q, k, v), seed)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for mine, theirs in zip(found, expected):
        torch.testing.assert_close(mine, theirs)
    if normalizer == "softmax":
        return
    with pytest.raises(ValueError, match="grad_lse"):
        torch.autograd.grad(call(q, k, v)[1].sum(), q)
    assert torch.autograd.grad(compiled(q, k, v)[1].sum(), q)[0].isnan().any()


def test_opcheck():
    q, k, v = tensors(True)
    arguments = rapt.torch._options.to_arguments(q, packed(causal="top_left"))
    torch.library.opcheck(torch.ops.rapt.attend, (q, k, [v], *arguments))


def test_vmap_autocast_and_functional_gradients():
    q, k, v = tensors()
    many = torch.stack([q, -q, 2 * q])
    out = torch.func.vmap(lambda x: rapt.attend(x, k, v))(many)
    torch.testing.assert_close(out[2], rapt.attend(2 * q, k, v))
    gradient = torch.func.grad(lambda x: rapt.attend(x, k, v).sin().sum())(q)
    learned = q.clone().requires_grad_()
    rapt.attend(learned, k, v).sin().sum().backward()
    torch.testing.assert_close(gradient, learned.grad)
    with torch.autocast("cuda", torch.bfloat16):
        assert rapt.attend(q, k, v).dtype == torch.bfloat16


def test_modules_and_pytorchs_functions():
    theirs = torch.nn.MultiheadAttention(32, 4, batch_first=True, device="cuda")
    mine = rapt.torch.MultiHeadAttention.from_torch(theirs)
    x = torch.randn(2, 9, 32, device="cuda")
    torch.testing.assert_close(mine(x, x, x), theirs(x, x, x, need_weights=False)[0], atol=1e-4, rtol=1e-4)
    layer = rapt.torch.MultiHeadAttention(32, 4, score="shaw", causal="top_left").cuda()
    layer(x, x, x).sum().backward()
    assert all(p.grad is not None and p.grad.is_cuda for p in layer.parameters())
    q, k, v = tensors(key_heads=4)
    mask = torch.rand(70, 90, device="cuda") < 0.5
    mine, theirs = (f(q, k, v, attn_mask=mask) for f in (rapt.torch.scaled_dot_product_attention, F.scaled_dot_product_attention))
    torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)


def test_formulas_are_computed_or_refused_with_a_sentence():
    q, k, v = tensors()
    kerple = rapt.formula("raw*scale - a*log(1 + b*abs(i-j))", visible="j <= i")
    options = dict(score=kerple, params={"a": 0.5, "b": 0.25})
    try:
        out = rapt.attend(q, k, v, **options)
    except ValueError as error:
        assert "has no kernels for a device" in str(error)
    else:
        torch.testing.assert_close(out.cpu(), rapt.attend(q.cpu(), k.cpu(), v.cpu(), **options), atol=1e-4, rtol=1e-4)
