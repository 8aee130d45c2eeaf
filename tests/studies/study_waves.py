"""Measures the wave equation: point sources, free surface, energy, reciprocity and absorbing layers."""
from analytic import (leapfrog_energy, lower_source, misfit, np, point_source, spread_source, stencil_source, trapezoid,
                      wavenumber_squared, weight_sum)
from harness import check, h5py, write_field

VELOCITY, SPACING = 2000.0, 10.0  # m/s, m; of the homogeneous media


def wave_keys(shape, spacing=SPACING, **changes):
    """A wave config for a grid of shape z y x; names with __ for the dot, x_lo and its like are boundaries."""
    keys = {"equation.type": "wave", "initial.u": "zero", "medium.velocity": VELOCITY, "boundary.all": "dirichlet"}
    keys.update((f"grid.n{a}", n) for a, n in zip("zyx", shape))
    keys.update((f"grid.d{a}", repr(float(h))) for a, h in zip("zyx", np.broadcast_to(spacing, 3)))
    return {**keys, **{name.replace("__", "."): value for name, value in changes.items()}}


def source_keys(number, position, f0, amplitude=1):
    values = {"position": " ".join(repr(float(p)) for p in position), "wavelet": "ricker", "f0": repr(float(f0)),
              "amplitude": amplitude}
    return {f"source.{number}.{key}": value for key, value in values.items()}


def shoot(program, keys, receivers, np_=0):
    """Runs with receivers at these positions (x y z, m); returns times and traces (time, receiver) in float64."""
    write_field(program.folder / "receivers.h5", np.asarray(receivers, np.float64), "position")
    program.succeed("-q", program.config({**keys, "receivers.positions": "receivers.h5:/position"}), np=np_)
    with h5py.File(program.folder / "out/u.receivers.h5", "r") as file:
        check(np.allclose(file["position"], receivers, rtol=1e-6, atol=1e-6), "positions of the receivers")
        return file["time"][...].astype(np.float64), file["u"][...].astype(np.float64)


def stable_dt(spacing, velocity=VELOCITY, cfl=0.9, order=8):
    return cfl * 2 / (velocity * np.sqrt(weight_sum(order, np.broadcast_to(spacing, 3))))


# --- against analytic solutions -----------------------------------------------------------------------------------

DIRECTIONS = np.array([[20, 0, 0], [0, -15, 0], [0, 0, 11], [12, -12, 0], [9, 10, 11]])  # grid points to the receivers


def interpolate(how):
    """Keys of the interpolation of sources and receivers."""
    return {"sources.interpolation": how, "receivers.interpolation": how}


def homogeneous(program, points, cfl, source_part=(0, 0, 0), receiver_part=(0, 0, 0), order=8, np_=0, how="sinc"):
    """A point source with `points` per wavelength of f0 in the unbounded medium, receivers 11 to 20 points away: the
    relative L2 misfit of the traces to (the weighted sum of the corners' analytic solutions, the one of the positions
    themselves). The parts, in spacings, put both off the grid. No reflection arrives in time."""
    f0, spacing = VELOCITY / (points * SPACING), np.full(3, SPACING)
    reach = 22 + 1.5 * points  # to the faces: the pulse lasts 3 / f0
    half = int(np.ceil(reach))
    source = (half + np.array(source_part)) * SPACING
    receivers = (half + DIRECTIONS + np.array(receiver_part)) * SPACING
    dt = stable_dt(SPACING, cfl=cfl, order=order)
    keys = wave_keys([2 * half + 1] * 3, time__dt=repr(float(dt)), time__steps=None, equation__space_order=order,
                     time__end_time=(21 + 3 * points) * SPACING / VELOCITY, **interpolate(how))
    t, traces = shoot(program, {**keys, **source_keys(1, source, f0)}, receivers, np_)
    near = np.stack([spread_source(t, source, r, spacing, VELOCITY, f0) for r in receivers], 1)
    exact = np.stack([point_source(t, source, r, spacing, VELOCITY, f0) for r in receivers], 1)
    return misfit(traces, near), misfit(traces, exact)


