"""Datasets of other programs as the plain numbers in SI units that stencil reads: netCDF's packing, fill values and valid
ranges (CF conventions), units, values in other files."""
import os
import re
from pathlib import Path

import numpy as np

from .errors import Error
from .files import check_kept, dataset_of, open_hdf5, written
from .hdf5 import h5py

# Powers of m, s and kg, and the factor to them as a fraction: exact where float64 is.
UNITS = {"m meter metre": ((1, 0, 0), 1, 1), "km kilometer kilometre": ((1, 0, 0), 1000, 1),
         "cm centimeter centimetre": ((1, 0, 0), 1, 100), "mm millimeter millimetre": ((1, 0, 0), 1, 1000),
         "ft foot feet": ((1, 0, 0), 3048, 10000), "s sec second": ((0, 1, 0), 1, 1),
         "ms msec millisecond": ((0, 1, 0), 1, 1000), "us usec microsecond": ((0, 1, 0), 1, 1000000),
         "kg kilogram": ((0, 0, 1), 1, 1), "g gram": ((0, 0, 1), 1, 1000)}
SIGNS = {"µ": "u", "μ": "u", "¹": "1", "²": "2", "³": "3", "⁻": "-", "−": "-", "**": "^",
         **dict.fromkeys("·⋅*.[]()", " ")}
UNIT_NAMES = "units", "unit", "Units", "Unit", "UNITS"
DECODED = "scale_factor", "add_offset", "_Unsigned", "_FillValue", "missing_value", "valid_range", "valid_min", "valid_max"
# What netCDF fills with where a file names no other value.
DEFAULT_FILLS = (9.969209968386869e36, -32767., 65535., -2147483647., 4294967295., -9223372036854775806.,
                 18446744073709551614.)


def unit_of(word):
    """(powers, times, per) of a unit, in any case, but for symbols that then mean something else: Mm, MS. Or None."""
    for names, found in UNITS.items():
        short, *others = names.split()
        same = word == short or word.lower() == short and len(short) != 2
        if same or word.lower() in (*others, *(f"{name}s" for name in others)):
            return found
    return None


def si_units(text):
    """(times, per, SI units) of a product of units, as "km s-1", "cm^2/s", "square meters per second": a value times / per
    is in those. None where a word is not known."""
    for sign, put in SIGNS.items():
        text = text.replace(sign, put)
    powers, times, per, sign, square = [0, 0, 0], 1, 1, 1, 1
    for over, word, power in re.findall(r"(/|\bper\b)|([a-zA-Z]+)(?:\s*\^?\s*([-+]?\d+))?|\S", text, re.IGNORECASE):
        found = unit_of(word)
        if over or word.lower() == "square":
            sign, square = (-1, square) if over else (sign, 2)
            continue
        if not found or not 0 < abs(int(power or 1)) <= 3:
            return None
        count = int(power or 1) * sign * square
        powers = [p + count * q for p, q in zip(powers, found[0])]
        up, down = found[1:] if count > 0 else found[:0:-1]
        times, per, sign, square = times * up**abs(count), per * down**abs(count), 1, 1
    named = [(unit, powers[i]) for unit, i in (("kg", 2), ("m", 0), ("s", 1)) if powers[i]]
    over = [unit + (str(p) if p > 1 else "") for unit, p in named if p > 0]
    under = [unit + (str(-p) if p < -1 else "") for unit, p in named if p < 0]
    return (times, per, "/".join([" ".join(over) or "1", *under])) if named and sign == square == 1 else None


def text_of(value):
    """An attribute that is one text; "" for others."""
    value = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def numbers_of(attributes, name, most):
    """The 1 to `most` numbers of an attribute; [] where there is none."""
    if name not in attributes:
        return np.array([])
    values = np.atleast_1d(attributes[name])
    if values.dtype.kind not in "iuf" or not 1 <= values.size <= most:
        raise Error(f"attribute {name}: expected {'one number' if most == 1 else 'numbers'}, found {attributes[name]}")
    return values.ravel()


