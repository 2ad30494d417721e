"""rapt.attend, weights, statistics and gradients on NumPy's arrays, against the definition."""

import ctypes
import pickle
import warnings

import numpy as np
import oracle
import pytest

import rapt

random = np.random.default_rng(7)
ON_GRID = {entry["name"] for entry in rapt.mechanisms() if entry["grid"]}
NAMES = [entry["name"] for entry in rapt.mechanisms()]
NORMALIZERS = [entry["name"] for entry in rapt.normalizers()]


def arrays(batch=2, heads=4, key_heads=2, queries=7, keys=9, dim=8, value_dim=5, dtype=np.float64):
    n = random.standard_normal
    return (
        n((batch, heads, queries, dim)).astype(dtype),
        n((batch, key_heads, keys, dim)).astype(dtype),
        n((batch, key_heads, keys, value_dim)).astype(dtype),
    )


def problem(score):
    """(q, k, v, options) for a mechanism."""
    if score in ON_GRID:
        q, k, v = arrays(queries=12, keys=12)
        return q, k, v, dict(score=score, grid=(3, 4), params=oracle.parameters(random, score, 4, 8, grid=(3, 4)))
    q, k, v = arrays()
    return q, k, v, dict(score=score, params=oracle.parameters(random, score, 4, 8, 7, 9))


@pytest.mark.parametrize("score", NAMES)
def test_every_mechanism(score):
    q, k, v, options = problem(score)
    out, weights, lse = oracle.attend(q, k, v, **options)
    got, got_lse = rapt.attend(q, k, v, return_lse=True, **options)
    np.testing.assert_allclose(got, out, atol=1e-12)
    np.testing.assert_allclose(got_lse, lse, atol=1e-12)
    np.testing.assert_allclose(rapt.weights(q, k, **options), weights, atol=1e-12)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_every_normalizer(normalizer):
    q, k, v = arrays()
    options = dict(normalizer=normalizer, causal="bottom_right", softcap=2.0)
    np.testing.assert_allclose(rapt.attend(q, k, v, **options), oracle.attend(q, k, v, **options)[0], atol=1e-9)


MASKS = [
    dict(causal="top_left"),
    dict(causal="bottom_right", key_lengths=[4, 9]),
    dict(window=(2, 1), first_query=[3, 0]),
    dict(key_lengths=6),
    dict(key_lengths=np.array([0, 5])),
    dict(mask=random.random((2, 1, 7, 9)) < 0.6),
    dict(mask=random.random((7, 9)) < 0.5, bias=random.standard_normal((4, 1, 9))),
    dict(scale=0.3, softcap=1.5, bias=random.standard_normal((1, 4, 7, 9)), params={"sink": [0.1, 0.2, 0.3, 0.4]}),
]


@pytest.mark.parametrize("options", MASKS)
def test_masks(options):
    q, k, v = arrays()
    out, weights, _ = oracle.attend(q, k, v, **options)
    np.testing.assert_allclose(rapt.attend(q, k, v, **options), out, atol=1e-12)
    np.testing.assert_allclose(rapt.weights(q, k, batch=1, head=3, rows=slice(2, 5), **options), weights[1, 3, 2:5], atol=1e-12)


def test_packed_sequences():
    q, k, v = arrays(batch=1, queries=6, keys=8)
    starts = [0, 2, 6], [0, 3, 8]
    out = rapt.attend(q, k, v, query_starts=starts[0], key_starts=starts[1], causal="bottom_right")
    for a, b, c, d in ((0, 2, 0, 3), (2, 6, 3, 8)):
        part = oracle.attend(q[:, :, a:b], k[:, :, c:d], v[:, :, c:d], causal="bottom_right")[0]
        np.testing.assert_allclose(out[:, :, a:b], part, atol=1e-12)


