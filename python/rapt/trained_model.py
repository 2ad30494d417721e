"""Models that `rapt train` left, through the tool: the package holds attention alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from typing import Any, Iterable, NamedTuple, Sequence

import numpy as np


class Answer(NamedTuple):
    text: str
    score: float  # with the length penalty
    log_probability: float
    finished: bool  # False: cut off at the longest length


class AttentionMap(NamedTuple):
    source: list
    target: list
    weights: Any  # [target tokens, source tokens]


class TrainedModel:
    """A run of `rapt train`: model(text) is the best answer. Needs the tool `rapt` on the PATH, or at `tool`.

    Runs of `ensemble` answer together with it: the probability of a token is the mean of theirs. Every call starts the
    tool, so give many texts to one `decode`.

    >>> import rapt
    >>> model = rapt.TrainedModel("runs/x")
    >>> answer = model("abc")
    >>> best, second = model.decode(["abc"], beam=3, nbest=2)[0]
    >>> best.text == answer or best.score >= second.score
    True
    >>> model.attention("abc").source
    ['a', 'b', 'c']
    """

    def __init__(
        self, run: str | os.PathLike, tool: str | os.PathLike | None = None, *, ensemble: Iterable[str | os.PathLike] = ()
    ) -> None:
        if isinstance(ensemble, (str, bytes, os.PathLike)):
            raise TypeError(f"TrainedModel: ensemble: expected a list of directories, got {ensemble!r}")
        self.run = os.fspath(run)
        self.ensemble = [os.fspath(other) for other in ensemble]
        self._tool = tool or shutil.which("rapt")
        if self._tool is None:
            raise ValueError("TrainedModel: expected the tool 'rapt' on the PATH, got none")
        if not os.path.isdir(self.run):
            raise ValueError(f"TrainedModel: expected the directory of a run, got '{self.run}'")
        self._call([], "--json")  # a run that cannot be read is refused here

    def _call(self, texts, *options):
        for text in texts:
            if "\n" in text:
                raise ValueError(f"TrainedModel: texts: expected one line each, got {text!r}")
        lines = "".join(text + "\n" for text in texts)
        others = [word for other in self.ensemble for word in ("--ensemble", other)]
        result = subprocess.run([self._tool, "decode", self.run, *others, *options], input=lines, capture_output=True, text=True)
        if result.returncode != 0:
            raise ValueError(result.stderr.strip() or f"TrainedModel: rapt decode ended with {result.returncode}")
        return result.stdout

    def decode(self, texts: Sequence[str], *, beam: int = 1, nbest: int = 1, length_penalty: float = 0.0) -> list[list[Answer]]:
        """The best answers to each text, best first."""
        options = ["--beam", str(beam), "--nbest", str(nbest), "--length-penalty", str(length_penalty), "--json"]
        found = json.loads(self._call(texts, *options))
        return [[Answer(**hypothesis) for hypothesis in entry["hypotheses"]] for entry in found]

    def __call__(self, text: str) -> str:
        return self.decode([text])[0][0].text

    def attention(self, text: str) -> AttentionMap:
        """Where the model looked for its best answer."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "align.json")
            self._call([text], "--align", path)
            with open(path, encoding="utf-8") as file:
                (found,) = json.load(file)
        return AttentionMap(found["source"], found["target"], np.array(found["weights"]))
