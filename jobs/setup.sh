#!/usr/bin/env bash
# Makes a Debian 12 or Ubuntu 24.04 machine able to build, run and test stencil. Sourced by the other scripts here.
#   . jobs/setup.sh               installs the packages that are missing (root or sudo), then sets the environment
#   . jobs/setup.sh environment   sets the environment only: for clusters, where modules bring the software
# When nothing is missing it needs no network and no rights.

stencil_packages=(
  build-essential cmake file ninja-build pkg-config
  openmpi-bin libopenmpi-dev libhdf5-openmpi-dev hdf5-tools
  libcjson-dev libxxhash-dev zlib1g-dev libcmocka-dev
  python3 python3-numpy python3-h5py python3-matplotlib)

# Some tests use these, and are skipped without: jobs/test.sh installs them if it can.
# The test of ParaView needs paraview, python3-paraview and xvfb: more than half a GB, to be asked for by hand.
stencil_test_packages=(valgrind python3-segyio python3-nbconvert python3-ipykernel
  python3-xarray python3-h5netcdf python3-netcdf4)

stencil_missing_packages() { # PACKAGE...
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

stencil_install() { # PACKAGE...
  if ! command -v apt-get >/dev/null; then
    echo "setup: not a Debian system: make sure that CMake >= 3.22, Ninja, MPI, HDF5, cJSON, xxHash and cmocka are there"
    return 0
  fi
  local missing as_root=() apt=(apt-get -o DPkg::Lock::Timeout=120)
  mapfile -t missing < <(stencil_missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "setup: error: these packages are missing, and only root or sudo can install them: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
    [[ -t 0 ]] || as_root+=(-n) # nobody is there to type a password
  fi
  echo "setup: installing ${missing[*]}"
  as_root+=(env DEBIAN_FRONTEND=noninteractive LC_ALL=C)
  "${as_root[@]}" "${apt[@]}" -qq update >/dev/null || true # the lists there may do; if not, the next line says so
  if ! "${as_root[@]}" "${apt[@]}" -qq install -y --no-install-recommends "${missing[@]}" >/dev/null; then
    echo "setup: error: apt-get could not install: ${missing[*]}" >&2
    return 1
  fi
}

stencil_environment() {
  if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
    export PATH=$PATH:/usr/local/cuda/bin
  fi
  if ((EUID == 0)); then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  # More ranks than cores is fine for a trial, if waiting ranks leave the core to others; a rank's threads may use every
  # core; and containers often forbid the system call behind single copies between processes.
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
  export HWLOC_COMPONENTS=${HWLOC_COMPONENTS--cuda,-nvml,-opencl,-gl} # mpirun need not start the driver of GPUs
  # The tools need the distribution's packages, which another python3 that is first on PATH does not see.
  if ! python3 -c 'import h5py, matplotlib' 2>/dev/null && /usr/bin/python3 -c 'import h5py, matplotlib' 2>/dev/null; then
    export PATH=/usr/bin:$PATH
  fi
}

# stencil_help [ARGUMENT...]: where the first asks for help, prints the head of the script that calls this, and ends it.
stencil_help() {
  [[ ${1-} == -h || ${1-} == --help ]] || return 0
  sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]%/*}/${BASH_SOURCE[1]##*/}"
  exit 0
}

# run_logged LOG COMMAND...: output into LOG, and its end on the screen if the command fails.
run_logged() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 || {
    local code=$?
    tail -n 40 "$log" >&2
    echo "error: '$*' failed (exit $code); all of its output: $log" >&2
    return "$code"
  }
}

# stencil_build LOGS: builds build/release/stencil for the GPUs that are here, or without CUDA.
stencil_build() {
  local cuda=AUTO
  if command -v nvcc >/dev/null && [[ ! -e /dev/dxg ]] && ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
    cuda=OFF
    echo "      no GPU here, so without CUDA; with it: cmake --preset cuda && cmake --build --preset cuda"
  fi
  mkdir -p "$1"
  run_logged "$1/configure.log" cmake --preset release -DSTENCIL_CUDA="$cuda" &&
    run_logged "$1/build.log" cmake --build --preset release --target stencil
}

if [[ ${1-} != environment ]]; then
  stencil_install "${stencil_packages[@]}"
fi
stencil_environment
