"""Measures how fast the error falls: the program against exact solutions of modes in a box.

Every box is one wavelength long along each axis (that of the plane wave twice as long along z as along x and y, so that
it travels obliquely), with `points` per wavelength along x. Spacing and dt are chosen so that all weights are exact in
float32: with h^2 = 2^k / COMMON[order] times a ratio of small squares they are integers over powers of two. What is left
of float32 is the rounding of the values, far below the errors measured here.
"""
from analytic import COMMON, leapfrog_frequency, misfit, np, wavenumber_squared, weight_sum
from harness import write_field

FAMILIES = ("sine", "cosine", "plane", "anisotropic")
BOUNDARY = {"sine": "dirichlet", "cosine": "neumann", "plane": "periodic", "anisotropic": "dirichlet"}
# How long to run: so long that the error stands clear of rounding, so short that it is small.
PERIODS = {2: 0.25, 4: 2.25, 6: 8.25, 8: 32.25}  # of the wave
DECAYS = {2: 1, 4: 2, 6: 4, 8: 8}                # heat: 16 steps each, at the longest dt
VELOCITY = 2000.0                                # m/s; its square times that of a power of two is exact


class Mode:
    """A mode of a box. Spacing, shape and k are z y x; `points` along x."""

    def __init__(self, family, order, points):
        self.family, self.order, self.boundary = family, order, BOUNDARY[family]
        unit = 2.0**np.round(np.log2(COMMON[order] * 100)) / COMMON[order]  # m^2; about 10 m squared
        base = 8 * np.sqrt(unit) / points
        finer = np.array([2, 1.5, 1] if family == "anisotropic" else [1, 1, 1])
        cells = np.round(points * finer).astype(int)
        if family == "plane":
            cells[0] *= 2  # oblique: k_z is half of k_y and k_x
        self.spacing = base / finer
        self.k = 2 * np.pi / (cells * self.spacing)
        self.shape = cells if self.boundary == "periodic" else cells + 1
        self.exact, self.grid = (wavenumber_squared(order, self.k, h) for h in (None, self.spacing))

    def field(self, phase=0.0):
        """The mode; the plane wave at this phase."""
        axes = [k * h * np.arange(n) for k, h, n in zip(self.k, self.spacing, self.shape)]
        z, y, x = np.meshgrid(*axes, indexing="ij")
        if self.family == "plane":
            return np.cos(x + y + z - phase)
        wave = np.cos if self.family == "cosine" else np.sin
        return wave(x) * wave(y) * wave(z)

    def keys(self, equation, dt, steps):
        keys = {"equation.type": equation, "equation.space_order": self.order, "boundary.all": self.boundary,
                "time.dt": repr(float(dt)), "time.steps": steps, "initial.u": "mode.h5:/u"}
        keys.update((f"grid.n{a}", n) for a, n in zip("zyx", self.shape))
        keys.update((f"grid.d{a}", repr(float(h))) for a, h in zip("zyx", self.spacing))
        return keys


def wave_error(program, mode, dt, steps, frequency):
    """Relative to the amplitude; `frequency`: angular, of the solution that the program is compared with."""
    keys = {**mode.keys("wave", dt, steps), "medium.velocity": VELOCITY}
    write_field(program.folder / "mode.h5", mode.field().astype(np.float32))
    if mode.family == "plane":  # travels, so that the step before is not that of rest
        write_field(program.folder / "before.h5", mode.field(-frequency * dt).astype(np.float32))
        keys["initial.previous"] = "before.h5:/u"
        expected = mode.field(frequency * dt * steps)
    else:
        expected = mode.field() * np.cos(frequency * dt * steps)
    program.succeed("-q", program.config(keys))
    return float(np.linalg.norm(program.field(steps) - expected) / np.linalg.norm(mode.field()))


def heat_error(program, mode, dt, steps, factor):
    """Relative to what is left of the mode when every step multiplies it by `factor`."""
    write_field(program.folder / "mode.h5", mode.field().astype(np.float32))
    program.succeed("-q", program.config({**mode.keys("heat", dt, steps), "medium.diffusivity": 1}))
    return misfit(program.field(steps), mode.field() * factor**steps)


def halve(dt, bound):
    """dt halved as often as the stability bound asks, and how often that was."""
    halvings = max(0, int(np.ceil(np.log2(dt / (0.99 * bound)))))
    return dt / 2**halvings, halvings


def in_space(program, equation, family, order, points):
    """(error measured, error that the grid's dispersion relation predicts) at `points` per wavelength. The error of
    time is taken out: the program is compared with the solution that is discrete in time and exact in space."""
    mode = Mode(family, order, points)
    total = weight_sum(order, mode.spacing)
    if equation == "heat":
        dt, halvings = halve(4.0, 2 / total)
        steps = DECAYS[order] * 16 * 2**halvings
        factor, predicted = 1 - dt * mode.exact, (1 - dt * mode.grid)**steps
        return heat_error(program, mode, dt, steps, factor), abs(predicted / factor**steps - 1)
    dt, halvings = halve(2.0**-11, 2 / (VELOCITY * np.sqrt(total)))
    steps = 2**halvings * int(np.round(PERIODS[order] * 2 * np.pi / (VELOCITY * np.sqrt(mode.exact)) * 2**11))
    exact, grid = (leapfrog_frequency(VELOCITY * np.sqrt(k2), dt) for k2 in (mode.exact, mode.grid))
    if family == "plane":
        # The start, of the exact frequency, is not quite a wave of the grid: part of it travels back.
        back = (np.exp(1j * grid * dt) - np.exp(1j * exact * dt)) / (2j * np.sin(grid * dt))
        predicted = abs((1 - back) * np.exp(-1j * grid * dt * steps) + back * np.exp(1j * grid * dt * steps)
                        - np.exp(-1j * exact * dt * steps))
    else:
        predicted = abs(np.cos(grid * dt * steps) - np.cos(exact * dt * steps))
    return wave_error(program, mode, dt, steps, exact), predicted


def in_time(program, equation, family, order, halvings, points=12):
    """Error after the same time with a dt halved so many times, against the solution exact in time and discrete in
    space; the modes start at rest (previous = rest), the plane wave travels."""
    mode = Mode(family, order, points)
    if equation == "heat":
        steps = 40 * 2**halvings
        dt = 1.25 / mode.grid / steps
        return heat_error(program, mode, dt, steps, np.exp(-dt * mode.grid))
    frequency = VELOCITY * np.sqrt(mode.grid)
    steps = 32 * 2**halvings
    return wave_error(program, mode, 2 * np.pi * 1.25 / frequency / steps, steps, frequency)
