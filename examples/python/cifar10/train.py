"""Trains one model on CIFAR-10: python train.py --model quadratic --data DIR --out RUN --seed 1 [--resume] [--minutes 8]

The settings are those of `rapt train cifar10 --config settings.json`; options change single ones. RUN gets config.json,
metrics.jsonl (one line an epoch), centers.npy and covariances.npy (for `rapt plot centers`), state.pt, and at the end
result.json. A run that was stopped, by --minutes, Ctrl-C or SIGTERM, goes on with --resume where it was, in the middle of
an epoch too; on a CPU with the same bits.
"""

import argparse
import contextlib
import datetime
import json
import math
import pathlib
import sys
import time

import numpy as np
import torch
from torch import nn

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]

import centers  # noqa: E402
import data  # noqa: E402
import models  # noqa: E402
from attention import IMPLEMENTATIONS  # noqa: E402
from pieces import Stop, machine, rate_at, write_atomically, write_text  # noqa: E402

TRAINING = {
    "optimizer": "adamw", "schedule": "cosine", "rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0,
    "average": 0.0, "clip": 1.0, "label_smoothing": 0.0, "warmup": 0, "epochs": 30, "batch": 64,
}  # fmt: skip
DATA = {"flip": False, "crop_margin": 0, "valid_fraction": 0, "train_size": 0}
MODEL = {"patch": 2, "layers": 6, "heads": 9, "width": 400, "inner": 512, "dropout": 0.0}
# What `rapt train` alone reads, and this program does in its own way.
UNUSED = {"model": ("kind", "encoding", "head_dim", "full_heads"), "training": ("parts", "patience", "seed"), "data": ("task",)}
SECONDS_BETWEEN_SAVES = 60


def read_settings(path, given):
    """The sections model, training and data of a file, with single settings changed by name."""
    whole = json.loads(pathlib.Path(path).read_text())
    settings = {}
    for name, known in (("model", MODEL), ("training", TRAINING), ("data", DATA)):
        section = whole.pop(name, {})
        section = {key: value for key, value in section.items() if key not in UNUSED[name]}
        unknown = [key for key in section if key not in known]
        if unknown:
            raise SystemExit(f"{path}: {name}: expected {', '.join(known)}, got '{unknown[0]}'")
        settings[name] = {**known, **section, **{key: given[key] for key in known if given.get(key) is not None}}
    if settings["data"]["valid_fraction"]:
        raise SystemExit(f"{path}: data: valid_fraction: expected 0 (the test images are scored after each epoch), got another")
    training = settings["training"]
    if training["optimizer"] not in ("adamw", "sgd"):
        raise SystemExit(f"{path}: training: optimizer: expected adamw or sgd, got '{training['optimizer']}'")
    if training["schedule"] not in ("cosine", "constant"):
        raise SystemExit(f"{path}: training: schedule: expected cosine or constant, got '{training['schedule']}'")
    return settings


def optimizer_of(model, training, device):
    """Weights decay; norms, biases and what makes up a score (centres, widths, tables) do not."""
    decays = lambda name, p: p.dim() >= 2 and "score_parameters" not in name
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if decays(n, p)], "weight_decay": training["weight_decay"]},
        {"params": [p for n, p in named if not decays(n, p)], "weight_decay": 0.0},
    ]
    fused = device.type == "cuda"
    if training["optimizer"] == "sgd":
        return torch.optim.SGD(groups, lr=training["rate"], momentum=training["beta1"], nesterov=True, fused=fused)
    betas = (training["beta1"], training["beta2"])
    return torch.optim.AdamW(groups, lr=training["rate"], betas=betas, eps=training["epsilon"], fused=fused)


def mixed_precision(device, precision):
    if precision == "bf16":
        return torch.autocast(device.type, torch.bfloat16)
    return contextlib.nullcontext()


