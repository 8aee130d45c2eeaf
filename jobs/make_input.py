#!/usr/bin/env python3
"""Writes an input field for stencil: HDF5, dataset /u, float32, shape (nz, ny, nx), x fastest, unchunked.

A made-up geology of velocities in m/s: folded and dipping layers cut by a fault, a fast lens, a slow one, and a few
percent of noise.
"""
import argparse
import sys

from packages import require

require("h5py", "numpy")
import numpy as np
import stencil_io as st

LAYER_VELOCITIES = np.array([1500, 1750, 2050, 1850, 2350, 2700, 2450, 3000, 3300, 3150, 3700, 4100], np.float32)


def geology(nx, ny, nz, noise, seed):
    """Yields the nz planes of shape (ny, nx); coordinates run from 0 to 1 along each axis."""
    random = np.random.default_rng(seed)
    y, x = np.meshgrid(np.linspace(0, 1, ny), np.linspace(0, 1, nx), indexing="ij")
    fold = 0.05 * np.sin(2 * np.pi * (1.3 * x + 0.3 * y)) + 0.02 * np.sin(2 * np.pi * (3.1 * x - 0.8 * y + 0.2))
    for z in np.linspace(0, 1, nz):
        throw = np.where(x + 0.35 * z > 0.68 + 0.1 * y, 0.07, 0.0)  # a fault: one side lies deeper
        depth = z + fold * min(1.0, 3 * z) - 0.18 * (x - 0.5) * z - throw * min(1.0, 4 * z)
        layer = np.clip((depth * len(LAYER_VELOCITIES)).astype(int), 0, len(LAYER_VELOCITIES) - 1)
        plane = LAYER_VELOCITIES[layer] + 250 * depth
        plane[lens(x, y, z, (0.33, 0.5, 0.55), (0.13, 0.40, 0.10))] = 4500
        plane[lens(x, y, z, (0.76, 0.5, 0.38), (0.10, 0.35, 0.035))] = 1400
        yield plane * (1 + noise * random.standard_normal(plane.shape))


def lens(x, y, z, center, radii):
    return sum(((a - c) / r) ** 2 for a, c, r in zip((x, y, z), center, radii)) < 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="file to write")
    for axis in ("nx", "ny", "nz"):
        parser.add_argument(axis, type=int, help="points")
    parser.add_argument("--noise", type=float, default=0.04, help="relative standard deviation (default 0.04)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise (default 0)")
    args = parser.parse_args()
    if min(args.nx, args.ny, args.nz) < 1:
        parser.error("nx, ny and nz must be at least 1")
    try:
        planes = geology(args.nx, args.ny, args.nz, args.noise, args.seed)
        print(st.Field(st.write_model(args.out, planes, "u", (args.nz, args.ny, args.nx))).summary())
    except (OSError, ValueError) as error:
        sys.exit(f"make_input.py: error: {error}")


if __name__ == "__main__":
    main()
