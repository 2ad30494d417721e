"""What surrounds a call: errors, parts, plans, threads of Python, signals, forks, pickles."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import oracle
import pytest
from test_numpy import arrays

import rapt

random = np.random.default_rng(3)

ERRORS = [
    (lambda q, k, v: rapt.attend(q, k, v[:, :, :5]), ValueError, r"^attend: v: expected 9 keys as in k, got 5$"),
    (lambda q, k, v: rapt.attend(q.astype(int), k, v), TypeError, "attend: q: expected numbers of float32, float64"),
    (lambda q, k, v: rapt.attend(q > 0, k, v), TypeError, "attend: q: expected numbers .* got booleans"),
    (lambda q, k, v: rapt.attend(q, k, None), TypeError, "attend: v: expected an array or a list of them, got None"),
    (lambda q, k, v: rapt.attend(q, None, v), TypeError, "attend: k: expected an array .* got NoneType"),
    (lambda q, k, v: rapt.gradients(q, k, None, v), TypeError, "gradients: v: expected an array or a list of them, got None"),
    (lambda q, k, v: rapt.gradients(q, k, v, None), TypeError, "gradients: grad_out: expected an array .* got NoneType"),
    (lambda q, k, v: rapt.merge([1]), TypeError, "merge: parts: expected a list of what rapt.partial gave"),
    (lambda q, k, v: rapt.set_threads("two"), TypeError, "set_threads: expected an integer, got 'two'"),
    (lambda q, k, v: rapt.set_threads(2**70), ValueError, "set_threads: expected 1 to 2147483647, got 1180591620717411303424"),
    (lambda q, k, v: rapt.use_openmp_threads(5), TypeError, "use_openmp_threads: expected the path of a folder, got 5"),
    (lambda q, k, v: rapt.show("a"), TypeError, "show: weights: expected an array of numbers, got str"),
    (lambda q, k, v: rapt.attend([1.0], k, v), TypeError, "attend: q: expected an array .* got list"),
    (
        lambda q, k, v: rapt.attend(q.astype(pytest.importorskip("ml_dtypes").float8_e4m3fn), k, v),
        TypeError,
        "attend: q: expected an array .* got ndarray of float8_e4m3fn",
    ),
    (lambda q, k, v: rapt.attend(q[0, 0, 0], k, v), ValueError, "attend: q: expected two to four dimensions, got 1"),
    (lambda q, k, v: rapt.attend(q[None], k, v), ValueError, "attend: q: expected one to four dimensions, got 5"),
    (lambda q, k, v: rapt.attend(q, k, []), ValueError, "attend: v: expected at least one value set, got none"),
    (lambda q, k, v: rapt.attend(q, k, v, causal=True), TypeError, 'causal: expected None, "top_left" or "bottom_right", got True'),
    (lambda q, k, v: rapt.attend(q, k, v, causal="left"), ValueError, "causal: expected"),
    (lambda q, k, v: rapt.attend(q, k, v, score="none"), ValueError, "expected one of dot, .*got 'none'"),
    (lambda q, k, v: rapt.attend(q, k, v, score="alibi"), ValueError, "score alibi: parameter 'm': expected .*got none"),
    (lambda q, k, v: rapt.attend(q, k, v, params={"m": 1.0}), ValueError, "scaled_dot: expected no parameters, got parameter 'm'"),
    (lambda q, k, v: rapt.attend(q, k, v, params=[1.0]), TypeError, "params: expected a mapping of names"),
    (lambda q, k, v: rapt.attend(q, k, v, score="alibi", params={"m": "x"}), TypeError, "attend: params: m: expected an array"),
    (lambda q, k, v: rapt.attend(q, k, v, score="alibi", params={"m": ["x"]}), TypeError, "params: m: expected numbers"),
    (lambda q, k, v: rapt.attend(q, k, v, mask=np.zeros((7, 9))), TypeError, "mask: expected booleans, true = attend"),
    (lambda q, k, v: rapt.attend(q, k, v, mask=np.zeros((7, 9), int)), TypeError, "mask: expected booleans, true = attend.*got int64"),
    (lambda q, k, v: rapt.attend(q.astype(np.uint8), k, v), TypeError, "q: expected numbers of float32, .*, got uint8"),
    (lambda q, k, v: rapt.attend(q, k.astype(complex), v), TypeError, "k: expected numbers of float32, .*, got complex128"),
    (lambda q, k, v: rapt.attend(q, k, v, mask=np.zeros((7, 8), bool)), ValueError, "mask: expected shape"),
    (lambda q, k, v: rapt.attend(q, k, v, window=3), ValueError, "window: expected two integers, got 1"),
    (lambda q, k, v: rapt.attend(q, k, v, key_lengths=[1.5, 2]), TypeError, "key_lengths: expected an integer, got 1.5"),
    (lambda q, k, v: rapt.attend(q, k, v, key_lengths=[10, 2]), ValueError, "key_lengths: expected 0 to 9, got 10"),
    (lambda q, k, v: rapt.attend(q, k, v, threads=0), ValueError, "threads: expected 1 to 4096, got 0"),
    (lambda q, k, v: rapt.attend(q, k, v, scale="x"), TypeError, "scale: expected a number, got 'x'"),
    (lambda q, k, v: rapt.attend(q, k, v, path="fast"), ValueError, "path: expected"),
    (lambda q, k, v: rapt.attend(q.astype(">f8"), k, v), TypeError, "byte order"),
    (lambda q, k, v: rapt.weights(q, k, sclae=1.0), TypeError, "weights: expected options among .*got 'sclae'"),
    (lambda q, k, v: rapt.weights(q, k, rows=slice(0, 4, 2)), ValueError, "rows: expected a slice with a step of 1"),
    (lambda q, k, v: rapt.statistics(q, k, top_k=99), ValueError, "top_k: expected 0 to 9, got 99"),
    (lambda q, k, v: rapt.gradients(q, k, v, v), ValueError, "grad_out.*: expected shape"),
    (lambda q, k, v: rapt.merge([]), ValueError, "merge: parts: expected at least one, got none"),
    (lambda q, k, v: rapt.partial(q, k, v, normalizer="sparsemax"), ValueError, "expected the normaliser softmax"),
]  # fmt: skip


@pytest.mark.parametrize("call, kind, sentence", ERRORS)
def test_errors(call, kind, sentence):
    with pytest.raises(kind, match=sentence):
        call(*arrays())


def test_parts_are_the_whole():
    q, k, v = arrays(keys=30)
    options = dict(score="alibi", params={"m": random.random(4)}, first_query=20, causal="top_left")
    parts = [rapt.partial(q, k[:, :, a:b], v[:, :, a:b], first_key=a, **options) for a, b in ((0, 7), (7, 20), (20, 30))]
    out, _, lse = oracle.attend(q, k, v, **options)
    whole = rapt.merge(part for part in parts)  # read once
    np.testing.assert_allclose(whole.out, out, atol=1e-12)
    np.testing.assert_allclose(whole.lse, lse, atol=1e-12)
    again = pickle.loads(pickle.dumps(whole))
    np.testing.assert_array_equal(again.out, whole.out)


def test_plan():
    q, k, v = arrays(batch=1, queries=1, keys=20)
    plan = rapt.Plan(q, k, v, causal="top_left")
    for step in (0, 5, 19):
        other = random.standard_normal(q.shape)
        out = plan.run(other, key_lengths=step + 1, first_query=step)
        np.testing.assert_array_equal(out, rapt.attend(other, k[:, :, : step + 1], v[:, :, : step + 1]))
    mine = np.empty_like(out)
    assert plan.run(other, key_lengths=[20], first_query=[19], out=mine) is mine
    np.testing.assert_array_equal(mine, out)
    with pytest.raises(ValueError, match="Plan: q: expected float64 .* as the plan has, got float32"):
        plan.run(q.astype(np.float32))
    with pytest.raises(ValueError, match="Plan: bias: expected"):
        plan.run(bias=np.zeros((1, 1, 1, 20)))
    with pytest.raises(TypeError, match="expected to stay in its process"):
        pickle.dumps(plan)


def test_plan_copies_nothing():
    q, k, v = arrays(batch=1, queries=3, keys=20)
    plan = rapt.Plan(q, k, v)
    expected = plan.run().copy()
    strided = np.empty((*expected.shape[:-1], 2 * expected.shape[-1]))[..., ::2]
    with pytest.raises(ValueError, match="Plan: out: expected contiguous rows"):
        plan.run(out=strided)
    wide = np.empty((*q.shape[:-1], 2 * q.shape[-1]))[..., ::2]
    with pytest.raises(ValueError, match="Plan: q: expected contiguous rows"):  # a copy would not see what is written later
        rapt.Plan(wide, k, v)


def test_grad_lse_of_four_dimensions():
    q, k, v = arrays()
    out, lse = rapt.attend(q, k, v, return_lse=True)
    with pytest.raises(ValueError, match="grad_lse: expected the shape of lse"):
        rapt.gradients(q, k, v, np.ones_like(out), grad_lse=np.ones((*lse.shape, 1)))


def test_params_of_any_mapping():
    from types import MappingProxyType

    q, k, v = arrays()
    options = dict(score="alibi", causal="top_left")
    expected = rapt.attend(q, k, v, params={"m": [0.5, 0.25, 0.1, 0.2]}, **options)
    np.testing.assert_array_equal(rapt.attend(q, k, v, params=MappingProxyType({"m": [0.5, 0.25, 0.1, 0.2]}), **options), expected)
    with pytest.raises(TypeError, match="params: expected a mapping of names to arrays, got 3"):
        rapt.attend(q, k, v, params=3, **options)


def test_the_signature_is_the_documented_one():
    import inspect

    assert inspect.signature(rapt.attend).parameters["normalizer"].default == "softmax"


def test_plan_keeps_its_arrays():
    q, k, v = arrays()
    expected = rapt.attend(q, k, v)
    plan = rapt.Plan(q.copy(), k.copy(), v.copy())
    np.testing.assert_array_equal(plan.run(), expected)


def test_dlpack_without_a_buffer():
    class Exported:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **arguments):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    q, k, v = arrays()
    out = rapt.attend(Exported(q), Exported(k), Exported(v))
    np.testing.assert_array_equal(out, rapt.attend(q, k, v))


def test_the_lock_is_released():
    """Another thread of Python runs while one computes."""
    q = random.standard_normal((1, 4, 1500, 64)).astype(np.float32)
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counted[0]
        rapt.attend(q, q, q, threads=1)
        during = counted[0] - before
    finally:
        done.set()
        thread.join()
    assert during > 0


def test_many_threads_call_at_once():
    q, k, v = arrays(queries=50, keys=60)
    expected = rapt.attend(q, k, v)
    wrong = []

    def work():
        for _ in range(20):
            if not np.array_equal(rapt.attend(q, k, v), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def run_python(code):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_call(threads):
    program = f"""
        import numpy as np, os, rapt, signal, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in the background
        q = np.zeros((1, 4, 40000, 64), np.float32)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            rapt.attend(q, q, q, threads={threads})
            print("not ended")
        except KeyboardInterrupt:
            print("ended after", round(time.monotonic() - start))
        print(rapt.attend(q[:, :, :4], q[:, :, :4], q[:, :, :4]).sum())
    """
    result = run_python(program)
    assert result.stdout.splitlines()[0].startswith("ended after") and result.stdout.splitlines()[1] == "0.0", result


def test_a_forked_child_computes_and_ends():
    result = run_python(
        """
        import numpy as np, os, rapt
        q = np.random.rand(4, 4, 200, 32)
        expected = rapt.attend(q, q, q, threads=3)
        for _ in range(3):
            child = os.fork()
            if child == 0:
                same = np.array_equal(rapt.attend(q, q, q, threads=3), expected)
                raise SystemExit(7 if same else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print("fine")
        """
    )
    assert result.stdout == "fine\n", result


def test_many_forks_while_another_thread_computes():
    """Two hundred, or as many as a busy machine makes in 15 s: a child never waits for what a thread of the parent held."""
    result = run_python(
        """
        import numpy as np, os, rapt, signal, threading, time
        q = np.random.rand(1, 4, 100, 16).astype(np.float32)
        expected = rapt.attend(q, q, q, threads=2)
        ending = False
        def compute():
            while not ending:
                rapt.attend(q, q, q, threads=2)
        other = threading.Thread(target=compute)
        other.start()
        start, forks = time.monotonic(), 0
        while forks < 200 and (forks < 20 or time.monotonic() - start < 15):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # a child that hangs ends by the signal
                os._exit(7 if np.array_equal(rapt.attend(q, q, q, threads=2), expected) else 1)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert status == 7, (forks, status)
            forks += 1
        ending = True
        other.join()
        print("fine")
        """
    )
    assert result.stdout == "fine\n", result


def test_multiprocessing_with_fork():
    result = run_python(
        """
        import multiprocessing, numpy as np, rapt
        q = np.random.rand(4, 4, 100, 32)
        def work(n):
            return rapt.attend(q[n : n + 1], q[n : n + 1], q[n : n + 1])
        expected = rapt.attend(q, q, q)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert np.array_equal(np.concatenate(pool.map(work, range(4))), expected)
        print("fine")
        """
    )
    assert result.stdout == "fine\n", result


def test_nothing_leaks():
    """Objects that a call was given are given back."""
    q, k, v = arrays()
    bias = np.zeros((1, 4, 7, 9))
    params = {"m": np.zeros(4)}
    objects = [q, k, v, bias, params["m"]]
    before = [sys.getrefcount(x) for x in objects]
    for _ in range(10):
        rapt.attend(q, k, v, bias=bias, score="alibi", params=params)
        rapt.gradients(q, k, v, np.ones((2, 4, 7, 5)), bias=bias, score="alibi", params=params)
        with pytest.raises(ValueError):
            rapt.attend(q, k, v[:, :, :3], bias=bias)
    assert [sys.getrefcount(x) for x in objects] == before


def test_threads_by_default():
    """In a process of its own: where PyTorch is loaded, its number counts."""
    result = run_python(
        """
        import rapt
        rapt.set_threads(3)
        print(rapt.threads())
        try:
            rapt.set_threads(0)
        except ValueError as error:
            print(error)
        """
    )
    assert result.stdout.splitlines() == ["3", "set_threads: expected 1 to 2147483647, got 0"], result


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system does not bind processes to processors")
def test_a_forked_child_counts_its_own_processors():
    result = run_python(
        """
        import os, rapt
        child = os.fork()
        if child == 0:
            os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
            os._exit(rapt.threads())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        """
    )
    assert result.returncode == 0, result


def test_a_host_lends_its_threads():
    """A function of C, here one that ctypes makes from Python; in a process of its own, as the threads are the whole process's."""
    result = run_python(
        """
        import ctypes, threading, numpy as np, rapt
        Work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
        calls = []

        @ctypes.CFUNCTYPE(None, ctypes.c_int, Work, ctypes.c_void_p)
        def run(workers, work, job):
            calls.append(workers)
            threads = [threading.Thread(target=work, args=(job, worker)) for worker in range(workers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        q = np.random.default_rng(1).standard_normal((1, 8, 96, 32), np.float32)
        expected = rapt.attend(q, q, q, threads=2)
        rapt.use_host_threads(ctypes.cast(run, ctypes.c_void_p).value)
        lent = rapt.attend(q, q, q, threads=2)
        rapt.use_host_threads(None)
        own = rapt.attend(q, q, q, threads=2)
        print(calls[:1], len(calls) > 0, (lent == expected).all(), (own == expected).all())
        for wrong in (run, "run", 0):
            try:
                rapt.use_host_threads(wrong)
            except TypeError as error:
                print(str(error)[:71])
        print(rapt.use_openmp_threads("/nowhere") in (True, False))
        """
    )
    wrong = "use_host_threads: expected the address of a C function or None, got"
    lines = result.stdout.splitlines()
    assert lines[0] == "[2] True True True" and lines[-1] == "True", result
    assert [line[: len(wrong)] for line in lines[1:4]] == [wrong] * 3, result


def test_daemon_threads_at_the_end_of_the_process():
    """They compute while the interpreter goes: the process ends without a crash, and says nothing."""
    program = """
        import sys, threading, time, numpy as np, rapt
        q = np.ones((1, 4, 256, 32), np.float32)
        def work():
            while True:
                rapt.attend(q, q, q, causal="top_left")
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(float(sys.argv[1]))
    """
    for n in range(8):
        command = [sys.executable, "-c", textwrap.dedent(program), str(0.01 * n)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (result.returncode, result.stderr) == (0, ""), result