def lower(program, axes, points, cfl, np_=0):
    """As homogeneous(), on the grid, of a 2D (axes = 2) or a 1D run along z, whose y, and in 1D x, are any numbers."""
    f0, half = VELOCITY / (points * SPACING), int(np.ceil(22 + 1.5 * points))
    source = np.array([half if axes == 2 else -7, 1e7, half]) * SPACING
    receivers = source + np.array([[20, 0, 8], [0, -15, 11], [0, 3e5, -20], [12, 1, 12], [-9, 10, 10]]) * SPACING
    n = 2 * half + 1
    keys = wave_keys((n, 1, n if axes == 2 else 1), boundary__all="neumann", time__cfl=cfl, time__steps=None,
                     time__end_time=(21 + 3 * points) * SPACING / VELOCITY, grid__dy=1e-3, **source_keys(1, source, f0))
    t, traces = shoot(program, keys, receivers, np_)
    last = max(program.folder.glob("out/u.*.hdf"))
    with h5py.File(last, "r") as file:
        bound = 2 / (VELOCITY * np.sqrt(weight_sum(8, [SPACING] * axes)))
        check(0.98 * cfl * bound < file.attrs["dt"] <= cfl * bound, f"dt {file.attrs['dt']}: the bound is {bound}")
        check(list(file["VTKHDF"].attrs["WholeExtent"]) == [0, n - 1 if axes == 2 else 0, 0, 0, 0, n - 1], "the extent")
    last.unlink()
    return misfit(traces, np.stack([lower_source(t, source, r, axes, SPACING, VELOCITY, f0) for r in receivers], 1))


def mirror(program, boundary, points=10, cfl=0.25, depth=7):
    """A source below the z_lo face: the misfit to the source plus its image, and to the run of twice the domain with
    the image as a second source. depth, in spacings: on the face it is its own image, twice as strong."""
    sign = {"dirichlet": -1, "neumann": 1}[boundary]
    f0, n, deep = VELOCITY / (points * SPACING), 81, 46
    middle, dt = n // 2, stable_dt(SPACING, cfl=cfl)
    offsets = np.array([[12, 0, 3], [0, 9, 7], [-8, 6, 11], [0, 0, 15]]) + np.array([middle, middle, 0])
    common = dict(time__dt=repr(float(dt)), time__end_time=55 * SPACING / VELOCITY, time__steps=None)
    source, receivers = np.array([middle, middle, depth]) * SPACING, offsets * SPACING
    half = wave_keys((deep, n, n), boundary__z_lo=boundary, **common)
    t, traces = shoot(program, {**half, **source_keys(1, source, f0)}, receivers)
    image, medium = source * [1, 1, -1], (np.full(3, SPACING), VELOCITY, f0)
    exact = np.stack([point_source(t, source, r, *medium) + sign * point_source(t, image, r, *medium)
                      for r in receivers], 1)
    down = np.array([0, 0, (deep - 1) * SPACING])
    _, both = shoot(program, {**wave_keys((2 * deep - 1, n, n), **common), **source_keys(1, source + down, f0),
                              **source_keys(2, image + down, f0, sign)}, receivers + down)
    return misfit(traces, exact), misfit(traces, both)


# --- exact time ---------------------------------------------------------------------------------------------------

def far(program, points, every, np_=0, away=100, cfl=0.9, **changes):
    """A Ricker wavelet of `points` per wavelength after `away` wavelengths in 1D: the misfit of the trace to the same stencil with
    exact time, the trace, what its file says of dispersion, and the misfit to the exact solution."""
    f0, away, dt = VELOCITY / (points * SPACING), away * points, 2 * cfl / (VELOCITY * np.sqrt(weight_sum(8, [SPACING])))
    steps = int((away * SPACING / VELOCITY + 3 / f0) / dt) // 8 * 8
    keys = wave_keys((away + 160, 1, 1), boundary__all=None, boundary__z="absorbing", boundary__width=40, time__steps=steps,
                     time__dt=repr(float(dt)), receivers__every=every, **source_keys(1, (0, 0, 80 * SPACING), f0))
    t, traces = shoot(program, {**keys, **{k.replace("__", "."): v for k, v in changes.items()}},
                      [(0, 0, (80 + away) * SPACING)], np_)
    with h5py.File(program.folder / "out/u.receivers.h5", "r") as file:
        said = file.attrs["dispersion"]
    late = t - away * SPACING / VELOCITY - 1.5 / f0
    exact = SPACING * VELOCITY / 2 * late * np.exp(-(np.pi * f0 * late)**2)
    return misfit(traces[:, 0], stencil_source(t, away, SPACING, VELOCITY, f0)), traces, said, misfit(traces[:, 0], exact)


