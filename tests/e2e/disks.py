#!/usr/bin/env python3
"""Runs that find their files damaged, their disk full or gone: nothing is lost, and nothing silently wrong.
disks.py CASE STENCIL MPIEXEC   |   disks.py --list
"""
import re
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from harness import Running, case, check, main, same_bits
from run_files import checkpoints, fields_of, run_mounted, temporaries

# --- disks that fill up or go away --------------------------------------------------------------------------------

SMALL = {"grid.nx": 40, "grid.ny": 40, "grid.nz": 40, "time.steps": 60, "equation.type": "wave", "output.path": "out/u",
         "checkpoint.path": "out/small/c", "checkpoint.every_steps": 10, "checkpoint.keep": 5}  # 512 kB each


def check_refusal(program, result, name, about, kept, removable=True):
    """Exit 2 naming the file; the earlier checkpoints are there, nothing else is that could be removed."""
    check(result.code == 2 and len(result.errors) == 1, f"{about}: expected exit 2 and one error, got {result}")
    check(re.search(name, result.errors[0]), f"{about}: expected '{name}' in {result.errors[0]}")
    found = checkpoints(program, "out/small/c")
    check(sorted(found) == kept, f"{about}: checkpoints {found}, not {kept}: {result}")
    check(not removable or not temporaries(program), f"{about}: left {temporaries(program)}")


def go_on(program, config, about):
    """The run goes on from what is left, with the bits of the undisturbed one."""
    newest = max(checkpoints(program, "out/small/c"))
    result = program.succeed("--restart", "auto", config, "checkpoint.every_steps=0", np=2)
    check(f"step {newest}\n" in result.out and "passed over" not in result.out, f"{about}: {result}")
    check(same_bits(program.field(60), program.field(60, "out/ref")), f"{about}: other bits")


@case
def disks(program):
    """Full disks, folders that are read-only or vanish: exit 2; earlier checkpoints stay."""
    config = program.config(SMALL)
    (program.folder / "out/small").mkdir()
    program.succeed("-q", config, "output.path=out/ref", "checkpoint.path=out/ref")
    vanished(program, config)
    if not program.may_mount():
        print("no file systems may be mounted here: a full disk and a read-only one are not checked")
        return
    mounted(program, config)


def vanished(program, config):
    folder, moved = program.folder / "out/small", program.folder / "out/moved"
    program.fail(2, ["[checkpoint] path = out/no/such/c: "], config, "checkpoint.path=out/no/such/c", np=2)
    program.fail(2, ["[output] path = out/no/such/u: "], config, "output.path=out/no/such/u")
    with Running(program, config, "time.steps=100000", "checkpoint.every_steps=2500", np=3) as run:
        run.wait_for(lambda: checkpoints(program, "out/small/c"), "a checkpoint")
        folder.rename(moved)
        result = run.wait()
    moved.rename(folder)
    for name in temporaries(program):  # what was being written then, nobody could find any more
        (program.folder / name).unlink()
    kept = sorted(checkpoints(program, "out/small/c"))
    check_refusal(program, result, r"out/small/c\.\d+\.h5: ", "a folder that vanishes", kept)
    go_further(program, config, kept[-1], "the folder vanished")


def go_further(program, config, newest, about):
    """The run goes on from its newest checkpoint, wherever that is, with the bits of the undisturbed one."""
    end = f"time.steps={newest + 9}"
    program.succeed("-q", "--restart", "auto", config, end, "checkpoint.every_steps=0")
    program.succeed("-q", config, end, "output.path=out/far", "checkpoint.every_steps=0")
    check(same_bits(program.field(newest + 9), program.field(newest + 9, "out/far")), f"{about}: other bits")
    empty(program)


# A disk that claims to be large: only writes fail.
LARGE_DISK = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/statvfs.h>
int statvfs(const char *path, struct statvfs *found) {
  int rc = ((int (*)(const char *, struct statvfs *))dlsym(RTLD_NEXT, "statvfs"))(path, found);
  found->f_bavail = found->f_blocks = 1L << 40;
  return rc;
}
"""


def mounted(program, config):
    name = r"out/small/c\.\d+\.h5: cannot write: "
    # By the clock, so that nobody knows before the run how many there will be; three fit.
    result = run_mounted(program, config, "time.steps=1000000", "checkpoint.every_steps=0", "checkpoint.every_seconds=0.1",
                         size="1900k")
    kept = sorted(checkpoints(program, "out/small/c"))
    check(len(kept) == 3, f"full disk: {kept}: {result}")
    check_refusal(program, result, name + ".*bytes are needed", "full disk", kept)
    go_further(program, config, kept[-1], "after the full disk")
    for io in ("collective", "gather", "server"):
        result = run_mounted(program, config, f"parallel.io={io}", size="1900k", ranks=3, **program.preload("large_disk", LARGE_DISK))
        check_refusal(program, result, name + "No space left on device", f"full disk, {io}", kept := sorted(checkpoints(program, "out/small/c")))
        check(kept, f"full disk, {io}: nothing is left: {result}")
        if io != "server":
            empty(program)
    go_on(program, config, "after the full disk")
    empty(program)
    result = run_mounted(program, config, read_only="before", size="4m")
    check_refusal(program, result, r"\[checkpoint\] path = out/small/c: ", "a read-only disk", [])
    check(not fields_of(program, "out/u"), "a read-only disk was noticed only after the first step")
    empty(program)
    result = run_mounted(program, config, "time.steps=100000", read_only="later", size="40m")
    kept = sorted(checkpoints(program, "out/small/c"))
    check(kept, f"a disk that becomes read-only: nothing is left: {result}")
    check_refusal(program, result, name + ".*Read-only", "a disk that becomes read-only", kept, removable=False)
    print(f"full and read-only disks: checked; at step {kept[-1]} the disk became read-only")


def empty(program):
    program.remove("out/small/*", "out/u.*")


if __name__ == "__main__":
    main()
