#!/usr/bin/env python3
"""What other programs reach on a GPU. What is not installed is skipped with a message; all of it needs PyTorch.

  gpu_peers.py [NX NY NZ] [--ours FILE] [--json FILE]     (default 768 768 768)
The jacobi star (25 points, float32) as users of CuPy and of Triton write it, timed like bench_kernels times its own: a
naive CuPy RawKernel (one thread a point) and a Triton kernel, each at the fastest of a few block shapes. They use fields
laid out like the program's (rows begin on 128-byte lines). Exit 1 if an answer differs from the formula in float64.

  gpu_peers.py --shot STENCIL [N ...]                     (default 512 256 128)
A shot over N^3 points, layers included, by the program, deepwave and SWEEP (PyPI: deepwave, sweep-solver): order 8, the
same time step, layers of 20 points at five faces (SWEEP: six), N receivers. Best of three; and the gradient's time.
"""
import argparse
import json
import statistics
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
try:
    import cupy
except ImportError:
    cupy = None
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

RADIUS, ALIGN, WIDTH, SPACING, PEAK = 4, 32, 20, 10.0, 12.0
ROUNDS, SAMPLES, SAMPLE_POINTS = 7, 5, 4e8  # as in kernels.cu
CENTER = 0.37
WEIGHTS = {axis: [base / r for r in range(1, RADIUS + 1)] for axis, base in (("x", 0.051), ("y", 0.047), ("z", 0.043))}
CUPY_SOURCE = r"""
extern "C" __global__ void star(const float *u, float *out, int nx, int ny, int nz, int pitch, int plane) {
  const float wx[4] = {WX}, wy[4] = {WY}, wz[4] = {WZ};
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= nx || y >= ny || z >= nz) return;
  long long i = (long long)z * plane + (long long)y * pitch + x;
  float sum = CENTER * u[i];
  #pragma unroll
  for (int r = 1; r <= 4; r++) {
    sum += wx[r - 1] * (u[i - r] + u[i + r]);
    sum += wy[r - 1] * (u[i - r * pitch] + u[i + r * pitch]);
    sum += wz[r - 1] * (u[i - (long long)r * plane] + u[i + (long long)r * plane]);
  }
  out[i] = sum;
}
"""

if triton:
    @triton.jit
    def star_triton(u, out, nx, ny, pitch, plane, CENTER: tl.constexpr, WX: tl.constexpr, WY: tl.constexpr,
                    WZ: tl.constexpr, FIRST: tl.constexpr, BLOCK_X: tl.constexpr, BLOCK_Y: tl.constexpr):
        x = tl.program_id(0) * BLOCK_X + tl.arange(0, BLOCK_X)[None, :]
        y = tl.program_id(1) * BLOCK_Y + tl.arange(0, BLOCK_Y)[:, None]
        mine = (x < nx) & (y < ny)
        at = FIRST + tl.program_id(2).to(tl.int64) * plane + y * pitch + x
        p = u + at
        total = CENTER * tl.load(p, mask=mine)
        for r in tl.static_range(1, 5):
            total += WX[r - 1] * (tl.load(p - r, mask=mine) + tl.load(p + r, mask=mine))
            total += WY[r - 1] * (tl.load(p - r * pitch, mask=mine) + tl.load(p + r * pitch, mask=mine))
            total += WZ[r - 1] * (tl.load(p - r * plane, mask=mine) + tl.load(p + r * plane, mask=mine))
        tl.store(out + at, total, mask=mine)


class Fields:
    """u and out: (nz + 8) planes of (ny + 8) rows of `pitch` floats, own point (0, 0, 0) at `first`."""

    def __init__(self, nx, ny, nz):
        self.size, self.points = (nx, ny, nz), nx * ny * nz
        self.pitch = (nx + 2 * RADIUS + ALIGN - 1) // ALIGN * ALIGN
        self.plane = self.pitch * (ny + 2 * RADIUS)
        self.first = ALIGN + RADIUS * (self.plane + self.pitch)
        self.u = torch.rand(2 * ALIGN + self.plane * (nz + 2 * RADIUS), device="cuda") * 2 - 1
        self.out = torch.empty_like(self.u)

    def box(self, field, corner, count, halo):
        """`count`^3 own points from `corner` (x y z) on and `halo` points around them: (z, y, x) in float64."""
        x, y, z = (at - halo for at in corner)
        n, at = count + 2 * halo, self.first + z * self.plane + y * self.pitch + x
        return field.as_strided((n, n, n), (self.plane, self.pitch, 1), at).double()

    def error(self, launch):
        """The largest of two blocks, in the first and the last corner of the grid."""
        count, errors = min(24, *self.size), []
        self.out.fill_(float("nan"))
        launch()
        for corner in ((0, 0, 0), tuple(n - count for n in self.size)):
            u, expected = self.box(self.u, corner, count, RADIUS), 0
            for dim, axis in enumerate("zyx"):
                inner = u
                for other in {0, 1, 2} - {dim}:
                    inner = inner.narrow(other, RADIUS, count)
                expected += sum(w * (inner.narrow(dim, RADIUS - r, count) + inner.narrow(dim, RADIUS + r, count))
                                for r, w in enumerate(WEIGHTS[axis], 1))
            expected += CENTER * inner.narrow(dim, RADIUS, count)
            errors.append((self.box(self.out, corner, count, 0) - expected).abs().nan_to_num(float("inf")).max().item())
        return max(errors)