def missing_of(numbers, attributes, packed, fillvalue):
    """Which of the stored numbers stand for missing values."""
    kind = numbers.dtype.type
    fills = [*numbers_of(attributes, "_FillValue", 4), *numbers_of(attributes, "missing_value", 4)]
    fills += [fillvalue] if fillvalue is not None and float(fillvalue) in DEFAULT_FILLS else []
    missing = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(numbers.shape, bool)
    for fill in fills:
        with np.errstate(all="ignore"):
            own = np.array(fill).astype(kind)
        if numbers.dtype.kind == "f" or own == fill:  # an integer can be it
            missing |= numbers == own
    limits = [numbers_of(attributes, "valid_min", 1), numbers_of(attributes, "valid_max", 1)]
    both = numbers_of(attributes, "valid_range", 2)
    if both.size == 1:
        raise Error("attribute valid_range: expected two numbers, found one")
    for end, outside in ((0, np.less), (1, np.greater)):
        for limit in (*both[end:end + 1], *limits[end]):
            # Limits of a floating type for packed integers apply to values, others to stored numbers (netCDF User
            # Guide).
            if packed and numbers.dtype.kind in "iu" and limit.dtype.kind == "f":
                missing |= outside(np.float32(packed(numbers)), np.float32(limit))
            else:
                missing |= outside(numbers, limit.astype(kind) if numbers.dtype.kind == "f" else limit)
    return missing


def decode(numbers, attributes, fill=None, fillvalue=None):
    """(values, attributes) in SI units of stored numbers and the attributes beside them; missing values become `fill`, or
    are an Error. Units of time of a table, shape (n, 2), are those of its first column."""
    attributes, kind = dict(attributes), numbers.dtype.kind
    if text_of(attributes.get("_Unsigned", "")).lower() == "true" and kind == "i":
        numbers = numbers.view(numbers.dtype.str.replace("i", "u"))
    (scale,), (offset,) = (numbers_of(attributes, name, 1).astype(float) if name in attributes else [none]
                           for name, none in (("scale_factor", 1.0), ("add_offset", 0.0)))
    if not np.isfinite([scale, offset]).all() or scale == 0:
        raise Error(f"scale_factor {scale:g}, add_offset {offset:g}: expected finite numbers, and no scale of 0")
    changed = scale != 1 or offset != 0
    packed = (lambda v: v * scale + offset) if changed else None
    missing = missing_of(numbers, attributes, packed, fillvalue)
    values = packed(numbers.astype(float)) if changed else numbers
    name = next((name for name in UNIT_NAMES if text_of(attributes.get(name, "")).strip()), "")
    found = si_units(text_of(attributes[name])) if name else None
    if found:
        times, per, attributes[name] = found
        if times != per:
            timed = numbers.ndim == 2 and numbers.shape[1] == 2 and attributes[name] == "s"
            whole = values.astype(float)
            part = whole[:, :1] if timed else whole
            part[...] = part * times / per
            values = whole
    if missing.any() and fill is None:
        at = tuple(map(int, np.unravel_index(missing.argmax(), missing.shape)))
        raise Error(f"{missing.sum()} missing values, the first at {at}: --fill VALUE says what they become, in SI")
    values = np.where(missing, fill, values) if missing.any() else values
    return values, {key: value for key, value in attributes.items() if key not in DECODED}


def beside(path, name, prefixes=""):
    """The file that `path` means by a name, where HDF5 looks for it."""
    last = Path(name).name if os.path.isabs(name) else name
    places = [Path(name)] if os.path.isabs(name) else []
    folders = [*filter(None, prefixes.split(":")), Path(path).parent, ".", Path(path).resolve().parent]
    places += [Path(folder) / last for folder in folders]
    return next((place for place in places if place.is_file()), places[0])


def flatten(data, path, depth=0):
    """The values of a virtual dataset, all of which a source must hold."""
    values, held = np.empty(data.shape, data.dtype), np.zeros(data.shape, bool)
    if depth > 16:
        raise Error("a virtual dataset of itself, or of too many others in turn")
    for part in data.virtual_sources():
        prefixes = os.environ.get("HDF5_VDS_PREFIX", "")
        source = Path(path) if part.file_name == "." else beside(path, part.file_name, prefixes)
        if "%" in part.file_name + part.dset_name or part.vspace.get_select_npoints() < 0:
            raise Error(f"source {part.file_name}: neither names with % nor parts without end can be read")
        with open_hdf5(source) as file:
            if not isinstance(file.get(part.dset_name), h5py.Dataset):
                raise Error(f"{source} has no dataset {part.dset_name}")
            own = stored(file[part.dset_name], source, depth + 1).astype(data.dtype, copy=False)
        there = chosen(part.vspace, data.shape)
        values[there] = own[chosen(part.src_space, own.shape)].reshape(values[there].shape)
        held[there] = True
    if not held.all():
        raise Error(f"no source holds the value at {tuple(map(int, np.unravel_index(held.argmin(), held.shape)))}")
    return values


