#!/usr/bin/env python3
"""Brings models and other programs' files into stencil, and traces out of it.

  convert.py model my.sgy my.h5 --config my.ini      a model: SEG-Y, .npy or raw binary; my.ini runs a shot over it
  convert.py segy PATH shot.sgy                      the traces of the run or survey with [output] path = PATH as SEG-Y
  convert.py survey gathers.sgy shots.txt            the sources and receivers of SEG-Y, or of SPS files, as [survey] shots
  convert.py plain model.nc OUT.h5                   HDF5 or netCDF-4 with units, packing, fill values to plain numbers in SI
  convert.py kwave input.h5 PREFIX                   an input file of k-Wave: PREFIX.ini and the fields that it names
"""
import argparse
import dataclasses
import shutil
import sys

from packages import require

require("h5py", "numpy")
import numpy as np
import stencil.io as st
from stencil.io.files import check_kept
from stencil.io.shot import output_of


def model_of(args, path):
    if path.lower().endswith((".sgy", ".segy")):
        return st.from_segy(path, args.spacing, args.interval_in, args.inline_byte, args.crossline_byte, not args.no_delay)
    if not args.spacing:
        raise st.Error(f"{path}: it does not say its spacing: --spacing DX DY DZ")
    if not path.endswith(".npy") and not args.shape:
        raise st.Error(f"{path}: a raw file does not say its shape: --shape, in the order of --axes")
    return st.Model(st.from_raw(path, args.shape, args.axes, args.dtype), tuple(args.spacing))


def cut(model, ranges):
    """The part of a model between these places (from, to; m from its first point, or None) along x, y, z: places stay."""
    parts, origin = [], []
    for axis, n, h, start, between in zip("xyz", reversed(model.values.shape), model.spacing, model.origin, ranges):
        first, last = (round(place / h) for place in between or (0, (n - 1) * h))
        if not 0 <= first < last + 1 <= n:
            raise st.Error(f"--{axis} {between[0]:g} {between[1]:g}: expected FROM <= TO within 0 to {(n - 1) * h:g} m")
        parts.append(slice(first, last + 1))
        origin.append(float(f"{start + first * h:.12g}"))
    return dataclasses.replace(model, values=model.values[tuple(reversed(parts))], origin=tuple(origin))


def read(args, path, scale):
    """The part of a file's model that is asked for, as it is asked for."""
    model = cut(model_of(args, path), (args.x, args.y, args.z))
    model.values = scale * model.values
    if args.resample:
        model.values, model.spacing = st.resample(model.values, model.spacing, args.resample), tuple(args.resample)
    if model.note:
        print(f"{path}: {model.note}")
    if not model.values.min() > 0:  # NaN, too
        at = np.unravel_index(np.argmin(model.values), model.values.shape)
        raise st.Error(f"{path}: expected values above 0, found {model.values[at]:g} at (z, y, x) = {tuple(map(int, at))}")
    return model


def model_command(args):
    for name, lengths in (("spacing", args.spacing), ("resample", args.resample)):
        if lengths and not all(0 < h < np.inf for h in lengths):
            raise st.Error(f"--{name} {' '.join(map(str, lengths))}: expected three lengths > 0, in m")
    if args.config:
        output_of(args.config)  # an error before anything is written
    check_kept(args.out, *filter(None, (args.file, args.density)))
    if args.density and args.gardner:
        raise st.Error("--density or --gardner, not both")
    model, rho, density = read(args, args.file, args.scale), None, None
    if args.density:
        if args.interval_in == "us":
            raise st.Error(f"{args.density}: --density with --interval-in us: densities do not say at which depths times lie")
        other = read(args, args.density, 1)
        if model.unlike(other):
            raise st.Error(f"{args.density}: {model.unlike(other)}")
        rho = other.values
        if rho.max() < 30:
            rho = 1000 * rho
            print(f"{args.density}: densities below 30 are taken as g/cm3")
    elif args.gardner:
        rho = 310 * model.values**0.25
    name = st.write_model(args.out, model)
    if rho is not None:
        density = st.write_model(args.out, dataclasses.replace(model, values=rho), "rho", units="kg/m3", beside=True)
        print(st.Field(density).summary())
    print(st.Field(name).summary())
    for beyond, unit, scale in ((model.values.max() < 100, "km/s", 1000), (model.values.max() > 9000, "ft/s", 0.3048)):
        if beyond:
            print(f"velocities {'below 100' if scale > 1 else 'above 9000'} m/s: if the file has {unit}, --scale {scale}")
    if args.config:
        print(st.write_shot(args.config, name, density=density))


def segy_command(args):
    print(st.to_segy(args.path, args.out, args.interval, args.shot))


def survey_command(args):
    check_kept(args.out, *args.files)
    one = len(args.files) == 1 and args.files[0].lower().endswith((".sgy", ".segy"))
    shots = st.survey_from_segy(args.files[0]) if one else st.survey_from_sps(*args.files)
    print(st.write_survey(args.out, shots, args.config, args.within))


def plain_command(args):
    print("\n".join(st.to_plain(args.file, args.out, args.names, args.fill)))


