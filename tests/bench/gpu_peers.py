#!/usr/bin/env python3
"""A shot over N^3 points, layers included, by the program, deepwave and SWEEP (PyPI: deepwave, sweep-solver) on a GPU: order 8,
the same time step, layers of 20 points at five faces (SWEEP: six), N receivers. Best of three; and the gradient's time. What is
not installed is skipped with a message; needs PyTorch.

  gpu_peers.py STENCIL [N ...]                     (default 512 256 128)
"""
import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

try:
    import torch
except ImportError:
    print("gpu_peers.py: skipped, this Python has no torch")
    sys.exit()

WIDTH, SPACING, PEAK = 20, 10.0, 12.0


def seconds(work):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def deepwave_run(velocity, steps, dt):
    """A function that runs a shot over a tensor of velocities and returns the traces; its layers lie outside the model."""
    import deepwave
    inner = np.ascontiguousarray(velocity[:-WIDTH, WIDTH:-WIDTH, WIDTH:-WIDTH])
    middle, x = inner.shape[2] // 2, torch.arange(1, inner.shape[2] - 1)
    source = deepwave.wavelets.ricker(PEAK, steps, dt, 1.5 / PEAK).reshape(1, 1, -1).cuda()
    receivers = torch.stack([torch.full_like(x, 2), torch.full_like(x, middle), x], -1)[None].cuda()
    where = torch.tensor([[[2, middle, middle]]]).cuda()
    return torch.from_numpy(inner).cuda(), lambda v: deepwave.scalar(
        v, SPACING, dt, source_amplitudes=source, source_locations=where, receiver_locations=receivers, accuracy=8,
        pml_width=[0] + 5 * [WIDTH], pml_freq=PEAK, max_vel=float(velocity.max())).receiver_amplitudes


def sweep_run(velocity, steps, dt):
    """The same by SWEEP, whose gradient saves boundaries."""
    from sweep.equations import Acoustic3D
    from sweep.propagator.options import BoundarySaving
    from sweep.propagator.torch import PropTorch
    from sweep.signal import ricker
    device, inner = torch.device("cuda"), np.ascontiguousarray(velocity[WIDTH:-WIDTH, WIDTH:-WIDTH, WIDTH:-WIDTH])
    middle, x = inner.shape[2] // 2, np.arange(1, inner.shape[2] - 1)
    run = PropTorch(Acoustic3D(spatial_order=8, device=device), shape=inner.shape, dh=SPACING, dt=dt, device=device,
                    abcn=WIDTH, free_surface=False, impl="c", memory=BoundarySaving())
    wavelet = ricker(np.arange(steps) * dt - 1.5 / PEAK, f=PEAK).astype(np.float32)
    source = np.array([[middle, middle, 2]], dtype=np.int64)
    receivers = np.stack([x, np.full_like(x, middle), np.full_like(x, 2)], -1)[None].astype(np.int64)
    return torch.tensor(inner, device=device), lambda v: run(wavelet, source, receivers, models=[v])


def peer_shot(make, velocity, steps, dt):
    """(seconds of a forward run, seconds with the gradient, GiB)."""
    model, run = make(velocity, steps, dt)
    with torch.no_grad():
        forward = min(seconds(lambda: run(model)) for _ in range(3))
    torch.cuda.reset_peak_memory_stats()
    gradient = min(seconds(lambda: run(model.clone().requires_grad_()).square().sum().backward()) for _ in range(3))
    return forward, gradient, torch.cuda.max_memory_allocated() / 2**30


def our_shot(stencil, velocity, steps, dt):
    import h5py
    n = velocity.shape[0]
    with tempfile.TemporaryDirectory() as folder:
        with h5py.File(f"{folder}/v.h5", "w") as file:
            file["v"] = velocity
        keys = {**{f"grid.n{a}": n for a in "xyz"}, **{f"grid.d{a}": SPACING for a in "xyz"}, "time.dt": dt,
                "equation.type": "wave", "medium.velocity": f"{folder}/v.h5:/v", "boundary.all": "absorbing",
                "boundary.z_lo": "dirichlet", "boundary.width": WIDTH, "source.1.position": f"{5 * n} {5 * n} 20",
                "source.1.f0": PEAK, "receivers.line": f"210 {5 * n} 20 {10 * n - 220} {5 * n} 20 {n - 2 * WIDTH - 2}",
                "output.path": f"{folder}/out", "report.file": f"{folder}/report.json"}
        Path(f"{folder}/any.ini").write_text(f"[time]\nsteps = {steps}\n")
        runs = []
        for _ in range(3):
            subprocess.run([stencil, "-q", f"{folder}/any.ini", *(f"{k}={v}" for k, v in keys.items())], check=True)
            runs.append(json.loads(Path(f"{folder}/report.json").read_text())["seconds"])
    return min(runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stencil", type=lambda name: Path(name).resolve())
    parser.add_argument("size", nargs="*", type=int, default=[512, 256, 128])
    args = parser.parse_args()
    for n in args.size:
        steps = min(1000, 400 * 512 // n)
        noise = 0.95 + 0.1 * np.random.default_rng(1).random((n, n, n), dtype=np.float32)
        velocity = np.linspace(1500, 4500, n, dtype=np.float32)[:, None, None] * noise
        dt, updates = 0.3 * SPACING / float(velocity.max()), 1e-9 * n**3 * steps
        ours = our_shot(args.stencil, velocity, steps, dt)
        print(f"{n}^3, {steps} steps: the program {updates / ours:.1f} Gpts/s", flush=True)
        for name, make in (("deepwave", deepwave_run), ("SWEEP", sweep_run)):
            try:
                forward, gradient, gib = peer_shot(make, velocity, steps, dt)
            except (ImportError, RuntimeError) as error:  # not installed; too little memory
                print(f"  {name}: skipped: {str(error).splitlines()[0]}", flush=True)
                continue
            print(f"  {name}: {updates / forward:.1f} Gpts/s, the program {forward / ours:.2f} times as fast; gradient "
                  f"{gradient / forward:.2f} times a forward run, {gib:.1f} GiB", flush=True)


if __name__ == "__main__":
    main()