def chosen(space, shape):
    """The points of a selection, in its order, as an index."""
    if space.get_select_type() == h5py.h5s.SEL_ALL:
        return ...
    ends = np.asarray(space.get_select_hyper_blocklist()).tolist()
    blocks = [tuple(slice(a, b + 1) for a, b in zip(start, end)) for start, end in ends]
    if len(blocks) == 1:
        return blocks[0]
    mask = np.zeros(shape, bool)
    for block in blocks:
        mask[block] = True
    return mask


def stored(data, path, depth=0):
    """The stored numbers of a dataset, all of which are there, also in other files."""
    if data.is_virtual:
        return flatten(data, path, depth)
    prefix, left = os.environ.get("HDF5_EXTFILE_PREFIX", ""), data.size * data.dtype.itemsize
    for name, offset, size in data.external or ():
        raw = Path(prefix) / name if prefix else Path(name)
        held = min(size, left) if size != h5py.h5f.UNLIMITED else left
        if not raw.is_file() or raw.stat().st_size < offset + held:
            raise Error(f"{raw}: expected {held} bytes from {offset} on")
        left -= held
    if data.external and left:
        raise Error("its files do not hold all values")
    return data[...]


def read_plain(data, path, fill=None):
    """(values, attributes) in SI of a dataset of an open file."""
    scales = "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"
    attributes = {key: value for key, value in data.attrs.items() if key not in scales and not isinstance(value, h5py.Empty)}
    return decode(stored(data, path), attributes, fill, data.fillvalue)


def read_values(name, without=""):
    """The values of FILE:/dataset in SI. Refuses one beside which the dataset `without` lies."""
    path, _, inside = str(name).rpartition(":/")
    with open_hdf5(path) as file:
        try:
            data = dataset_of(file, inside)
            if without and without in data.parent:
                raise ValueError(f"beside it lies {without}, which says when its rows are: give an array with a row a step")
            return read_plain(data, path)[0]
        except ValueError as error:
            raise Error(str(error) if inside in str(error) else f"{name}: {error}", 2) from None


def to_plain(path, out, names=(), fill=None):
    """Writes the datasets of numbers of an HDF5 file, or those of these names, as plain numbers in SI units under the same
    names: decoded volumes as float32, tables as float64. `fill`: what missing values become, in SI units. Returns lines
    that say what has changed."""
    check_kept(out, path)
    printed = []
    with written(out) as temporary, open_hdf5(path) as file, h5py.File(temporary, "w") as to:
        found = []
        file.visititems(lambda name, node: found.append(name) if isinstance(node, h5py.Dataset) else None)
        for name in [name.strip("/") for name in names] or found:
            if not isinstance(file.get(name), h5py.Dataset):
                raise Error(f"{path} has no dataset /{name}")
            if file[name].dtype.kind in "iuf" and file[name].shape is not None:
                printed += write_plain(file, to, name, path, fill)
            elif names:
                raise Error(f"{path}:/{name}: expected numbers, found {file[name].dtype}")
        if not len(to):
            raise Error(f"{path} has no dataset of numbers")
    return printed


def write_plain(file, to, name, path, fill):
    data = file[name]
    try:
        values, attributes = read_plain(data, path, fill)
        if values.dtype.kind == "f" and values.dtype != data.dtype and values.ndim == 3:
            with np.errstate(over="ignore"):
                values = values.astype(np.float32)
            if np.isinf(values).any():
                raise Error("values beyond float32")
    except ValueError as error:
        raise Error(f"{path}:/{name}: {error}") from None
    to[name] = values
    to[name].attrs.update(attributes)
    for group in {"/", str(Path(name).parent)} - {"."}:
        to[group].attrs.update({key: value for key, value in file[group].attrs.items() if not key.startswith("_NC")})
    old, units = (next((text_of(one[key]) for key in UNIT_NAMES if key in one), "") for one in (data.attrs, attributes))
    what = [key for key in DECODED[:3] if key in data.attrs]
    what += ["from other files"] * bool(data.external or data.is_virtual)
    what += [f"{old} to {units}"] * (old != units)
    known = units.strip() in ("", "1") or si_units(units)
    unknown = "" if known else f"; units '{units}' are not known, and stay"
    return [f"/{name}: {', '.join(what) or 'as it is'}{unknown}"]
