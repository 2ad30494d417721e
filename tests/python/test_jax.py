"""rapt.attend on JAX's arrays."""

import os
import pathlib
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from test_gradients import difference
from test_numpy import NAMES, problem

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


@pytest.fixture
def double():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def check(q, k, v, options):
    """Out and every gradient under jit, against the definition and its differences."""
    params = {name: x for name, x in (options.get("params") or {}).items() if not np.isscalar(x)}
    fixed = {name: x for name, x in (options.get("params") or {}).items() if np.isscalar(x)}
    rest = {name: x for name, x in options.items() if name not in ("params", "bias")}
    bias = options.get("bias")
    expected = oracle.attend(q, k, v, **options)[0]
    grad = random.standard_normal(expected.shape)

    def loss(given, attend=rapt.attend):
        return (attend(given["q"], given["k"], given["v"], params={**given["params"], **fixed} or None, bias=given["bias"], **rest) * grad).sum()

    given = dict(q=q, k=k, v=v, bias=bias, params={name: np.asarray(x, float) for name, x in params.items()})
    out = jax.jit(lambda q: rapt.attend(q, k, v, **options))(q)
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-10)
    found = jax.jit(jax.grad(loss))(jax.tree.map(jnp.asarray, given))
    leaves, tree = jax.tree.flatten(given)
    by_definition = lambda leaves: loss(jax.tree.unflatten(tree, leaves), lambda q, k, v, **o: oracle.attend(q, k, v, **o)[0])
    assert len(leaves) == 3 + len(params) + (bias is not None)
    for n, gradient in enumerate(jax.tree.leaves(found)):
        assert gradient.shape == leaves[n].shape
        direction = random.standard_normal(leaves[n].shape)
        slope = difference(lambda x: by_definition(leaves[:n] + [x] + leaves[n + 1 :]), leaves[n], direction)
        np.testing.assert_allclose((gradient * direction).sum(), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("score", NAMES)
def test_every_mechanism_under_jit(double, score):
    check(*problem(score))


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "entmax15", "sigmoid"])
def test_options_under_jit(double, normalizer):
    q, k, v = (np.asarray(x, np.float64) for x in arrays()[:3])
    bias, mask = random.standard_normal((1, 4, 1, 9)), random.random((2, 1, 7, 9)) < 0.7
    check(q, k, v, dict(normalizer=normalizer, softcap=3.0, bias=bias, mask=mask, window=(3, 2), scale=0.4))
    check(q, k, v, dict(normalizer=normalizer, causal="top_left", key_lengths=[4, 9], first_query=[1, 2]))


def test_rotary_and_formulas_under_jit():
    q, k, v, m, _ = arrays()
    kerple = rapt.formula("raw*scale - m*log(1 + abs(i-j))", visible="j <= i + 2")
    for options in (dict(rotary=4), dict(rotary=(4, 100.0)), dict(rotary=(8, 100.0, True), causal="bottom_right"), dict(score=kerple, params={"m": m})):
        np.testing.assert_array_equal(jax.jit(lambda q: rapt.attend(q, k, v, **options))(q), rapt.attend(q, k, v, **options))


def test_packed_sequences_and_few_dimensions_under_jit():
    q, k = arrays()[0][0, 0], arrays()[1][0, 0]
    options = dict(query_starts=[0, 3, 7], key_starts=[0, 4, 9], causal="top_left")
    out = jax.jit(lambda q: rapt.attend(q, k, k, **options))(q)
    assert out.shape == (7, 8)
    np.testing.assert_array_equal(out, rapt.attend(q, k, k, **options))


def test_vmap_of_everything():
    q, k, v, m, b = arrays()
    many = lambda x: jnp.stack([x, 2 * x, -x])
    each = lambda *x: [call(*x)[None] for x in zip(*x)]
    expected = jnp.concatenate(each(many(q), [k] * 3, many(v), many(m), [b] * 3))
    mapped = lambda f: jax.vmap(f, (0, None, 0, 0, None))
    np.testing.assert_array_equal(jax.jit(mapped(call))(many(q), k, many(v), many(m), b), expected)
    twice = jax.vmap(mapped(call), (None, 0, None, None, None))(many(q), many(k), many(v), many(m), b)
    np.testing.assert_array_equal(twice[0], expected)
    np.testing.assert_allclose(twice[1, 2], call(-q, 2 * k, -v, -m, b), atol=1e-6)
    loss = lambda f: lambda *x: jnp.sum(jnp.sin(f(*x)))
    for mine, theirs in zip(*(jax.grad(loss(mapped(f)), range(5))(many(q), k, many(v), many(m), b) for f in (call, plain))):
        np.testing.assert_allclose(mine, theirs, atol=2e-5)
    for mine, theirs in zip(*(mapped(jax.grad(loss(f), range(5)))(many(q), k, many(v), many(m), b) for f in (call, plain))):
        np.testing.assert_allclose(mine, theirs, atol=2e-5)


