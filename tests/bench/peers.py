#!/usr/bin/env python3
"""The jacobi star (25 points, float32) as users of CuPy and of Triton write it, timed like bench_kernels times its own.

A naive CuPy RawKernel (one thread a point) and a Triton kernel, each at the fastest of a few block shapes. They read and
write fields laid out like the program's (rows begin on 128-byte lines) and get the same weights; both answers are checked
against the formula in float64. What is not installed is skipped with a message. Exit 1 if an answer is wrong.
"""
import argparse
import functools
import json
import statistics
import sys

import numpy as np

try:
    import cupy
except ImportError:
    cupy = None
try:
    import torch
    import triton
    import triton.language as tl
except ImportError:
    triton = None

RADIUS, ALIGN = 4, 32
ROUNDS, SAMPLES, SAMPLE_POINTS = 7, 5, 4e8  # as in kernels.cu
CENTER = 0.37
WEIGHTS = {axis: [base / r for r in range(1, RADIUS + 1)] for axis, base in (("x", 0.051), ("y", 0.047), ("z", 0.043))}


class Grid:
    """Layout of a field: (nz + 8) planes of (ny + 8) rows of `pitch` floats, own point (0, 0, 0) at `first`."""

    def __init__(self, nx, ny, nz):
        self.nx, self.ny, self.nz = nx, ny, nz
        self.pitch = (nx + 2 * RADIUS + ALIGN - 1) // ALIGN * ALIGN
        self.plane = self.pitch * (ny + 2 * RADIUS)
        self.first = ALIGN + RADIUS * (self.plane + self.pitch)
        self.floats = 2 * ALIGN + self.plane * (nz + 2 * RADIUS)
        self.points = nx * ny * nz

    def box(self, field, low, count, halo):
        """`count`^3 own points from `low` on and `halo` points around them, of a flat field: (z, y, x) in float64."""
        n = count + 2 * halo
        inside = np.add.outer(self.pitch * np.arange(n), np.arange(n))
        planes = []
        for z in range(low[2] - halo, low[2] + count + halo):
            begin = self.first + z * self.plane + (low[1] - halo) * self.pitch + low[0] - halo
            planes.append(to_host(field[begin:begin + inside[-1, -1] + 1])[inside])
        return np.stack(planes).astype(np.float64)


def to_host(array):
    """A CuPy or Torch array as NumPy's."""
    return array.get() if hasattr(array, "get") else np.asarray(array.cpu()) if hasattr(array, "cpu") else array


# --- CuPy ----------------------------------------------------------------------------------------------------------

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


