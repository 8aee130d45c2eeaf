#!/usr/bin/env python3
"""The program with libhdf5 in it under Valgrind: AddressSanitizer does not see what happens within that library.
valgrind.py CASE STENCIL MPIEXEC   |   valgrind.py --list

Exit 0: no memory is used that should not be; 1: some is, saying where; 77: cannot be checked here, saying why.
No error is suppressed. If another version of Open MPI or HDF5 needs it, say here why it is harmless.
"""
import shutil
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import case, check, main, skip

WRONG = 99  # an exit code that the program does not have
# Everything that writes a file: fields, as one block and in chunks, receivers, checkpoints.
RUN = {"grid.nx": 14, "grid.ny": 12, "grid.nz": 13, "time.steps": 3, "equation.type": "wave", "boundary.all": "absorbing",
       "boundary.width": 3, "initial.u": "random", "source.1.position": "5 5 5", "source.1.wavelet": "ricker",
       "source.1.f0": 10, "receivers.points": "4 4 4, 8 8 8", "output.every": 2, "device.threads": 2}
CHECKPOINTS = {"checkpoint.path": "out/c", "checkpoint.every_steps": 2}


def under_valgrind(program, *args):
    """Runs the program, on one rank, which must succeed."""
    if not shutil.which("valgrind"):
        skip("no valgrind")
    checked = program.run(*args, by=["valgrind", "-q", "--num-callers=30", f"--error-exitcode={WRONG}"], timeout=600)
    check(checked.code == 0, f"{args} under valgrind: {checked}")
    return checked


@case
def plain(program):
    under_valgrind(program, "-q", program.config({**RUN, "output.compress": 1}))


@case
def checkpoint(program):
    under_valgrind(program, "-q", program.config({**RUN, **CHECKPOINTS}))
    check("out/c.00000002.h5" in program.files(), f"no checkpoint was written: {sorted(program.files())}")


@case
def restart(program):
    config = program.config({**RUN, **CHECKPOINTS})
    program.succeed("-q", config)
    said = under_valgrind(program, "--restart", "out/c.00000002.h5", config)
    check("restart from out/c.00000002.h5" in said.out, f"no restart: {said}")


@case
def freed_memory_changes(program):
    """glibc overwrites freed memory at once: whoever uses it afterwards fails without Valgrind, too."""
    overwritten = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "MALLOC_PERTURB_": "85"}
    program.succeed("-q", program.config({**RUN, **CHECKPOINTS}), env=overwritten)


if __name__ == "__main__":
    main()
