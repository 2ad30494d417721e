"""Pictures: what is drawn is what was given."""

import base64
import html
import json
import os
import pathlib
import re
import struct
import urllib.error
import urllib.request
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
    palette = np.frombuffer(rapt._core.palette(), np.uint8).reshape(256, 3)
    assert palette[0].sum() < 200 and palette[255].sum() > 500  # dark to light
    assert (image[0, 1] == palette[0]).all() and (image[0, 0] == palette[255]).all()
    assert (image[1, 0] == palette[128]).all() and (image[1, 1] == palette[128]).all()
    assert "&lt;b&gt;" in picture.svg and "Title &amp; more" in picture.svg


def test_show_heads_and_large_maps():
    assert len(pixels(rapt.show(np.ones((5, 4, 4))).svg)) == 5
    (image,) = pixels(rapt.show(np.eye(5000)).svg)
    assert image.shape[0] <= 2048
    for tokens in (list("abcdefgh"), None):  # rows of a long text
        picture = rapt.show(np.ones((8, 8192)), tokens)
        width, height = map(float, re.search(r'viewBox="0 0 (\d+) (\d+)"', picture.svg).groups())
        assert 600 < width < 800 and 40 <= height < 120, (width, height)
    picture = rapt.show(np.eye(30), list("abc") * 10)
    sizes = re.search(r'<image x="[^"]*" y="[^"]*" width="([^"]*)" height="([^"]*)"', picture.svg)
    assert sizes[1] == sizes[2]


def test_show_errors():
    with pytest.raises(ValueError, match="weights: expected .* got shape \\[3\\]"):
        rapt.show(np.ones(3))
    with pytest.raises(ValueError, match="tokens: expected 3, got 2"):
        rapt.show(np.eye(3), ["a", "b"])


def arrays():
    random = np.random.default_rng(0)
    return random.standard_normal((1, 2, 50, 8)), random.standard_normal((1, 2, 70, 8))


def frame(explorer):
    """The page within what a notebook shows."""
    return html.unescape(re.search(r'<iframe sandbox="allow-scripts allow-downloads" srcdoc="([^"]*)"', explorer._repr_html_())[1])


def test_explore_arrays():
    q, k = arrays()
    explorer = rapt.explore((q, k), causal="top_left", tokens=[f"<{n}>" for n in range(50)])
    whole = rapt.weights(q, k, batch=0, causal="top_left")
    np.testing.assert_allclose(explorer.rows(0, 1, 10, 20), whole[1, 10:20])
    np.testing.assert_allclose(explorer.map(0, 1), whole[1], rtol=1e-6)
    np.testing.assert_allclose(explorer.map(0, 0, 10), whole[0].reshape(10, 5, 10, 7).mean((1, 3)), rtol=1e-5)
    pooled = explorer.pooled(0, 0, (10, 40, 0, 70), 10, 35)
    np.testing.assert_allclose(pooled, whole[0, 10:40].reshape(10, 3, 35, 2).max((1, 3)), rtol=1e-6)
    explorer.show(0, 1, 5, 10)
    with pytest.raises(ValueError, match="inputs: expected"):
        rapt.explore(object())
    with pytest.raises(ValueError, match="tokens: expected 50, got 2"):
        rapt.explore((q, k), tokens=["a", "b"])


