"""Where the sources and receivers of a survey are: from SEG-Y's headers or SPS files to a file of [survey] shots."""
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .config import read_config
from .errors import Error, reason
from .files import grid_of
from .models import write_positions
from .places import Places, Turned, world_of
from .segy import FOOT, coordinate, read_traces


@dataclass
class Shot:
    """x y z in m, z downwards from where elevations are 0."""
    number: int
    source: np.ndarray  # (3,)
    receivers: np.ndarray  # (n, 3)


class Survey(list):
    """Its shots, and a note: what was found and assumed of the files that they come from."""
    note = ""


# --- SEG-Y ----------------------------------------------------------------------------------------------------------

AUXILIARY = (*range(4, 11), *range(18, 25))  # codes at bytes 29-30: time break to signatures, vibrators, tables


def survey_from_segy(path):
    """The Survey of a file of gathers, in its order, in metres. A shot is a field record, or an energy source point
    where all records are one or a record has several sources. Dead, dummy and auxiliary traces are no receivers;
    several in one place are one. An Error where headers do not say where sources or receivers are."""
    traces, binary, _ = read_traces(path, 189, 193)
    kind, metres = np.asarray(traces["kind"]), FOOT if binary["system"] == 2 else 1
    left = {"dead": kind == 2, "dummy": kind == 3, "auxiliary": np.isin(kind, AUXILIARY)}
    live = ~np.any([*left.values()], axis=0)
    if not live.any():
        raise Error(f"{path}: no trace of a receiver, only {counted(left)}")
    if np.isin(traces["angles"][live], (2, 3, 4)).any():
        raise Error(f"{path}: its coordinates are angles")
    deep = [coordinate(traces, name, "depth_scalar") for name in ("source_depth", "source_elevation", "elevation")]
    source, group = (metres * np.stack([coordinate(traces, f"{end}_x"), coordinate(traces, f"{end}_y"), z], axis=-1)
                     for end, z in (("source", deep[0] - deep[1]), ("group", -deep[2])))
    left["without coordinates"] = live & nowhere(traces, source, group, live)
    live &= ~left["without coordinates"]
    number = numbers_of(path, traces, source, live)
    left["without coordinates"][live] = unplaced(path, number[live], source[live], group[live])
    live &= ~left["without coordinates"]
    shots, again = Survey(), 0
    for one in dict.fromkeys(number[live].tolist()):
        own = np.flatnonzero(live & (number == one))
        once = np.sort(np.unique(group[own], axis=0, return_index=True)[1])
        again += len(own) - len(once)
        shots.append(Shot(one, source[own[0]], group[own[once]]))
    named = np.asarray(traces["record" if np.ptp(traces["record"]) else "shot"])
    none = len(np.setdiff1d(named, named[live]))
    zero = {what: ~np.concatenate(ends)[:, :2].any(axis=1) for what, ends in (
        ("sources", [shot.source[None] for shot in shots]), ("receivers", [shot.receivers for shot in shots]))}
    shots.note = "".join(f"; {what}" for said, what in (
        (counted(left), f"traces left out: {counted(left)}"), (none, f"{none} shots have no other"),
        (again, f"{again} receivers left out where there is one already"), (counted(zero), f"at 0 0: {counted(zero)}"),
        (metres == FOOT, "lengths in feet turned into m")) if said)
    return shots


def counted(which):
    """"2 dead, 1 dummy" of {"dead": truth of traces, ...}."""
    return ", ".join(f"{truth.sum()} {what}" for what, truth in which.items() if truth.any())


def nowhere(traces, source, group, live):
    """Which traces have no place of source and receiver, where other traces of their record have one."""
    record = np.unique(np.stack([traces["record"], traces["shot"]]), axis=1, return_inverse=True)[1].ravel()
    placed = source[:, :2].any(axis=1)
    return ~placed & ~group[:, :2].any(axis=1) & np.isin(record, record[live & placed])


def numbers_of(path, traces, source, live):
    """Numbers of the traces' shots: the first kind that differs among traces and gives each shot one source."""
    found = [np.asarray(traces[name]) for name in ("record", "shot")]
    found = [number for number in found if np.ptp(number[live])] or found[1:]
    for number in found:
        first, which = np.unique(number[live], return_index=True, return_inverse=True)[1:]
        off = (source[live] != source[live][first[which.ravel()]]).any(axis=1)
        if not off.any():
            return number
    raise Error(f"{path}: the source of record {number[live][off][0]} is in several places")


