"""What stencil reads and writes, as NumPy arrays of shape (nz, ny, nx), float32, SI units. docs/PYTHON.md shows examples.

    open_run Run Fields Field Receivers    open the files that a run has saved; values are read on first use
    Shots Datasets                         the shots of a survey; the datasets of a file of maps or gradients
    run RunFailed                          run a configuration (a file or a dictionary) by mpirun, and open its files
    read_config write_config               configurations as dictionaries
    write_model write_wavelet              write datasets for [medium], [initial] and [source.N]
    write_positions                        write a dataset for [receivers] and [sources]
    to_plain                               write other programs' HDF5 as plain numbers in SI units
    Model volume from_raw resample         models from arrays and raw files
    shot write_shot                        the configuration of a shot over a model
    to_segy from_segy                      SEG-Y
    survey_from_segy survey_from_sps       read the sources and receivers of a survey
    write_survey                           write the file of [survey] shots
    from_kwave                             read input files of k-Wave

What cannot be done is an Error (a ValueError) whose text is one line.
"""
from .config import read_config, write_config
from .errors import Error, RunFailed
from .files import Datasets, Field, Fields, Receivers, Run, Shots, open_run
from .geometry import survey_from_segy, survey_from_sps, write_survey
from .kwave import from_kwave
from .launch import run
from .models import Model, from_raw, resample, volume, write_model, write_positions, write_wavelet
from .plain import to_plain
from .segy import from_segy, to_segy
from .shot import shot, write_shot

__all__ = ["Datasets", "Error", "Field", "Fields", "Model", "Receivers", "Run", "RunFailed", "Shots", "from_kwave", "from_raw",
           "from_segy", "open_run", "read_config", "resample", "run", "shot", "survey_from_segy", "survey_from_sps", "to_plain",
           "to_segy", "volume", "write_config", "write_model", "write_positions", "write_shot", "write_survey", "write_wavelet"]