def test_the_page_is_the_explorers_and_holds_the_weights(tmp_path):
    q, k = arrays()
    explorer = rapt.explore((q, k), causal="top_left", tokens=[f"</script>{n}" for n in range(50)])
    page = frame(explorer)
    folder = pathlib.Path(rapt.__file__).parent / "explorer_page"
    for file in folder.iterdir():
        if file.suffix != ".html":
            assert file.read_text() in page, file
    assert "{{" not in page
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    assert data["exhibit"]["tokens"][0][3] == "</script>3" and len(data["exhibit"]["tokens"][1]) == 70
    whole = rapt.weights(q, k, batch=0, causal="top_left")
    for head in range(2):
        packed = re.search(rf'id="w0-{head}">([^<]*)<', page)[1]
        weights = np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<f2").reshape(50, 70)
        np.testing.assert_allclose(weights, whole[head], atol=1e-3)
        facts = data["summaries"][0][head]
        logs = np.log(np.where(whole[head] > 0, whole[head], 1))
        distance = (whole[head] * np.abs(np.arange(50)[:, None] - np.arange(70))).sum(1).mean()
        expected = [-(whole[head] * logs).sum(1).mean(), distance, whole[head].max(1).mean(), whole[head].max()]
        np.testing.assert_allclose([facts[n] for n in ("entropy", "distance", "largest", "peak")], expected, rtol=1e-5)
        assert len(base64.b64decode(facts["thumbnail"])) == facts["rows"] * facts["cols"] == 48 * 48
    explorer.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    picture, path = rapt.show(np.eye(3)), tmp_path / "map.svg"
    picture.save(path)
    assert path.read_text() == picture.svg and path.stat().st_mode & 0o777 == 0o666 & ~mask_of_files()
    path.chmod(0o640)
    (tmp_path / "link.svg").symlink_to(path)
    rapt.show(np.eye(4)).save(tmp_path / "link.svg")  # written to, never replaced
    assert (tmp_path / "link.svg").is_symlink() and path.stat().st_mode & 0o777 == 0o640
    before = path.read_text()
    assert before == rapt.show(np.eye(4)).svg
    picture.svg += "\ud800"  # cannot be encoded, after much that can
    with pytest.raises(UnicodeEncodeError):
        picture.save(path)
    assert path.read_text() == before and sorted(x.name for x in tmp_path.iterdir()) == ["link.svg", "map.svg"]
    monkeypatch.chdir(tmp_path)
    rapt.show(np.eye(3)).save("map.svg")
    assert path.read_text() == rapt.show(np.eye(3)).svg and path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(FileNotFoundError):
        rapt.show(np.eye(3)).save(tmp_path / "none" / "map.svg")


def mask_of_files():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_counts_in_messages():
    q = np.ones((1, 1, 2, 4), np.float32)
    with pytest.raises(ValueError, match=r"explore: source: expected \(q, k\), got 1 array$"):
        rapt.explore((q,))
    with pytest.raises(TypeError, match="abs: expected 1 argument, got 2"):
        rapt.formula(lambda raw: rapt.formulas.abs_(raw, raw))


def ask(address, path, **headers):
    with urllib.request.urlopen(urllib.request.Request(address + path, headers=headers), timeout=60) as answer:
        return answer.headers, answer.read()


def test_many_weights_are_served(monkeypatch):
    q, k = arrays()
    monkeypatch.setattr("rapt.explorer._INLINE_CELLS", 100)
    explorer = rapt.explore((q, k), causal="top_left")
    address = re.search(r'<iframe src="([^"]*)"', explorer._repr_html_())[1]
    assert address.startswith("http://127.0.0.1:") and address == explorer.serve()
    whole = rapt.weights(q, k, batch=0, causal="top_left")
    assert b"connect-src 'self'" in ask(address, "")[1]
    assert json.loads(ask(address, "api/exhibit")[1])["exhibit"]["layers"][0]["heads"] == 2
    assert json.loads(ask(address, "api/head?id=1&layer=0&head=1")[1]) == explorer.summary(0, 1)
    headers, body = ask(address, "api/map?id=1&layer=0&head=1&top=10&bottom=40&left=0&right=70&height=10&width=35")
    assert (headers["X-Rows"], headers["X-Cols"]) == ("10", "35")
    np.testing.assert_allclose(np.frombuffer(body, "<f2").reshape(10, 35), whole[1, 10:40].reshape(10, 3, 35, 2).max((1, 3)), atol=1e-3)
    _, body = ask(address, "api/row?id=1&layer=0&row=7")
    np.testing.assert_allclose(np.frombuffer(body, "<f2").reshape(2, 70), whole[:, 7], atol=1e-3)
    for path, headers, status in (
        ("api/row?id=1&layer=0&row=50", {}, 400),
        ("api/row?id=1&layer=x&row=5", {}, 400),
        ("nothing", {}, 404),
        ("", {"Host": "elsewhere.example"}, 403),
        ("api/exhibit", {"Origin": "http://elsewhere.example"}, 403),
    ):
        with pytest.raises(urllib.error.HTTPError) as error:
            ask(address, path, **headers)
        assert error.value.code == status


def test_explore_many_tokens():
    q = np.random.default_rng(1).standard_normal((1, 1, 8192, 8), np.float32)
    map_ = rapt.explore((q, q), causal="top_left").map(0, 0, 64)
    np.testing.assert_allclose(map_.sum(1) * 128, 1.0, rtol=1e-3)  # every row sums to 1
