"""What fields must be: exact solutions, the dispersion relation of the grid, quantities that are conserved.

float64 throughout. Arrays are (..., z, y, x); triples in that order too, except positions, which are x y z as in a
config.
"""
import numpy as np

# Second derivative: weights of offsets 0..order/2, to be divided by h^2 (Fornberg 1988, table 1).
WEIGHTS = {2: [-2, 1], 4: [-5 / 2, 4 / 3, -1 / 12], 6: [-49 / 18, 3 / 2, -3 / 20, 1 / 90],
           8: [-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560]}
COMMON = {2: 1, 4: 12, 6: 180, 8: 5040}  # times the weights: integers


def weight_sum(order, spacing):
    """S of the stability bounds: the sum of |weights| over all axes."""
    w = np.abs(WEIGHTS[order])
    return sum((w[0] + 2 * w[1:].sum()) / h**2 for h in spacing)


def wavenumber_squared(order, k, spacing=None):
    """|k|^2, or with a spacing what the discrete Laplacian makes of it: minus its eigenvalue for exp(i k x)."""
    if spacing is None:
        return sum(a**2 for a in k)
    w = WEIGHTS[order]
    return -sum((w[0] + 2 * sum(w[r] * np.cos(r * a * h) for r in range(1, len(w)))) / h**2 for a, h in zip(k, spacing))


def leapfrog_frequency(frequency, dt):
    """Angular frequency that the leapfrog gives an oscillation of this one: sin(omega_d dt / 2) = omega dt / 2."""
    return 2 / dt * np.arcsin(frequency * dt / 2)


def laplacian(u, spacing, order, boundary):
    """Of the last three axes; `boundary`: dirichlet (u is 0 on the faces), neumann or periodic, one for all."""
    mode = {"dirichlet": {"mode": "reflect", "reflect_type": "odd"}, "neumann": {"mode": "reflect"},
            "periodic": {"mode": "wrap"}}[boundary]
    result = np.zeros_like(u)
    for axis, h in zip((-3, -2, -1), spacing):
        n = u.shape[axis]
        widths = [(0, 0)] * u.ndim
        widths[axis] = (4, 4)
        padded = np.moveaxis(np.pad(u, widths, **mode), axis, 0)
        out = np.moveaxis(result, axis, 0)
        for r, w in enumerate(WEIGHTS[order]):
            for offset in {r, -r}:
                out += w / h**2 * padded[4 + offset:4 + offset + n]
    return result


def trapezoid(shape, boundary):
    """Weights of the points in sums over the box: the faces of neumann boxes count half."""
    weights = np.ones(shape)
    if boundary == "neumann":
        for axis in range(3):
            for end in (0, -1):
                np.moveaxis(weights, axis, 0)[end] *= 0.5
    return weights


def leapfrog_energy(before, after, dt, velocity, spacing, order, boundary):
    """The quantity that the leapfrog conserves exactly between two steps: |u' - u|^2 / (2 v^2 dt^2) - <u', laplacian u>
    / 2."""
    density = ((after - before) / (velocity * dt))**2 - after * laplacian(before, spacing, order, boundary)
    return 0.5 * (trapezoid(before.shape[-3:], boundary) * density).sum((-3, -2, -1))


def ricker(t, f0, t0=None, amplitude=1):
    a = (np.pi * f0 * (t - (1.5 / f0 if t0 is None else t0)))**2
    return amplitude * (1 - 2 * a) * np.exp(-a)


def corners(position, spacing):
    """The up to 8 grid points (x y z, m) around a position and their trilinear weights; origin 0, x y z."""
    cell = np.floor(np.asarray(position) / spacing + 1e-9)
    part = np.asarray(position) / spacing - cell
    part[np.abs(part) < 1e-9] = 0
    for corner in np.ndindex(2, 2, 2):
        weight = np.prod(np.where(corner, part, 1 - part))
        if weight:
            yield (cell + corner) * spacing, weight


def point_source(t, source, receiver, spacing, velocity, f0):
    """u of a point source in the unbounded medium. By the injection rule u' += dt^2 v^2 s the right-hand side is
    v^2 s(t) dV delta(x - x_s), hence u = dV s(t - r / v) / (4 pi r)."""
    r = np.linalg.norm(np.subtract(receiver, source))
    return np.prod(spacing) * ricker(t - r / velocity, f0) / (4 * np.pi * r)


def spread_source(t, source, receiver, spacing, velocity, f0):
    """The same where source and receiver are spread trilinearly: the weighted sum over the grid points of both."""
    return sum(ws * wr * point_source(t, s, r, spacing, velocity, f0)
               for s, ws in corners(source, spacing) for r, wr in corners(receiver, spacing))


def lower_source(t, source, receiver, axes, spacing, velocity, f0):
    """u of a source in an unbounded medium of one (x) or two axes (x, z): the y of the positions, in 1D their z too, do not
    count. 2D: the Green's function v / (2 pi sqrt(v^2 t^2 - r^2)), in frequency a Hankel function, over all past times, which
    are r / v cosh(q). 1D: v / 2 times the integral of s."""
    used = [2] if axes == 1 else [0, 2]
    r = np.linalg.norm(np.subtract(receiver, source)[used])
    if axes == 1:
        late = t - r / velocity - 1.5 / f0
        return spacing * velocity / 2 * (late * np.exp(-(np.pi * f0 * late)**2))
    q = np.linspace(0, np.arccosh(max(t[-1] * velocity / r, 1) + 1), 4001)[:, None]
    return spacing**2 * np.trapz(ricker(t - r / velocity * np.cosh(q), f0), q, axis=0) / (2 * np.pi)


def stencil_source(t, points, spacing, velocity, f0, order=8):
    """u of a source `points` grid points away on a 1D grid whose time is exact: of each frequency w the wavenumber is that
    which the stencil gives it, |K(k)|^2 = (w / v)^2, and the amplitude dz s v^2 / (i dw^2/dk)."""
    fine, period = np.linspace(0, 3.2 / f0, 3000), 2 * t[-1]
    w = 2 * np.pi * np.arange(1, int(4 * f0 * period)) / period
    had = np.exp(-1j * np.outer(w, fine)) @ ricker(fine, f0) * fine[1]
    k = np.linspace(1e-4, 3.1, 200001)
    k = np.interp((w * spacing / velocity)**2, wavenumber_squared(order, [k], [1]), k)
    rise = sum(2 * r * a * np.sin(r * k) for r, a in enumerate(WEIGHTS[order]))  # twice: of +r and -r
    there = had * np.exp(-1j * k * points) * spacing**2 / (1j * rise)
    return (np.exp(1j * np.outer(t, w)) @ there).real * 2 / period


def misfit(found, expected):
    """Relative L2 difference."""
    return float(np.linalg.norm(np.subtract(found, expected, dtype=np.float64)) / np.linalg.norm(expected))


def slope(points, errors):
    """Order of convergence: minus the slope of the least-squares line through log error over log points."""
    return float(-np.polyfit(np.log(points), np.log(errors), 1)[0])
