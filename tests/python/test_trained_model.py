"""rapt.TrainedModel and python -m rapt, through the tool that RAPT_TOOL names."""

import doctest
import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import rapt

TOOL = os.environ.get("RAPT_TOOL")
needs_tool = pytest.mark.skipif(not TOOL or not os.path.exists(TOOL), reason="the tool is not built")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    pairs = folder / "pairs.tsv"
    pairs.write_text("".join(f"{x}\t{x[::-1]}\n" for x in ("ab", "abc", "bca", "cab", "ba", "c")))
    command = [TOOL, "train", "--data", pairs, "--valid", pairs, "--epochs", "2", "--attention", "dot", "--out", folder / "x"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "x"


@needs_tool
def test_examples(run, tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/x").symlink_to(run)
    (tmp_path / "rapt").symlink_to(os.path.abspath(TOOL))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    result = doctest.testmod(importlib.import_module("rapt.trained_model"))
    assert result.failed == 0 and result.attempted > 4


@needs_tool
def test_answers(run):
    model = rapt.TrainedModel(run, tool=TOOL)
    plain = subprocess.run([TOOL, "decode", run, "ab", "abc"], capture_output=True, text=True, check=True).stdout.split("\n")
    assert [model("ab"), model("abc")] == plain[:2]
    answers = model.decode(["ab", "abc"], beam=3, nbest=2)
    assert len(answers) == 2 and len(answers[0]) == 2 and answers[0][0].score >= answers[0][1].score
    map_ = model.attention("abc")
    assert map_.source == ["a", "b", "c"]
    if map_.weights.size:
        np.testing.assert_allclose(map_.weights.sum(-1), 1, atol=1e-5)


@needs_tool
def test_several_answer_together(run, tmp_path):
    other = tmp_path / "other"
    subprocess.run([TOOL, "train", "--config", run / "config.json", "--seed", "2", "--out", other], check=True, capture_output=True)
    model = rapt.TrainedModel(run, tool=TOOL, ensemble=[other])
    command = [TOOL, "decode", run, "--ensemble", other, "ab", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert model.decode(["ab"])[0][0].score == found[0]["hypotheses"][0]["score"]
    assert model.decode(["ab"])[0][0].score != rapt.TrainedModel(run, tool=TOOL).decode(["ab"])[0][0].score
    with pytest.raises(TypeError, match="expected a list of directories"):
        rapt.TrainedModel(run, tool=TOOL, ensemble=str(other))
    with pytest.raises(ValueError, match="expected a model of one run, got an ensemble of 2"):
        rapt.explore(model, "ab")


@needs_tool
def test_bad_runs(run, tmp_path):
    with pytest.raises(ValueError, match="expected the directory of a run"):
        rapt.TrainedModel(tmp_path / "none", tool=TOOL)
    with pytest.raises(ValueError, match="expected the directory of a run, got one without config.json"):
        rapt.TrainedModel(tmp_path, tool=TOOL)
    with pytest.raises(ValueError, match="expected one line each"):
        rapt.TrainedModel(run, tool=TOOL)("a\nb")


@needs_tool
def test_the_command_line():
    path = os.path.dirname(TOOL) + os.pathsep + os.environ["PATH"]
    result = subprocess.run([sys.executable, "-m", "rapt", "list"], env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert result.returncode == 0 and "scaled_dot" in result.stdout
    missing = subprocess.run([sys.executable, "-m", "rapt"], env={**os.environ, "PATH": "/nowhere"}, capture_output=True, text=True)
    assert missing.returncode == 2 and "expected the tool 'rapt' on the PATH" in missing.stderr
