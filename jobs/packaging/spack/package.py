# stencil for Spack 1.0 or later: put this file into packages/stencil/ of a repository of your own (spack repo create,
# spack repo add). From a source tree:  spack dev-build stencil@main        with GPUs:  stencil@main +cuda cuda_arch=90
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Stencil(CMakePackage, CudaPackage):
    """3D finite-difference engine for GPU clusters: heat and acoustic waves, with MPI and HDF5."""

    license("MIT")
    version("main")

    variant("tools", default=True, description="What the Python tools need: h5py, NumPy, Matplotlib")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("hdf5@1.10:+hl")
    depends_on("cjson")
    depends_on("xxhash")
    depends_on("zlib-api")
    with when("+tools"):
        depends_on("python@3.9:", type="run")
        depends_on("py-h5py", type="run")
        depends_on("py-numpy", type="run")
        depends_on("py-matplotlib", type="run")

    def cmake_args(self):
        args = [
            self.define("STENCIL_TESTS", False),
            self.define("STENCIL_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define("STENCIL_HDF5_SERIAL", self.spec["hdf5"].satisfies("~mpi")),
        ]
        if self.spec.satisfies("+cuda") and self.spec.variants["cuda_arch"].value[0] != "none":
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args
