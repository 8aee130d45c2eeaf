"""Where the points of a run lie in the world."""
import numpy as np

from .errors import Error
from .files import Field


def directions(azimuths):
    """Unit vectors (east, north) of azimuths in degrees, a row each."""
    angles = np.radians(azimuths)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).round(15)


class Places:
    """Turns places (n, 3) of a run into the world's, world(), and back, run(). Here both are the same. y: where the line
    of a 2D run lies, in the run's coordinates."""

    def __init__(self, y=0.0):
        self.y = y

    def world(self, places):
        return places

    def run(self, places):
        return places


class Turned(Places):
    """A run whose axes x and y have these azimuths, and whose point `here` (x y) lies at the world's `there`."""

    def __init__(self, azimuths, here, there):
        super().__init__(here[1])
        self.axes, self.here, self.there = directions(azimuths), np.asarray(here, float), np.asarray(there, float)

    def world(self, places):
        return np.column_stack([self.there + (places[:, :2] - self.here) @ self.axes, places[:, 2]])

    def run(self, places):
        return np.column_stack([self.here + (places[:, :2] - self.there) @ np.linalg.inv(self.axes), places[:, 2]])


class Along(Places):
    """A 2D run along a crooked line: x is the distance along the line, y the distance to the left of it. `knots`: rows of
    the run's x and the world's x y. Beyond its ends the line goes on straight."""

    def __init__(self, knots):
        super().__init__()
        knots = np.asarray(knots)[np.append(True, np.diff(knots, axis=0)[:, 1:].any(axis=1))]
        ends = 1001 * knots[[0, -1]] - 1000 * knots[[1, -2]]
        self.knots = np.concatenate([ends[:1], knots, ends[1:]])
        self.steps = np.diff(self.knots, axis=0)
        self.length = np.linalg.norm(self.steps[:, 1:], axis=1)
        self.ahead = self.steps[:, 1:] / self.length[:, None]
        self.left = self.ahead @ [[0, 1], [-1, 0]]

    def world(self, places):
        k = np.clip(np.searchsorted(self.knots[:, 0], places[:, 0], "right") - 1, 0, len(self.steps) - 1)
        part = (places[:, :1] - self.knots[k, :1]) / self.steps[k, :1]
        flat = self.knots[k, 1:] + part * self.steps[k, 1:] + places[:, 1:2] * self.left[k]
        return np.column_stack([flat, places[:, 2]])

    def run(self, places):
        return np.concatenate([self.nearest(part) for part in np.array_split(places, 1 + len(places) // 1000)])

    def nearest(self, places):
        """The nearest point of the line, and how far it is."""
        off = places[:, None, :2] - self.knots[:-1, 1:]
        along = np.clip((off * self.ahead).sum(axis=2), 0, self.length)
        far = np.linalg.norm(off - along[..., None] * self.ahead, axis=2)
        k, row = far.argmin(axis=1), np.arange(len(places))
        side = np.where((off[row, k] * self.left[k]).sum(axis=1) < 0, -1, 1)
        x = self.knots[k, 0] + along[row, k] / self.length[k] * self.steps[k, 0]
        return np.column_stack([x, side * far[row, k], places[:, 2]])


def world_of(config):
    """(Places of a run of this configuration, None where its model does not say where it lies; words for the user)."""
    name = config.get("medium", {}).get("velocity", "")
    try:
        known = Field(name).attributes if ":/" in name else {}
    except Error:
        return None, f"; {name} is not here to say where it lies"
    if "line" in known:
        return Along(known["line"]), "; x is the distance along the model's line"
    if "azimuth" not in known:
        return None, ""
    azimuth, pivot = tuple(known["azimuth"]), known["pivot"]
    return Turned(azimuth, pivot, pivot), f"; turned to azimuth {azimuth[0]:g}" if azimuth != (90, 0) else ""
