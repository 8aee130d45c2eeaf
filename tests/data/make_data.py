#!/usr/bin/env python3
"""Makes the files of this folder, each with the program that such files come from, so that tests need none of them:

  python3 -m venv v && v/bin/pip install segyio==1.9.14 obspy==1.5.1 k-wave-python==0.6.2 && v/bin/python make_data.py
"""
import math
import sys
import urllib.request
from pathlib import Path

import h5py
import numpy as np

urllib.request.urlretrieve = lambda url, path: Path(path).touch()  # importing kwave fetches programs that are not run here
HERE = Path(__file__).resolve().parent


def velocities(*index):
    """Of a sample, m/s: whole numbers, each of another place."""
    x, y, z = index
    return 1500 + 100 * z + 3 * y + x


def volume_in_feet():
    """segyio: 6 lines of 8 traces of 12 samples, their numbers at bytes 9 and 21, in no order; feet; x to azimuth 60 degrees, y to
    330, 82 x 164 x 40 feet, whole feet; IBM floats; velocities in ft/s."""
    import segyio
    spec = segyio.spec()
    spec.format, spec.samples, spec.tracecount = 1, np.arange(12) * 40.0, 48
    x_axis, y_axis = ([math.sin(math.radians(a)), math.cos(math.radians(a))] for a in (60, 330))
    with segyio.create(str(HERE / "volume_in_feet.sgy"), spec) as file:
        file.bin[segyio.BinField.Interval], file.bin[segyio.BinField.MeasurementSystem] = 40000, 2
        for i, place in enumerate(np.random.default_rng(1).permutation(48)):
            y, x = divmod(place, 8)
            east, north = (round(first + 82 * x * x_axis[a] + 164 * y * y_axis[a]) for a, first in enumerate((1500000, 700000)))
            file.header[i] = {segyio.su.fldr: 101 + y, segyio.su.cdp: 1001 + 2 * x, segyio.su.cdpx: east, segyio.su.cdpy: north,
                              segyio.su.scalco: 1, segyio.su.counit: 1, segyio.su.dt: 40000, segyio.su.ns: 12}
            file.trace[i] = [round(velocities(x, y, z) / 0.3048) for z in range(12)]


def section():
    """obspy, little-endian: a line of 30 traces to azimuth 140 degrees, 12.5 m apart, whole metres; 40 m of depth a sample, more
    than a signed number holds, the first at 80 m."""
    from obspy import Stream, Trace
    from obspy.core import AttribDict
    from obspy.io.segy.segy import SEGYTraceHeader
    stream = Stream()
    for x in range(30):
        trace = Trace(np.array([velocities(x, 0, z) for z in range(20)], np.float32), {"delta": 0.01})
        trace.stats.segy = AttribDict(trace_header=SEGYTraceHeader())
        head, angle = trace.stats.segy.trace_header, math.radians(140)
        head.ensemble_number, head.coordinate_units, head.delay_recording_time = x + 1, 1, 80
        head.x_coordinate_of_ensemble_position_of_this_trace = round(4000 + 12.5 * x * math.sin(angle))
        head.y_coordinate_of_ensemble_position_of_this_trace = round(9000 + 12.5 * x * math.cos(angle))
        stream.append(trace)
    path = HERE / "section.sgy"
    stream.write(str(path), format="SEGY", data_encoding=5, byteorder="<")
    data = bytearray(path.read_bytes())  # obspy writes intervals of 32767 at most
    for first in (3216, *(3600 + 116 + i * (240 + 80) for i in range(30))):
        data[first:first + 2] = (40000).to_bytes(2, "little")
    path.write_bytes(data)


def kwave_pascals():
    """k-wave-python's kspaceFirstOrder(backend="cpp"): 2D, two source points of different signals, which stay in Pa."""
    from kwave.kspaceFirstOrder import kspaceFirstOrder
    kspaceFirstOrder(*kwave_setup((48, 40), [(14, 17), (18, 15)], [(34, 20), (24, 27)]), pml_inside=True, pml_size=8, backend="cpp",
                     save_only=True, data_path=str(HERE), quiet=True)
    (HERE / "kwave_input.h5").rename(HERE / "kwave_pascals.h5")
    own(kspaceFirstOrder, kwave_setup((48, 40), [(14, 17), (18, 15)], [(34, 20), (24, 27)]), "kwave_pascals")


