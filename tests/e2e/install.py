#!/usr/bin/env python3
"""Installs the build, uses it from elsewhere as a user does, and removes it.

usage: install.py --list | install.py CASE STENCIL MPIEXEC
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import SOURCE, case, check, h5py, main, np, same_bits, skip

FEW = ["time.steps=6", "output.every=3", "device.backend=host"]
SMALL = ["grid.nx=61", "grid.ny=41", "grid.nz=51", *FEW]


class Installed:
    """A prefix into which the build of `program` is installed; `run` has it first on PATH and knows no source tree."""

    def __init__(self, program):
        self.program, self.build, self.prefix = program, Path(program.path).parent, program.root / "prefix"
        self.share, self.doc = self.prefix / "share/stencil", self.prefix / "share/doc/stencil"
        self.manifest, self.kept = self.build / "installed.txt", program.root / "manifest"
        if self.manifest.exists():  # of an installation by hand
            shutil.copy(self.manifest, self.kept)
        self.path = {"PATH": f"{self.prefix}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def __enter__(self):
        self.run("cmake", "--install", self.build, "--prefix", self.prefix)
        return self

    def __exit__(self, *_):
        self.manifest.unlink(missing_ok=True)
        if self.kept.exists():
            shutil.copy(self.kept, self.manifest)

    def run(self, *command):
        result = self.program.finish(command, env=self.path)
        check(result.code == 0, f"{command}: {result}")
        return result.out

    def example(self, name, *overrides):
        self.run(self.program.mpiexec, "-np", 2, "stencil", self.share / f"examples/{name}.ini", *overrides)

    def tool(self, name, *arguments):
        """Of the installed tools, in this Python, which has h5py."""
        return self.run(sys.executable, self.share / "jobs" / name, *arguments)


@case
def cuda_portable(program):
    """A program of PTX for compute capability 8.0 alone takes no kernel whose body is left out there, and gives the host's bits."""
    program.skip_without_cuda()
    if not shutil.which("cmake"):
        skip("there is no cmake")
    build = program.root / "portable"
    for command in (["cmake", "--preset", "cuda-portable", "-B", build, "-DSTENCIL_TESTS=OFF"],
                    ["cmake", "--build", build, "--parallel", len(os.sched_getaffinity(0))]):
        subprocess.run([str(word) for word in command], cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
    keys = {"grid.nx": 150, "grid.ny": 40, "grid.nz": 50, "time.steps": 9, "equation.type": "wave", "initial.u": "random",
            "boundary.all": "absorbing", "boundary.width": 10}
    program.succeed("-q", program.config({**keys, "device.backend": "host"}))
    expected, config = program.field(9), program.config({**keys, "device.backend": "cuda", "output.path": "out/gpu"})
    program.path = str(build / "stencil")
    check("code for 80-virtual" in program.succeed("--version").out, "--version names no architecture")
    result = program.succeed(config)
    check("bulk_tensor" not in result.out and same_bits(program.field(9, "out/gpu"), expected), f"other bits: {result}")
    program.succeed("--benchmark", 5, config)
    program.fail(1, ["'bulk_tensor' needs what this GPU, or the program's code"], "-q", config, "device.kernel=bulk_tensor")


@case
def prefix(program):
    """Examples, tools, man page and completion work from the installed place, in a folder that is not the source tree."""
    if not shutil.which("cmake"):
        skip("there is no cmake")
    with Installed(program) as installed:
        check("stencil" in installed.run("stencil", "--version"), "no version")
        for name in ("jacobi", "heat", "wave"):
            installed.example(name, *SMALL)
        installed.tool("make_model.py", "model.h5", 61, 41, 51)
        installed.example("shot", *SMALL, "boundary.width=5", "source.1.position=200 150 100", "receivers.line=80 160 16 400 160 16 9")
        made = program.files()
        for name in ("output", "heat", "wave", "shot"):
            check(f"{name}.00000006.hdf" in made, f"the example made no {name}.00000006.hdf here: {sorted(made)}")
        with h5py.File(program.folder / "shot.receivers.h5") as file:
            check(np.abs(file["u"]).max() > 0, "the shot's receivers heard nothing")
        module = f"import sys; sys.path[0] = '{installed.share}/python'; import stencil.io; print(stencil.io.open_run('shot').receivers.u.shape)"
        check(installed.run(sys.executable, "-c", module) == "(4, 9)\n", "stencil.io cannot read the shot")
        module = module.replace("stencil.io", "stencil as st").split("print")[0] + ("sim = st.Simulation(shape=(20, 21), time=0.01, keys={'device.backend': "
                 "'host'}); print(sim.forward(1500, st.Shot((5, 5), st.ricker(300), [(9, 9)]))[0].any(), open('/proc/self/maps').read())")
        said = installed.run(sys.executable, "-c", module)
        check(said.startswith("True") and f"{installed.prefix}/lib" in said, "the package did not compute, or not by the installed library")
        installed.run("bash", installed.share / "jobs/restart.sbatch", installed.share / "examples/wave.ini", *SMALL)
        same = {"share/man/man1/stencil.1": "docs/stencil.1", "share/doc/stencil/LICENSE": "LICENSE",
                "share/bash-completion/completions/stencil": "jobs/stencil.bash", "share/doc/stencil/CITATION.cff": "CITATION.cff"}
        for there, here in same.items():
            check((installed.prefix / there).read_bytes() == (SOURCE / here).read_bytes(), f"{there} is not {here}")
        for page in installed.doc.rglob("*.md"):
            for target in re.findall(r"\]\(([\w/.]+\.(?:md|png|gif|cff)|LICENSE)[)#]", page.read_text()):
                check((page.parent / target).exists(), f"{page.name} links to {target}, which is not installed")
        if shutil.which("cpack") and shutil.which("dpkg-shlibdeps"):  # a package has a list of files, too
            installed.run("cpack", "--config", installed.build / "CPackConfig.cmake", "-B", program.root / "package")
        installed.run("cmake", "--build", installed.build, "--target", "uninstall")
        left = [path for path in installed.prefix.rglob("*") if not path.is_dir() or path.name == "stencil"]
        check(not left, f"uninstall left {left}")


@case
def slow_package(program):
    """The .deb goes into a bare system of this distribution, runs there, and goes without a trace."""
    lacking = [name for name in ("cpack", "debootstrap", "dpkg-shlibdeps", "file", "unshare") if not shutil.which(name)]
    if lacking or os.geteuid() != 0 or not program.may_mount():
        skip(f"a bare system is made by root, with mounts and debootstrap; missing: {lacking or 'rights'}")
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)', Path("/etc/os-release").read_text(), re.MULTILINE))
    bare = program.root / "bare"
    made = subprocess.run(["debootstrap", "--variant=minbase", release["VERSION_CODENAME"], bare], capture_output=True, text=True)
    if made.returncode != 0:
        skip(f"debootstrap cannot make one here: {made.stdout[-300:]}")
    result = program.finish(["cpack", "--config", Path(program.path).parent / "CPackConfig.cmake", "-B", program.root / "package"])
    packages = list((program.root / "package").glob("stencil_*.deb"))
    check(result.code == 0 and len(packages) == 1, f"cpack made {packages}: {result}")
    shutil.copy(packages[0], bare / "root/stencil.deb")
    (bare / "root/try.sh").write_text("""set -ex
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
find / -xdev \\( -name '*stencil*' -o -path '*stencil/*' \\) ! -path '/root/*' | sort >/root/before
apt-get -qq install -y --no-install-recommends /root/stencil.deb
cd /tmp
stencil --version
mpirun -np 2 stencil /usr/share/stencil/examples/wave.ini time.steps=6
test -f wave.00000006.hdf
apt-get -qq purge -y stencil
find / -xdev \\( -name '*stencil*' -o -path '*stencil/*' \\) ! -path '/root/*' | sort >/root/after
diff /root/before /root/after
""")
    tried = program.finish(["unshare", "-m", "bash", "-ec", 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; exec chroot "$0" '
                            'env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 '
                            'OMPI_MCA_rmaps_base_oversubscribe=1 bash /root/try.sh', bare], timeout=1800)
    check(tried.code == 0, f"on the bare system: {tried}")
    print(tried.out[-1500:])


main()