class CupyPeer:
    name = "CuPy RawKernel"
    shapes = [(32, 8, 1), (64, 4, 1), (128, 2, 1), (32, 4, 4), (32, 4, 8), (128, 1, 4)]

    def __init__(self, grid, field):
        self.grid, self.version = grid, cupy.__version__
        source = CUPY_SOURCE.replace("CENTER", f"{CENTER}f")
        for axis, weights in WEIGHTS.items():
            source = source.replace(f"W{axis.upper()}", ", ".join(f"{w:.9g}f" for w in weights))
        self.kernel = cupy.RawKernel(source, "star")
        self.u = cupy.asarray(field)
        self.out = cupy.full_like(self.u, cupy.nan)

    def launch(self, shape):
        g = self.grid
        blocks = tuple(-(-n // b) for n, b in zip((g.nx, g.ny, g.nz), shape))
        self.kernel(blocks, shape, (self.u[g.first:], self.out[g.first:], np.int32(g.nx), np.int32(g.ny),
                                    np.int32(g.nz), np.int32(g.pitch), np.int32(g.plane)))

    def copy(self):
        cupy.copyto(self.out, self.u)

    def seconds(self, work, repeats):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        for _ in range(repeats):
            work()
        stop.record()
        stop.synchronize()
        return 1e-3 * cupy.cuda.get_elapsed_time(start, stop) / repeats

    def close(self):
        self.u = self.out = None
        cupy.get_default_memory_pool().free_all_blocks()


# --- Triton --------------------------------------------------------------------------------------------------------

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


class TritonPeer:
    name = "Triton"
    shapes = [(64, 8, 4), (128, 4, 4), (128, 8, 4), (128, 8, 8), (128, 16, 8), (256, 4, 4), (256, 8, 8)]

    def __init__(self, grid, field):
        self.grid, self.version = grid, triton.__version__
        self.u = torch.from_numpy(field).cuda()
        self.out = torch.full_like(self.u, float("nan"))

    def launch(self, shape):
        g, (block_x, block_y, warps) = self.grid, shape
        blocks = (-(-g.nx // block_x), -(-g.ny // block_y), g.nz)
        star_triton[blocks](self.u, self.out, g.nx, g.ny, g.pitch, g.plane, CENTER, *(tuple(WEIGHTS[a]) for a in "xyz"),
                            FIRST=g.first, BLOCK_X=block_x, BLOCK_Y=block_y, num_warps=warps)

    def copy(self):
        self.out.copy_(self.u)

    def seconds(self, work, repeats):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            work()
        stop.record()
        stop.synchronize()
        return 1e-3 * start.elapsed_time(stop) / repeats

    def close(self):
        self.u = self.out = None
        torch.cuda.empty_cache()


# --- both ----------------------------------------------------------------------------------------------------------

def star_of(u):
    """The formula, in float64; `u` has 4 points around those wanted."""
    def shifted(axis, by):
        where = [slice(RADIUS, -RADIUS)] * 3
        where["zyx".index(axis)] = slice(RADIUS + by, u.shape["zyx".index(axis)] - RADIUS + by)
        return u[tuple(where)]
    return CENTER * shifted("x", 0) + sum(w * (shifted(axis, -r) + shifted(axis, r))
                                          for axis in "xyz" for r, w in enumerate(WEIGHTS[axis], 1))


def largest_error(peer, field, shape):
    """Of two blocks, in the first and the last corner of the grid."""
    g = peer.grid
    count = min(24, g.nx, g.ny, g.nz)
    peer.out[:] = float("nan")
    peer.launch(shape)
    errors = []
    for low in ((0, 0, 0), (g.nx - count, g.ny - count, g.nz - count)):
        error = np.abs(g.box(peer.out, low, count, 0) - star_of(g.box(field, low, count, RADIUS)))
        errors.append(float("inf") if np.isnan(error).any() else error.max())
    return max(errors)


def median_seconds(peer, work, repeats):
    work()
    return statistics.median(peer.seconds(work, repeats) for _ in range(SAMPLES))


def measure(peer, field):
    """The peer's row of the table: Gpts/s of its fastest block shape, medians over the rounds."""
    g, repeats = peer.grid, int(max(SAMPLE_POINTS / peer.grid.points, 1))
    error = max(largest_error(peer, field, shape) for shape in peer.shapes)
    tried = {shape: median_seconds(peer, functools.partial(peer.launch, shape), repeats) for shape in peer.shapes}
    best = min(tried, key=tried.get)
    gpts, copy = [], []
    for _ in range(ROUNDS):
        copy.append(8e-9 * g.floats / median_seconds(peer, peer.copy, repeats))
        gpts.append(1e-9 * g.points / median_seconds(peer, functools.partial(peer.launch, best), repeats))
    return {"name": peer.name, "version": peer.version, "shape": list(best), "error": error,
            "gpts": statistics.median(gpts), "gpts_rounds": gpts, "copy_gbs": statistics.median(copy),
            "tried": {"x".join(map(str, shape)): 1e-9 * g.points / s for shape, s in tried.items()}}


def best_of_ours(path, size):
    """Name and Gpts/s of the fastest jacobi kernel in the JSON of bench_kernels; it must be of the same size."""
    with open(path) as file:
        ours = json.load(file)
    if ours["grid"] != size:
        sys.exit(f"peers.py: error: {path} is of {ours['grid']}, not {size}")
    best = max((r for r in ours["results"] if r["equation"] == "jacobi" and r["supported"]), key=lambda r: r["gpts"])
    return best["kernel"], best["gpts"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="*", type=int, help="nx ny nz (default 768 768 768)")
    parser.add_argument("--ours", metavar="FILE", help="JSON of bench_kernels at the same size, for the ratio")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    args = parser.parse_args()
    size = args.size or [768, 768, 768]
    if len(size) != 3 or min(size) < 1:
        parser.error("a size is three positive numbers")
    ours = best_of_ours(args.ours, size) if args.ours else None

    rows, grid = [], Grid(*size)
    field = np.random.default_rng(1).random(grid.floats, dtype=np.float32) * 2 - 1 if cupy or triton else None
    for name, there, make in (("CuPy", cupy, CupyPeer), ("Triton", triton, TritonPeer)):
        if not there:
            print(f"peers: {name} is not installed: skipped")
            continue
        peer = make(grid, field)
        rows.append(measure(peer, field))
        peer.close()
    print(f"jacobi, {' x '.join(map(str, size))}, float32")
    wrong = False
    for row in rows:
        bad = row["error"] > 1e-6  # the weights add up to 1.5 in size, the values to 1
        wrong = wrong or bad
        print(f"{row['name']:15s} {row['version']:8s} {row['gpts']:7.1f} Gpts/s  copy {row['copy_gbs']:5.0f} GB/s  "
              f"block {'x'.join(map(str, row['shape'])):9s} error {row['error']:.1e}{'  WRONG' if bad else ''}"
              + (f"  {ours[0]} is {ours[1] / row['gpts']:.2f} times as fast" if ours else ""))
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"command": sys.argv, "grid": size, "peers": rows}, file, indent=1)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
