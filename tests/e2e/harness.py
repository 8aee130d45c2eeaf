"""Shared by the end-to-end cases: runs the program as a user does, reads and predicts its fields. A case exits with 0
if it passes, 1 if it fails, 77 if it cannot run here; it prints why."""
import ctypes
import fcntl
import importlib.util
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

try:
    import h5py
    import numpy as np
except ImportError:  # a GPU machine may lack them; the cases that need them skip
    h5py = np = None

SKIP = 77  # CTest's SKIP_RETURN_CODE
PATIENCE = 180  # s until something has hung, on a machine however busy: no case asserts how long anything takes
SOURCE = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
CRASH = re.compile("Segmentation|backtrace|HDF5-DIAG|Assertion|Sanitizer|runtime error|core dumped")
BASE = {"grid.nx": 20, "grid.ny": 12, "grid.nz": 19, "time.steps": 3, "initial.u": "random", "output.path": "out/u",
        "device.backend": "host"}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def end_with_parent():
    """The kernel sends this process SIGTERM when the one that started it ends: nothing outlives a killed ctest."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def begin_apart():
    """For a process that a case starts: a process group of its own, so that a terminal's Ctrl-C does not reach it. Not a session:
    Linux shares the cores among sessions, and ranks that yield starve what is in another one (docs/EXPERIMENTS.md)."""
    os.setpgid(0, 0)
    end_with_parent()


class Hung(AssertionError):
    pass


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err
        self.errors = [line for line in err.splitlines() if line.startswith("stencil: error: ")]

    def __str__(self):
        return f"exit {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"


class Program:
    """The program under test in a folder of its own; `np` = 0 starts it without mpiexec."""

    def __init__(self, path, mpiexec):
        self.path, self.mpiexec = str(Path(path).resolve()), mpiexec
        self.root = Path(tempfile.mkdtemp(prefix="stencil-"))
        self.folder = self.root / "work"
        # Open MPI keeps a folder for all of a user's runs in TMPDIR and removes it at the end of one, while another may
        # start.
        self.environment = {**os.environ, **ENVIRONMENT, "XDG_CACHE_HOME": str(self.root / "cache"), "TMPDIR": str(self.root)}
        self.fresh()

    def fresh(self):
        """An empty working folder with an empty output folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "out").mkdir(parents=True)

    def config(self, changes=None, name="run.ini"):
        """Writes BASE with `changes` ("section.key": value; None leaves it out) as an INI file; returns its name."""
        sections = {}
        for key, value in {**BASE, **(changes or {})}.items():
            section, key = key.rsplit(".", 1)
            if value is not None:
                sections.setdefault(section, []).append(f"{key} = {value}\n")
        text = "".join(f"[{section}]\n{''.join(lines)}" for section, lines in sections.items())
        (self.folder / name).write_text(text)
        return name

    def command(self, args, np=0, launch=()):
        """`launch`: options of mpiexec."""
        return ([self.mpiexec, *launch, "-np", str(np)] if np else []) + [self.path] + [str(a) for a in args]

    def run(self, *args, np=0, launch=(), timeout=PATIENCE, shell_before="", env=None, by=()):
        """Runs to the end, started `by` another command; a run that outlasts `timeout` seconds is killed and fails the case."""
        command = [*by, *self.command(args, np, launch)]
        if shell_before:
            command = ["bash", "-c", shell_before + '; exec "$@"', "bash"] + command
        result = self.finish(command, timeout, env or {})
        check(not CRASH.search(result.out + result.err), f"{args} on {np} ranks crashed: {result}")
        return result

    def finish(self, command, timeout=PATIENCE, env=None):
        """Runs any command in this folder to its end; one that outlasts `timeout` is killed, with all that it has started,
        and is Hung. Its output goes to files: of a pipe nobody knows the end while a forgotten process holds it."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen([str(word) for word in command], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=err, env={**self.environment, **(env or {})}, preexec_fn=begin_apart)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                code = None
                self.kill_all()
                process.wait()
            for file in (out, err):
                file.seek(0)
            result = Result(code, out.read().decode(errors="replace"), err.read().decode(errors="replace"))
        if code is None:
            raise Hung(f"{command} hung for {timeout} s: {result}")
        return result

    def kill_all(self):
        """Kills whatever was started with this program's environment: ranks, and daemons that are nobody's children."""
        mark, end = os.fsencode(self.root), time.monotonic() + 20
        while time.monotonic() < end:
            found = 0
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    if mark in Path(f"/proc/{pid}/environ").read_bytes() and alive(pid):
                        os.kill(int(pid), signal.SIGKILL)
                        found += 1
                except OSError:  # it has just ended, or is another user's
                    continue
            if not found:
                return
            time.sleep(0.05)

    def succeed(self, *args, **kwargs):
        result = self.run(*args, **kwargs)
        check(result.code == 0 and not result.errors, f"{args}, {kwargs}: expected success, got {result}")
        return result

    def fail(self, code, words, *args, np=0, **kwargs):
        """Expects this exit code and one line on stderr with all of `words`, and no file made or changed."""
        before = self.files()
        result = self.run(*args, np=np, **kwargs)
        about = f"{args} on {np} ranks: "
        check(result.code == code, about + f"expected exit {code}, got {result}")
        check(len(result.errors) == 1, about + f"expected one error line, got {result}")
        if not np:
            check(result.err.strip() == result.errors[0], about + f"stderr has more than the error: {result.err}")
        for word in words:
            check(str(word) in result.errors[0], about + f"expected '{word}' in: {result.errors[0]}")
        check(self.files() == before, about + f"left behind {sorted(self.files() - before)}")
        return result

    def may_mount(self):
        """May this user mount file systems here, as run_with_mounts does?"""
        if not shutil.which("unshare"):
            return False
        trial = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", self.folder]
        return subprocess.run(trial, capture_output=True, check=False).returncode == 0

    def need_mounts(self):
        if not self.may_mount():
            skip("no file systems may be mounted here")

    def run_with_mounts(self, script, *args, np=0, **environment):
        """Runs `script` of bash, which may mount file systems (exit 99 where it cannot) and starts the program as "$@"."""
        command = ["unshare", "-rm", "bash", "-c", script, "bash", *self.command(args, np)]
        result = self.finish(command, env=environment)
        check(result.code != 99, f"cannot mount what could be mounted before: {result.err}")
        return result

    def preload(self, name, source, *definitions):
        """The environment in which `source`, C, takes the place of functions that the program calls. Ends the case (exit 77) where
        that cannot be."""
        compiler = shutil.which("cc")
        libraries = subprocess.run(["ldd", self.path], capture_output=True, text=True, check=True).stdout
        if not compiler or "libasan" in libraries or "libtsan" in libraries:
            skip("no compiler, or a sanitizer that wants to come first")
        (self.root / f"{name}.c").write_text(source)
        library = self.root / f"{name}.so"
        subprocess.run([compiler, "-shared", "-fPIC", *definitions, "-o", library, self.root / f"{name}.c", "-ldl"], check=True)
        return {"LD_PRELOAD": str(library)}

    def remove(self, *patterns):
        for old in [path for pattern in patterns for path in self.folder.glob(pattern)]:
            old.unlink()

    def files(self):
        return {str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file()}

    def field(self, step, path="out/u"):
        return read_field(self.folder / f"{path}.{step:08d}.hdf", self.path)

    def processes(self, rank_variable):
        """Process ids of this very program in this very folder, whoever started them, by rank (in their environment)."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/cwd") == str(self.folder) and os.readlink(f"/proc/{pid}/exe") == self.path:
                    environment = Path(f"/proc/{pid}/environ").read_text()
                    found[int(re.search(rank_variable + r"=(\d+)", environment).group(1))] = int(pid)
            except (OSError, AttributeError):  # it has just ended
                continue
        return [found[rank] for rank in sorted(found)]

    def skip_without_cuda(self):
        refused = self.run(self.config({"device.backend": "cuda"})).err
        if "no usable CUDA device" in refused or "not compiled in" in refused:
            skip("no CUDA")

    def kernels_here(self, names):
        """Those CUDA kernels that this program has for the card here."""
        tiny = self.config({"device.backend": "cuda", "grid.nx": 40, "grid.ny": 9, "grid.nz": 9, "time.steps": 1})
        return [name for name in names if self.run("-q", "--benchmark", "1", tiny, f"device.kernel={name}").code == 0]

    def close(self):
        self.kill_all()
        shutil.rmtree(self.root, ignore_errors=True)


