"""Trains a small network for 20 steps with tinygrad; the losses on its CUDA device must be those of its CPU device.

    train.py CPU LOSSES     trains on the CPU and writes the losses to the file LOSSES
    train.py PTX LOSSES     trains on CUDA, kernels by tinygrad's own PTX, and compares
    train.py CUDA LOSSES    the same, kernels in CUDA C++ through NVRTC (NVRTC_PATH: libnvrtc.so.13)

Prints one line, "train: PASS …" (exit status 0) or "train: FAIL …" (exit status 1).
"""
import json
import os
import random
import shutil
import sys
import time

STEPS = 20
TOLERANCE = 1e-4  # relative; sums run in another order on the GPU
INPUTS, HIDDEN, CLASSES, SAMPLES = 20, 32, 5, 96

if len(sys.argv) != 3 or sys.argv[1] not in ("CPU", "PTX", "CUDA"):
    sys.exit(__doc__)
RENDERER, LOSSES = sys.argv[1:]
DEVICE = "CPU" if RENDERER == "CPU" else "CUDA"
os.environ["JIT"] = "0"  # no graphs
os.environ["CACHELEVEL"] = "0"  # compile in this run, whatever an earlier one left on disk
os.environ["DEV"] = "CPU" if RENDERER == "CPU" else f"CUDA:{RENDERER}"
os.environ.setdefault("CC", next(filter(shutil.which, ("clang", "clang-19")), "clang"))  # for the CPU device

from tinygrad import Device, Tensor  # noqa: E402
from tinygrad.helpers import Context  # noqa: E402
from tinygrad.nn.optim import SGD  # noqa: E402


def tensor(seed, rows, columns):
    rng = random.Random(seed)
    numbers = [rng.uniform(-1, 1) * rows**-0.5 for _ in range(rows * columns)]
    return Tensor(numbers, device=DEVICE).reshape(rows, columns).contiguous().realize()


def train():
    x = tensor(1, SAMPLES, INPUTS)
    y = Tensor([random.Random(2 + i).randrange(CLASSES) for i in range(SAMPLES)], device=DEVICE).realize()
    weights = [tensor(3, INPUTS, HIDDEN), tensor(4, HIDDEN, CLASSES)]
    optimizer = SGD(weights, lr=2.0)
    losses = []
    with Context(TRAINING=1):
        for _ in range(STEPS):
            loss = (((x * 8) @ weights[0]).tanh() @ weights[1]).sparse_categorical_crossentropy(y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def main():
    start = time.monotonic()
    losses = train()
    seconds = time.monotonic() - start
    renderer = type(Device[DEVICE].renderer).__name__
    if not losses[-1] < 0.8 * losses[0]:
        print(f"train: FAIL it does not learn: loss {losses[0]:.4f} to {losses[-1]:.4f}")
        return 1
    if RENDERER == "CPU":
        with open(LOSSES, "w") as file:
            json.dump(losses, file)
    else:
        if not renderer.startswith(RENDERER):
            print(f"train: FAIL tinygrad chose {renderer}, asked for {RENDERER}")
            return 1
        with open(LOSSES) as file:
            expected = json.load(file)
        for step, (loss, shall) in enumerate(zip(losses, expected, strict=True)):
            if not abs(loss - shall) <= TOLERANCE * max(1.0, abs(shall)):
                print(f"train: FAIL the loss of step {step} is {loss:.7f}, on the CPU {shall:.7f}")
                return 1
    print(f"train: PASS {DEVICE} by {renderer}: {STEPS} steps in {seconds:.2f} s, loss {losses[0]:.4f} to {losses[-1]:.4f}")
    return 0


sys.exit(main())
