#!/usr/bin/env python3
"""Writes a velocity model for stencil: HDF5, dataset /vp, float32, m/s, shape (nz, ny, nx), x fastest.

A made-up basin: water, dipping and folded layers whose velocity grows with depth, and a salt dome of 4500 m/s that has
dragged them up; with ny = 1 its middle plane, for a 2D run. With --config also the configuration of a shot over it, its
source no faster than the grid resolves.

With --skull instead a head before a focused ultrasound transducer: /vp, /rho (kg/m3) and /absorption (dB/(MHz cm)) of water,
skin, three layers of bone and brain, and /transducer and /signal for [sources]: config/skull.ini.
"""
import argparse
import sys

from packages import require

require("h5py", "numpy")
import numpy as np
import stencil.io as st
from stencil.io.shot import output_of

BASIN, SKULL = (241, 81, 141, 8), (131, 131, 201, 0.5e-3)  # nx, ny, nz, spacing (m)
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
    center = 0.56 - 0.10 * (z - 0.6)                                        # oblique
    return ((x - center) / 0.17)**2 + ((y - 0.5) / 0.45)**2 < radius**2


# Of water, skin, outer table, diploe, inner table, brain: m/s, kg/m3, dB/(MHz cm); where each begins, m below the skin.
HEAD = np.array([(1500, 1000, 0), (1610, 1090, 0.8), (2800, 1850, 8), (2300, 1700, 16), (2800, 1850, 8), (1560, 1040, 0.6)])
SURFACES = (0, 4e-3, 5.5e-3, 9e-3, 10.5e-3)
TOP, HEAD_RADIUS = 0.036, 0.075  # m: depth of the skin on the axis, radius of the head
BOWL, APERTURE, ELEMENTS, APEX = 0.064, 0.025, 900, 0.008  # m: radius of curvature, of the rim, and depth of the bowl
TONE, PRESSURE, CYCLES = 5e5, 6e4, 35  # Hz, Pa at the bowl, length of the signal


def head(nx, ny, nz, h):
    """(velocity, density, absorption) at the points. Bone has not the same thickness everywhere."""
    z, y, x = np.ogrid[:nz, :ny, :nx]
    x, y, z = h * (x - (nx - 1) / 2), h * (y - (ny - 1) / 2), h * z
    depth = HEAD_RADIUS - np.sqrt(x**2 + y**2 + (z - TOP - HEAD_RADIUS)**2)
    depth = depth + 0.8e-3 * np.sin(x / 7e-3 + 1) * np.cos(y / 9e-3) * (depth / 8e-3).clip(0, 1)
    return HEAD.T[:, np.searchsorted(SURFACES, depth)]


def bowl(nx, ny, h):
    """Elements of equal area on a bowl (x y z), and (times, signal) of each: that of a point source of the pressure's."""
    k, rise = np.arange(ELEMENTS) + 0.5, 1 - np.sqrt(1 - (APERTURE / BOWL)**2)
    across, turn = 1 - k / ELEMENTS * rise, k * np.pi * (3 - 5**0.5)
    x, y = (BOWL * np.sqrt(1 - across**2) * way(turn) + h * (n - 1) / 2 for way, n in ((np.cos, nx), (np.sin, ny)))
    t = np.arange(0, CYCLES / TONE, 0.01 / TONE)  # 100 a period: of 20, the difference below is 1.6 % low
    pressure = PRESSURE * np.sin(2 * np.pi * TONE * t) * np.sin(np.pi / 2 * (np.minimum(t, t[-1] - t) * TONE / 4).clip(0, 1))**2
    area = 2 * np.pi * BOWL**2 * rise / ELEMENTS
    return np.stack([x, y, APEX + BOWL * (1 - across)], 1), t, 2 * area / HEAD[0, 0] * np.gradient(pressure, t)


def write_head(path, nx, ny, nz, h):
    """The model and the transducer; returns the name of the velocities."""
    for name, values, units in zip(("vp", "rho", "absorption"), head(nx, ny, nz, h), ("m/s", "kg/m3", "dB/(MHz^y cm)")):
        full = st.write_model(path, values, name, spacing=(h,) * 3, units=units, beside=name != "vp")
    positions, times, signal = bowl(nx, ny, h)
    st.write_positions(path, positions, "transducer")
    st.write_wavelet(path, times, signal[:, None], "signal")
    return full.replace("absorption", "vp")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="file to write")
    for number, axis in enumerate(("nx", "ny", "nz")):
        parser.add_argument(axis, type=int, nargs="?", help=f"points (default {BASIN[number]}, of a head {SKULL[number]})")
    parser.add_argument("--spacing", type=float, help=f"m (default {BASIN[3]}, of a head {SKULL[3]})")
    parser.add_argument("--skull", action="store_true", help="a head and a transducer")
    parser.add_argument("--config", metavar="FILE.ini", help="also write the configuration of a shot over the model")
    parser.add_argument("--points", type=float, default=5, help="per shortest wavelength of the shot (default 5)")
    args = parser.parse_args()
    args.nx, args.ny, args.nz, args.spacing = (
        default if given is None else given for given, default in zip((args.nx, args.ny, args.nz, args.spacing), SKULL if args.skull else BASIN))
    if args.skull and args.config:
        parser.error("--config is of a shot: config/skull.ini is the configuration of a head")
    if min(args.nx, args.ny) < 1 or args.nz < 2 or args.spacing <= 0 or args.points <= 0:
        parser.error("nx and ny must be at least 1 (ny = 1: 2D), nz at least 2, spacing and points positive")
    try:
        if args.config:
            output_of(args.config)  # an error before anything is written
        if args.skull:
            print(st.Field(write_head(args.out, args.nx, args.ny, args.nz, args.spacing)).summary())
            return
        planes, shape = basin(args.nx, args.ny, args.nz), (args.nz, args.ny, args.nx)
        name = st.write_model(args.out, planes, shape=shape, spacing=(args.spacing,) * 3)
        print(st.Field(name).summary())
        if args.config:
            print(st.write_shot(args.config, name, points=args.points))
    except (OSError, ValueError) as error:
        sys.exit(f"make_model.py: error: {error}")


if __name__ == "__main__":
    main()
