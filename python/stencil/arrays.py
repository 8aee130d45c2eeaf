"""Arrays as the library takes them: NumPy's, and all that have __dlpack__ or __cuda_array_interface__."""
import ctypes
import sys
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

import numpy as np

from .errors import Error
from .library import AXES, Array

HOST = -1
ON_HOST, ON_CUDA = (1, 3), (2, 13)  # DLPack's kinds of devices: CPU, pinned; CUDA, managed


class Given:
    """Memory of numbers, dense in C order, and `owner`, which keeps it. `stream`: what it is ready after, None:
    ready."""

    def __init__(self, owner, data, shape, double=False, device=HOST, stream=None):
        self.owner, self.data, self.shape, self.double = owner, data, tuple(shape), double
        self.device, self.stream = device, stream

    def c(self):
        return Array(self.data, self.double, self.device, len(self.shape), (c_int64 * AXES)(*self.shape))


def given(value, name):
    """`value` as a Given. On the host: numbers of any real type; what is not float32 or float64, or not dense in C
    order, is copied to be so. On a CUDA device: float32 or float64; what is not dense is copied there, by the module
    it comes from."""
    if getattr(value, "requires_grad", False) is True:
        raise Error(f"{name}: a tensor that requires grad: detach() it, or call st.torch.forward", 2)
    if not isinstance(value, np.ndarray) and on_device(value, name):
        read = from_dlpack if hasattr(value, "__dlpack__") else from_interface
        return read(dense(value, name), name)
    array = on_host(value, name)
    if array.ndim > AXES:
        raise Error(f"{name}: an array of {array.ndim} axes; none has more than {AXES}", 2)
    return Given(array, array.ctypes.data, array.shape, array.dtype == np.float64)


def on_host(value, name):
    """A NumPy array of float32 or float64, dense in C order and aligned; the same memory where it is so already."""
    try:
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            value = np.from_dlpack(value)
        array = np.asarray(value)
    except Exception as error:  # whatever a strange object raises
        raise unreadable(name, error) from None
    if isinstance(value, np.ma.MaskedArray) and value.mask.any():
        raise Error(f"{name}: masked values in it", 2)
    if array.dtype.kind not in "iuf":
        raise Error(f"{name}: expected real numbers, found {type(value).__name__} of type {array.dtype}", 2)
    return np.require(array, np.float32 if array.dtype == np.float32 else np.float64, ["C", "A"])


def on_device(value, name):
    """Is it on a CUDA device?"""
    if not hasattr(value, "__dlpack_device__"):
        return hasattr(value, "__cuda_array_interface__")
    try:
        kind, number = map(int, value.__dlpack_device__())
    except Exception as error:  # whatever a strange object raises
        raise unreadable(name, error) from None
    if kind not in ON_HOST + ON_CUDA:
        raise Error(f"{name}: lies on device {kind}:{number} of DLPack; only the host's and CUDA's can be read", 2)
    return kind in ON_CUDA


def unreadable(name, error):
    return Error(f"{name}: cannot be read as an array: {type(error).__name__}: {str(error).split('.')[0]}", 2)


def module_of(value):
    """torch, cupy ...: the module that an array belongs to."""
    return sys.modules.get(str(type(value).__module__).partition(".")[0])


def dense(value, name):
    """An array of a device in C order."""
    copy = getattr(value, "contiguous", None) or getattr(module_of(value), "ascontiguousarray", None)
    try:
        return copy() if hasattr(value, "contiguous") else copy(value) if copy else value
    except Exception as error:
        raise Error(f"{name}: cannot be made dense: {type(error).__name__}: {error}", 2) from None


class Tensor(ctypes.Structure):  # DLTensor of dlpack.h
    _fields_ = [("data", c_void_p), ("kind", c_int32), ("number", c_int32), ("axes", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("offset", c_uint64)]


capsule_pointer = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def from_dlpack(value, name):
    """Of CUDA. Its module lets the default stream wait for what fills it; the capsule keeps the memory."""
    try:
        capsule = value.__dlpack__(stream=1)
        tensor = Tensor.from_address(capsule_pointer(capsule, b"dltensor"))
    except Exception as error:
        raise unreadable(name, error) from None
    shape, strides = (tuple(axis[:tensor.axes]) if axis else None for axis in (tensor.shape, tensor.strides))
    readable = (tensor.code, tensor.bits, tensor.lanes) in ((2, 32, 1), (2, 64, 1))
    check_device_array(name, shape, strides, readable)
    return Given(capsule, (tensor.data or 0) + tensor.offset, shape, tensor.bits == 64, tensor.number)


def from_interface(value, name):
    """Of CUDA."""
    try:
        told = value.__cuda_array_interface__
        shape, data, stream = tuple(map(int, told["shape"])), int(told["data"][0]), told.get("stream")
        item = {"<f4": 4, "<f8": 8}.get(told["typestr"], 0)
        strides = told.get("strides") and tuple(step // max(item, 1) for step in told["strides"])
        number = int(getattr(getattr(value, "device", None), "id", 0))
    except Exception as error:
        raise unreadable(name, error) from None
    check_device_array(name, shape, strides, item)
    return Given(value, data, shape, item == 8, number, stream)


def check_device_array(name, shape, strides, readable):
    if not readable:
        raise Error(f"{name}: of a CUDA device only float32 and float64 can be read", 2)
    if len(shape) > AXES:
        raise Error(f"{name}: an array of {len(shape)} axes; none has more than {AXES}", 2)
    steps = [int(np.prod(shape[axis + 1:])) for axis in range(len(shape))]
    if strides and any(n > 1 and have != want for n, have, want in zip(shape, strides, steps)):
        raise Error(f"{name}: its numbers do not lie in C order: make it contiguous first", 2)


def like(value):
    """A function of (shape, double) that makes the memory of a result: a Given whose owner is an array of torch or
    cupy on the CUDA device of `value`, where that is such an array; else of NumPy."""
    if value is None or isinstance(value, np.ndarray) or not on_device(value, "velocity"):
        return numpy_empty
    module = module_of(value)
    package = getattr(module, "__name__", "")
    if package == "torch":
        kinds = module.float32, module.float64
        return lambda shape, double: kept(module.empty(shape, dtype=kinds[double], device=value.device))
    if package == "cupy":
        return lambda shape, double: cupy_empty(module, value.device, shape, double)
    return numpy_empty


def kept(array):
    memory = given(array, "result")
    memory.owner = array
    return memory


def numpy_empty(shape, double):
    return kept(np.empty(shape, np.float64 if double else np.float32))


def cupy_empty(cupy, device, shape, double):
    with device:
        return kept(cupy.empty(shape, "f8" if double else "f4"))
