"""rapt.attend on tensors, and PyTorch's own functions: results and gradients, against PyTorch and the definition."""

import subprocess
import sys
import textwrap
import warnings

import numpy as np
import oracle
import pytest
import torch
from test_numpy import NAMES, NORMALIZERS, problem

import rapt
import rapt.torch

random = np.random.default_rng(5)


def tensors(batch=2, heads=4, key_heads=2, queries=7, keys=9, dim=8, value_dim=5, dtype=torch.float64, grad=False):
    make = lambda *shape: torch.from_numpy(random.standard_normal(shape)).to(dtype).requires_grad_(grad)
    return make(batch, heads, queries, dim), make(batch, key_heads, keys, dim), make(batch, key_heads, keys, value_dim)


def as_tensors(params, grad=False):
    return {
        name: value if np.isscalar(value) else torch.from_numpy(np.asarray(value)).requires_grad_(grad)
        for name, value in (params or {}).items()
    }


@pytest.mark.parametrize("score", NAMES)
def test_gradcheck_of_every_mechanism(score):
    q, k, v, options = problem(score)
    q, k, v = (torch.from_numpy(x[:1]).requires_grad_() for x in (q, k, v))
    params = as_tensors(options.pop("params"), grad=True)
    names = [name for name, value in params.items() if isinstance(value, torch.Tensor)]
    settings = {name: value for name, value in params.items() if name not in names}
    keys = k.shape[2]
    bias = torch.randn(1, 4, 1, keys, dtype=torch.float64, requires_grad=True)

    def call(q, k, v, bias, *values):
        return rapt.attend(q, k, v, bias=bias, params={**settings, **dict(zip(names, values))}, return_lse=True, **options)

    assert torch.autograd.gradcheck(call, (q, k, v, bias, *(params[name] for name in names)), fast_mode=True)


@pytest.mark.parametrize("normalizer", [name for name in NORMALIZERS if name != "argmax"])
def test_gradcheck_of_every_normalizer(normalizer):
    q, k, v = tensors(grad=True)
    call = lambda *x: rapt.attend(*x, normalizer=normalizer, causal="bottom_right", softcap=4.0)
    assert torch.autograd.gradcheck(call, (q, k, v), fast_mode=True)


def test_gradcheck_of_random_options():
    for seed in range(12):
        r = np.random.default_rng(seed)
        heads, groups = int(r.integers(1, 4)), int(r.integers(1, 3))
        sizes = dict(
            batch=int(r.integers(1, 3)), heads=heads * groups, key_heads=heads, queries=int(r.integers(1, 6)),
            keys=int(r.integers(1, 7)), dim=int(r.integers(1, 6)), value_dim=int(r.integers(1, 6)),
        )  # fmt: skip
        q, k, v = tensors(**sizes, grad=True)
        shape = [sizes["batch"], sizes["heads"], sizes["queries"], sizes["keys"]]
        bias = torch.randn([n if r.random() < 0.5 else 1 for n in shape[:3]] + shape[3:], dtype=torch.float64, requires_grad=True)
        sink = torch.randn(sizes["heads"], dtype=torch.float64, requires_grad=True)
        options = dict(
            causal=[None, "top_left", "bottom_right"][r.integers(3)],
            window=[None, (2, 1)][r.integers(2)],
            mask=[None, torch.from_numpy(r.random(shape) < 0.8)][r.integers(2)],
            key_lengths=[None, [int(n) for n in r.integers(0, sizes["keys"] + 1, sizes["batch"])]][r.integers(2)],
            softcap=[0.0, 2.0][r.integers(2)],
            scale=[None, 0.7][r.integers(2)],
        )
        call = lambda q, k, v, bias, sink: rapt.attend(q, k, v, bias=bias, params={"sink": sink}, **options)
        assert torch.autograd.gradcheck(call, (q, k, v, bias, sink), fast_mode=True), (seed, sizes, options)