def cupy_launch(fields, shape):
    source = CUPY_SOURCE.replace("CENTER", f"{CENTER}f")
    for axis, weights in WEIGHTS.items():
        source = source.replace(f"W{axis.upper()}", ", ".join(f"{w:.9g}f" for w in weights))
    kernel, (nx, ny, nz) = cupy.RawKernel(source, "star"), fields.size
    own = [cupy.asarray(field)[fields.first:] for field in (fields.u, fields.out)]
    blocks = tuple(-(-n // b) for n, b in zip(fields.size, shape))
    numbers = [np.int32(n) for n in (nx, ny, nz, fields.pitch, fields.plane)]
    return lambda: kernel(blocks, shape, (*own, *numbers))


def triton_launch(fields, shape):
    (nx, ny, nz), (block_x, block_y, warps) = fields.size, shape
    blocks = (-(-nx // block_x), -(-ny // block_y), nz)
    return lambda: star_triton[blocks](fields.u, fields.out, nx, ny, fields.pitch, fields.plane, CENTER,
                                       *(tuple(WEIGHTS[a]) for a in "xyz"), FIRST=fields.first, BLOCK_X=block_x,
                                       BLOCK_Y=block_y, num_warps=warps)


PEERS = [("CuPy RawKernel", cupy, cupy_launch, [(32, 8, 1), (64, 4, 1), (128, 2, 1), (32, 4, 4), (32, 4, 8), (128, 1, 4)]),
         ("Triton", triton, triton_launch, [(64, 8, 4), (128, 4, 4), (128, 8, 4), (128, 8, 8), (128, 16, 8), (256, 4, 4),
                                            (256, 8, 8)])]


def median_seconds(work, repeats):
    def sample():
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            work()
        stop.record()
        stop.synchronize()
        return 1e-3 * start.elapsed_time(stop) / repeats
    work()
    return statistics.median(sample() for _ in range(SAMPLES))


def measure(name, version, make, shapes, fields):
    """The peer's row of the table: Gpts/s of its fastest block shape, medians over the rounds."""
    launches, repeats = {shape: make(fields, shape) for shape in shapes}, int(max(SAMPLE_POINTS / fields.points, 1))
    error = max(map(fields.error, launches.values()))
    tried = {shape: median_seconds(launch, repeats) for shape, launch in launches.items()}
    best, gpts, copy = min(tried, key=tried.get), [], []
    for _ in range(ROUNDS):
        copy.append(8e-9 * fields.u.numel() / median_seconds(lambda: fields.out.copy_(fields.u), repeats))
        gpts.append(1e-9 * fields.points / median_seconds(launches[best], repeats))
    return {"name": name, "version": version, "shape": list(best), "error": error, "gpts": statistics.median(gpts),
            "gpts_rounds": gpts, "copy_gbs": statistics.median(copy),
            "tried": {"x".join(map(str, shape)): 1e-9 * fields.points / s for shape, s in tried.items()}}


def jacobi(args):
    size, ours = args.size or [768, 768, 768], None
    if args.ours:
        data = json.loads(Path(args.ours).read_text())
        if data["grid"] != size:
            sys.exit(f"gpu_peers.py: error: {args.ours} is of {data['grid']}, not {size}")
        ours = max((r for r in data["results"] if r["equation"] == "jacobi" and r["supported"]), key=lambda r: r["gpts"])
    fields = Fields(*size)
    rows = [measure(name, module.__version__, make, shapes, fields) for name, module, make, shapes in PEERS if module]
    for name in [name for name, module, *_ in PEERS if not module]:
        print(f"{name}: not installed, skipped")
    print(f"jacobi, {' x '.join(map(str, size))}, float32")
    for row in rows:
        print(f"{row['name']:15s} {row['version']:8s} {row['gpts']:7.1f} Gpts/s  copy {row['copy_gbs']:5.0f} GB/s  "
              f"block {'x'.join(map(str, row['shape'])):9s} error {row['error']:.1e}"
              + (f"  {ours['kernel']} is {ours['gpts'] / row['gpts']:.2f} times as fast" if ours else ""))
    if args.json:
        Path(args.json).write_text(json.dumps({"command": sys.argv, "grid": size, "peers": rows}, indent=1))
    return int(any(not row["error"] < 1e-6 for row in rows))  # the weights add up to 1.5 in size, the values to 1


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


def shots(args):
    for n in args.size or [512, 256, 128]:
        steps = min(1000, 400 * 512 // n)
        noise = 0.95 + 0.1 * np.random.default_rng(1).random((n, n, n), dtype=np.float32)
        velocity = np.linspace(1500, 4500, n, dtype=np.float32)[:, None, None] * noise
        dt, updates = 0.3 * SPACING / float(velocity.max()), 1e-9 * n**3 * steps
        ours = our_shot(args.shot, velocity, steps, dt)
        print(f"{n}^3, {steps} steps: the program {updates / ours:.1f} Gpts/s", flush=True)
        for name, make in (("deepwave", deepwave_run), ("SWEEP", sweep_run)):
            try:
                forward, gradient, gib = peer_shot(make, velocity, steps, dt)
            except (ImportError, RuntimeError) as error:  # not installed; too little memory
                print(f"  {name}: skipped: {str(error).splitlines()[0]}", flush=True)
                continue
            print(f"  {name}: {updates / forward:.1f} Gpts/s, the program {forward / ours:.2f} times as fast; gradient "
                  f"{gradient / forward:.2f} times a forward run, {gib:.1f} GiB", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="*", type=int, help="NX NY NZ, or N of shots")
    parser.add_argument("--ours", metavar="FILE", help="JSON of bench_kernels at the same size, for the ratio")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--shot", metavar="STENCIL", type=Path, help="shots instead, beside this program")
    args = parser.parse_args()
    if args.size and (min(args.size) < 1 or not args.shot and len(args.size) != 3):
        parser.error("a size is three positive numbers")
    if args.shot:
        args.shot = args.shot.resolve()
    return shots(args) if args.shot else jacobi(args)


if __name__ == "__main__":
    sys.exit(main())
