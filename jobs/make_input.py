#!/usr/bin/env python3
"""Writes an input field for stencil: HDF5, dataset /u, float32, shape (nz, ny, nx), x fastest, unchunked.

By default a made-up geology of velocities in m/s: folded and dipping layers cut by a fault, a fast lens, a slow one,
and a few percent of noise. With --marmousi a 2.5D model from the classic section (raw float32, 1601 positions by 401
depths, km/s, 7.5 m), the same at every y.
"""
import argparse
import sys

from packages import require

require("h5py", "numpy")
import h5py
import numpy as np

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


def marmousi(path, nx, ny, nz, crop):
    """The section as planes, and its spacing (dx, dz). `crop` (x0, z0) cuts samples out of it; without it the whole is
    resampled."""
    section = np.fromfile(path, "<f4")
    if section.size != 1601 * 401:
        raise ValueError(f"{path}: expected {1601 * 401} float32 values, found {section.size}")
    section = 1000 * section.reshape(1601, 401).T  # (z, x), m/s
    spacing = (7.5, 7.5)
    if crop:
        section = section[crop[1]:crop[1] + nz, crop[0]:crop[0] + nx]
        if section.shape != (nz, nx):
            raise ValueError(f"nothing of {nz} depths by {nx} positions at {crop} in a section of 401 by 1601")
    else:
        spacing = (7.5 * 1600 / max(nx - 1, 1), 7.5 * 400 / max(nz - 1, 1))
        section = resample(resample(section, nz).T, nx).T
    print(f"spacing dx = {spacing[0]:g} m, dz = {spacing[1]:g} m")
    return (np.broadcast_to(row, (ny, nx)) for row in section), spacing


def resample(values, n):
    """Linear interpolation along axis 0 to n samples."""
    at = np.linspace(0, len(values) - 1, n)
    low = np.minimum(at.astype(int), len(values) - 2)
    part = (at - low)[:, None]
    return (1 - part) * values[low] + part * values[low + 1]


def write(path, shape, planes, name="u", spacing=None):
    """One plane at a time, so that the field never has to fit in memory. Returns least and greatest value."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset(name, shape, "<f4")
        data.attrs["units"] = "m/s"
        if spacing is not None:
            data.attrs["spacing"] = spacing  # dx dy dz, m
        low, high = np.inf, -np.inf
        for z, plane in enumerate(planes):
            data[z] = plane
            low, high = min(low, plane.min()), max(high, plane.max())
    print(f"{path}: /{name} {shape[2]} x {shape[1]} x {shape[0]} points (x, y, z), {low:.0f} to {high:.0f} m/s")
    return float(low), float(high)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="file to write")
    for axis in ("nx", "ny", "nz"):
        parser.add_argument(axis, type=int, help="points")
    parser.add_argument("--noise", type=float, default=0.04, help="relative standard deviation (default 0.04)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise (default 0)")
    parser.add_argument("--marmousi", metavar="FILE.f32", help="raw section to make a 2.5D model of")
    parser.add_argument("--crop", nargs=2, type=int, metavar=("X0", "Z0"),
                        help="with --marmousi: cut samples out of the section instead of resampling it")
    args = parser.parse_args()
    if min(args.nx, args.ny, args.nz) < 1:
        parser.error("nx, ny and nz must be at least 1")
    size = args.nx, args.ny, args.nz
    try:
        if args.marmousi:
            planes, _ = marmousi(args.marmousi, *size, args.crop)
        else:
            planes = geology(*size, args.noise, args.seed)
        write(args.out, size[::-1], planes)
    except (OSError, ValueError) as error:
        sys.exit(f"make_input.py: error: {error}")


if __name__ == "__main__":
    main()
