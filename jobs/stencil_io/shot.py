"""A shot over a model: what the grid resolves, where to shoot and listen, how long."""
from .config import write_config
from .errors import Error
from .files import Field

PEAK_TO_HIGHEST = 2.5  # a Ricker wavelet of peak frequency f0 holds next to nothing above 2.5 f0
LAYER = 20  # points of an absorbing layer
LEAST = 5, 4, 5  # points along x, y, z that layers, a periodic axis and a free surface need
PERIODIC = LAYER  # an axis y of fewer points is periodic: it has no room for layers


def shot(model, path="shot", points=5):
    """The configuration (flat) of a shot over `model`, FILE:/dataset: source in the middle and receivers along x, two points
    below a free surface. `points` per shortest wavelength of what the source sends. It lasts as long as an echo from
    the bottom, or a wave across."""
    field = Field(model)
    (slowest, fastest), spacing, origin = field.limits(), field.spacing, field.origin
    size = field.shape[::-1]
    extent = x, y, z = [(n - 1) * h for n, h in zip(size, spacing)]
    f0 = float(f"{slowest / (points * max(spacing)) / PEAK_TO_HIGHEST:.2g}")
    if any(n < least for n, least in zip(size, LEAST)):
        cure = ": write_model(..., values.repeat(4, axis=1)) makes a section a 2D run" if size[1] == 1 else ""
        raise Error("{}: a shot needs {} x {} x {} points (x, y, z), found {} x {} x {}{}".format(model, *LEAST, *size, cure))
    flat = size[1] < PERIODIC
    width = min(LAYER, *(n // 4 for n in ((size[0], size[2]) if flat else size)))
    edge = max(0.1 * x, (width + 1) * spacing[0])

    def at(*place):
        return [float(f"{o + p:.9g}") for o, p in zip(origin, place)]

    deep, middle = 2 * spacing[2], 0 if flat else y / 2
    keys = {f"grid.n{a}": n for a, n in zip("xyz", size)} | {f"grid.d{a}": h for a, h in zip("xyz", spacing)}
    return {**keys, "grid.origin": origin,
            "time.end_time": float(f"{2 * max(2.2 * z, 0.6 * x) / (slowest + fastest) + 2 / f0:.2g}"),
            "equation.type": "wave", "medium.velocity": field.name,
            "boundary.all": "absorbing", **({"boundary.y": "periodic"} if flat else {}),
            "boundary.z_lo": "dirichlet", "boundary.width": width,
            "source.1.position": at(x / 2, middle, deep), "source.1.wavelet": "ricker", "source.1.f0": f0,
            "receivers.line": [*at(edge, middle, deep), *at(extent[0] - edge, middle, deep), min(size[0], 401)],
            "receivers.every": 2, "output.path": path}


def write_shot(path, model, output=None, points=5):
    """Writes the configuration of a shot over `model` to `path` and returns a line about it. The run saves to `output`, or
    what `path` is without .ini."""
    keys = shot(model, output or str(path).removesuffix(".ini"), points)
    write_config(path, keys, f"A shot over {model}, written by stencil_io: a start; source, receivers and time are yours.")
    return (f"{path}: a Ricker wavelet of {keys['source.1.f0']:g} Hz ({points:g} points per wavelength at its highest "
            f"frequency), {keys['time.end_time']:g} s")
