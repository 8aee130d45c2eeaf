"""Measures ultrasound: a bowl and a piston beside theory; layers of bone beside theory, a head beside a finer grid."""
import sys

from analytic import np
from harness import SOURCE, h5py
from study_waves import listed

sys.path.append(str(SOURCE / "jobs"))
import make_model

TONE, WATER, DENSITY, SPEED = 5e5, 1500.0, 1000.0, 0.04  # Hz, m/s, kg/m3, m/s of a surface
WAVE, TURN = WATER / TONE, 2 * np.pi * TONE  # m a wavelength, radians a second
APERTURE, CURVATURE, RINGS = 12e-3, 30e-3, 30  # m, m; of elements


def run(program, shape, h, **changes):
    """The amplitude of TONE, m/s or Pa times s, (nz, ny, nx) complex, and the file's attributes."""
    keys = {"equation.type": "wave", "medium.velocity": WATER, "initial.u": "zero", "boundary.all": "absorbing",
            "boundary.width": 12, "sources.strength": "volume", "maps.dft": TONE, "output.final": "off",
            "output.every": 0, "time.steps": None}
    for axis, n in zip("zyx", shape):
        keys |= {f"grid.n{axis}": n, f"grid.d{axis}": repr(h)}
    keys |= {name.replace("__", "."): value for name, value in changes.items()}
    program.succeed("-q", program.config(keys), np=2, timeout=1800)
    with h5py.File(program.folder / "out/u.maps.hdf", "r") as file:
        return file["dft"][0] @ [1, 1j], dict(file.attrs)


def elements(curvature):
    """Positions (x y z, m; the apex at 0) and areas of the elements of a bowl, or, without a curvature, of a disc."""
    edges = np.linspace(0, np.arcsin(APERTURE / curvature) if curvature else APERTURE, RINGS + 1)
    places, areas = [], []
    for low, high in zip(edges, edges[1:]):
        middle = (low + high) / 2
        count = 4 * max(1, round(np.pi / 2 * middle / (high - low)))
        turn = (np.arange(count) + 0.5) * 2 * np.pi / count
        across, deep, area = middle, 0, np.pi * (high**2 - low**2)
        if curvature:
            across, deep = curvature * np.sin(middle), curvature * (1 - np.cos(middle))
            area = 2 * np.pi * curvature**2 * (np.cos(low) - np.cos(high))
        places.append(np.stack([across * np.cos(turn), across * np.sin(turn), np.full(count, deep)], 1))
        areas.append(np.full(count, area / count))
    return np.concatenate(places), np.concatenate(areas)


def on_axis(z, curvature):
    """The amplitude (Pa): O'Neil's of a bowl, or of a flat piston in a rigid wall."""
    k = TURN / WATER
    if not curvature:
        return 2 * DENSITY * WATER * SPEED * abs(np.sin(k / 2 * (np.hypot(z, APERTURE) - z)))
    deep = curvature - np.sqrt(curvature**2 - APERTURE**2)
    part = k * deep / (np.hypot(z - deep, APERTURE) + z)
    return DENSITY * WATER * SPEED * 2 * curvature * part * abs(np.sinc(part * (curvature - z) / np.pi))


def radiated(program, points, curvature=CURVATURE, tone=False, wall=False, quarter=True, samples=100):
    """(error of the greatest amplitude on the axis, rms error there, of the greatest one; amplitudes of a quarter)."""
    h, (places, areas) = WAVE / points, elements(curvature)
    half, apex = int(np.ceil((APERTURE + 3e-3) / h)) + 12, 0 if wall else int(np.ceil(4e-3 / h)) + 12
    nz, periods = apex + int(np.ceil(0.042 / h)) + 12, 32
    t = np.arange(0, (periods + 8 if tone else 12) / TONE, 1 / (samples * TONE))
    ramp, pulse = np.sin(np.pi / 2 * (t * TONE / 4).clip(0, 1))**2, np.exp(-((t - 6 / TONE) * TONE / 1.5)**2)
    speed = SPEED * np.sin(TURN * t) * (ramp if tone else pulse)
    if quarter:
        inside = (places[:, 0] > 0) & (places[:, 1] > 0)
        places, areas = places[inside], areas[inside]
    signals = (1 if wall else 2) * DENSITY * np.gradient(speed, t)[:, None] * areas
    keys = listed(program, places + [0 if quarter else half * h, 0 if quarter else half * h, apex * h], signals)
    with h5py.File(program.folder / "s.h5", "a") as file:
        file["time"] = t
    steps = int(np.ceil(1 / TONE / (0.9 * 0.38 * h / WATER)))  # a period
    keys.update({"time.dt": repr(1 / (TONE * steps)), "time.end_time": repr(periods / TONE)})
    walls = (("x", quarter), ("y", quarter), ("z", wall))
    keys.update({f"boundary.{face}_lo": "neumann" for face, there in walls if there})
    if tone:
        keys.update({"maps.from": repr((periods - 4.0001) / TONE), "maps.until": repr((periods - 0.0001) / TONE)})
    n = half + 1 if quarter else 2 * half + 1
    amplitude, found = run(program, (nz, n, n), h, **keys)
    sent = abs((speed * np.exp(-1j * TURN * t)).sum()) / (samples * TONE)
    p = abs(amplitude) * (2 / (found["counted_until"] - found["counted_from"]) if tone else SPEED / sent)
    p = p if quarter else p[:, half:, half:]
    z = h * (np.arange(nz) - apex)
    exact, there = on_axis(z, curvature), (z > 2 * WAVE) & (z < 0.035)
    line, exact = p[there, 0, 0], exact[there]
    return line[exact.argmax()] / exact.max() - 1, np.sqrt(((line - exact)**2).mean()) / exact.max(), p