class Run:
    """A model in training, and all that its continuation depends on."""

    def __init__(self, name, implementation, settings, seed, device, precision="bf16", compiled=False):
        self.name, self.implementation, self.settings, self.seed = name, implementation, settings, seed
        self.device, self.precision = torch.device(device), precision
        torch.manual_seed(seed)
        self.model = models.make(name, settings["model"], implementation, seed).to(self.device)
        self.training = settings["training"]
        self.optimizer = optimizer_of(self.model, self.training, self.device)
        self.average = {}
        self.call = torch.compile(self.model) if compiled else self.model
        self.epoch, self.batch, self.step = 0, 0, 0
        self.sums = torch.zeros(3, dtype=torch.float64, device=self.device)  # loss, right ones, images of this epoch
        self.seconds, self.metrics, self.places = 0.0, [], []

    def about(self):
        return {
            "model": self.name, "attention": self.implementation, "seed": self.seed, "precision": self.precision,
            "parameters": sum(p.numel() for p in self.model.parameters()), "settings": self.settings,
        }  # fmt: skip

    def state(self):
        cuda = torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None
        return {
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "average": self.average,
            "epoch": self.epoch, "batch": self.batch, "step": self.step, "sums": self.sums, "seconds": self.seconds,
            "metrics": self.metrics, "places": self.places, "random": torch.get_rng_state(), "cuda_random": cuda,
            "about": self.about(),
        }  # fmt: skip

    def restore(self, state):
        mine, theirs = self.about(), state["about"]
        for key in ("model", "seed", "precision", "settings"):  # the implementation may change: it is the same model
            if mine[key] != theirs[key]:
                raise SystemExit(f"resume: {key}: expected {theirs[key]} as the run began, got {mine[key]}")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average = {name: value.to(self.device) for name, value in state["average"].items()}
        self.epoch, self.batch, self.step = state["epoch"], state["batch"], state["step"]
        self.sums, self.seconds = state["sums"].to(self.device), state["seconds"]
        self.metrics, self.places = state["metrics"], state["places"]
        torch.set_rng_state(state["random"].cpu())
        if state["cuda_random"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda_random"].cpu(), self.device)

    def train_batch(self, pixels, labels, total):
        t = self.training
        self.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(t, self.step, total)
        with mixed_precision(self.device, self.precision):
            logits = self.call(pixels)
        loss = nn.functional.cross_entropy(logits.float(), labels, label_smoothing=t["label_smoothing"])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if t["clip"]:
            nn.utils.clip_grad_norm_(self.model.parameters(), t["clip"])
        self.optimizer.step()
        self.update_average()
        with torch.no_grad():
            right = (logits.argmax(-1) == labels).sum()
            self.sums += torch.stack([loss.double() * len(labels), right.double(), torch.full_like(right, len(labels)).double()])
        self.batch += 1

    @torch.no_grad()
    def update_average(self):
        """A running mean over about 1/(1 − average) steps; early on it reaches less far back."""
        if not self.training["average"]:
            return
        done = self.step - 1
        share = 1 - min(self.training["average"], done / (done + 10))
        for name, value in self.model.state_dict().items():
            if not value.is_floating_point():
                continue
            if name not in self.average:
                self.average[name] = value.clone()
            else:
                self.average[name].lerp_(value, share)

    @contextlib.contextmanager
    def averaged(self):
        """Within it the model has the running means."""
        if not self.average:
            yield
            return
        own = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(self.average, strict=False)
        try:
            yield
        finally:
            self.model.load_state_dict(own)

    @torch.no_grad()
    def score(self, batches):
        """(loss, share of right ones)."""
        self.model.eval()
        loss, right, count = 0.0, 0, 0
        for pixels, labels in batches.epoch(0):
            with mixed_precision(self.device, self.precision):
                logits = self.model(pixels).float()
            loss += nn.functional.cross_entropy(logits, labels, reduction="sum").double()
            right += (logits.argmax(-1) == labels).sum()
            count += len(labels)
        self.model.train()
        return float(loss) / count, float(right) / count

    @torch.no_grad()
    def record_places(self, shown):
        """Where the heads look: [layers, heads, 2] and [layers, heads, 2, 2], or nothing for a model without heads."""
        if self.name == "resnet18":
            return None
        self.model.eval()
        place = centers.places(self.model, shown)
        self.model.train()
        self.places.append(place)
        return place

    def save(self, out, whole=True):
        """whole: with the state, which is large."""
        if whole:
            write_atomically(out / "state.pt", lambda file: torch.save(self.state(), file))
        write_text(out / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in self.metrics))
        if self.places:
            for n, name in enumerate(("centers", "covariances")):
                array = np.array([place[n] for place in self.places], np.float64)
                write_atomically(out / f"{name}.npy", lambda file, array=array: np.save(file, array))