class Running:
    """A run in the background, to be signalled or killed; use it in a `with`. Its output goes to files, which remain
    when it dies. `columns`: it prints to a terminal of that width, stderr too."""

    def __init__(self, program, *args, np=0, launch=(), env=None, columns=0):
        self.program, self.np, self.terminal = program, np, None
        self.paths = [program.root / name for name in ("running.out", "running.err")]
        with open(self.paths[0], "w") as out, open(self.paths[1], "w") as err:
            if columns:
                leader, out = pty.openpty()
                err = out
                fcntl.ioctl(out, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            self.process = subprocess.Popen(program.command(args, np, launch), cwd=program.folder, stdout=out, stderr=err,
                                            stdin=subprocess.DEVNULL, env={**program.environment, **(env or {})}, preexec_fn=begin_apart)
        if columns:
            os.close(out)
            self.terminal = threading.Thread(target=keep_terminal, args=(leader, self.paths[0]))
            self.terminal.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.program.kill_all()
            self.process.wait()
        if self.terminal:
            self.terminal.join()

    def out(self):
        """Its output so far; from a terminal with carriage returns."""
        return self.paths[0].read_bytes().decode()

    def ranks(self):
        """Process ids of the ranks, in order; fewer while mpiexec is starting them."""
        if not self.np:
            return [self.process.pid]
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if fields[0] != "Z" and int(fields[1]) == self.process.pid:
                found.append(int(stat.parent.name))
        return sorted(found)

    def wait_for(self, happened, what, may_end=False):
        """Waits until happened() is true; the run must still be there then, unless it may end."""
        end = time.monotonic() + PATIENCE
        while not happened():
            check(may_end or self.process.poll() is None, f"ended before {what}: {self.result()}")
            check(time.monotonic() < end, f"no {what} within {PATIENCE} s: {self.result()}")
            time.sleep(0.005)

    def may_step(self):
        """Has a run that measures its kernels printed its last line before the loop?"""
        return "kernel auto:" in self.out()

    def wait_until_it_steps(self):
        self.wait_for(self.may_step, "the start")
        time.sleep(0.5)

    def wait(self):
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {PATIENCE} s: {self.result()}") from None
        if self.terminal:
            self.terminal.join()
        return self.result()

    def result(self):
        return Result(self.process.poll(), self.out(), self.paths[1].read_text())


def keep_terminal(leader, path):
    """Copies what appears on a terminal to a file, until nobody has it open."""
    with open(path, "wb", buffering=0) as file:
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # Linux says EIO when the other side is closed
                part = b""
            if not part:
                break
            file.write(part)
    os.close(leader)


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_gone(pids, about):
    """Waits until all these processes have ended."""
    end = time.monotonic() + PATIENCE
    while any(map(alive, pids)):
        check(time.monotonic() < end, f"{about}: still there after {PATIENCE} s: {[p for p in pids if alive(p)]}")
        time.sleep(0.01)


def read_field(path, program, name="u"):
    """A dataset of float32: an array, or its bytes where h5py is missing (then through the program's own libhdf5)."""
    if h5py:
        with h5py.File(path, "r") as file:
            return file[name][...]
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    hdf5 = ctypes.CDLL(re.search(r"=> (\S*libhdf5(?!\S*_hl)\S*)", libraries).group(1))
    handle = ctypes.c_int64
    hdf5.H5open()
    for name in ("H5Fopen", "H5Dopen2"):
        getattr(hdf5, name).restype = handle
    hdf5.H5Dget_storage_size.restype = ctypes.c_uint64
    file = hdf5.H5Fopen(str(path).encode(), 0, handle(0))
    data = handle(hdf5.H5Dopen2(handle(file), name.encode(), handle(0)))
    buffer = ctypes.create_string_buffer(hdf5.H5Dget_storage_size(data))
    float32 = handle.in_dll(hdf5, "H5T_IEEE_F32LE_g")
    check(hdf5.H5Dread(data, float32, handle(0), handle(0), handle(0), buffer) >= 0, f"cannot read {path}")
    hdf5.H5Dclose(data)
    hdf5.H5Fclose(handle(file))
    return buffer.raw


def same_bits(a, b):
    return a == b if isinstance(a, bytes) else a.shape == b.shape and a.tobytes() == b.tobytes()


def write_field(path, values, name="u"):
    with h5py.File(path, "w") as file:
        file[name] = values


def jacobi_step(u, center, weights, value):
    """One step in float32 in the canonical order of operations, every multiply-add rounded once. `weights` is x, y, z
    of four each. The extended precision of long double makes the second rounding, to float32, harmless."""
    padded = np.pad(u, 4, constant_values=np.float32(value))
    wx, wy, wz = (np.float32(w) for w in weights)

    def at(dz=0, dy=0, dx=0):
        return padded[tuple(slice(4 + d, 4 + d + n) for d, n in zip((dz, dy, dx), u.shape))]

    def fma(weight, values, sum_):
        return (np.longdouble(weight) * values.astype(np.longdouble) + sum_).astype(np.float32)

    with np.errstate(over="ignore", invalid="ignore"):
        acc = wz[3] * at(dz=-4)
        for r in (3, 2, 1):
            acc = fma(wz[r - 1], at(dz=-r), acc)
        acc = fma(np.float32(center), at(), acc)
        for r in (1, 2, 3, 4):
            acc = fma(wy[r - 1], at(dy=-r) + at(dy=r), acc)
            acc = fma(wx[r - 1], at(dx=-r) + at(dx=r), acc)
        for r in (1, 2, 3, 4):
            acc = fma(wz[r - 1], at(dz=r), acc)
    return acc


def run_notebook(program, name, **environment):
    """Runs a notebook of jobs/notebooks from its first cell to its last; it must draw two pictures at least."""
    for package in ("nbconvert", "ipykernel", "matplotlib"):
        if importlib.util.find_spec(package) is None:
            skip(f"no {package}")
    sockets = program.root / "kernel"  # TCP ports would be chosen here and bound in the kernel, by then perhaps another test's
    if len(f"{sockets}-5") > 107:
        skip(f"no socket can have so long a name: {sockets}-5")
    private = ["--KernelManager.transport=ipc", f"--KernelManager.ip={sockets}"]
    path, done = SOURCE / f"jobs/notebooks/{name}.ipynb", program.folder / f"{name}.ipynb"
    convert = ["nbconvert", "--to", "notebook", "--execute", "--output-dir", program.folder, *private, path]
    env = {"PYTHONPATH": str(SOURCE / "python"), "STENCIL": program.path, "MPIRUN": program.mpiexec, "HOME": str(program.root), **environment}
    result = program.finish([sys.executable, "-m", *convert], timeout=600, env=env)
    check(result.code == 0 and done.exists(), f"{path.name}: {result.err[-3000:]}")
    check(done.read_text().count('"image/png"') >= 2, f"{path.name} drew nothing")


# --- the cases of a script ------------------------------------------------------------------------------------------

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def main(without_h5py=()):
    """SCRIPT CASE STENCIL MPIEXEC, or SCRIPT --list. Cases need h5py and numpy but for those named."""
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CASES))
        return
    if len(sys.argv) != 4 or sys.argv[1] not in CASES:
        sys.exit(f"usage: {Path(sys.argv[0]).name} CASE STENCIL MPIEXEC; cases: {' '.join(CASES)}")
    name = sys.argv[1]
    if h5py is None and name not in without_h5py:
        skip("python3 has no numpy or no h5py")
    program = Program(*sys.argv[2:])

    def end_all(number, _):
        program.kill_all()
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end_all)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
    end_with_parent()
    try:
        CASES[name](program)
        print(f"{name}: passed")
    except AssertionError as failure:
        sys.exit(f"{name}: FAILED: {failure}")
    finally:
        program.close()
