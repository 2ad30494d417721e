"""rapt on arrays of CuPy and JAX on a GPU."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU is PyTorch's too

import gpu  # noqa: E402
import numpy as np  # noqa: E402
import oracle  # noqa: E402
import pytest  # noqa: E402

gpu.needed()

import torch  # noqa: E402
from test_numpy import NAMES, problem  # noqa: E402

import rapt  # noqa: E402

random = np.random.default_rng(5)


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy", reason="CuPy is not installed")


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX is installed without its plugin for CUDA")
    return jax


def arrays():
    make = lambda *shape: random.standard_normal(shape).astype(np.float32)
    return make(2, 4, 70, 16), make(2, 2, 90, 16), make(2, 2, 90, 24)


def test_cupy(cupy):
    q, k, v = arrays()
    placed = [cupy.asarray(x) for x in (q, k, v)]
    slopes = [0.5, 0.25, 0.1, 0.2]
    options = dict(score="alibi", params={"m": slopes}, causal="top_left")
    expected, weights, lse = oracle.attend(q, k, v, **{**options, "params": {"m": np.array(slopes)}})
    out, got_lse = rapt.attend(*placed, return_lse=True, **options)
    assert isinstance(out, cupy.ndarray) and isinstance(got_lse, cupy.ndarray)
    np.testing.assert_allclose(out.get(), expected, atol=1e-5)
    np.testing.assert_allclose(got_lse.get(), lse, atol=1e-5)
    np.testing.assert_allclose(rapt.weights(*placed[:2], **options).get(), weights, atol=1e-5)
    assert rapt.statistics(*placed[:2], top_k=2).top_indices.dtype == np.int64
    grad = random.standard_normal(expected.shape).astype(np.float32)
    found = rapt.gradients(*placed, cupy.asarray(grad), **options)
    host = rapt.gradients(*(x.astype(np.float64) for x in (q, k, v)), grad.astype(np.float64), **options)
    for mine, theirs in zip((*found[:3], found[3]["m"]), (*host[:3], host[3]["m"])):
        assert isinstance(mine, cupy.ndarray)
        np.testing.assert_allclose(mine.get(), theirs.reshape(mine.shape), atol=1e-3)
    half = rapt.attend(*(x.astype(np.float16) for x in placed))
    assert half.dtype == np.float16
    strided = cupy.asarray(q.swapaxes(1, 2).copy()).swapaxes(1, 2)
    np.testing.assert_array_equal(rapt.attend(strided, *placed[1:], **options).get(), out.get())


def test_cupys_stream(cupy):
    q, k, v = (cupy.asarray(x) for x in arrays())
    expected = rapt.attend(q, k, v)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        later = cupy.zeros_like(q)
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
            gpu.busy(torch)
        later[...] = q
        out = rapt.attend(later, k, v)
    stream.synchronize()
    np.testing.assert_array_equal(out.get(), expected.get())


def test_cupy_errors(cupy):
    q, k, v = arrays()
    placed = [cupy.asarray(x) for x in (q, k, v)]
    with pytest.raises(ValueError, match="k: expected an array on cuda:0 as q is, got one on cpu"):
        rapt.attend(placed[0], k, placed[2])
    with pytest.raises(ValueError, match="k: expected an array on cpu as q is, got one on cuda:0"):
        rapt.attend(q, placed[1], v)
    with pytest.raises(TypeError, match="expected numbers of float32, float64, float16 or bfloat16"):
        rapt.attend(placed[0].astype(np.int32), *placed[1:])


@pytest.mark.parametrize("score", NAMES)
def test_jax(jax, score):
    q, k, v, options = problem(score)
    expected = oracle.attend(q, k, v, **options)[0]
    grad = random.standard_normal(expected.shape)
    learned = {n: jax.numpy.asarray(x, "float32") for n, x in (options["params"] or {}).items() if not np.isscalar(x)}
    fixed = {n: x for n, x in (options["params"] or {}).items() if np.isscalar(x)}
    inputs = [jax.numpy.asarray(x, "float32") for x in (q, k, v)]
    call = lambda q, k, v, learned: rapt.attend(q, k, v, **{**options, "params": {**learned, **fixed}})
    out = call(*inputs, learned)
    assert out.devices() == inputs[0].devices()
    np.testing.assert_allclose(out, expected, atol=2e-5)
    np.testing.assert_array_equal(jax.jit(call)(*inputs, learned), out)
    loss = lambda *x: (call(*x) * grad.astype(np.float32)).sum()
    found = jax.jit(jax.grad(loss, (0, 1, 2, 3)))(*inputs, learned)
    host = rapt.gradients(q, k, v, grad, **options)
    for mine, theirs in zip(found[:3], host[:3]):
        np.testing.assert_allclose(mine, theirs, atol=2e-4)
    for name, mine in found[3].items():
        np.testing.assert_allclose(mine, host[3][name].reshape(mine.shape), atol=1e-3, err_msg=name)


def test_jax_in_a_graph_of_its_own_work(jax):
    """What comes before and after a call is XLA's, on the same stream."""
    q, k, v = (jax.numpy.asarray(x) for x in arrays())
    big = jax.numpy.ones((4096, 4096))

    @jax.jit
    def work(q, big):
        for _ in range(10):
            big = big @ big / 4096
        return rapt.attend(q * big[0, 0], k, v, causal="top_left") * 2

    host = oracle.attend(*map(np.asarray, (q, k, v)), causal="top_left")[0]
    for _ in range(3):
        np.testing.assert_allclose(work(q, big), 2 * host, atol=1e-4)
    mapped = jax.vmap(lambda x: rapt.attend(x, k, v))(jax.numpy.stack([q, -q]))
    np.testing.assert_allclose(mapped[1], rapt.attend(-q, k, v), atol=1e-6)


def test_jax_in_half_precision(jax):
    q = random.standard_normal((2, 4, 128, 64)).astype(np.float32)
    x = jax.numpy.asarray(q, "bfloat16")
    seed = jax.numpy.asarray(random.standard_normal(q.shape), "bfloat16")
    found = jax.jit(jax.grad(lambda q, k, v: (rapt.attend(q, k, v, causal="top_left") * seed).sum().astype("float32"), (0, 1, 2)))(x, x, x)
    exact = np.asarray(x, np.float64)
    host = rapt.gradients(exact, exact, exact, np.asarray(seed, np.float64), causal="top_left")
    for mine, theirs in zip(found, host):
        np.testing.assert_allclose(np.asarray(mine, np.float32), theirs, atol=5e-2, rtol=5e-2)


def test_jax_errors(jax):
    q, k, v = (jax.numpy.asarray(x) for x in arrays())
    with pytest.raises(Exception, match="key_lengths: expected numbers that are known when the call is traced"):
        jax.jit(lambda n: rapt.attend(q, k, v, key_lengths=n))(jax.numpy.array([3])).block_until_ready()
    np.testing.assert_allclose(rapt.attend(q, k, v, key_lengths=[3, 90]), oracle.attend(*map(np.asarray, (q, k, v)), key_lengths=[3, 90])[0], atol=1e-5)
    with pytest.raises(ValueError, match="expected arrays of JAX on cpu outside rapt.attend"):
        rapt.weights(q, k)