def train(run, train_images, test_images, out, stop, on_epoch=print):
    """Trains until the epochs are done or `stop` is true. Whether they are done."""
    t, d = run.training, run.settings["data"]
    mean, deviation = data.statistics(train_images)
    train_images, test_images = train_images.to(run.device), test_images.to(run.device)
    common = dict(mean=mean, deviation=deviation)
    batches = data.Batches(train_images, t["batch"], flip=d["flip"], crop_margin=d["crop_margin"], seed=run.seed, **common)
    test = data.Batches(test_images, 500, shuffle=False, **common)
    shown = next(data.Batches(test_images.first(min(16, len(test_images))), 16, shuffle=False, **common).epoch(0))[0]
    total = t["epochs"] * len(batches)
    run.model.train()
    if not run.places:
        run.record_places(shown)
    saved = time.monotonic()
    wait = torch.cuda.synchronize if run.device.type == "cuda" else lambda: None
    while run.epoch < t["epochs"]:
        began, steps = time.monotonic(), 0
        for pixels, labels in batches.epoch(run.epoch, run.batch):
            run.train_batch(pixels, labels, total)
            steps += 1
            if steps % 20 == 0:
                wait()  # the clock below is of work that is done
            if stop and run.batch < len(batches):
                wait()
                run.seconds += time.monotonic() - began
                run.save(out)
                return False
        wait()
        spent = time.monotonic() - began
        run.seconds += spent
        loss, right, count = run.sums.tolist()
        if not math.isfinite(loss):
            raise SystemExit(f"train: epoch {run.epoch + 1}: expected a finite loss, got {loss}; the last saved state is kept")
        with run.averaged():
            test_loss, test_accuracy = run.score(test)
            place = run.record_places(shown)
        line = {
            "epoch": run.epoch + 1, "step": run.step, "loss": loss / count, "image_accuracy": right / count,
            "rate": rate_at(t, run.step, total), "seconds": run.seconds, "images_per_second": steps * t["batch"] / spent,
            "test_loss": test_loss, "test_accuracy": test_accuracy,
        }  # fmt: skip
        if place is not None:
            line["centers"], line["covariances"] = place
        run.metrics.append(line)
        run.epoch, run.batch = run.epoch + 1, 0
        run.sums.zero_()
        on_epoch(
            f"{run.name} seed {run.seed}: epoch {run.epoch} of {t['epochs']}, loss {line['loss']:.4f}, "
            f"train {100 * line['image_accuracy']:.2f} %, test {100 * test_accuracy:.2f} %, {spent:.1f} s"
        )
        last = run.epoch == t["epochs"] or bool(stop)
        due = last or time.monotonic() - saved > SECONDS_BETWEEN_SAVES
        run.save(out, due)
        if last:
            return run.epoch == t["epochs"]
        saved = time.monotonic() if due else saved
    return True


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=models.MODELS, default="quadratic")
    parser.add_argument("--attention", choices=IMPLEMENTATIONS[:3], default="rapt", help="what computes it; the model is the same")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="the binary files' directory, or cifar10.pack")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--config", type=pathlib.Path, default=HERE / "settings.json")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on where RUN has a state; begin where it has none")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long, with the state saved; 0: never")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=("bf16", "f32"), default=None, help="bf16 on a GPU, f32 on a CPU")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--test-size", type=int, default=0, help="images to test on; 0: all")
    for known in (TRAINING, DATA, MODEL):
        for name, value in known.items():
            kind = (lambda text: text.lower() in ("1", "true", "yes")) if isinstance(value, bool) else type(value)
            parser.add_argument("--" + name.replace("_", "-"), type=kind, default=None)
    return parser.parse_args()


def main():
    given = arguments()
    device = torch.device(given.device)
    precision = given.precision or ("bf16" if device.type == "cuda" else "f32")
    settings = read_settings(given.config, vars(given))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    run = Run(given.model, given.attention, settings, given.seed, device, precision, given.compile)
    given.out.mkdir(parents=True, exist_ok=True)
    state = given.out / "state.pt"
    if state.exists() and not given.resume:
        raise SystemExit(f"{given.out}: expected a new directory or --resume, got one with a run")
    if state.exists():
        run.restore(torch.load(state, map_location=device, weights_only=True))
    train_images, test_images = data.load(given.data)
    train_images, test_images = train_images.first(settings["data"]["train_size"]), test_images.first(given.test_size)
    command = " ".join(["python", "examples/python/cifar10/train.py", *sys.argv[1:]])
    about = {**run.about(), "command": command, "machine": machine(device), "date": datetime.date.today().isoformat()}
    write_text(given.out / "config.json", json.dumps(about, indent=2) + "\n")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    done = train(run, train_images, test_images, given.out, Stop(given.minutes), lambda text: print(text, flush=True))
    if not done:
        print(f"stopped in epoch {run.epoch + 1} of {settings['training']['epochs']}; --resume goes on", flush=True)
        return
    last = {key: run.metrics[-1][key] for key in ("epoch", "step", "loss", "test_loss", "test_accuracy", "seconds")}
    about["memory_bytes"] = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    about["images"] = {"train": len(train_images), "test": len(test_images)}
    write_text(given.out / "result.json", json.dumps({**about, **last}, indent=2) + "\n")
    print(
        f"{run.name}, {run.implementation}: test {100 * last['test_accuracy']:.2f} % after {last['epoch']} epochs, {run.seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
