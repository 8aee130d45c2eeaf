"""The library libstencil: found and loaded on first use, and called. The interface: include/stencil.h."""
import ctypes
import os
import threading
import warnings
import weakref
from ctypes import CFUNCTYPE, POINTER, byref, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_void_p
from pathlib import Path

import numpy as np

from .errors import Error
from .io.config import config_text, override_words

ABI = 1  # STENCIL_ABI
AXES = 5  # STENCIL_AXES
STOPPED = 75
NAME = "libstencil.so"


class Failure(ctypes.Structure):
    _fields_ = [("code", c_int), ("text", c_char * 1024)]


class Array(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("type", c_int32), ("device", c_int32), ("axes", c_int32),
                ("shape", c_int64 * AXES)]


class Input(ctypes.Structure):
    _fields_ = [("key", c_char_p), ("array", Array)]


class ShotInputs(ctypes.Structure):
    _fields_ = [("keys", c_char_p), ("inputs", POINTER(Input)), ("input_count", c_int32)]


class Result(ctypes.Structure):
    _fields_ = [("shot", c_int32), ("kind", c_char_p), ("name", c_char_p), ("step", c_int64), ("type", c_int32),
                ("axes", c_int32), ("shape", c_int64 * AXES)]


ON_RESULT = CFUNCTYPE(c_int, c_void_p, POINTER(Result), POINTER(c_void_p), POINTER(c_int))
ON_MISFIT = CFUNCTYPE(c_int, c_void_p, c_int32, POINTER(c_float), POINTER(c_int64), POINTER(c_double), POINTER(c_float))
ON_WARNING = CFUNCTYPE(None, c_void_p, c_char_p)
ON_PROGRESS = CFUNCTYPE(c_int, c_void_p, c_double)


class Calls(ctypes.Structure):
    _fields_ = [("context", c_void_p), ("result", ON_RESULT), ("misfit", ON_MISFIT), ("warning", ON_WARNING),
                ("progress", ON_PROGRESS)]


class Facts(ctypes.Structure):
    _fields_ = [("dt", c_double), ("boundary_velocity", c_double), ("steps", c_int64), ("samples", c_int64),
                ("interval", c_double), ("backend", c_char_p), ("kernel", c_char_p)]


SIGNATURES = {
    "stencil_abi": (c_int, []),
    "stencil_open": (c_int, [POINTER(c_void_p), c_char_p, POINTER(Failure)]),
    "stencil_close": (None, [c_void_p]),
    "stencil_stream": (c_int, [c_void_p, c_void_p, POINTER(Failure)]),
    "stencil_run": (c_int, [c_void_p, POINTER(Input), c_int32, POINTER(ShotInputs), c_int32, POINTER(Calls),
                            POINTER(Failure)]),
    "stencil_describe": (c_int, [c_void_p, POINTER(Facts), POINTER(Failure)])}
loading, loaded = threading.Lock(), {}  # {"library": CDLL, "process": the one that loaded it}


def places():
    """Where the library may be: beside this file (a wheel), of an installation, or built in the source tree."""
    here = Path(__file__).resolve()
    yield here.with_name(NAME)
    if here.parts[-5:-2] == ("share", "stencil", "python"):
        for pattern in (f"lib*/{NAME}", f"lib/*/{NAME}"):
            yield from here.parents[4].glob(pattern)
    yield here.parents[2] / "build/release" / NAME


def find():
    """$STENCIL_LIBRARY; else the first place that has it; else what the system's loader finds."""
    return os.environ.get("STENCIL_LIBRARY") or str(next((path for path in places() if path.is_file()), NAME))


def load():
    path = find()
    try:
        library = ctypes.CDLL(path)
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        cure = "pip install ./python, or let $STENCIL_LIBRARY name the library"
        raise Error(f"{path}: cannot be loaded: {error}: {cure}", 2) from None
    number = library.stencil_abi()
    if number != ABI:
        raise Error(f"{path}: its interface is number {number}, this package's {ABI}: both must be of one version", 2)
    return library


def library():
    """The library, which a process that has forked since it was loaded must not use: threads and CUDA are not there."""
    with loading:
        if not loaded:
            loaded.update(library=load(), process=os.getpid())
    if loaded["process"] != os.getpid():
        raise Error("this process was forked after the library had been loaded: start it by multiprocessing's spawn", 4)
    return loaded["library"]


os.register_at_fork(after_in_child=lambda: globals().update(loading=threading.Lock()))