def test_vmap_of_lengths():
    q, k, v, _, _ = arrays()
    lengths = jnp.array([3, 9, 5])
    out = jax.vmap(lambda n: rapt.attend(q, k, v, key_lengths=n))(lengths)
    for n, length in enumerate(lengths):
        np.testing.assert_array_equal(out[n], rapt.attend(q, k, v, key_lengths=int(length)))


def test_scan_remat_and_donation():
    q, k, v, _, _ = arrays()
    step = lambda x, _: (rapt.attend(x, k, k, causal="top_left"), None)
    looped = lambda x: jax.lax.scan(jax.checkpoint(step), x, None, length=3)[0]
    expected = q
    for _ in range(3):
        expected = rapt.attend(expected, k, k, causal="top_left")
    np.testing.assert_allclose(jax.jit(looped)(q), expected, atol=1e-6)
    unrolled = lambda x: step(step(step(x, 0)[0], 0)[0], 0)[0]
    np.testing.assert_allclose(jax.grad(lambda x: looped(x).sum())(q), jax.grad(lambda x: unrolled(x).sum())(q), atol=1e-6)
    np.testing.assert_allclose(jax.jit(looped, donate_argnums=0)(q + 0), expected, atol=1e-6)


def test_empty_arrays_under_jit():
    q, k, v, _, _ = arrays()
    assert jax.jit(lambda q: rapt.attend(q, k, v))(q[:, :, :0]).shape == (2, 4, 0, 5)
    np.testing.assert_array_equal(jax.jit(lambda q: rapt.attend(q, k[:, :, :0], v[:, :, :0]))(q), 0)


def test_errors_are_raised_where_the_call_is_traced():
    q, k, v, m, _ = arrays()
    traced = lambda **options: jax.jit(lambda q: rapt.attend(q, k, v, **options))(q)
    with pytest.raises(ValueError, match="attend: v: expected 9 keys as in k, got 5"):
        jax.jit(lambda q: rapt.attend(q, k, v[:, :, :5]))(q)
    with pytest.raises(ValueError, match="alibi: parameter 'm'"):
        traced(score="alibi", params={"m": m[:3]})
    with pytest.raises(ValueError, match="causal: expected None, .* got 'left'"):
        traced(causal="left")
    with pytest.raises(TypeError, match="causal: expected a string, got True"):
        traced(causal=True)
    with pytest.raises(ValueError, match="mask: expected booleans"):
        traced(mask=jnp.ones((7, 9)))
    with pytest.raises(ValueError, match="key_lengths: expected"):
        jax.jit(lambda n: rapt.attend(q, k, v, key_lengths=n))(jnp.array([1, 2, 3]))
    with pytest.raises(ValueError, match="return_lse: expected the normaliser softmax"):
        traced(normalizer="sparsemax", return_lse=True)
    with pytest.raises(ValueError, match="numbers of float32, float64, float16 or bfloat16"):
        jax.jit(lambda q: rapt.attend(q, k, v))(q.astype(jnp.int32))


def test_errors_of_numbers_are_raised_when_the_call_runs():
    q, k, v, _, _ = arrays()
    with pytest.raises(Exception, match="key_lengths: expected .* got 10"):
        jax.jit(lambda n: rapt.attend(q, k, v, key_lengths=n))(jnp.array([10])).block_until_ready()


def test_the_handlers_see_the_layout_that_jaxlib_has():
    """Compiled against the headers of the jaxlib that is installed, which the build never reads."""
    here = pathlib.Path(__file__).parent
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", f"-I{jax.ffi.include_dir()}", f"-I{here.parents[1]}/python/src"]
    result = subprocess.run([*command, str(here / "xla_layout.cc")], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_pytorch_compiles_where_jax_came_first():
    pytest.importorskip("torch", reason="PyTorch is not installed")
    program = """if True:
        import rapt, rapt.jax, torch
        q = torch.randn(1, 2, 5, 8)
        call = lambda q: rapt.attend(q, q, q, causal="top_left")
        rapt.attend(q, q, q)
        print((torch.compile(call, fullgraph=True, backend="aot_eager")(q) - call(q)).abs().max().item())
    """
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert result.stdout == "0.0\n", result


def test_numbers_in_float64():
    program = """
        import jax
        jax.config.update("jax_enable_x64", True)
        import jax.numpy as jnp, numpy as np, rapt
        x = jnp.asarray(np.random.default_rng(0).standard_normal((1, 4, 9, 8)))
        call = lambda x: rapt.attend(x, x, x, score="alibi", params={"m": [0.1, 0.3, 0.7, 0.9]})
        print(float(abs(jax.jit(call)(x) - call(x)).max()) < 1e-14)
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert result.stdout == "True\n", result
