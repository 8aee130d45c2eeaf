"""Arguments that are one value."""
import math
import numbers

import numpy as np

from .errors import Error


def shown(value):
    """What was found, in few words."""
    simple = isinstance(value, (str, numbers.Number, tuple, list, type(None)))
    return " ".join(repr(value).split())[:60] if simple else type(value).__name__


def number(value, name, above=-math.inf):
    """A finite float, greater than `above`."""
    try:
        found = float(value) if not isinstance(value, (str, bytes, bool)) else math.nan
    except Exception:  # whatever a strange object raises
        found = math.nan
    if not math.isfinite(found) or found <= above:
        raise Error(f"{name}: expected a number{f' > {above:g}' if above > -math.inf else ''}, found {shown(value)}")
    return found


def integer(value, name, least):
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise Error(f"{name}: expected an integer >= {least}, found {shown(value)}")
    return int(value)


def switch(value, name):
    if not isinstance(value, (bool, int)) or value not in (True, False):
        raise Error(f"{name}: expected True or False, found {shown(value)}")
    return bool(value)


def numbers_of(value, name, counts):
    """A tuple of finite floats > 0, of one number or a sequence; how many may be is in `counts`."""
    values = [value] if isinstance(value, numbers.Real) else value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(values, (tuple, list)):
        raise Error(f"{name}: expected a number or several, found {shown(value)}")
    found = tuple(number(one, name, 0) for one in values)
    if len(found) not in counts:
        raise Error(f"{name}: expected {' or '.join(map(str, counts))} numbers, found {len(found)}")
    return found