def call(name, *arguments):
    """Calls a function that leaves its error in its last argument."""
    failure = Failure()
    code = getattr(library(), name)(*arguments, byref(failure))
    if code:
        raise Error(failure.text.decode(errors="replace") or f"{name}: code {code}", code)


def inputs_of(arrays):
    """What C takes of {key: arrays.Given}."""
    return (Input * len(arrays))(*(Input(key.encode(), given.c()) for key, given in arrays.items()))


class Call:
    """One stencil_run: its callbacks, which come from the library's threads, and what they have raised.

    result(shot, kind, name, step, float64, shape) returns memory, an arrays.Given, or None; misfit(shot, traces)
    returns J and its derivative; progress(part) shows it."""

    def __init__(self, result, misfit, progress):
        self.result, self.misfit, self.progress = result, misfit, progress
        self.cancelled, self.raised, self.warned = threading.Event(), None, []
        self.calls = Calls(None, ON_RESULT(self.on_result), ON_MISFIT(self.on_misfit) if misfit else ON_MISFIT(),
                           ON_WARNING(self.on_warning), ON_PROGRESS(self.on_progress))

    def guarded(self, function, *arguments):
        """0, or 1 where the run is to end. An exception must not leave a callback: it is raised after the run."""
        try:
            if not self.cancelled.is_set():
                function(*arguments)
                return 0
        except BaseException as error:
            self.raised = self.raised or error
        return 1

    def on_result(self, _, found, data, device):
        def take(r):
            memory = self.result(r.shot, r.kind.decode(), r.name.decode(), r.step, r.type == 1, tuple(r.shape[:r.axes]))
            data[0], device[0] = (memory.data, memory.device) if memory else (None, -1)
        return self.guarded(take, found.contents)

    def on_misfit(self, _, shot, traces, shape, value, derivative):
        def take(size):
            into = np.ctypeslib.as_array(derivative, size)
            value[0], into[...] = self.misfit(shot, np.ctypeslib.as_array(traces, size).copy())
        return self.guarded(take, (shape[0], shape[1]))

    def on_warning(self, _, text):
        told = text.decode(errors="replace")
        if told not in self.warned:
            self.warned.append(told)

    def on_progress(self, _, part):
        return self.guarded(self.progress, part)


def close(library, pointer, process):
    """A copy of this process must not give back what is not its own."""
    if os.getpid() == process:
        library.stencil_close(pointer)


class Handle:
    """A simulation of the library, of the keys {"section.key": text}."""

    def __init__(self, keys):
        self.pointer = c_void_p()
        call("stencil_open", byref(self.pointer), config_text(keys).encode())
        weakref.finalize(self, close, loaded["library"], self.pointer, os.getpid())

    def run(self, inputs, shots, result, misfit, progress):
        """`inputs`: {key: arrays.Given}; `shots`: a list of ({key: text}, inputs). Runs in a thread of its own, so
        that Ctrl-C can end the wait here: it ends the run between two steps. The handle can be used again after any
        error."""
        one = Call(result, misfit, progress)
        given = [inputs_of(inputs), *(inputs_of(own) for _, own in shots)]
        words = [override_words(keys).encode() for keys, _ in shots]
        every = (ShotInputs * len(shots))(*(ShotInputs(own, array, len(array)) for own, array in zip(words, given[1:])))
        streams = {memory.stream for own in (inputs, *(own for _, own in shots)) for memory in own.values()} - {None}
        raised, done, calls = [], threading.Event(), one.calls

        def work():
            try:
                for stream in streams:
                    call("stencil_stream", self.pointer, stream)
                call("stencil_run", self.pointer, given[0], len(inputs), every, len(shots), byref(calls))
            except BaseException as error:
                raised.append(error)
            finally:
                done.set()

        library()  # of another process: raises here
        thread = threading.Thread(target=work, daemon=True)
        try:
            thread.start()
            done.wait()
        except BaseException:
            one.cancelled.set()
            if thread.is_alive():
                wait(done)
            raise
        finally:
            one.calls = None  # which hold `one`, and it the results
        for told in one.warned if shots else ():  # without shots, that nothing can happen
            warnings.warn(told, stacklevel=4)
        if raised:
            raise one.raised or raised[0]

    def describe(self):
        """The facts; None: no model has fixed them."""
        facts = Facts()
        try:
            call("stencil_describe", self.pointer, byref(facts))
        except Error:
            return None
        values = ((name, getattr(facts, name)) for name, _ in Facts._fields_)
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values}


def wait(event):
    """However often Ctrl-C is pressed: what runs has the caller's memory."""
    while not event.is_set():
        try:
            event.wait()
        except KeyboardInterrupt:
            continue