def unplaced(path, number, source, group):
    """Traces whose receiver is at 0 0 because nobody set its place. There 0 0 is much farther from the source, along x
    or y, than other receivers are from their sources. Raises Error if nobody set a source, or any receiver."""
    zero, offset = [~end[:, :2].any(axis=1) for end in (source, group)], np.abs(group - source)[:, :2]
    several, elsewhere = np.ptp(number) > 0, ~zero[0] & ~zero[1]
    well = len(np.unique(np.column_stack([number, group[:, 2]]), axis=0)) == len(group)  # depths say where they are
    none = f"{path}: its headers do not say where the"
    if zero[0].all() and several:
        raise Error(f"{none} sources are: all at 0 0")
    if zero[1].all() and len(group) > 1 and (zero[0].all() or not well):
        raise Error(f"{none} receivers are: all at 0 0")
    if not several and len(group) > 1 and not np.ptp(group, axis=0).any():
        raise Error(f"{none} receivers are: all in one place")
    extent = np.linalg.norm(np.ptp(group[:, :2], axis=0))
    reach = offset[elsewhere].max(axis=0) if elsewhere.any() else np.full(2, 100 * extent or np.inf)
    far, very = ((offset > times * reach + 0.1 * np.linalg.norm(reach)).any(axis=1) for times in (1, 2))
    for one in np.unique(number[zero[0] & (far | zero[1])]):
        own = number == one
        if (far | zero[1])[own].all() and (far[own].all() or own.sum() > 1):
            raise Error(f"{none} source of record {one} is: at 0 0, far from all else")
    return zero[1] & very


# --- SPS ------------------------------------------------------------------------------------------------------------

# First and last column of fields, of revision 2.1 and of the first one. S, R: of sources and receivers; X: which belong together.
BOTH = {"x": (47, 55), "y": (56, 65), "elevation": (66, 71)}
SPS = ({"S": {"line": (2, 11), "point": (12, 21), "index": (24, 24), "depth": (31, 34), **BOTH},
        "X": {"record": (8, 15), "line": (18, 27), "point": (28, 37), "index": (38, 38), "first": (39, 43), "last": (44, 48),
              "step": (49, 49), "to_line": (50, 59), "from": (60, 69), "to": (70, 79), "to_index": (80, 80)}},
       {"S": {"line": (2, 17), "point": (18, 25), "index": (26, 26), "depth": (33, 36), **BOTH},
        "X": {"record": (8, 11), "line": (14, 29), "point": (30, 37), "index": (38, 38), "first": (39, 42), "last": (43, 46),
              "step": (47, 47), "to_line": (48, 63), "from": (64, 71), "to": (72, 79), "to_index": (80, 80)}})


MISSING = " is in no record"

# Units of length as H20 names them (its words; None: no name), in metres; angles are none.
FEET, SURVEY = "(ft|foot|feet)", "(us|u s|american|survey)"
UNITS = ((r"(none|n a|unknown)?", None), (r"(international )?(m|mtrs?|met(er|re)s?)", 1), (r"km|kilomet(er|re)s?", 1000),
         (f"(international )?{FEET}", FOOT), (f"({SURVEY} )+{FEET}|{FEET}( {SURVEY})+|usft|ftus", 1200 / 3937),
         (r".*\b(deg|grad|rad|arc|lat|lon)\w*\b.*", np.nan), (".*", 0))


def number_of(text, where, default=None, kind=float):
    try:
        number = kind(text) if text or default is None else default
        if np.isfinite(number):
            return number
    except ValueError:
        pass
    raise Error(f"{where}: expected a {'whole ' * (kind is int)}number, found {text!r}")


def sps_lines(paths):
    """{"S": [(FILE:LINE, text)], "R": ..., "X": ..., "H": ...} of the files together."""
    found = {"S": [], "R": [], "X": [], "H": []}
    for path in paths:
        try:
            lines = Path(path).read_text("latin-1").split("\n")
        except OSError as error:
            raise Error(f"{path}: cannot read: {reason(error)}") from None
        for number, text in enumerate(lines, 1):
            if text[:1] in found:
                found[text[0]].append((f"{path}:{number}", text))
            elif text.strip():
                raise Error(f"{path}:{number}: no record of SPS: it begins with {text[0]!r}")
    for kind, what in (("S", "sources (S)"), ("R", "receivers (R)"), ("X", "which of them belong together (X)")):
        if not found[kind]:
            raise Error(f"{' '.join(map(str, paths))}: no records of {what}")
    return found


