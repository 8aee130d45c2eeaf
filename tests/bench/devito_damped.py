#!/usr/bin/env python3
"""The shot of jobs/bench_shot.sh by Devito (devitoproject.org): the acoustic equation with a damping layer of 20 points
at five faces, one source, a line of receivers.   devito_damped.py MODEL.h5 STEPS

Prints the seconds of its time loop. Blocks are tuned first, as its tutorials do: that and compiling come on top.
"""
import sys

import h5py
import numpy as np
from devito import Eq, Function, Grid, Operator, SparseTimeFunction, TimeFunction, configuration, solve

WIDTH, SPACING, F0 = 20, 8.0, 15.0


def damping(shape):
    """1/s at each point: 0 inside, growing as devito's examples have it towards x, y and the bottom."""
    depth = np.zeros(shape, np.float32)
    for axis, sides in enumerate(((1,), (0, 1), (0, 1))):  # z has a free surface on top
        place = np.arange(shape[axis])
        for side in sides:
            edge = place[::-1] if side else place
            part = np.clip((WIDTH - edge) / WIDTH, 0, 1).reshape([-1 if a == axis else 1 for a in range(3)])
            depth = np.maximum(depth, part)
    return 1.5 * np.log(1000) / WIDTH * (depth - np.sin(2 * np.pi * depth) / (2 * np.pi)) / SPACING


def main():
    configuration["log-level"], configuration["language"] = "ERROR", "openmp"
    steps = int(sys.argv[2])
    with h5py.File(sys.argv[1]) as file:
        velocity = file["vp"][...]
    shape = velocity.shape
    grid = Grid(shape, extent=[SPACING * (n - 1) for n in shape], dtype=np.float32)
    u = TimeFunction(name="u", grid=grid, time_order=2, space_order=8)
    m = Function(name="m", grid=grid, space_order=8)
    damp = Function(name="damp", grid=grid, space_order=0)
    m.data[:], damp.data[:] = 1 / velocity**2, damping(shape) / velocity
    dt = np.float32(0.4 * SPACING / velocity.max())
    middle, times = 4.0 * shape[2], np.arange(steps + 1) * dt - 1 / F0
    line = np.linspace(168, SPACING * (shape[2] - 22), shape[2])
    source = SparseTimeFunction(name="source", grid=grid, npoint=1, nt=steps + 1, coordinates=[[16, middle, middle]])
    source.data[:, 0] = (1 - 2 * (np.pi * F0 * times)**2) * np.exp(-(np.pi * F0 * times)**2)
    receivers = SparseTimeFunction(name="receivers", grid=grid, npoint=len(line), nt=steps + 1,
                                   coordinates=[[16, middle, x] for x in line])
    step = Eq(u.forward, solve(m * u.dt2 - u.laplace + damp * u.dt, u.forward))
    inject = source.inject(field=u.forward, expr=source * grid.stepping_dim.spacing**2 / m)
    operator = Operator([step] + inject + receivers.interpolate(expr=u))
    summary = operator.apply(time_m=1, time_M=steps, dt=dt, autotune="aggressive")
    np.savez("devito.npz", traces=receivers.data[:], field=u.data[steps % 3])
    if not np.isfinite(receivers.data).all() or not np.ptp(receivers.data):
        sys.exit("devito_damped.py: error: no traces")
    print(sum(section.time for section in summary.values()))


if __name__ == "__main__":
    main()