def test_rotary():
    q, k, v = arrays(key_heads=4)

    def rotate(x):
        n = np.arange(2)
        angle = np.arange(x.shape[2])[:, None] * 100.0 ** (-2 * n / 4)
        a, b = x[..., :2], x[..., 2:4]
        rotated = [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)]
        return np.concatenate(rotated + [x[..., 4:]], -1)

    out = oracle.attend(rotate(q), rotate(k), v)[0]
    np.testing.assert_allclose(rapt.attend(q, k, v, rotary=(4, 100.0)), out, atol=1e-12)


TYPES = {"float64": 1e-12, "float32": 2e-6, "float16": 3e-3, "bfloat16": 3e-2}


@pytest.mark.parametrize("name", TYPES)
def test_types(name):
    if name == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    else:
        dtype = np.dtype(name)
    q, k, v = (x.astype(dtype) for x in arrays())
    out = rapt.attend(q, k, v)
    assert out.dtype == dtype
    np.testing.assert_allclose(out.astype(np.float64), oracle.attend(q, k, v)[0], atol=TYPES[name])
    weights = rapt.weights(q, k)
    assert weights.dtype == (np.float64 if name == "float64" else np.float32)
    dq, dk, dv, _ = rapt.gradients(q, k, v, np.ones_like(out))
    assert (dq.dtype, dk.dtype, dv.dtype) == (dtype, dtype, dtype)


def test_mixed_types():
    q, k, v = arrays()
    assert rapt.attend(q.astype(np.float32), k.astype(np.float16), v.astype(np.float16)).dtype == np.float32
    assert rapt.attend(q, k.astype(np.float32), v.astype(np.float32)).dtype == np.float64


def test_ranks_and_broadcasting():
    q, k, v = arrays(key_heads=4)
    whole = oracle.attend(q, k, v)[0]
    np.testing.assert_allclose(rapt.attend(q[0, 0], k[0, 0], v[0, 0]), whole[0, 0], atol=1e-12)
    np.testing.assert_allclose(rapt.attend(q[1], k[1], v[1]), whole[1], atol=1e-12)
    np.testing.assert_allclose(rapt.attend(q, k[:1], v[:1]), oracle.attend(q, k[:1], v[:1])[0], atol=1e-12)
    shared = rapt.attend(q[0, 0], k[0], v[0])  # one query head for all key heads
    np.testing.assert_allclose(shared, oracle.attend(q[:1, :1], k[:1], v[:1])[0][0], atol=1e-12)


def test_several_value_sets():
    q, k, v = arrays()
    other = random.standard_normal((2, 2, 9, 3))
    outs = rapt.attend(q, k, [v, other])
    assert isinstance(outs, list)
    for out, values in zip(outs, (v, other)):
        np.testing.assert_allclose(out, oracle.attend(q, k, values)[0], atol=1e-12)
    grads = [np.ones_like(out) for out in outs]
    dq, _, dv, _ = rapt.gradients(q, k, [v, other], grads)
    one = rapt.gradients(q, k, v, grads[0])[0] + rapt.gradients(q, k, other, grads[1])[0]
    np.testing.assert_allclose(dq, one, atol=1e-12)
    assert [d.shape for d in dv] == [v.shape, other.shape]


