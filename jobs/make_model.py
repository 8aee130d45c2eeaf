#!/usr/bin/env python3
"""Writes a velocity model for stencil: HDF5, dataset /vp, float32, m/s, shape (nz, ny, nx), x fastest.

A made-up basin: water, dipping and folded layers whose velocity grows with depth, and a salt dome of 4500 m/s that has
dragged them up; with ny = 1 its middle plane, for a 2D run. With --config also the configuration of a shot over it, its
source no faster than the grid resolves.
"""
import argparse
import sys

from packages import require

require("h5py", "numpy")
import numpy as np
import stencil_io as st
from stencil_io.shot import output_of

WATER, SALT = 1500.0, 4500.0  # m/s
DEPTHS = np.array([0.10, 0.22, 0.34, 0.48, 0.62, 0.78])  # of the interfaces, as parts of the whole; first the sea floor
VELOCITIES = np.array([WATER, 1750, 2050, 2350, 2200, 2750, 3200])  # below each of them; the fifth is a slow layer
GRADIENT = 350.0  # m/s from the sea floor to the bottom


def basin(nx, ny, nz):
    """Yields the nz planes of shape (ny, nx); coordinates run from 0 to 1 along each axis, an axis of one point is the middle."""
    y, x = np.meshgrid(*(np.linspace(0, 1, n) if n > 1 else 0.5 for n in (ny, nx)), indexing="ij")
    away = ((x - 0.56) / 0.17)**2 + ((y - 0.5) / 0.45)**2
    drag = 0.10 * np.exp(-0.5 * away)                      # layers rise towards the salt
    dip = 0.24 * (x - 0.5) + 0.06 * (y - 0.5)
    fold = 0.020 * np.sin(2 * np.pi * (1.7 * x + 0.4 * y)) + 0.010 * np.sin(2 * np.pi * (3.9 * x - 0.7 * y + 0.3))
    for z in np.linspace(0, 1, nz):
        plane = np.full((ny, nx), WATER)
        for number, depth in enumerate(DEPTHS):
            share = depth**0.5 if number else 0.12         # the sea floor is nearly flat
            interface = depth + share * (dip + fold) - drag * min(1, 2 * depth) * (number > 0)
            plane = np.where(z > interface, VELOCITIES[number + 1] + GRADIENT * (z - DEPTHS[0]), plane)
        plane[salt(x, y, z)] = SALT
        yield plane


def salt(x, y, z):
    """Inside the dome? Its radius bulges below the top, narrows to a neck and widens to a base; it is lobed."""
    top, across = 0.36, np.arctan2((y - 0.5) / 0.45, (x - 0.56) / 0.17)
    if z < top - 0.05:
        return np.zeros(x.shape, bool)
    depth = np.clip((z - top - 0.04 * np.cos(2 * np.pi * (1.6 * x + 0.3))) / (1 - top), 0, 1)
    radius = 0.95 * np.sqrt(np.sin(np.pi * np.minimum(depth / 0.62, 1)))    # the bulb
    neck = 0.42 + 0.75 * np.maximum(depth - 0.55, 0)**1.2                   # the stem and its base
    radius = np.where(depth > 0.31, np.maximum(radius, neck), radius)
    radius = radius * (1 + 0.14 * np.sin(2 * across + 5 * z) + 0.07 * np.cos(3 * across - 9 * z))
    center = 0.56 - 0.10 * (z - 0.6)                                        # it leans
    return ((x - center) / 0.17)**2 + ((y - 0.5) / 0.45)**2 < radius**2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="file to write")
    for axis, default in (("nx", 241), ("ny", 81), ("nz", 141)):
        parser.add_argument(axis, type=int, nargs="?", default=default, help=f"points (default {default})")
    parser.add_argument("--spacing", type=float, default=8, help="m (default 8)")
    parser.add_argument("--config", metavar="FILE.ini", help="also write the configuration of a shot over the model")
    parser.add_argument("--points", type=float, default=5, help="per shortest wavelength of the shot (default 5)")
    args = parser.parse_args()
    if min(args.nx, args.ny) < 1 or args.nz < 2 or args.spacing <= 0 or args.points <= 0:
        parser.error("nx and ny must be at least 1 (ny = 1: 2D), nz at least 2, spacing and points positive")
    try:
        if args.config:
            output_of(args.config)  # an error before anything is written
        planes, shape = basin(args.nx, args.ny, args.nz), (args.nz, args.ny, args.nx)
        name = st.write_model(args.out, planes, shape=shape, spacing=(args.spacing,) * 3)
        print(st.Field(name).summary())
        if args.config:
            print(st.write_shot(args.config, name, points=args.points))
    except (OSError, ValueError) as error:
        sys.exit(f"make_model.py: error: {error}")


if __name__ == "__main__":
    main()