def kwave_command(args):
    keys = st.from_kwave(args.file, args.prefix, args.source_in)
    if keys.note:
        print(f"{args.file}: {keys.note}")
    st.write_config(f"{args.prefix}.ini", keys, f"from {args.file}\n{keys.note}")
    try:
        program = "stencil" if shutil.which("stencil") else st.launch.program_path()
    except st.Error:
        program = "stencil, once it is built,"
    print(f"{args.prefix}.ini: run it with mpirun -np 2 {program} {args.prefix}.ini")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    model = commands.add_parser("model", help="SEG-Y, .npy or raw binary to a model")
    model.add_argument("file", help="a name that ends in .sgy, .segy or .npy; any other is raw binary")
    model.add_argument("out", help="HDF5 file to write: /vp, shape (nz, ny, nx)")
    model.add_argument("--spacing", nargs=3, type=float, metavar=("DX", "DY", "DZ"), help="m; SEG-Y may say it itself")
    model.add_argument("--resample", nargs=3, type=float, metavar=("DX", "DY", "DZ"), help="m, to interpolate to")
    for axis in "xyz":
        model.add_argument(f"--{axis}", nargs=2, type=float, metavar=("FROM", "TO"),
                           help=f"m from the first point: only this part along {axis}; places stay")
    model.add_argument("--scale", type=float, default=1, help="multiply velocities by it: 1000 for km/s, 0.3048 for ft/s")
    for name, byte in (("inline", 189), ("crossline", 193)):
        model.add_argument(f"--{name}-byte", type=int, default=byte, metavar="N",
                           help=f"first byte of the {name}'s number in SEG-Y's trace headers (default {byte})")
    model.add_argument("--interval-in", choices=st.segy.INTERVALS, metavar="UNIT",
                       help="what SEG-Y's sample interval counts: mm (default), m, mft (thousands of a foot; default in a file of "
                            "feet) or ft of depth; us of two-way time, turned into depths by the model's own velocities")
    model.add_argument("--no-delay", action="store_true", help="SEG-Y's delay recording time is not the first depth")
    model.add_argument("--shape", nargs="+", type=int, metavar="N", help="of a raw file")
    model.add_argument("--axes", default="zyx", help="of .npy and raw files, the slowest first (default zyx); zx or xz: 2D; z: 1D")
    model.add_argument("--dtype", default="<f4", help="of a raw file, as NumPy says it (default <f4)")
    model.add_argument("--density", metavar="FILE", help="densities on the same grid, kg/m3 or (all below 30) g/cm3: OUT:/rho")
    model.add_argument("--gardner", action="store_true", help="densities by Gardner's relation, 310 v^0.25 kg/m3: OUT:/rho")
    model.add_argument("--config", metavar="FILE.ini", help="also write the configuration of a shot over the model")
    model.set_defaults(run=model_command)
    segy = commands.add_parser("segy", help="traces to SEG-Y")
    segy.add_argument("path", help="as [output] path says")
    segy.add_argument("out", help="SEG-Y file to write")
    segy.add_argument("--interval", type=float, metavar="S", help="resample to this interval")
    segy.add_argument("--shot", type=int, metavar="N", help="of a run, its number (default: that at the end of PATH, or 1)")
    segy.set_defaults(run=segy_command)
    survey = commands.add_parser("survey", help="sources and receivers of SEG-Y or SPS to a file of [survey] shots")
    survey.add_argument("files", nargs="+", metavar="FILE", help="one of SEG-Y (.sgy, .segy), or SPS files: S, R and X records")
    survey.add_argument("out", help="file of shots to write; the receivers' places go beside it (.h5)")
    survey.add_argument("--config", metavar="FILE.ini",
                        help="of the runs to be: its model may turn places, in 2D they become distances along a line; its "
                             "receivers are cleared")
    survey.add_argument("--within", action="store_true", help="leave out what lies beyond the grid of --config")
    survey.set_defaults(run=survey_command)
    plain = commands.add_parser("plain", help="other programs' HDF5 to plain numbers in SI units")
    plain.add_argument("file", help="HDF5 or netCDF-4: datasets with units, scale_factor, fill values; values in other files")
    plain.add_argument("out", help="HDF5 file to write: the datasets by the same names")
    plain.add_argument("names", nargs="*", metavar="/DATASET", help="only these (default: all of numbers)")
    plain.add_argument("--fill", type=float, metavar="VALUE", help="what missing values become, in SI units")
    plain.set_defaults(run=plain_command)
    kwave = commands.add_parser("kwave", help="k-Wave's input file to a configuration and fields")
    kwave.add_argument("file", help="as kspaceFirstOrder3D(..., 'SaveToDisk', file) writes it")
    kwave.add_argument("prefix", help="of the files to write")
    kwave.add_argument("--source-in", choices=st.kwave.SOURCE_UNITS,
                       help="what the source signal counts (default: what the file's writer means by it)")
    kwave.set_defaults(run=kwave_command)
    return parser.parse_args()


def main():
    args = arguments()
    try:
        args.run(args)
    except (OSError, ValueError) as error:
        sys.exit(f"convert.py: error: {error}")


if __name__ == "__main__":
    main()