def sps_unit(heads):
    """(metres of a unit of length, words for the user) by the header records of all files, which must agree: H20 names
    the unit, H201 is its factor."""
    factors, names = [], []  # (metres, FILE:LINE, text)
    for where, text in heads:
        code = re.match(r"H(20[01]?)(?!\d)(.*)", text)
        if not code:
            continue
        number = re.search(r"[-+]?\.?\d[^\s;]*", code[2])
        if code[1] == "201" and number:
            factors.append((number_of(number[0], where), where, number[0]))
        elif code[1] != "201":
            pieces = (re.sub(r".*\bunits?\b\W*", "", piece, flags=re.IGNORECASE).strip() for piece in code[2].split(";"))
            name = next(filter(None, pieces), "")
            words = " ".join(re.findall("[a-z]+", name.lower()))
            names.append((next(metres for pattern, metres in UNITS if re.fullmatch(pattern, words)), where, name))
    names = [one for one in names if one[0] is not None]
    said = factors + [one for one in names if one[0] != 0] or names  # a factor makes any name known
    for metres, where, text in said:
        if not metres > 0:
            raise Error(f"{where}: units {text!r}: expected metres, kilometres or feet (H20), or a factor to metre > 0 (H201)")
        if abs(metres / said[0][0] - 1) > 1e-4:
            raise Error(f"{where}: units {text!r}, but {said[0][1]} has {said[0][2]!r}")
    if not said:
        return 1, "; lengths taken as metres, their headers say none"
    return said[0][0], f"; lengths in {(names or said)[0][2]}" + (f", of {said[0][0]:.9g} m" if said[0][0] != 1 else "")


def name_of(text):
    """A line's name: numbers are one name however they are written."""
    try:
        return float(text)
    except ValueError:
        return text


def sps_points(lines, columns, metres):
    """{(line, point): {index: [place, ...]}}."""
    points = {}
    for where, text in lines:
        field = {name: text[first - 1:last].strip() for name, (first, last) in columns.items()}
        x, y = (number_of(field[name], where) for name in "xy")
        z = number_of(field["depth"], where, 0) - number_of(field["elevation"], where, 0)
        point = points.setdefault((name_of(field["line"]), number_of(field["point"], where)), {})
        point.setdefault(field["index"] or "1", []).append(metres * np.array([x, y, z]))
    return points


def sps_shots(found, layout, metres):
    """The Survey as one layout of columns reads them, each with every receiver once."""
    sources, receivers = (sps_points(found[kind], layout["S"], metres) for kind in "SR")
    shots, given = {}, 0

    def place(points, line, point, index, where, what):
        indices = points.get((line, point), {})
        found = indices.get(index) or sum(indices.values(), [])  # of another index, if that says where
        if not found or len(found) > 1 and np.ptp(found, axis=0).any():
            named = line if isinstance(line, str) else format(line, "g")
            raise Error(f"{where}: {what} {point:g} of line {named}{' is in several places' if found else MISSING}")
        return found[0]

    for where, text in found["X"]:
        field = {name: text[first - 1:last].strip() for name, (first, last) in layout["X"].items()}
        record = number_of(field["record"], where, kind=int)
        source = place(sources, name_of(field["line"]), number_of(field["point"], where), field["index"] or "1", where, "source")
        first, last, step = (number_of(field[name], where, 1, int) for name in ("first", "last", "step"))
        begin, end, count = number_of(field["from"], where), number_of(field["to"], where), abs(last - first) // max(step, 1) + 1
        if count == 1 and begin != end:
            raise Error(f"{where}: one channel for receivers {begin:g} to {end:g}")
        shot = shots.setdefault(record, Shot(record, source, {}))
        if (shot.source != source).any():
            raise Error(f"{where}: the source of record {record} is in several places")
        line, given = name_of(field["to_line"]), given + count
        for point in np.round(np.linspace(begin, end, count), 2).tolist():
            at = place(receivers, line, point, field["to_index"] or "1", where, "receiver")
            shot.receivers[(line, point, *at)] = at
    again = given - sum(len(shot.receivers) for shot in shots.values())
    result = Survey(Shot(shot.number, shot.source, np.array([*shot.receivers.values()])) for shot in shots.values())
    result.note = f"; {again} repeated receivers left out" if again else ""
    return result


def survey_from_sps(*paths):
    """The Survey of SPS files (S, R and X records, in any of the files) in metres. The revision, 2.1 or 1, is the one
    that makes sense. A receiver that relations repeat counts once."""
    found, why = sps_lines(paths), None
    metres, note = sps_unit(found["H"])
    for layout in SPS:
        try:
            shots = sps_shots(found, layout, metres)
        except Error as error:
            if why is None or MISSING in str(error):  # numbers made sense
                why = error
            continue
        shots.note = note + shots.note
        return shots
    raise why


# --- the file of shots ----------------------------------------------------------------------------------------------