def kwave_losses():
    """The same with a lump of other velocity and density, and power-law losses."""
    from kwave.kspaceFirstOrder import kspaceFirstOrder
    def setup():
        grid, medium, source, sensor = kwave_setup((48, 40), [(14, 17)], [(34, 20), (24, 27)])
        grid.setTime(260, 1e-7)
        a = (math.pi * 125e3 * (np.arange(260) * 1e-7 - 1.5 / 125e3))**2
        source.p = 2000 * ((1 - 2 * a) * np.exp(-a))[None]
        x, y = np.indices((48, 40))
        lump = np.exp(-((x - 24)**2 + (y - 22)**2) / 60)
        medium.sound_speed, medium.density = 1500 + 500 * lump, 1000 + 800 * lump
        medium.alpha_coeff, medium.alpha_power = 8 * (lump + 0.2), 1.3
        return grid, medium, source, sensor
    kspaceFirstOrder(*setup(), pml_inside=True, pml_size=8, backend="cpp", save_only=True, data_path=str(HERE), quiet=True)
    (HERE / "kwave_input.h5").rename(HERE / "kwave_losses.h5")
    own(kspaceFirstOrder, setup(), "kwave_losses")


def kwave_density():
    """k-wave-python's kspaceFirstOrder3D, which scales the source as MATLAB's does."""
    from kwave.kspaceFirstOrder import kspaceFirstOrder
    from kwave.kspaceFirstOrder3D import kspaceFirstOrder3D
    from kwave.options.simulation_execution_options import SimulationExecutionOptions
    from kwave.options.simulation_options import SimulationOptions
    setup = (40, 32, 32), [(13, 15, 14)], [(22, 16, 15)]
    options = SimulationOptions(pml_size=[8, 8, 8], pml_inside=True, save_to_disk=True, save_to_disk_exit=True, data_path=str(HERE),
                                input_filename="kwave_density.h5")
    grid, medium, source, sensor = kwave_setup(*setup)
    kspaceFirstOrder3D(grid, source, sensor, medium, options, SimulationExecutionOptions())
    own(kspaceFirstOrder, kwave_setup(*setup), "kwave_density")


def kwave_setup(points, sources, sensors):
    """kgrid, medium, source, sensor; the first source has 1000 Pa, the next 2000 Pa (one alone has 2000)."""
    from kwave.kgrid import kWaveGrid
    from kwave.kmedium import kWaveMedium
    from kwave.ksensor import kSensor
    from kwave.ksource import kSource
    grid, source, sensor = kWaveGrid(list(points), [1e-3] * len(points)), kSource(), kSensor()
    grid.setTime(150, 1e-7)
    source.p_mask, sensor.mask, sensor.record = np.zeros(points), np.zeros(points), ["p"]
    for mask, places in ((source.p_mask, sources), (sensor.mask, sensors)):
        for place in places:
            mask[place] = 1
    a = (math.pi * 125e3 * (np.arange(150) * 1e-7 - 1.5 / 125e3))**2
    source.p = ((1 - 2 * a) * np.exp(-a))[None] * np.linspace(1000, 2000, len(sources))[-len(sources):, None]
    if len(sources) == 1:
        source.p *= 2
    return grid, kWaveMedium(sound_speed=1500, density=1000), source, sensor


def own(solver, setup, name):
    """Adds to the file the traces (samples, sensors) of k-wave-python's own solver, in the order of its mask: x fastest."""
    traces, mask = solver(*setup, pml_inside=True, pml_size=8, quiet=True)["p"], setup[3].mask
    order = np.lexsort(np.argwhere(mask).T)  # of points that it lists with the last axis fastest
    with h5py.File(HERE / f"{name}.h5", "a") as file:
        file["own_traces"] = traces[order].T.astype("f4")


if __name__ == "__main__":
    for make in [globals()[name] for name in sys.argv[1:]] or (volume_in_feet, section, kwave_pascals, kwave_losses, kwave_density):
        make()