def test_the_same_kind_comes_back():
    q, k, v = tensors(dtype=torch.float32)
    out, lse = rapt.attend(q, k, v, return_lse=True)
    assert isinstance(out, torch.Tensor) and out.dtype == torch.float32 and lse.shape == (2, 4, 7)
    np.testing.assert_allclose(out.numpy(), oracle.attend(q, k, v)[0], atol=2e-6)
    assert isinstance(rapt.weights(q, k), torch.Tensor)
    assert rapt.statistics(q, k, top_k=2).argmax.dtype == torch.int64
    dq = rapt.gradients(q, k, v, torch.ones(2, 4, 7, 5))[0]
    assert isinstance(dq, torch.Tensor)
    whole = rapt.merge([rapt.partial(q, k[:, :, a : a + 3], v[:, :, a : a + 3], first_key=a) for a in (0, 3, 6)])
    torch.testing.assert_close(whole.out, out)
    torch.testing.assert_close(whole.lse, lse)
    torch.testing.assert_close(rapt.Plan(q, k, v).run(), out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    q, k, v = tensors(dtype=dtype, grad=True)
    out = rapt.attend(q, k, v)
    assert out.dtype == dtype
    out.float().square().sum().backward()
    assert q.grad.dtype == dtype
    exact = oracle.attend(*(x.detach().double() for x in (q, k, v)))[0]
    np.testing.assert_allclose(out.detach().double(), exact, atol=3e-2 if dtype == torch.bfloat16 else 4e-3)


def test_several_value_sets_and_unused_ones():
    q, k, v = tensors(grad=True)
    other = torch.randn(2, 2, 9, 3, dtype=torch.float64, requires_grad=True)
    outs = rapt.attend(q, k, [v, other])
    outs[1].square().sum().backward()
    assert v.grad.abs().max() == 0 and other.grad.abs().max() > 0
    assert torch.autograd.gradcheck(lambda *x: tuple(rapt.attend(x[0], x[1], list(x[2:]))), (q, k, v, other), fast_mode=True)


def test_only_what_needs_a_gradient_gets_one():
    q, k, v = tensors()
    slopes = torch.rand(4, dtype=torch.float64, requires_grad=True)
    rapt.attend(q, k, v, score="alibi", params={"m": slopes}).sum().backward()
    assert slopes.grad is not None and q.grad is None
    with torch.no_grad():
        assert not rapt.attend(q, k, v, score="alibi", params={"m": slopes}).requires_grad


def test_single_numbers_and_a_default_device():
    q, k, v = tensors(dtype=torch.float32)
    tau = torch.tensor(2.0, requires_grad=True)
    rapt.attend(q, k, v, score="cosine", params={"tau": tau}).square().sum().backward()
    assert tau.grad.shape == ()
    step = 1e-2
    loss = lambda t: (oracle.attend(q, k, v, score="cosine", params={"tau": [t] * 4})[0] ** 2).sum()
    np.testing.assert_allclose(tau.grad.item(), (loss(2 + step) - loss(2 - step)) / (2 * step), rtol=1e-3)
    expected = rapt.attend(q, k, v)
    with torch.device("meta"):
        assert torch.equal(rapt.attend(q, k, v), expected)


def test_strided_tensors_and_expanded_gradients_are_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.randn(2, 7, 4, 8, dtype=torch.float64, requires_grad=True)
        q = x.transpose(1, 2)
        out, lse = rapt.attend(q, q, q, return_lse=True)
        (out.sum() + lse.sum()).backward()
        rapt.attend(q[:1].expand(2, -1, -1, -1), q, q)


def test_results_lie_as_pytorchs_do():
    """Heads that lie side by side in q do so in the result and in the gradients: joining them copies nothing."""
    x = torch.randn(2, 7, 3 * 4 * 8, requires_grad=True)
    q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in x.chunk(3, -1))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    for out in (rapt.attend(q, k, v), rapt.attend(q.detach(), k.detach(), v.detach()), *rapt.attend(q, k, [v, v])):
        assert out.stride() == expected.stride() and out.transpose(1, 2).is_contiguous()
        torch.testing.assert_close(out, expected)
    seen = []
    for t in (q, k, v):
        t.register_hook(lambda grad: seen.append(grad.transpose(1, 2).is_contiguous()))
    (found,) = torch.autograd.grad(rapt.attend(q, k, v).pow(2).sum(), x)
    assert seen == [True] * 3
    torch.testing.assert_close(found, torch.autograd.grad(expected.pow(2).sum(), x)[0])
    whole = rapt.attend(*(t.detach().contiguous() for t in (q, k, v)))
    assert whole.is_contiguous() and torch.equal(whole, rapt.attend(q, k, v))
    assert rapt.attend(q[:, :1], k[:, :1], v[:, :1]).shape == (2, 1, 7, 8)


def test_twice_is_refused():
    q, k, v = tensors(grad=True)
    (gradient,) = torch.autograd.grad(rapt.attend(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="attend: expected one differentiation, got two"):
        gradient.sum().backward()


def test_errors_about_types_of_tensors():
    x = torch.randn(1, 2, 4, 8)
    for wrong, message in (
        (x.to_sparse(), "k: expected an array .*, got Tensor of layout torch.sparse_coo"),
        (x.cfloat(), "k: expected numbers of float32, .*, got complex64"),
        (x.int(), "k: expected numbers of float32, .*, got int32"),
        (x.to(torch.float8_e4m3fn), "k: expected numbers of float32, .*, got another type of bits: 8"),
    ):
        with pytest.raises(TypeError, match=message):
            rapt.attend(x, wrong, x)


def test_errors_are_the_engines():
    q, k, v = tensors()
    with pytest.raises(ValueError, match="attend: v: expected 9 keys as in k, got 5"):
        rapt.attend(q, k, v[:, :, :5])
    with pytest.raises(TypeError, match="attend: q: expected numbers of float32.* got (torch.)?int64"):
        rapt.attend(q.long(), k, v)
    with pytest.raises(ValueError, match="expected .* on cpu or cuda, got one on"):
        rapt._core.attend(q.to("meta"), k, v, rapt._arrays.numpy_empty, None)


def test_autocast():
    q, k, v = tensors(dtype=torch.float32, grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = rapt.attend(q, k, v)
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert out.dtype == expected.dtype == torch.bfloat16
    out.float().sum().backward()
    assert q.grad.dtype == torch.float32
    torch.testing.assert_close(out, expected, atol=2e-2, rtol=2e-2)


def test_threads_are_pytorchs():
    before = torch.get_num_threads()
    assert rapt.threads() == before
    q, k, v = tensors(queries=300, keys=300, dim=32, value_dim=32, grad=True)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        assert rapt.threads() == threads
        out = rapt.attend(q, k, v)
        results.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
    from concurrent.futures import ThreadPoolExecutor

    torch.set_num_threads(3)
    with ThreadPoolExecutor(1) as pool:  # OpenMP keeps a number for each thread
        assert pool.submit(rapt.threads).result() == 3
    torch.set_num_threads(before)
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0]))


