#!/usr/bin/env python3
"""The acoustic wave equation by Devito (devitoproject.org), to compare with.   devito_shot.py IN.npz OUT.npz

IN: model (nz, ny, nx) m/s, spacing (z y x), dt, steps, order, f0, source (z y x) m, receivers (n, 3) likewise. OUT: traces
(steps + 1, n) and the final field. Values beyond the grid are 0.
"""
import sys

import numpy as np
from devito import Eq, Function, Grid, Operator, SparseTimeFunction, TimeFunction, configuration, solve

from analytic import ricker


def main():
    case = np.load(sys.argv[1])
    configuration["log-level"] = "ERROR"
    model, dt, steps, order = case["model"], np.float32(case["dt"]), int(case["steps"]), int(case["order"])
    grid = Grid(shape=model.shape, extent=tuple((np.array(model.shape) - 1) * case["spacing"]), dtype=np.float32)
    u = TimeFunction(name="u", grid=grid, time_order=2, space_order=order)
    slowness = Function(name="m", grid=grid, space_order=order)
    slowness.data[:] = 1 / model.astype(np.float64)**2
    source = SparseTimeFunction(name="source", grid=grid, npoint=1, nt=steps + 1, coordinates=case["source"][None])
    source.data[:, 0] = ricker(np.arange(steps + 1) * float(case["dt"]), float(case["f0"]))
    receivers = SparseTimeFunction(name="receivers", grid=grid, npoint=len(case["receivers"]), nt=steps + 1,
                                   coordinates=case["receivers"])
    step = Eq(u.forward, solve(slowness * u.dt2 - u.laplace, u.forward))
    inject = source.inject(field=u.forward, expr=source * grid.stepping_dim.spacing**2 / slowness)
    Operator([step] + inject + receivers.interpolate(expr=u))(time_m=1, time_M=steps, dt=dt)
    np.savez(sys.argv[2], traces=receivers.data[:], field=u.data[steps % 3])


if __name__ == "__main__":
    main()
