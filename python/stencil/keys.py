"""The configuration's keys of what a caller says."""
import numbers
import os
import re
from collections.abc import Mapping

from .checks import integer, number, numbers_of, shown, switch
from .errors import Error
from .io.config import flat, read_config, text_of

AXES = {1: "z", 2: "zx", 3: "zyx"}
ARRAYS = re.compile(r"medium\.(velocity|diffusivity|density|quality|absorption)|initial\.(u|previous)"
                    r"|source\.\d+\.wavelet|sources\.(positions|signals)|receivers\.positions"
                    r"|gradient\.(observed|weights|adjoint_source)")
OF_A_SHOT = re.compile(r"source\.\d+\..*|sources\.(positions|signals)|receivers\.(positions|line|points)"
                       r"|gradient\.(observed|weights|adjoint_source)")
OF_FIELDS = re.compile(r"output\.(every|final|box|stride)")
OF_FILES = re.compile(r"output\.(path|name|compress|replace)|checkpoint\..*|report\.(file|progress|histogram)"
                      r"|gradient\.(path|file_memory)|time\.max_seconds|survey\.on_stop"
                      r"|parallel\.(io|watchdog_seconds)")
SWITCHES = "signals", "initial", "image"  # of [gradient]
DEFAULTS = {"gradient.of": "velocity", **{f"gradient.{name}": "off" for name in SWITCHES}}


def grid_keys(shape, spacing):
    shape = tuple(integer(n, "shape", 1) for n in sizes(shape))
    axes = AXES[len(shape)]
    keys = {f"grid.n{axis}": shape[axes.index(axis)] if axis in axes else 1 for axis in "xyz"}
    wide = (1.0,) if spacing is None else numbers_of(spacing, "spacing", sorted({1, len(axes), 3}))
    named = "xyz" if len(wide) == 3 else sorted(axes)
    return {**keys, **{f"grid.d{axis}": h for axis, h in zip(named, wide if len(wide) > 1 else wide * 3)}}


def sizes(shape):
    """The numbers of a shape."""
    found = [shape] if isinstance(shape, numbers.Integral) else list(shape) if isinstance(shape, (tuple, list)) else []
    if len(found) not in AXES:
        raise Error(f"shape: expected (nz, ny, nx), (nz, nx) or (nz,), found {shown(shape)}")
    return found


def named_keys(shape, spacing, time, dt, layers, outside, free_surface):
    """The configuration's keys of what Simulation() names."""
    if shape is None and spacing is not None:
        raise Error("spacing: given without shape")
    keys = {} if shape is None else {"equation.type": "wave", **grid_keys(shape, spacing)}
    if time is not None:
        keys["time.end_time"] = number(time, "time", 0)
    if dt is not None:
        keys["time.dt"] = number(dt, "dt", 0)
    outside = switch(outside, "outside")
    if layers is not None:
        keys.update({"boundary.all": "absorbing", "boundary.width": integer(layers, "layers", 1)})
        keys.update({"boundary.outside": True} if outside else {})
    if switch(free_surface, "free_surface"):
        keys["boundary.z_lo"] = "dirichlet"
    return keys


def keys_of(config):
    """({key: text}, {key: array}) of a configuration: the name of a file, or a dictionary, flat or in sections, in
    which a key that takes FILE:/dataset may have an array. What a file says of files that a run writes is left out."""
    if isinstance(config, (str, os.PathLike)):
        texts = {key: text for key, text in flat(read_config(config)).items() if not OF_FILES.fullmatch(key)}
        if texts.get("survey.shots"):
            raise Error(f"{config}: [survey] shots: here shots are a list of st.Shot")
        return from_files(texts)
    if not isinstance(config, Mapping):
        raise Error(f"expected the name of a configuration or a dictionary of keys, found {shown(config)}")
    keys = {}
    for name, value in config.items():
        section = isinstance(value, Mapping)
        keys.update({f"{name}.{key}": inner for key, inner in value.items()} if section else {name: value})
    arrays = {key: value for key, value in keys.items() if isinstance(key, str) and ARRAYS.fullmatch(key)
              and not isinstance(value, (str, numbers.Real))}
    texts, read = from_files(flat({key: value for key, value in keys.items() if key not in arrays}))
    return texts, {**read, **arrays}


def merged(configs):
    """keys_of several, of which a later one wins."""
    texts, arrays = {}, {}
    for config in configs:
        own, own_arrays = keys_of(config)
        for held in (texts, arrays):
            for key in (*own, *own_arrays):
                held.pop(key, None)
        texts.update(own)
        arrays.update(own_arrays)
    return texts, arrays


def from_files(texts):
    """Takes FILE:/dataset out of texts, as arrays."""
    named = {key: text for key, text in texts.items() if ":/" in text and ARRAYS.fullmatch(key)}
    if named:
        from .io.plain import read_values
    rest = {key: text for key, text in texts.items() if key not in named}
    return rest, {key: read_values(text, "time" if key == "sources.signals" else "") for key, text in named.items()}


def gradient_keys(of, memory, missing, misfit):
    """[gradient] keys of a call; None: as the configuration has them."""
    keys = {"gradient.memory": memory, "gradient.host_memory": memory, "gradient.missing": missing,
            "gradient.misfit": misfit}
    if of is not None:
        names = [of] if isinstance(of, str) else of
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            raise Error(f"of: expected a name or several, found {shown(of)}")
        keys["gradient.of"] = " ".join(name for name in names if name not in SWITCHES) or None
        keys.update({f"gradient.{name}": "on" if name in names else "off" for name in SWITCHES})
    for key, value in keys.items():
        if not isinstance(value, (str, numbers.Real, type(None))):
            raise Error(f"{key.partition('.')[2]}: expected a word, found {shown(value)}")
    return {key: text_of(key, value) for key, value in keys.items() if value is not None}
