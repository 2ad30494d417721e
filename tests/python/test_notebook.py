"""Pictures: what is drawn is what was given."""

import base64
import re
import struct
import xml.dom.minidom
import zlib

import numpy as np
import pytest

import rapt


def pixels(svg):
    """The PNG images of a picture, read by the format's definition."""
    images = []
    for data in re.findall(r"data:image/png;base64,([^\"]+)", svg):
        raw = base64.b64decode(data)
        width, height = struct.unpack(">II", raw[16:24])
        at, parts = 8, b""
        while at < len(raw):
            size, kind = struct.unpack(">I4s", raw[at : at + 8])
            parts += raw[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
            at += 12 + size
        rows = np.frombuffer(zlib.decompress(parts), np.uint8).reshape(height, 1 + 3 * width)
        images.append(rows[:, 1:].reshape(height, width, 3))
    return images


def test_show():
    weights = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    picture = rapt.show(weights, ["a", "<b>"], ["x", "y", "z"], "Title & more")
    xml.dom.minidom.parseString(picture._repr_svg_())
    (image,) = pixels(picture.svg)
    assert image.shape == (2, 3, 3)
    assert image[0, 1].tolist() == [255, 255, 255] and image[0, 0].tolist() == [8, 48, 107]
    assert image[1, 0].tolist() == image[1, 1].tolist() != [255, 255, 255]
    assert "&lt;b&gt;" in picture.svg and "Title &amp; more" in picture.svg


def test_show_heads_and_large_maps():
    assert len(pixels(rapt.show(np.ones((5, 4, 4))).svg)) == 5
    (image,) = pixels(rapt.show(np.eye(5000)).svg)
    assert image.shape[0] <= 2048


def test_show_errors():
    with pytest.raises(ValueError, match="weights: expected .* got shape \\[3\\]"):
        rapt.show(np.ones(3))
    with pytest.raises(ValueError, match="tokens: expected 3, got 2"):
        rapt.show(np.eye(3), ["a", "b"])


def test_explore_arrays():
    random = np.random.default_rng(0)
    q, k = random.standard_normal((1, 2, 50, 8)), random.standard_normal((1, 2, 70, 8))
    explorer = rapt.explore((q, k), causal="top_left")
    whole = rapt.weights(q, k, batch=0, causal="top_left")
    np.testing.assert_allclose(explorer.rows(0, 1, 10, 20), whole[1, 10:20])
    np.testing.assert_allclose(explorer.map(0, 1), whole[1])
    small = explorer.map(0, 0, 10)
    np.testing.assert_allclose(small, whole[0].reshape(10, 5, 10, 7).mean((1, 3)))
    page = explorer._repr_html_()
    assert page.count("<img data-name") == 2 and "NUMBER" not in page and "PICTURES" not in page
    explorer.show(0, 1, 5, 10)
    with pytest.raises(ValueError, match="inputs: expected"):
        rapt.explore(object())


def test_explore_many_tokens():
    q = np.random.default_rng(1).standard_normal((1, 1, 8192, 8), np.float32)
    map_ = rapt.explore((q, q), causal="top_left").map(0, 0, 64)
    np.testing.assert_allclose(map_.sum(1) * 128, 1.0, rtol=1e-3)  # every row sums to 1
