"""rapt.attend on JAX's arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import rapt
import rapt.jax

random = np.random.default_rng(9)


def arrays():
    make = lambda *shape: jnp.asarray(random.standard_normal(shape), jnp.float32)
    return make(2, 4, 7, 8), make(2, 2, 9, 8), make(2, 2, 9, 5), make(4), make(1, 4, 7, 9)


def plain(q, k, v, m, b):
    """The same in jax.numpy."""
    k, v = jnp.repeat(k, 2, 1), jnp.repeat(v, 2, 1)
    i, j = jnp.arange(7)[:, None], jnp.arange(9)
    s = q @ k.swapaxes(-1, -2) / 8**0.5 - m[:, None, None] * abs(i - j) + b
    return jax.nn.softmax(jnp.where(j <= i, s, -jnp.inf)) @ v


def call(q, k, v, m, b):
    return rapt.attend(q, k, v, score="alibi", params={"m": m}, bias=b, causal="top_left")


def test_eager_and_jit():
    inputs = arrays()
    out = call(*inputs)
    assert isinstance(out, jax.Array) and out.dtype == jnp.float32
    np.testing.assert_allclose(out, plain(*inputs), atol=2e-6)
    np.testing.assert_array_equal(jax.jit(call)(*inputs), out)


def test_gradients():
    inputs = arrays()
    loss = lambda f: lambda *x: jnp.sum(jnp.sin(f(*x)))
    mine = jax.jit(jax.grad(loss(call), range(5)))(*inputs)
    theirs = jax.grad(loss(plain), range(5))(*inputs)
    for a, b in zip(mine, theirs):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_lse_lengths_and_value_sets_under_jit():
    q, k, v, _, _ = arrays()

    @jax.jit
    def f(q, lengths):
        outs, lse = rapt.attend(q, k, [v, v * 2], key_lengths=lengths, return_lse=True)
        return outs[1], lse

    out, lse = f(q, jnp.array([3, 9]))
    expected, _, expected_lse = oracle.attend(q, k, v * 2, key_lengths=[3, 9])
    np.testing.assert_allclose(out, expected, atol=2e-6)
    np.testing.assert_allclose(lse, expected_lse, atol=2e-6)
    gradient = jax.grad(lambda q: f(q, jnp.array([3, 9]))[1].sum())(q)
    step = 1e-3 * random.standard_normal(q.shape)
    difference = (oracle.attend(q + step, k, v, key_lengths=[3, 9])[2] - oracle.attend(q - step, k, v, key_lengths=[3, 9])[2]).sum() / 2
    np.testing.assert_allclose((gradient * step).sum(), difference, rtol=1e-3)


def test_vmap():
    q, k, v, _, _ = arrays()
    out = jax.vmap(lambda x: rapt.attend(x, k, v))(jnp.stack([q, 2 * q]))
    np.testing.assert_allclose(out[1], rapt.attend(2 * q, k, v), atol=1e-6)


def test_other_functions_and_types():
    q, k, v, _, _ = arrays()
    assert isinstance(rapt.weights(q, k), jax.Array)
    assert isinstance(rapt.statistics(q, k).entropy, jax.Array)
    assert isinstance(rapt.gradients(q, k, v, jnp.ones((2, 4, 7, 5)))[0], jax.Array)
    half = rapt.attend(*(x.astype(jnp.bfloat16) for x in (q, k, v)))
    assert half.dtype == jnp.bfloat16
    with pytest.raises(ValueError, match="attend: v: expected 9 keys as in k, got 5"):
        rapt.attend(q, k, v[:, :, :5])