def test_strides_are_not_copied():
    """[batch, sequence, heads, dim] as it lies, and slices of larger arrays."""
    q, k, v = arrays(key_heads=4)
    stored = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
    wide = np.zeros((2, 4, 9, 20))
    wide[..., 3:11] = k
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = rapt.attend(stored[0].transpose(0, 2, 1, 3), wide[..., 3:11], stored[2].transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(got, rapt.attend(q, k, v))


def test_a_copy_is_said_once():
    rapt._arrays._copied.clear()
    q, k, v = arrays(key_heads=4)
    backwards, columns = q[:, :, ::-1], np.asfortranarray(k)
    with pytest.warns(RuntimeWarning, match="attend: q: the last dimension is not contiguous or a stride is negative"):
        out = rapt.attend(backwards, k, v)
    np.testing.assert_array_equal(out, rapt.attend(np.ascontiguousarray(backwards), k, v))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rapt.attend(backwards, k, v)
    with pytest.warns(RuntimeWarning, match="attend: k:"):
        np.testing.assert_array_equal(rapt.attend(q, columns, v), rapt.attend(q, k, v))


def test_read_only_inputs():
    q, k, v = arrays()
    for x in (q, k, v):
        x.setflags(write=False)
    np.testing.assert_allclose(rapt.attend(q, k, v), oracle.attend(q, k, v)[0], atol=1e-12)


def test_sizes_of_zero():
    q, k, v = arrays()
    assert rapt.attend(q[:0], k[:0], v[:0]).shape == (0, 4, 7, 5)
    assert rapt.attend(q[:, :, :0], k, v).shape == (2, 4, 0, 5)
    out, lse = rapt.attend(q, k[:, :, :0], v[:, :, :0], return_lse=True)
    assert (out == 0).all() and (lse == -np.inf).all()
    assert rapt.weights(q, k[:, :, :0]).shape == (2, 4, 7, 0)


def test_any_number_of_threads_gives_the_same_bits():
    q, k, v = (x.astype(np.float32) for x in arrays(queries=300, keys=300, dim=32, value_dim=32))
    outs = [rapt.attend(q, k, v, causal="top_left", threads=n) for n in (1, 2, 3, 5)]
    grads = [rapt.gradients(q, k, v, np.ones_like(outs[0]), threads=n) for n in (1, 2, 3, 5)]
    for out, grad in zip(outs, grads):
        np.testing.assert_array_equal(out, outs[0])
        for a, b in zip(grad[:3], grads[0][:3]):
            np.testing.assert_array_equal(a, b)


def test_the_reference_path():
    q, k, v = arrays()
    np.testing.assert_allclose(rapt.attend(q, k, v, path="reference"), rapt.attend(q, k, v, path="generic"), atol=1e-12)


def test_weights_by_index():
    q, k, _ = arrays()
    whole = rapt.weights(q, k)
    assert whole.shape == (2, 4, 7, 9)
    np.testing.assert_array_equal(rapt.weights(q, k, batch=1), whole[1])
    np.testing.assert_array_equal(rapt.weights(q, k, head=slice(1, 3), rows=4), whole[:, 1:3, 4])
    assert rapt.weights(q, k, rows=slice(3, 3)).shape == (2, 4, 0, 9)
    with pytest.raises(ValueError, match="head: expected a head|expected a head from 0 to 3, got 4"):
        rapt.weights(q, k, head=4)


@pytest.mark.parametrize(
    "options, error",
    [
        (dict(rows=[1, 2]), "rows: expected an integer, a slice of integers, or None, got \\[1, 2\\]"),
        (dict(rows=slice("a", 3)), "rows: expected an integer, a slice of integers, or None, got 'a'"),
        (dict(batch=2**63), "batch: expected an integer of 64 bits, got 9223372036854775808"),
        (dict(rows=slice(0, 2**62)), "rows: expected a row from 0 to 6, got 4611686018427387903"),
        (dict(head=slice(0, 2**40), rows=slice(3, 3)), "head: expected a head from 0 to 3, got 1099511627775"),
        (dict(rows=slice(5, 2)), "rows: expected a range that does not end before it begins"),
    ],
)
def test_hostile_ranges_of_weights(options, error):
    q, k, _ = arrays()
    for keys in (k, k[:, :, :0]):  # with no keys nothing large would be allocated first
        with pytest.raises((TypeError, ValueError), match="weights: " + error):
            rapt.weights(q, keys, **options)


@pytest.mark.parametrize("top_k, got", [(-1, "-1"), (10, "10"), (2**40, "1099511627776"), (2**70, "1180591620717411303424"), (1.5, "1.5")])
def test_hostile_counts_of_top_keys(top_k, got):
    q, k, _ = arrays()
    with pytest.raises((TypeError, ValueError), match=f"statistics: top_k: expected .*, got {got}$"):
        rapt.statistics(q, k, top_k=top_k)


def test_weights_without_values_do_not_read_what_is_added_to_the_output():
    q, k, v = random.standard_normal((3, 1, 2, 6, 8))
    params = {"a": random.standard_normal((5, 8)), "values": random.standard_normal((5, 3))}
    expected = oracle.attend(q, k, v, score="shaw", params={"a": params["a"]})[1]
    np.testing.assert_allclose(rapt.weights(q, k, score="shaw", params=params), expected, atol=1e-12)
    facts = rapt.statistics(q, k, score="shaw", params=params)
    np.testing.assert_allclose(facts.position, expected @ np.arange(6), atol=1e-12)


def test_statistics():
    q, k, v = arrays()
    options = dict(causal="top_left", key_lengths=[3, 9])
    _, w, lse = oracle.attend(q, k, v, **options)
    s = rapt.statistics(q, k, top_k=3, **options)
    places = np.arange(9)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(w > 0, w * np.log(w), 0).sum(-1)
    position = w @ places
    np.testing.assert_allclose(s.entropy, entropy, atol=1e-12)
    assert s["entropy"] is s.entropy and s[0] is s.entropy
    np.testing.assert_array_equal(s.argmax, w.argmax(-1))
    np.testing.assert_allclose(s.position, position, atol=1e-12)
    np.testing.assert_allclose(s.covariance, w @ places**2 - position**2, atol=1e-10)
    np.testing.assert_allclose(s.lse, lse, atol=1e-12)
    order = np.argsort(-w, -1, kind="stable")[..., :3]
    seen = np.take_along_axis(w, order, -1)
    np.testing.assert_allclose(s.top_weights, seen, atol=1e-12)
    np.testing.assert_array_equal(np.where(s.top_indices >= 0, s.top_indices, -1), np.where(seen > 0, order, -1))


def test_statistics_on_a_grid():
    q, k, v, options = problem("quadratic")
    w = oracle.attend(q, k, v, **options)[1]
    s = rapt.statistics(q, k, **options)
    places = np.stack([np.arange(12) // 4, np.arange(12) % 4], -1)
    np.testing.assert_allclose(s.position, w @ places, atol=1e-12)
    assert s.covariance.shape == (2, 4, 12, 2, 2)


def test_infos():
    assert rapt.mechanisms()[:3] == ["dot", "scaled_dot", "bilinear"] and rapt.mechanisms()[1].grid is False
    assert pickle.loads(pickle.dumps(rapt.normalizers()))[0].formula == rapt.normalizers()[0]["formula"]
    assert NAMES[:3] == ["dot", "scaled_dot", "bilinear"] and len(NAMES) >= 13
    alibi = next(entry for entry in rapt.mechanisms() if entry["name"] == "alibi")
    assert alibi["parameters"][0]["name"] == "m" and alibi["parameters"][0]["per_head"] == "required"
    assert set(NORMALIZERS) >= {"softmax", "argmax", "sparsemax", "entmax15", "sigmoid"}


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]  # fmt: skip


class _Exchange(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.c_void_p), ("unused", ctypes.c_void_p * 3),
                ("read", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor)))]  # fmt: skip


class Contiguous:
    """An array that DLPack's exchange of C functions hands on without strides, which means that it is contiguous."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array)
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)

    def read(self, to):
        x = self.array
        to[0] = _Tensor(x.ctypes.data, 1, 0, x.ndim, 2, 8 * x.itemsize, 1, ctypes.addressof(self.shape), None, 0)
        return 0

    exchange = _Exchange(1, 3, None, (ctypes.c_void_p * 3)(), _Exchange._fields_[-1][1](read))
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = b"dlpack_exchange_api"  # a capsule does not copy it
    __dlpack_c_exchange_api__ = capsule(ctypes.addressof(exchange), name, None)


def test_arrays_without_strides_are_contiguous():
    q, k, v = (random.standard_normal((2, 3, 5, 4)).astype(np.float32) for _ in range(3))
    expected = rapt.attend(q, k, v)
    assert (rapt.attend(q, Contiguous(k), Contiguous(v)) == expected).all()
    assert (rapt.attend(q, Contiguous(k[:1]), Contiguous(v[:, :1])) == rapt.attend(q, k[:1], v[:, :1])).all()
