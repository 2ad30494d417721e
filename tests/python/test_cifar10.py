"""examples/python/cifar10 on a few synthetic images: every model and implementation, resuming, packing, the measures."""

import functools
import importlib
import itertools
import json
import pathlib
import sys

import numpy as np
import pytest
import torch

ROOT = pathlib.Path(__file__).parents[2] / "examples" / "python" / "cifar10"


@pytest.fixture(scope="module")
def example():
    """The example's modules, by name; its folder is on the path only here."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny tensors: other threads only wait
    names = ("attention", "centers", "compare", "data", "models", "train", "benchmark", "record", "pieces", "stored")
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    path = list(sys.path)
    sys.path[:0] = [str(ROOT), str(ROOT.parent / "common")]

    loaded = {name: importlib.import_module(name) for name in names}
    yield type("Example", (), loaded)
    sys.path[:] = path
    torch.set_num_threads(threads)
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


SMALL = {"width": 24, "layers": 2, "heads": 9, "inner": 20, "patch": 2, "dropout": 0.0}
SCORES = ("quadratic", "gaussian", "learned", "learned_content")


def settings_of(example, **changes):
    given = {**SMALL, "epochs": 3, "batch": 8, "warmup": 2, "rate": 3e-3, **changes}
    return example.train.read_settings(ROOT / "settings.json", given)


def images_of(example, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 10
    pixels = torch.randint(256, (count, 32, 32, 3), generator=generator, dtype=torch.uint8)
    pixels[:, :, :, 0] = (25 * labels)[:, None, None].to(torch.uint8)  # something to learn
    return example.data.Images(pixels, labels)


def spread_out(model):
    """Parameters that are all different, so that no implementation can mix two of them up unnoticed."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if "score_parameters" in name:
                p.add_(0.3 * torch.randn(p.shape, generator=generator))
    return model


@pytest.mark.parametrize("score", SCORES)
def test_implementations_agree(example, score):
    pixels = torch.randn(3, 32, 32, 3, generator=torch.Generator().manual_seed(1))
    logits, gradients = {}, {}
    for implementation in ("plain", "rapt", "flex"):
        model = spread_out(example.models.make(score, SMALL, implementation))
        if implementation == "flex":  # PyTorch's has no backward pass on a CPU
            with torch.no_grad():
                logits[implementation] = model(pixels)
            continue
        logits[implementation] = model(pixels)
        logits[implementation].square().sum().backward()
        gradients[implementation] = {name: p.grad for name, p in model.named_parameters()}
    for implementation in ("rapt", "flex"):
        torch.testing.assert_close(logits[implementation], logits["plain"], rtol=1e-4, atol=1e-5)
    assert gradients["rapt"].keys() == gradients["plain"].keys()
    for name, expected in gradients["plain"].items():
        torch.testing.assert_close(
            gradients["rapt"][name], expected, rtol=2e-3, atol=2e-4 * float(expected.abs().max()) + 1e-6, msg=name
        )


@pytest.mark.parametrize("score", SCORES)
def test_mixed_precision(example, score):
    """bf16 products; scores by position are made in f32 all the same, so that centres mean what they say."""
    pixels = torch.randn(2, 32, 32, 3, generator=torch.Generator().manual_seed(1))
    exact = spread_out(example.models.make(score, SMALL, "plain"))
    expected = exact(pixels)
    with torch.autocast("cpu", torch.bfloat16):
        for implementation in ("plain", "rapt"):
            found = spread_out(example.models.make(score, SMALL, implementation))(pixels)
            assert found.dtype == torch.bfloat16
            torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05)
        if score != "learned_content":
            inside = exact.blocks[0].attention.weights()
    if score != "learned_content":
        torch.testing.assert_close(inside, exact.blocks[0].attention.weights(), rtol=0, atol=0)


