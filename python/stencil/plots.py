"""Pictures of traces and of what has the grid's shape, and xarray."""
import numpy as np

from .errors import Error

CLIP = 99  # percent of the values that the colours span


def on_host(values):
    """A NumPy array, of an array of any device."""
    for name in ("detach", "cpu", "get"):  # of torch, and of cupy
        values = getattr(values, name)() if hasattr(values, name) else values
    return np.asarray(values)


def plot(sim, values, shot, ax, options):
    import matplotlib.pyplot as plt
    values = on_host(values)
    ax = ax or plt.figure(layout="constrained").add_subplot()
    if values.size != np.prod(sim.shape):
        return gather(sim, values, shot, ax, options)
    values = values.reshape(sim.shape)
    if values.ndim == 1:
        ax.plot(values, axis(sim, "z"), **options)
        ax.invert_yaxis()
        ax.set_ylabel("z (m)")
        return ax
    x, z = axis(sim, "x"), axis(sim, "z")
    section = values if values.ndim == 2 else values[:, values.shape[1] // 2]
    extent = [x[0], x[-1], z[-1], z[0]]
    shown = ax.imshow(section, **{"extent": extent, "aspect": "equal", **colours(section), **options})
    ax.figure.colorbar(shown, ax=ax, shrink=0.8)
    ax.set(xlabel="x (m)", ylabel="z (m)")
    return ax


def gather(sim, traces, shot, ax, options):
    """Traces side by side, time downwards."""
    if traces.ndim != 2:
        raise Error(f"plot: expected (samples, receivers) or the grid's {sim.shape}, found shape {traces.shape}")
    heard = None if shot is None or shot.receivers is None else shot.receivers[:, 0]
    lie = (-0.5, traces.shape[1] - 0.5) if heard is None else (heard[0], heard[-1])
    extent = [*lie, len(traces) * sim.times[1] if len(sim.times) > 1 else 1, 0]
    ax.imshow(traces, **{"extent": extent, "aspect": "auto", **colours(traces, True), **options})
    ax.set(xlabel="receiver" if heard is None else "receiver x (m)", ylabel="time (s)")
    return ax


def colours(values, traces=False):
    """Grey for traces, red and blue about 0, or from the least value to the greatest."""
    if not traces and values.min() >= 0:
        return {"cmap": "viridis"}
    high = np.percentile(np.abs(values), CLIP) or 1
    return {"cmap": "gray_r" if traces else "RdBu_r", "vmin": -high, "vmax": high}


def axis(sim, name):
    """Coordinates of the points along an axis, m."""
    i = "xyz".index(name)
    return sim.origin[i] + sim.spacing[i] * np.arange(sim.shape[sim.axes.index(name)])


def to_xarray(sim, arrays, attributes):
    import xarray
    coordinates = {name: (name, axis(sim, name), {"units": "m"}) for name in sim.axes}
    whole = {name: on_host(values) for name, values in arrays.items() if np.prod(values.shape) == np.prod(sim.shape)}
    data = {name: (tuple(sim.axes), values.reshape(sim.shape)) for name, values in whole.items()}
    return xarray.Dataset(data, coordinates, attributes)