def test_a_forked_child_has_threads_of_its_own():
    program = """
        import os, rapt, torch
        torch.set_num_threads(3)
        q = torch.randn(2, 4, 200, 32)
        expected = rapt.attend(q, q, q)
        (q @ q.transpose(-1, -2)).sum()
        child = os.fork()
        if child == 0:
            same = (rapt.attend(q, q, q, threads=2).numpy() == expected.numpy()).all()  # torch.equal would wait for OpenMP
            os._exit(rapt.threads() if same else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert result.stdout == "3\n", result


@pytest.mark.parametrize("work", ["rapt.attend(q, q, q)", "out.backward(torch.ones_like(out))"])
def test_ctrl_c_on_pytorchs_threads(work):
    program = f"""
        import os, rapt, signal, threading, time, torch
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in the background
        torch.set_num_threads(2)  # so that it takes long on every machine
        q = torch.zeros(1, 4, 30000 if "attend" in {work!r} else 9000, 64, requires_grad=True)
        out = None if "attend" in {work!r} else rapt.attend(q, q, q)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            {work}
            print("not ended")
        except KeyboardInterrupt:
            print("ended")
        x = torch.ones(1, 1, 2, 4)
        print(rapt.attend(x, x, x).sum().item())
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert result.stdout == "ended\n8.0\n", result


F = torch.nn.functional


def sdpa_cases():
    q, k, v = tensors(key_heads=4)
    yield (q, k, v), {}
    yield (q, k, v), dict(is_causal=True)
    yield (q[:, :, :9], k, v), dict(scale=0.3)
    q2, k2, v2 = tensors()
    yield (q2, k2, v2), dict(enable_gqa=True)
    mask = torch.from_numpy(random.random((2, 1, 7, 9)) < 0.7)
    mask[..., 0] = True
    yield (q, k, v), dict(attn_mask=mask)
    yield (q, k, v), dict(attn_mask=mask[0, 0])
    yield (q, k, v), dict(attn_mask=mask.expand(2, 4, 7, 9))
    yield (q, k, v), dict(attn_mask=mask[:, :, :1])
    yield (q, k, v), dict(attn_mask=torch.randn(4, 7, 9, dtype=torch.float64))
    yield (q, k, v), dict(attn_mask=torch.randn(7, 1, dtype=torch.float64))
    yield (q[0], k[0], v[0]), dict(is_causal=True)
    yield (q[0, 0], k[0, 0], v[0, 0]), {}
    five = [torch.randn(2, 3, 4, n, 8, dtype=torch.float64) for n in (5, 6, 6)]
    yield five, dict(is_causal=True)
    yield five, dict(attn_mask=torch.randn(3, 1, 5, 6, dtype=torch.float64))


@pytest.mark.parametrize("case", range(len(list(sdpa_cases()))))
def test_scaled_dot_product_attention(case):
    inputs, options = list(sdpa_cases())[case]
    results = []
    for function in (rapt.torch.scaled_dot_product_attention, F.scaled_dot_product_attention):
        leaves = [x.detach().clone().requires_grad_() for x in inputs]
        given = dict(options)
        if "attn_mask" in given and given["attn_mask"].is_floating_point():
            given["attn_mask"] = given["attn_mask"].clone().requires_grad_()
            leaves.append(given["attn_mask"])
        out = function(*leaves[:3], **given)
        results.append((out, *torch.autograd.grad(out.sin().sum(), leaves)))
    for mine, theirs in zip(*results):
        torch.testing.assert_close(mine, theirs, atol=1e-11, rtol=1e-11)


def test_scaled_dot_product_attention_refuses():
    q, k, v = tensors()
    with pytest.raises(ValueError, match="dropout_p: expected 0"):
        rapt.torch.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
    with pytest.raises(ValueError, match="enable_gqa=True"):
        rapt.torch.scaled_dot_product_attention(q, k, v)
    with pytest.raises(ValueError, match="attn_mask: expected None"):
        rapt.torch.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(7, 7, dtype=torch.bool), is_causal=True)