# --- bone -------------------------------------------------------------------------------------------------------

def through(thicknesses, f):
    """|pressure behind, of pressure that comes in|, of these plane layers of make_model's head, by transfer matrices."""
    both, (v, rho, _) = np.eye(2), make_model.HEAD.T
    for d, k, impedance in zip(thicknesses, 2 * np.pi * f / v[1:-1], (v * rho)[1:-1]):
        both = both @ [[np.cos(k * d), 1j * impedance * np.sin(k * d)], [1j * np.sin(k * d) / impedance, np.cos(k * d)]]
    pressure, speed = both @ [1, 1 / (v * rho)[-1]]
    return 2 / abs(pressure + (v * rho)[0] * speed)


def write_media(program, rho, stiff):
    with h5py.File(program.folder / "media.h5", "w") as file:
        file["rho"], file["v"] = rho.astype("f4"), (rho * stiff).astype("f4")**-0.5
    return {"medium.density": "media.h5:/rho", "medium.velocity": "media.h5:/v"}


def layered(program, points, first, thicknesses, averages, averaging):
    """Errors of the amplitude behind plane layers (m) at 0.8, 1, 1.2 of TONE. The first interface lies `first` points
    behind a point; the model is values at points, or averages over cells."""
    h, n, at, f = WAVE / points, 600, 280, TONE * np.array([0.8, 1, 1.2])
    v, rho, _ = make_model.HEAD.T
    behind = np.arange(n) - at - first - np.cumsum([0, *thicknesses])[:, None] / h
    share = -np.diff([np.ones(n), *((0.5 + behind).clip(0, 1) if averages else behind > 0), np.zeros(n)], axis=0)
    media = write_media(program, *((values @ share).reshape(n, 1, 1) for values in (rho, 1 / (rho * v**2))))
    keys = {"boundary.all": None, "boundary.z": "absorbing", "boundary.width": 40, "source.1.f0": TONE,
            "source.1.position": f"0 0 {150 * h!r}", "receivers.points": f"0 0 {430 * h!r}",
            "time.end_time": repr(5 * n * h / WATER)}
    behind = heard(program, n, h, f, {**keys, **media, "medium.averaging": averaging})
    return abs(behind / heard(program, n, h, f, keys)) / [through(thicknesses, each) for each in f] - 1


def heard(program, n, h, f, keys):
    """Of the trace, at the frequencies f."""
    keys = {"equation.type": "wave", "medium.velocity": WATER, "initial.u": "zero", "grid.nx": 1, "grid.ny": 1,
            "grid.nz": n, "grid.dz": repr(h), "time.steps": None, "output.final": "off", "output.every": 0, **keys}
    program.succeed("-q", program.config(keys))
    with h5py.File(program.folder / "out/u.receivers.h5", "r") as file:
        return np.exp(-2j * np.pi * f[:, None] * file["time"][...]) @ file["u"][:, 0].astype(float) * file.attrs["dt"]


def cells(fine, nx, nz, parts):
    """Averages of `parts` x `parts` values around each point; the first row, of water, as it is."""
    if parts == 1:
        return fine
    below = fine[(parts + 1) // 2:-(parts // 2)].reshape(nz - 1, parts, 1, nx, parts)
    return np.concatenate([fine[:1, :, :nx], below.mean((1, 4))])


def head(program, points, averages=False, averaging="on", finer=1):
    """The amplitude in the brain behind make_model's head in 2D, at the places of the coarser grid."""
    nx, nz, h = round(22 * points) * finer + 1, round(34 * points) * finer + 1, WAVE / points / finer
    parts = (9 if finer == 1 else 3) if averages else 1  # of a cell, along each axis
    v, rho, _ = make_model.head(nx * parts, 1, nz * parts, h / parts)
    media = write_media(program, cells(rho, nx, nz, parts), cells(1 / (rho * v**2), nx, nz, parts))
    turn, t = np.linspace(-0.38, 0.38, 61), np.arange(0, 12 / TONE, 0.01 / TONE)
    bowl = make_model.BOWL * np.stack([np.sin(turn), 0 * turn, 1 - np.cos(turn)], 1) + [h * (nx - 1) / 2, 0, make_model.APEX]
    pulse = np.cos(TURN * (t - 6 / TONE)) * np.exp(-((t - 6 / TONE) * TONE / 1.5)**2)
    keys = listed(program, bowl, pulse[:, None])
    with h5py.File(program.folder / "s.h5", "a") as file:
        file["time"] = t
    amplitude, _ = run(program, (nz, 1, nx), h, **keys, **media, medium__averaging=averaging, time__end_time=1.6e-4,
                       boundary__width=12 * finer)
    top, bottom, side = round(58e-3 / h / finer), round(90e-3 / h / finer), round(4 * points)
    return abs(amplitude[::finer, 0, ::finer])[top:bottom, side:-side]
