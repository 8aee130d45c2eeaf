"""Measures absorbing layers: what comes back, against a domain so large that nothing can, and whether they are stable."""
from analytic import leapfrog_frequency, np, wavenumber_squared
from harness import check, write_field
from study_waves import SPACING, VELOCITY, rough_model, shoot, source_keys, stable_dt, wave_keys


def decibel(ratio):
    return float(20 * np.log10(max(ratio, 1e-12)))


def packet(z, t, x, kx, kz, spread):
    """A wave packet travelling towards smaller z, centred at z = 0 at t = 0: the sum over kz of Gaussian amplitudes, each
    wave with the grid's own frequency. Shape (z, 1, x)."""
    k = np.linspace(max(kz - 4 * spread, kz / 20), kz + 4 * spread, 121)
    amplitude = np.exp(-((k - kz) / spread)**2 / 2)
    frequency = [VELOCITY * np.sqrt(wavenumber_squared(8, (a, kx), (SPACING, SPACING))) for a in k]
    frequency = leapfrog_frequency(np.array(frequency), stable_dt(SPACING))
    phase = kx * x[None, None, :, None] + k * z[:, None, None, None] + frequency * t
    return (amplitude * np.cos(phase)).sum(-1) / amplitude.sum()


def plane_wave(program, degrees, width=20, points=10):
    """Reflection (dB) of a plane wave packet that meets the layer of z_lo at this angle: the greatest difference anywhere
    inside, at any time, to a domain that goes on below, relative to what a wall in the place of the face sends back. x
    and y are periodic, with a whole number of waves along x."""
    angle, wavelength = np.radians(degrees), points * SPACING
    waves = 2 if degrees else 0
    nx = int(np.round(waves * points / np.sin(angle))) if degrees else 4
    kx = 2 * np.pi * waves / (nx * SPACING)
    kz = kx / np.tan(angle) if degrees else 2 * np.pi / wavelength
    spread = kz / 6 if degrees else kz / 5
    length = int(np.ceil(4.5 / spread / SPACING))  # from the middle of the packet to where nothing is left of it
    inside, dt = 2 * length + 10, stable_dt(SPACING)
    steps = int(np.ceil(2 * (2 * length + width) * SPACING / (VELOCITY * np.cos(angle)) / dt))
    deep = int(np.ceil(steps * dt * VELOCITY / SPACING)) + 10
    rows = np.arange(0, inside, 3)
    fields = []
    for below, kind in ((width, "absorbing"), (deep, "dirichlet"), (width, "dirichlet")):
        nz, x = below + inside + deep, np.arange(nx) * SPACING
        z = (np.arange(nz) - below - length) * SPACING
        for name, t in (("now", 0), ("before", -dt)):
            field = packet(z, t, x, kx, kz, spread).astype(np.float32)
            field[:below] = 0
            write_field(program.folder / f"{name}.h5", np.broadcast_to(field, (nz, 4, nx)))
        keys = wave_keys((nz, 4, nx), time__dt=repr(float(dt)), time__steps=steps, boundary__x="periodic",
                         boundary__y="periodic", boundary__z_lo=kind, initial__u="now.h5:/u",
                         initial__previous="before.h5:/u", receivers__every=2,
                         boundary__width=width if kind == "absorbing" else None)
        fields.append(shoot(program, keys, [(0, SPACING, (below + row) * SPACING) for row in rows])[1])
    absorbed, reference, mirrored = fields
    full = np.abs(mirrored - reference).max()
    check(full > 0.4, f"a dirichlet face sends back {full:.2f} of the packet: the measurement is wrong")
    return decibel(np.abs(absorbed - reference).max() / full)


def point_source(program, width=20, points=10, inside=41, np_=0):
    """Reflection (dB) from all six layers together: a point source near the corner of a box, receivers throughout it; the
    greatest difference to the large domain relative to what walls (u = 0) in the place of the layers' inner edges send
    back there."""
    f0, dt = VELOCITY / (points * SPACING), stable_dt(SPACING)
    seconds = 2 * (inside + 1.5 * points) * SPACING / VELOCITY
    reach = int(np.ceil(0.5 * seconds * VELOCITY / SPACING)) + 4
    grid = np.stack(np.meshgrid(*[np.arange(3, inside - 2, 7)] * 3), -1).reshape(-1, 3)
    traces = []
    for margin, kind in ((width, "absorbing"), (reach, "dirichlet"), (0, "dirichlet")):
        keys = wave_keys([inside + 2 * margin] * 3, time__dt=repr(float(dt)), time__end_time=seconds, time__steps=None,
                         boundary__all=kind, boundary__width=width if kind == "absorbing" else None)
        at = (np.array([10, 14, 12]) + margin) * SPACING
        traces.append(shoot(program, {**keys, **source_keys(1, at, f0)}, (grid + margin) * SPACING, np_)[1])
    absorbed, reference, walls = traces
    return decibel(np.abs(absorbed - reference).max() / np.abs(walls - reference).max())


def long_pulse(program, points, width=20):
    """How much comes back of a pulse of one sign in 1D, a gaussian of a standard deviation of so many points that starts at rest in
    the middle: the largest |u| there from when the pulse, of height 1/2, could be back, relative to 1/2."""
    n = max(512, 24 * points) + 2 * width
    keys = wave_keys((n, 1, 1), time__steps=None, time__end_time=3 * n * SPACING / VELOCITY, boundary__all="absorbing",
                     boundary__width=width, initial__u="gaussian", initial__width=points * SPACING, receivers__every=3)
    t, u = shoot(program, keys, [(0, 0, n // 2 * SPACING)])
    return float(np.abs(u[t > n // 2 * SPACING / VELOCITY]).max() / 0.5)


def decay(program, initial, surface=False, density=1, loss=False, steps=20000, stride=1000, flat=False):
    """Largest |u| every `stride` steps in a rough model with layers all round, or a free surface at the top. `initial`:
    gaussian (waves the grid resolves: they leave), random (also waves of two points, which stand still) or inside (the same, but 0 in
    layers, where what begins goes slowly). density: the ratio of two densities, one or the other at each point; loss: absorption of
    2 mechanisms, a random Q from 20 to 200 at each point. flat: 2D, ny = 1."""
    shape, random = (40, 1 if flat else 36, 44), np.random.default_rng(7)
    if initial == "inside":
        field = np.zeros(shape, np.float32)
        free = field[10:-10, :, 10:-10] if flat else field[10:-10, 10:-10, 10:-10]
        free[...] = random.uniform(-1, 1, free.shape)
        write_field(program.folder / "inside.h5", field)
        initial = "inside.h5:/u"
    write_field(program.folder / "model.h5", rough_model(shape), "vp")
    keys = wave_keys(shape, medium__velocity="model.h5:/vp", time__steps=steps, time__cfl=0.95, boundary__all="absorbing",
                     boundary__width=10, initial__u=initial, output__every=stride)
    for name, values in (("density", random.choice([1000.0, 1000.0 * density], shape)), ("quality", 20 * 10**random.random(shape))):
        if (density > 1) if name == "density" else loss:
            write_field(program.folder / f"{name}.h5", values.astype(np.float32), name)
            keys[f"medium.{name}"] = f"{name}.h5:/{name}"
    if loss:
        keys["medium.reference_frequency"] = VELOCITY / (10 * SPACING)
    if initial == "gaussian":
        keys["initial.width"] = 2 * SPACING
    if surface:
        keys["boundary.z_lo"] = "dirichlet"
    program.succeed("-q", program.config(keys), timeout=600)
    return [float(np.abs(program.field(step)).max()) for step in range(0, steps + 1, stride)]