def tone(program, steps, points=15, every=1, **changes):
    """A tone that grows over 4 periods and lasts to the end, 40 wavelengths of cells away in 1D: its trace, and the exact one, both
    without their means over the last period."""
    dt, away, n = 1.8 / (VELOCITY * np.sqrt(weight_sum(8, [SPACING]))), 200, 1400
    f = VELOCITY / (points * SPACING)
    grown = lambda t: np.where(t > 0, (0.5 - 0.5 * np.cos(np.pi * np.clip(t * f / 4, 0, 1))) * np.sin(2 * np.pi * f * t), 0)
    with h5py.File(program.folder / "tone.h5", "w") as file:
        file["s"] = grown(dt * np.arange(steps))
    keys = wave_keys((n, 1, 1), boundary__all=None, boundary__z="absorbing", boundary__width=40, time__steps=steps, time__dt=repr(float(dt)),
                     receivers__every=every, **{**source_keys(1, (0, 0, n // 2 * SPACING), f), "source.1.wavelet": "tone.h5:/s"}, **changes)
    t, traces = shoot(program, keys, [(0, 0, (n // 2 + away) * SPACING)])
    fine = np.linspace(-1 / f, t[-1], 400001)
    sums = np.concatenate([[0], np.cumsum((grown(fine)[1:] + grown(fine)[:-1]) / 2 * np.diff(fine))])
    exact, last = SPACING * VELOCITY / 2 * np.interp(t - away * SPACING / VELOCITY, fine, sums), int(round(1 / f / dt / every))
    return t, traces[:, 0] - traces[-last:, 0].mean(), exact - exact[-last:].mean(), last


def misfits(program, changes):
    """J of a tone that lasts to the end, for the velocity times 1 + each of these, and what the gradient says of them."""
    tone(program, 900, output__path="out/true")
    J, slope = [], 0
    for change in changes:
        options = {"medium__velocity": repr(float(1.01 * VELOCITY * (1 + change))), "gradient__observed": "out/true.receivers.h5:/u"}
        tone(program, 900, **options)
        with h5py.File(program.folder / "out/u.gradient.h5", "r") as file:
            J.append(file["misfit"][0])
            slope = file["velocity"][...].sum(dtype=float) * 1.01 * VELOCITY if change == 0 else slope
    return np.array(J), slope


def rest(program, dispersion):
    """An initial field at rest on a 1D ring: the misfit of the trace to that of the same stencil with exact time."""
    n, steps, dt = 300, 620, 1.8 / (VELOCITY * np.sqrt(weight_sum(8, [SPACING])))
    begin = np.exp(-(np.arange(n) - 150.)**2 / 18)
    write_field(program.folder / "begin.h5", begin.astype(np.float32).reshape(n, 1, 1), "u")
    keys = wave_keys((n, 1, 1), boundary__all=None, boundary__z="periodic", initial__u="begin.h5:/u", time__steps=steps,
                     time__dt=repr(float(dt)), time__dispersion=dispersion)
    _, traces = shoot(program, keys, [(0, 0, 70 * SPACING)])
    w = VELOCITY * np.sqrt(np.maximum(wavenumber_squared(8, [2 * np.pi * np.fft.rfftfreq(n) / SPACING], [SPACING]), 0))
    exact = np.fft.irfft(np.fft.rfft(begin) * np.cos(np.outer(np.arange(steps + 1) * dt, w)), n)[:, 70]
    return misfit(traces[:, 0], exact)


def write_media(program, shape, inside, ratio, velocity, averages):
    """Keys of a density and a velocity, so many times as great where inside(x, ...) is, positions in points along these axes:
    as they are at the points, or averages over cells of density and compressibility."""
    parts = (np.arange(8) + 0.5) / 8 - 0.5 if averages else [0]
    sizes, share = [n for n in shape if n > 1], 0
    for offset in np.ndindex((len(parts),) * len(sizes)):
        share = share + inside(*np.meshgrid(*(np.arange(n) + parts[i] for n, i in zip(sizes, offset)), indexing="ij", sparse=True))
    share = share.reshape(shape) / len(parts)**len(sizes)
    rho, beta = 1 + (ratio - 1) * share, 1 + (1 / (ratio * velocity**2) - 1) * share
    with h5py.File(program.folder / "media.h5", "w") as file:
        file["rho"], file["v"] = (1000 * rho).astype("f4"), (VELOCITY / np.sqrt(rho * beta)).astype("f4")
    return {"medium.density": "media.h5:/rho", "medium.velocity": "media.h5:/v"}


def wavenumber(points):
    """Of the stencil, radians a point, at so many points per wavelength."""
    k = np.linspace(0.01, 2, 200001)
    return np.interp((2 * np.pi / points)**2, wavenumber_squared(8, [k], [1]), k)


def density_step(program, ratio, averaging="on", points=10, velocity=1.0, place=0.5, thickness=None, averages=False):
    """|complex reflection coefficient - exact| / |exact| of a step of density and velocity (of a layer of so many points) in 1D,
    at `points` per wavelength before it, that lies so many points behind a point; the phase is that of the stencil's own wavenumber."""
    n, c, source, receiver, f0 = 700, 399 + place, 150, 250, VELOCITY / (points * SPACING)
    dt = 1.0 / (VELOCITY * max(1, velocity) * np.sqrt(weight_sum(8, [SPACING])))
    keys = wave_keys((n, 1, 1), boundary__all=None, boundary__z="absorbing", boundary__width=40, time__dt=repr(float(dt)),
                     time__steps=int((2 * c + 1 - source - receiver + 3.5 * points) * SPACING / VELOCITY / dt),
                     **source_keys(1, (0, 0, source * SPACING), f0))
    run = lambda media: shoot(program, {**keys, **media}, [(0, 0, receiver * SPACING)])
    write = lambda *step: write_media(program, (n, 1, 1), lambda x: (x >= c) & (x < c + (thickness or n)), *step, averages)
    t, alone = run({})
    both = run({**write(ratio, velocity), "medium.averaging": averaging})[1]
    wave = np.exp(-2j * np.pi * f0 * t)
    found = (wave @ (both - alone)[:, 0]) / (wave @ alone[:, 0]) * np.exp(1j * wavenumber(points) * 2 * (c - receiver))
    exact, back = (ratio * velocity - 1) / (ratio * velocity + 1), np.exp(-2j * wavenumber(points * velocity) * (thickness or 0))
    if thickness:
        exact = exact * (1 - back) / (1 - exact**2 * back)
    return abs(found - exact) / abs(exact)


def tilted(degrees):
    """Beyond a plane through the middle, turned from the axis x."""
    a = np.radians(degrees)
    return lambda z, x: (z - 100.2) * np.cos(a) + (x - 100.3) * np.sin(a) > 0


def disc(z, x):
    return (z - 100.2)**2 + (x - 100.3)**2 < 15**2


def scattered(program, inside, ratio, velocity, averaging, averages, degrees=0, finer=1, points=10):
    """The scattered field of a 2D medium at a frequency of `points` per wavelength: complex amplitudes at 9 receivers
    on the source's side and 9 beyond, in a grid so many times finer. No reflection from faces arrives in time."""
    n, f0, a = 200 * finer + 1, VELOCITY / (points * SPACING), np.radians(degrees)
    place = lambda along, deep: SPACING * np.array([100 + along * np.cos(a) + deep * np.sin(a), 0, 100 - along * np.sin(a) + deep * np.cos(a)])
    receivers = [place(along, deep) for deep in (-30, 30) for along in np.arange(-24, 25, 6)]
    h, steps = SPACING / finer, int(130 * finer / 0.33 * max(1, velocity))
    keys = wave_keys((n, 1, n), h, time__steps=steps, time__dt=repr(130 * SPACING / VELOCITY / steps), sources__strength="volume",
                     **source_keys(1, place(0, -30), f0))
    amplitudes = []
    for media in ({}, write_media(program, (n, 1, n), lambda z, x: inside(z / finer, x / finer), ratio, velocity, averages)):
        t, traces = shoot(program, {**keys, **media, **({"medium.averaging": averaging} if media else {})}, receivers)
        amplitudes.append(np.exp(-2j * np.pi * f0 * t) @ traces * t[1])
    return np.split(amplitudes[1] - amplitudes[0], 2)


# --- sources from datasets ----------------------------------------------------------------------------------------

def listed(program, positions, signals, mode="add", name="s"):
    """Keys of sources at these positions (x y z, m) with signals (steps, n) or (steps, 1)."""
    with h5py.File(program.folder / f"{name}.h5", "w") as file:
        file["p"], file["s"] = positions, signals
    return {"sources.positions": f"{name}.h5:/p", "sources.signals": f"{name}.h5:/s", "sources.mode": mode}


def bowl(program, how, spacing=1.0, points=5, radius=18.0, elements=400):
    """A bowl of point elements of one signal, a tone burst: the largest value at its focus over that of the sum of
    s(t - r / v) / (4 pi r), in a medium without end."""
    n, v, k = 64, VELOCITY, np.arange(elements) + 0.5
    focus = spacing * np.array([n / 2 + 0.37, n / 2 - 0.21, n / 2 + 8.45])
    angle, turn = np.arccos(1 - k / elements * (1 - np.cos(0.9))), k * np.pi * (3 - 5**0.5)
    places = focus - radius * spacing * np.stack(
        [np.sin(angle) * np.cos(turn), np.sin(angle) * np.sin(turn), np.cos(angle)], 1)
    f0, dt = v / (points * spacing), stable_dt(spacing, cfl=0.25)
    late = 3.6 / f0
    steps = int((radius * spacing / v + 2 * late) / dt)
    t = np.arange(steps) * dt - late
    keys = wave_keys((n,) * 3, spacing, time__dt=repr(float(dt)), time__steps=steps, boundary__all="absorbing",
                     boundary__width=10, sources__strength="volume", **interpolate(how))
    keys.update(listed(program, places, (np.sin(2 * np.pi * f0 * t) * np.exp(-(f0 * t)**2 / 2.88))[:, None]))
    _, traces = shoot(program, keys, [focus])
    top = np.arange(-1, 1, 1e-4) / f0
    sent = np.abs(np.sin(2 * np.pi * f0 * top) * np.exp(-(f0 * top)**2 / 2.88)).max()
    return np.abs(traces).max() / (elements * sent / (4 * np.pi * radius * spacing))


# --- what is conserved --------------------------------------------------------------------------------------------

def rough_model(shape, seed=3):
    """Velocities (m/s) with strong contrasts: smooth hills and a jump."""
    z, y, x = np.meshgrid(*(np.linspace(0, 1, n) for n in shape), indexing="ij")
    phase = np.random.default_rng(seed).uniform(0, 6, 3)
    hills = np.sin(7 * x + phase[0]) * np.cos(5 * y + phase[1]) * np.sin(6 * z + phase[2])
    return (2600 + 700 * hills + 1200 * (z + 0.3 * x > 0.7)).astype(np.float32)


def energy(program, boundary, steps, stride, shape=(13, 12, 11)):
    """The discrete energy of a closed lossless box with a rough model, every `stride` steps, relative to its start. Every
    grid point is a receiver, so that the whole history is in one file."""
    spacing = np.array([8.0, 10.0, 12.0])
    velocity = rough_model(shape)
    write_field(program.folder / "model.h5", velocity, "vp")
    dt = stable_dt(spacing, float(velocity.max()))
    z, y, x = np.meshgrid(*(h * np.arange(n) for h, n in zip(spacing, shape)), indexing="ij")
    keys = wave_keys(shape, spacing, medium__velocity="model.h5:/vp", boundary__all=boundary, time__steps=steps,
                     time__dt=repr(float(dt)), initial__u="gaussian", initial__width=22, initial__center="50 60 40", time__dispersion="kept")
    _, u = shoot(program, keys, np.stack([x, y, z], -1).reshape(-1, 3))
    u = u.reshape(-1, *shape)
    at = np.arange(0, steps, stride)
    values = leapfrog_energy(u[at], u[at + 1], dt, velocity.astype(np.float64), spacing, 8, boundary)
    return at, values / values[0]


def mean_of_wave(program, boundary, spacing, order, steps):
    """Relative change of the mean (neumann: with the trapezoidal rule) of a wave that begins at rest in a closed box of
    one velocity. The exact mean is constant."""
    shape = (16, 15, 14)
    begin = np.random.default_rng(4).random(shape, np.float32)
    write_field(program.folder / "in.h5", begin, "u")
    program.succeed("-q", program.config(wave_keys(shape, spacing, boundary__all=boundary, initial__u="in.h5:/u",
                                                   equation__space_order=order, time__steps=steps)))
    weight, end = trapezoid(shape, boundary), program.field(steps).astype(np.float64)
    check(misfit(end, begin.astype(np.float64)) > 0.1, "the wave stands still")
    return (weight * end).sum() / (weight * begin).sum() - 1


def heat_content(program, field, steps):
    """Relative change of the heat in a neumann box: the trapezoid sum of u, of u / alpha where alpha is a field."""
    shape, spacing = (14, 13, 17), (2.0, 3.0, 2.5)
    alpha = (rough_model(shape) / 1000).astype(np.float64) if field else np.ones(shape)
    write_field(program.folder / "alpha.h5", alpha.astype(np.float32), "alpha")
    keys = {**wave_keys(shape, spacing), "equation.type": "heat", "boundary.all": "neumann", "time.steps": steps,
            "medium.velocity": None, "medium.diffusivity": "alpha.h5:/alpha" if field else 1,
            "initial.u": "gaussian", "initial.width": 5, "initial.center": "20 10 12", "output.every": steps}
    program.succeed("-q", program.config(keys))
    weight = trapezoid(shape, "neumann") / alpha.astype(np.float32)
    first, last = ((weight * program.field(step)).sum() for step in (0, steps))
    spread = program.field(steps).max() / program.field(0).max()
    check(spread < 0.9, f"the heat did not spread: the maximum is still {spread:.3f} of its start")
    return last / first - 1


def reciprocity(program, boundary="dirichlet", steps=1500, places=None):
    """Misfit of the traces with source and receiver swapped, for pairs on and off the grid in a rough model. Injection is
    dt^2 v^2 s at each corner, over the point's share of its cell, the step matrix v^2 times a symmetric one: the traces are
    equal without any scaling, whatever the velocities at the two places are."""
    shape, spacing = (27, 31, 35), np.array([10.0, 10.0, 10.0])
    write_field(program.folder / "model.h5", rough_model(shape), "vp")
    if places is None:
        places = np.array([[60, 70, 50], [280, 250, 220], [123.4, 87.6, 198.7], [255.1, 210.9, 41.3]])
    faces = boundary if isinstance(boundary, dict) else {"boundary.all": boundary}
    keys = {**wave_keys(shape, spacing, medium__velocity="model.h5:/vp", time__steps=steps,
                        boundary__width=6 if boundary == "absorbing" else None), **faces}
    traces = [shoot(program, {**keys, **source_keys(1, place, 25)}, places)[1] for place in places]
    return [misfit(traces[i][:, j], traces[j][:, i]) for i in range(len(places)) for j in range(i)]


# Pairs on, within a cell of, and one point off every kind of face, edges and corners among them. Nothing is on a dirichlet
# face itself, where the field is 0.
FACES = {"boundary.x_lo": "neumann", "boundary.x_hi": "dirichlet", "boundary.y": "periodic", "boundary.z_lo": "fixed",
         "boundary.z_hi": "neumann"}
AT_FACES = np.array([[0, 120, 130], [3.4, 87.6, 150], [10, 100, 80], [338.5, 130, 120], [336.5, 42, 77], [170, 307.3, 100],
                     [160, -4, 0], [150, 614, 2.5], [0, 100, 260], [5.5, 309.9, 257.1], [337, 303.3, 251], [120, 111, 260]])


def around(program, spacing=SPACING, shape=(24, 20, 28)):
    """A source and receivers in a periodic box, and all of them moved so that they come to lie across its faces, some a few
    periods off: (the largest difference of the traces, that of the fields, moved back). Nothing may differ."""
    size, moved = spacing * np.array(shape[::-1]), np.array([13, 11, 17])
    source, receivers = size * [0.51, 0.48, 0.32], size * np.random.default_rng(6).random((20, 3))
    found = []
    for shift, periods in ((moved * 0, 0), (moved, np.random.default_rng(7).integers(-3, 4, (20, 3)))):
        keys = wave_keys(shape, spacing, boundary__all="periodic", time__steps=90)
        keys.update(source_keys(1, np.round((source + spacing * shift) * 64) / 64 - size * (shift > 0), 30))
        at = np.round((receivers + spacing * shift) * 64) / 64 + periods * size
        found.append((shoot(program, keys, at, 2)[1], np.roll(program.field(90), -shift[::-1], (0, 1, 2))))
    return [np.abs(a - b).max() / np.abs(a).max() for a, b in zip(*found)]
