"""A shot over a model: what the grid resolves, where to shoot and listen, how long."""
from .config import text_of, write_config
from .errors import Error
from .files import Field

PEAK_TO_HIGHEST = 2.5  # a Ricker wavelet of peak frequency f0 holds next to nothing above 2.5 f0
LAYER = 20  # points of an absorbing layer
LEAST = 5, 4, 5  # points along x, y, z that layers, a periodic axis and a free surface need
PERIODIC = LAYER  # an axis y of fewer points, but more than one, is periodic: it has no room for layers


def shot(model, path="shot", points=5, density=None):
    """The configuration (flat) of a shot over `model`, FILE:/dataset: source in the middle and receivers along x (in 1D
    along z), two points below a free surface. `points` per shortest wavelength of the source. It lasts as long as an
    echo from the bottom, or a wave across. `density`: FILE:/dataset. ny = 1 is a 2D run, nx = ny = 1 a 1D run."""
    field = Field(model)
    (slowest, fastest), spacing, origin = field.limits(), field.spacing, field.origin
    size = field.shape[::-1]
    axes = [axis for axis in range(3) if size[axis] > 1]  # those of one point do not exist
    if axes not in ([0, 1, 2], [0, 2], [2]) or any(size[axis] < LEAST[axis] for axis in axes):
        raise Error("{}: a shot needs {} x {} x {} points (x, y, z); in 2D 1 along y, in 1D 1 along x and y; found {} x {} x {}"
                    .format(model, *LEAST, *size))
    x, y, z = [(n - 1) * h for n, h in zip(size, spacing)]
    f0 = float(f"{slowest / (points * max(spacing[axis] for axis in axes)) / PEAK_TO_HIGHEST:.2g}")
    periodic = 1 < size[1] < PERIODIC
    width = min(LAYER, *(size[axis] // 4 for axis in axes if axis != 1 or not periodic))
    deep, middle, edge = 2 * spacing[2], 0 if periodic else y / 2, max(0.1 * x, (width + 1) * spacing[axes[0]])
    ends = ((edge, middle, deep), (x - edge, middle, deep)) if x > 0 else ((0, 0, deep), (0, 0, z - edge))

    def at(*place):
        return [float(f"{o + p:.12g}") for o, p in zip(origin, place)]

    keys = {f"grid.n{a}": n for a, n in zip("xyz", size)} | {f"grid.d{'xyz'[axis]}": spacing[axis] for axis in axes}
    return {**keys, "grid.origin": origin,
            "time.end_time": float(f"{2 * max(2.2 * z, 0.6 * x) / (slowest + fastest) + 2 / f0:.2g}"),
            "equation.type": "wave", "medium.velocity": field.name, **({"medium.density": density} if density else {}),
            "boundary.all": "absorbing", **({"boundary.y": "periodic"} if periodic else {}),
            "boundary.z_lo": "dirichlet", "boundary.width": width,
            "source.1.position": at(x / 2, middle, deep), "source.1.wavelet": "ricker", "source.1.f0": f0,
            "receivers.line": [at(*ends[0]), at(*ends[1]), min(size[axes[0]], 401)], "receivers.every": 2, "output.path": path}


def output_of(path):
    """The [output] path of a configuration that is to be called `path`; an Error where it could not be one."""
    return text_of("output.path", str(path).removesuffix(".ini"))


def write_shot(path, model, output=None, points=5, density=None):
    """Writes the configuration of a shot over `model` to `path` and returns a line about it. The run saves to `output`, or
    what `path` is without .ini."""
    keys = shot(model, output or output_of(path), points, density)
    note = (f"a Ricker wavelet of {keys['source.1.f0']:g} Hz ({points:g} points per wavelength at its highest frequency), "
            f"{keys['time.end_time']:g} s")
    if keys.get("boundary.y") == "periodic":
        note += (f"; y is periodic: the source is one of a row, {keys['grid.ny'] * keys['grid.dy']:g} m apart (one plane along y "
                 "is a 2D run)")
    write_config(path, keys, f"A shot over {model}, written by stencil.io: a start; source, receivers and time are yours.\n{note}")
    return f"{path}: {note}"