@pytest.mark.parametrize("score", SCORES)
def test_scores_by_hand(example, score):
    """The plain weights against a loop over pairs of cells, in double precision."""
    layer = spread_out(example.models.make(score, SMALL, "plain")).double().blocks[0].attention
    x = torch.randn(1, 16, 16, 24, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weights = layer.weights(x)[0]
    p = {name: value.detach().numpy() for name, value in layer.score_parameters.items()}
    if score == "learned_content":
        q, k = (t.detach().numpy()[0] for t in layer.projected(x)[1:])
    for head, query in ((0, 0), (4, 37), (8, 255)):
        scores = []
        for key in range(256):
            delta = np.array([key // 16 - query // 16, key % 16 - query % 16])
            if score == "quadratic":
                scores.append(-p["alpha"][head] * (delta @ delta - 2 * delta @ p["center"][head]))
            elif score == "gaussian":
                scores.append(-0.5 * np.square(p["gamma"][head] @ (delta - p["center"][head])).sum())
            else:
                of = p["row"][delta[0] + 15] + p["col"][delta[1] + 15]
                if score == "learned":
                    scores.append(p["u"][head] @ of / np.sqrt(p["u"].shape[1]))
                else:
                    scores.append(q[head, query] @ (of + k[head, key]) / np.sqrt(24))
        expected = np.exp(scores - np.max(scores))
        np.testing.assert_allclose(weights[head, query].detach().numpy(), expected / expected.sum(), rtol=1e-5, atol=1e-7)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("score", SCORES)
def test_implementations_agree_on_a_gpu(example, score):
    """bf16 on a GPU, where each implementation takes another way than on a CPU; the measure is the plain model in f32."""
    sizes = {**SMALL, "width": 40}
    pixels = torch.randn(5, 32, 32, 3, generator=torch.Generator().manual_seed(1)).cuda()
    found = {}
    for implementation in ("f32", "plain", "rapt", "flex"):
        model = spread_out(example.models.make(score, sizes, "plain" if implementation == "f32" else implementation)).cuda()
        with torch.autocast("cuda", torch.bfloat16, enabled=implementation != "f32"):
            logits = model(pixels)
        logits.float().square().sum().backward()
        found[implementation] = {"logits": logits.float(), **{name: p.grad for name, p in model.named_parameters()}}
    largest = max(float(t.abs().max()) for name, t in found["f32"].items() if name != "logits")
    error = lambda name, what: float((found[name][what] - found["f32"][what]).abs().max())
    for implementation in ("rapt", "flex"):
        for what in found["f32"]:
            floor = 0.02 if what == "logits" else 2e-3 * largest
            assert error(implementation, what) <= 2 * error("plain", what) + floor, f"{implementation}: {what}"


def test_multiply_adds(example):
    """Counted by PyTorch on the plain model, and of the paper's sizes known: 6.2 G and 15 G operations as it counts them."""
    from torch.utils.flop_counter import FlopCounterMode

    for name in (*SCORES, "resnet18"):
        model = example.models.make(name, SMALL, "plain")
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(torch.randn(1, 32, 32, 3))
        counted = counter.get_total_flops() / 2
        if name == "learned":  # scores of a head's own vector, once for all images
            counted -= 2 * 2 * 31 * 9 * 3
        if name == "gaussian":
            counted -= 2 * 9 * 4 * 256 * 256
        assert counted == model.multiply_adds(), name
    assert sum(p.numel() for p in example.models.make("resnet18", {}).parameters()) == 11_173_962


def test_augmentation(example):
    data, mean, deviation = images_of(example, 20), torch.zeros(3), torch.ones(3)
    batches = example.data.Batches(data, 7, mean=mean, deviation=deviation, flip=True, crop_margin=4, seed=3)
    first, again = list(batches.epoch(1)), list(batches.epoch(1, first=2))
    assert len(batches) == 3 and len(first) == 3 and len(again) == 1
    assert torch.equal(first[2][0], again[0][0]) and torch.equal(first[2][1], again[0][1])
    other = list(batches.epoch(2))
    assert not torch.equal(first[0][0], other[0][0])
    chosen, flips, shifts = torch.tensor([4, 9]), torch.tensor([True, False]), torch.tensor([[2, -4], [-1, 3]])
    found = batches.pixels(chosen, flips, shifts)
    for n, image in enumerate(chosen):
        for r, c in itertools.product((0, 5, 31), (0, 16, 31)):
            row, col = r + int(shifts[0, n]), (31 - c if flips[n] else c) + int(shifts[1, n])
            inside = 0 <= row < 32 and 0 <= col < 32
            expected = data.images[image, row, col].float() / 255 if inside else torch.zeros(3)
            torch.testing.assert_close(found[n, r, c], expected)


class Stops:
    """True at the n-th look, then false again."""

    def __init__(self, *at):
        self.at, self.looks = set(at), 0

    def __bool__(self):
        self.looks += 1
        return self.looks in self.at


def trained(example, out, name, settings, looks):
    """A run that is stopped at some looks, written, read and continued each time."""
    out.mkdir()
    train, test = images_of(example, 44), images_of(example, 20, seed=1)
    for stop in (*(Stops(n) for n in looks), Stops()):
        run = example.train.Run(name, "rapt", settings, 7, "cpu", "f32")
        if (out / "state.pt").exists():
            run.restore(torch.load(out / "state.pt", weights_only=True))
        done = example.train.train(run, train, test, out, stop, lambda text: None)
        assert done == (stop.at == set())
    return run


@pytest.mark.parametrize("name, changes", [("quadratic", {"dropout": 0.2}), ("resnet18", {"optimizer": "sgd", "average": 0.9})])
def test_resumes_with_the_same_bits(example, tmp_path, monkeypatch, name, changes):
    narrow = functools.partial(example.models.ResNet18, width=16)  # of 4 channels, PyTorch 2.15 crashes
    monkeypatch.setattr(example.models, "ResNet18", narrow)
    settings = settings_of(example, **changes)
    whole = trained(example, tmp_path / "whole", name, settings, ())
    parts = trained(example, tmp_path / "parts", name, settings, (2, 6, 3))
    for key, value in whole.model.state_dict().items():
        assert torch.equal(value, parts.model.state_dict()[key]), key
    for a, b in zip(whole.metrics, parts.metrics, strict=True):
        assert {k: v for k, v in a.items() if "second" not in k} == {k: v for k, v in b.items() if "second" not in k}
    assert whole.metrics[-1]["loss"] < whole.metrics[0]["loss"]
    lines = (tmp_path / "parts" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]
    if name == "quadratic":
        assert np.load(tmp_path / "parts" / "centers.npy").shape == (4, 2, 9, 2)


def test_refuses_another_run(example, tmp_path):
    run = example.train.Run("quadratic", "rapt", settings_of(example), 1, "cpu", "f32")
    other = example.train.Run("quadratic", "rapt", settings_of(example, rate=1.0), 1, "cpu", "f32")
    with pytest.raises(SystemExit, match="settings: expected"):
        other.restore(run.state())
    with pytest.raises(SystemExit, match="optimizer: expected adamw or sgd, got 'adam'"):
        settings_of(example, optimizer="adam")


def test_rates(example):
    """The values of src/training/optimizer.cc for these settings."""
    training = {"rate": 2.0, "warmup": 4, "schedule": "cosine"}
    found = [example.train.rate_at(training, step, 12) for step in (1, 4, 8, 12)]
    np.testing.assert_allclose(found, [0.5, 2.0, 1.0, 0.0], atol=1e-12)


def fake_jpeg(tables, scan):
    return tables + b"\xff\xda\x00\x0c" + bytes(10) + scan


def test_packs_jpeg_files(example, tmp_path):
    random = np.random.default_rng(0)
    tables = b"\xff\xd8\xff\xdb\x00\x05abc"
    images = [(n % 10, fake_jpeg(tables, random.bytes(20 + 7 * n) + b"\xff\xd9")) for n in range(9)]
    path = tmp_path / "cifar10.pack"
    example.data.write_pack(path, (images[:6], images[6:]), bytes(32))
    parts, digest = example.data.read_pack(path)
    assert parts == (images[:6], images[6:]) and digest == bytes(32)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SystemExit, match="expected 9 images, got a file that is cut"):
        example.data.read_pack(path)
    with pytest.raises(SystemExit, match="expected images with the same tables, got 2 kinds"):
        example.data.write_pack(path, (images, [(0, fake_jpeg(tables + b"x", b""))]), bytes(32))


def test_decodes_a_pack(example, tmp_path):
    image = pytest.importorskip("PIL.Image")
    import io

    pixels = np.random.default_rng(1).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    files = []
    for n, one in enumerate(pixels):
        file = io.BytesIO()
        image.fromarray(one).save(file, "JPEG", quality=75)
        files.append((n, file.getvalue()))
    expected = [np.asarray(image.open(io.BytesIO(jpeg)).convert("RGB")) for _, jpeg in files]
    records = [np.concatenate([np.concatenate([[n], e.transpose(2, 0, 1).ravel()]) for n, e in part]).astype(np.uint8)
               for part in (list(enumerate(expected))[:3], list(enumerate(expected))[3:])]  # fmt: skip
    example.data.write_pack(tmp_path / "cifar10.pack", (files[:3], files[3:]), example.data.digest(*records))
    for _ in range(2):  # decoded, then kept
        train, test = example.data.load(tmp_path)
        assert np.array_equal(train.images.numpy(), expected[:3]) and np.array_equal(test.images.numpy(), expected[3:])
        assert train.labels.tolist() == [0, 1, 2] and test.labels.tolist() == [3, 4]
    assert (tmp_path / "cifar10.records.npy").exists()


def test_reads_the_binary_files(example, tmp_path):
    random = np.random.default_rng(2)
    for name, count in (("data_batch_1", 3), ("data_batch_2", 2), ("test_batch", 4)):
        records = random.integers(0, 256, (count, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(count)
        records.tofile(tmp_path / f"{name}.bin")
    train, test = example.data.load(tmp_path)
    assert train.labels.tolist() == [0, 1, 2, 0, 1] and len(test) == 4
    raw = np.fromfile(tmp_path / "data_batch_2.bin", np.uint8).reshape(-1, 3073)
    assert train.images[4, 3, 5].tolist() == raw[1, 1:].reshape(3, 32, 32)[:, 3, 5].tolist()
    mean, deviation = example.data.statistics(train)
    values = train.images.double().reshape(-1, 3) / 255
    torch.testing.assert_close(mean, values.mean(0))
    torch.testing.assert_close(deviation, values.std(0, correction=0))
    (tmp_path / "test_batch.bin").write_bytes(bytes(10))
    with pytest.raises(SystemExit, match="expected records of 3073 bytes, got 10"):
        example.data.load(tmp_path)


def test_places_of_heads(example):
    """Centres and widths from the parameters are those of the weights, for a head that is far from the border."""
    for score in ("quadratic", "gaussian"):
        model = example.models.make(score, SMALL, "plain")
        with torch.no_grad():
            p = model.blocks[0].attention.score_parameters
            p["center"][0] = torch.tensor([0.5, -1.25])
            if score == "gaussian":
                p["gamma"][0] = torch.tensor([[0.9, 0.2], [-0.1, 0.7]])
            else:
                p["alpha"][0] = 0.3
        centers, covariances = example.centers.places(model, None)
        weights = model.blocks[0].attention.weights()[0, 0, 7 * 16 + 8].detach().double()
        place = torch.stack([torch.arange(256) // 16 - 7, torch.arange(256) % 16 - 8]).double()
        mean = place @ weights
        square = (place * weights) @ place.T - mean[:, None] * mean[None]
        np.testing.assert_allclose(centers[0][0], mean, atol=0.02)
        np.testing.assert_allclose(covariances[0][0], square, atol=0.05)


def test_measures_of_centers(example):
    grid = np.array([(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)], float)
    shuffled = grid[[3, 1, 4, 0, 8, 2, 6, 7, 5]]
    assert example.centers.grid_distance(shuffled[None])[0] == pytest.approx(0, abs=1e-12)
    random = np.random.default_rng(3).normal(size=(2, 4, 2))
    for centers, found in zip(random, example.centers.grid_distance(random)):
        pixels = np.array([(-1, -1), (-1, 0), (0, -1), (0, 0)], float)
        best = min(np.linalg.norm(centers[list(order)] - pixels, axis=1).mean() for order in itertools.permutations(range(4)))
        assert found == pytest.approx(best)
    start = np.zeros((1, 1, 9, 2)) + 0.1 * grid
    history = np.concatenate([start, start * 5, grid[None, None] * 1.0])
    covariances = np.stack([np.eye(2) * s for s in (0.25, 0.5, 1.0)])[:, None, None].repeat(9, 2)
    found = example.centers.report(history, covariances)
    assert found["layers_wider"] == found["layers_farther"] == found["layers_like_a_grid"] == 1
    assert found["spread"] == pytest.approx([0.5, 1.0])


def test_benchmark(example, tmp_path, monkeypatch, capsys):
    out = tmp_path / "speed.json"
    arguments = [
        "benchmark.py",
        "--models",
        "quadratic",
        "--batch",
        "2",
        "--steps",
        "1",
        "--rounds",
        "1",
        "--warmup",
        "1",
        "--json",
        str(out),
    ]
    for name in ("width", "layers", "inner"):
        arguments += [f"--{name}", str(SMALL[name])]
    monkeypatch.setattr(sys, "argv", arguments + ["--device", "cpu"])
    example.benchmark.main()
    rows = {row["attention"]: row for row in json.loads(out.read_text())["rows"]}
    assert rows["rapt"]["milliseconds"] > 0 and rows["plain"]["flops"] > 0 and rows["none"]["flops"] is None
    assert "error" in rows["flex"] or rows["flex"]["milliseconds"] > 0  # no backward pass on a CPU
    assert "ms/step" in capsys.readouterr().out


def test_loss_curves(example):
    curves = [[2.0, 1.5], [2.02, 1.52], [1.98, 1.48]]
    same, off = [[2.01, 1.51], [1.99, 1.5], [2.0, 1.49]], [[2.0, 1.3], [2.01, 1.31], [1.99, 1.29]]
    within = lambda rows: [abs(row[3]) <= row[4] for row in rows]
    assert within(example.compare.compare(curves, same)) == [True, True]
    assert within(example.compare.compare(curves, off)) == [True, False]


def write_run(directory, name, seed, accuracy, centers=None):
    out = directory / f"{name}_{seed}"
    out.mkdir(parents=True)
    result = {
        "model": name, "attention": "rapt", "seed": seed, "precision": "bf16", "parameters": 1000, "memory_bytes": 2**30,
        "test_accuracy": accuracy, "seconds": 20.0, "epoch": 2, "images": {"train": 50000, "test": 10000}, "settings": {},
        "command": f"python train.py --model {name} --seed {seed}", "date": f"2026-01-0{seed}", "machine": {"device": "abacus", "torch": "2"},
    }  # fmt: skip
    (out / "result.json").write_text(json.dumps(result))
    line = {"loss": 1.0, "images_per_second": 100.0, "test_accuracy": accuracy}
    (out / "metrics.jsonl").write_text(2 * (json.dumps(line) + "\n"))
    if centers is not None:
        np.save(out / "centers.npy", centers)
        np.save(out / "covariances.npy", np.stack([np.eye(2) * n for n in (1.0, 2.0)])[:, None, None].repeat(9, 2))


def test_records_results(example, tmp_path, monkeypatch, capsys):
    grid = np.array([(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)], float)
    runs, speed, out = tmp_path / "runs", tmp_path / "speed.json", tmp_path / "cifar10.json"
    for seed, accuracy in ((1, 0.931), (2, 0.935)):
        write_run(runs, "quadratic", seed, accuracy, np.stack([0.5 * grid, grid])[:, None])
        write_run(runs, "resnet18", seed, accuracy + 0.004)
    row = {"model": "quadratic", "memory_bytes": 2**30, "images_per_second": 10.0, "flops": 1e12, "of_matmul": 0.5}
    times = {"rapt": 10.0, "plain": 14.0, "none": 8.0}
    rows = [{**row, "attention": name, "milliseconds": ms} for name, ms in times.items()] + [
        {"model": "quadratic", "attention": "flex", "error": "E"}
    ]
    speed.write_text(json.dumps({"rows": rows, "batch": 128, "precision": "bf16", "matmul_flops": 2e12, "command": "python benchmark.py",
                                 "date": "2026-01-03", "machine": {"device": "abacus", "torch": "2"}}))  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["record.py", str(runs), "--speed", str(speed), "--out", str(out)])
    example.record.main()
    stored = json.loads(out.read_text())
    claims = {claim["name"]: claim for claim in stored["claims"]}
    assert claims["accuracy"]["holds"] and claims["accuracy"]["ours"].startswith(
        "93.30 % and 93.70 % after 2 epochs, means of 2 seeds"
    )
    assert claims["spread"]["holds"] and claims["grid"]["holds"] and claims["grid"]["reason"] == ""
    assert not claims["speed"]["holds"] and claims["speed"]["ours"] == "1.40 ×; with no mixing at all 1.75 ×"
    assert "1.75 times" in claims["speed"]["reason"]
    assert [(one["of"], one["date"]) for one in stored["provenance"]] == [("runs", "2026-01-02"), ("speed", "2026-01-03")]
    assert stored["provenance"][1]["commands"] == ["python benchmark.py"]
    assert stored["tables"][0]["rows"][0][2] == "93.30 ± 0.28 %"
    settings = {"data": {"train_size": 9}}
    command = "python train.py --data /x --seed 1 --epochs 2 --out /y"
    for name in ("tool", "example"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text(json.dumps({"loss": 2.0}) + "\n" + json.dumps({"loss": 1.0}))
        about = {
            "settings": settings,
            "command": command,
            "seed": 4,
            "date": "2026-01-04",
            "machine": {"device": "a", "torch": "2"},
        }
        (tmp_path / name / "config.json").write_text(json.dumps(about))
    curves = ["--tool", str(tmp_path / "tool"), "--example", str(tmp_path / "example")]
    monkeypatch.setattr(sys, "argv", ["record.py", "--out", str(out), *curves])
    example.record.main()  # what is there stays
    stored = json.loads(out.read_text())
    assert [one["of"] for one in stored["provenance"]] == ["runs", "speed", "curves"] and len(stored["claims"]) == 5
    assert (
        stored["claims"][4]["holds"]
        and "/x" not in json.dumps(stored["provenance"])
        and "--epochs 2 --seed N" in stored["provenance"][2]["commands"][0]
    )
    monkeypatch.setattr(sys, "argv", ["record.py", "--check", str(out)])
    example.record.main()
    stored["measured"]["runs"][0]["test_accuracy"] = 0.99
    out.write_text(json.dumps(stored))
    with pytest.raises(SystemExit, match="tables: expected what follows"):
        example.record.main()


def test_what_is_stored_follows_from_what_was_measured(example):
    path = ROOT.parents[2] / "data" / "experiments" / "cifar10.json"
    if path.exists():
        example.record.stored.check(path, example.record.derive)