def straight(shots, first, length):
    """(Places, words for the user) of a 2D run whose model does not say where it lies. x is the distance along the
    straight line that fits all sources and receivers best. It counts from the line's point next to the grid's first one
    (x y), or, where that puts no place within the grid, from the line's first place. On a line along x (within a
    degree) places stay."""
    flat = np.unique(np.concatenate([np.vstack([shot.source, shot.receivers]) for shot in shots])[:, :2], axis=0)
    middle = flat.mean(axis=0)
    ahead = np.linalg.svd(flat - middle, full_matrices=False)[2][0]
    ahead = ahead * (1 if ahead.sum() >= 0 else -1)
    size, far = np.ptp((flat - middle) @ ahead), np.abs((flat - middle) @ [-ahead[1], ahead[0]]).max()
    if far > size / 3:
        raise Error(f"sources and receivers are no line, as a 2D run needs: up to {far:g} m beside one of {size:g} m")
    if size == 0 or abs(ahead[1]) < np.sin(np.radians(1)):
        return Places(middle[1]), ""
    along = (flat - first) @ ahead
    zero = 0 if ((along >= 0) & (along <= length)).any() else along.min() - 1e-6 * size
    there = middle + (zero - (middle - first) @ ahead) * ahead
    azimuth, (x, y) = float(np.degrees(np.arctan2(*ahead))), there.round(6) + 0.0
    return (Turned((azimuth, azimuth - 90), first, there),
            f"; x is the distance along the line to azimuth {azimuth % 360:.4g}, x = {first[0]:g} at {x:.9g} {y:.9g}")


def write_survey(path, shots, config=None, within=False):
    """Writes a file of [survey] shots, and the receivers' places beside it (PATH with .h5); returns a line about them.

    `config`: the file of the runs to be. Places then turn with its model's axes; in a 2D run they become distances
    along its line, or a `straight` one. Lines clear its own receivers.
    `within`: leave out what lies beyond its grid, shots without a receiver too."""
    keys = read_config(config) if config else {}
    if Path(path).suffix == ".h5":
        raise Error(f"{path}: a file of shots is text, and the receivers' places go beside it into a file that ends in .h5")
    if within and not config:
        raise Error("what lies within the grid only a configuration says")
    where, note = world_of(keys)
    shape, spacing, first = map(np.array, grid_of(keys))
    points = shape[::-1]
    last, counts = first + (points - 1) * spacing, points > 1
    line, beside_line, bent = counts[0] and not counts[1], 0, 0
    if where is None:
        where, printed = straight(shots, first[:2], last[0] - first[0]) if line else (Places(), "")
        note += printed
    cleared = "".join(f" receivers.{key}=" for key in ("line", "points") if key in keys.get("receivers", {}))
    beside, places, lines, left, most = str(Path(path).with_suffix(".h5")), {}, [], 0, 0
    numbers = [shot.number for shot in shots]
    if len(set(numbers)) < len(numbers):
        raise Error(f"{path}: two shots have one number")
    digits = max(4, max(len(str(number)) for number in numbers))
    for shot in shots:
        source, receivers = where.run(shot.source[None]), where.run(shot.receivers)
        if line:
            beside_line = max(beside_line, *np.abs(np.append(source[:, 1], receivers[:, 1]) - where.y))
            real = np.linalg.norm((shot.receivers - shot.source)[:, :2], axis=1)
            bent = max(bent, *np.abs(np.abs(receivers[:, 0] - source[0, 0]) - real))
        if within:
            # headers are rounded: what is a thousandth of a cell off lies on the face
            kept = [np.where(counts, np.clip(place, first, last), place) for place in (source, receivers)]
            near = [(np.abs(place - at) <= 1e-3 * spacing).all(axis=1) for place, at in zip((source, receivers), kept)]
            source, receivers = (at[on] for at, on in zip(kept, near))
            if not len(source) or not len(receivers):
                left += 1
                continue
        name = f"{shot.number:0{digits}d}"
        same = receivers.tobytes()
        if same not in places:
            places[same] = write_positions(beside, receivers, name)
        most = max(most, len(receivers))
        lines.append("source.1.position='{} {} {}'".format(*(f"{x:.12g}" for x in source[0])) +
                     f"{cleared} {shlex.quote('receivers.positions=' + places[same])} output.name={name}\n")
    if beside_line > 0.01 * spacing[0]:
        note += f"; up to {beside_line:.4g} m beside the line, which changes offsets by up to {bent:.3g} m"
    if not lines:
        raise Error(f"{path}: no shot lies within the grid of {config}")
    try:
        Path(path).write_text("".join(lines))
    except OSError as error:
        raise Error(f"{path}: cannot write: {reason(error)}") from None
    return (f"{path}: {len(lines)} shots, at most {most} receivers each, {len(places)} sets of them in {beside}{note}{getattr(shots, 'note', '')}" +
            (f"; {left} shots lie beyond the grid" if left else ""))
