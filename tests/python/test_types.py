"""Options as a type checker sees them."""

import pathlib
import subprocess
import sys

import rapt

PROGRAM = """
import numpy as np
import rapt

q = np.zeros((1, 2, 5, 8))
rapt.attend(q, q, q, causal="top_left", key_lengths=np.array([5]))
rapt.weights(q, q, head=0, rows=slice(0, 2), causal="top_left", key_lengths=np.array([5]), first_key=1)
rapt.statistics(q, q, top_k=2, positions_on=(1, 5), softcap=3)
rapt.gradients(q, q, q, q, score="alibi", params={"m": [0.5, 0.25]}, grad_lse=None)
rapt.partial(q, q, q, first_key=3, window=(1, 2))
rapt.Plan(q, q, q, threads=1)
rapt.show(q[0], tokens=["a"] * 5, title="a map").save("map.svg")
rapt.explore((q, q), causal="top_left").rows(0, 0, 0, 2)
rapt.TrainedModel("runs/x", ensemble=["runs/y"]).decode(["a"], beam=2)[0][0].text
rapt.formula("raw*scale").parameters
rapt.set_threads(rapt.threads())
"""
WRONG = """
rapt.weights(q, q, caual="top_left")
rapt.statistics(q, q, softcap="three")
rapt.gradients(q, q, q, q, window=3)
rapt.partial(q, q, q, causal=1)
rapt.Plan(q, q, q, thread=1)
rapt.atend(q, q, q)
rapt.show(3, tokenz=1)
rapt.show(q[0], tokens=3)
rapt.TrainedModel(1, 2, 3, 4)
rapt.TrainedModel("runs/x").decode(["a"], beam="wide")
rapt.explore((q, q)).row(0)
rapt.set_threads("two")
"""


def test_mypy(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM + WRONG)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", tmp_path / "cache", "program.py"]
    path = {"MYPYPATH": str(pathlib.Path(rapt.__file__).parents[1])}
    result = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True, timeout=300)
    wrong = sorted({int(line.split(":")[1]) for line in result.stdout.splitlines() if ": error: " in line})
    first = PROGRAM.count("\n") + 2
    assert wrong == list(range(first, first + WRONG.count("\n") - 1)), result.stdout + result.stderr
