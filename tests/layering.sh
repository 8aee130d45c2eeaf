#!/usr/bin/env bash
# The modules: a folder is a module, with a list of the modules and libraries it may use. This is that list; docs/DESIGN.md has it, too.
#   layering.sh   checks every #include of the tree, printing FILE:LINE and the reason for each violation; then checks
#                 itself: it plants violations of every module's rules in a copy, and each must be found
# A header of the same module is included by its name, one of another module as "module/name.h". Here, modules of kernels/ and io/ name
# each other without that; modules outside may use all of them where they may use kernels or io.
# An equation is named in its row of kernels/equations.def and in its file alone.
# Functions of one file (static, in .c) begin with a word of the file's name, so that a search finds them.
# What a user can set in the environment a document names.
set -euo pipefail
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# module | modules it may use | libraries it may use (mpi: any of its files, mpi:FILES: those only)
modules='
src/base    |                                                     | mpi:error_mpi,stop
kernels     | base                                                | cuda
kernels/equations  | kernels                                      |
kernels/operations | base kernels equations host                  | cuda
kernels/layers     | base kernels equations operations            | cuda
kernels/host       | base kernels equations operations layers     |
kernels/cuda       | kernels equations operations layers          | cuda
kernels/staging    | kernels equations operations layers cuda     | cuda
config      | base kernels halo                                   |
src/device  | base kernels                                        | cuda nvtx
src/halo    | base device kernels                                 | mpi
io/bytes    | base halo config                                    | mpi
io/hdf5     | base kernels halo config bytes                      | mpi hdf5
io/input    | base kernels config bytes hdf5                      | mpi hdf5
io/output   | base config bytes hdf5 input                        | mpi hdf5
io/checkpoint | base bytes hdf5 input output                      | mpi hdf5
io          | base config bytes hdf5 input output checkpoint      | mpi
src/physics | base device halo kernels config io                  | mpi
src/acquisition | base device halo physics kernels config io          | mpi
src/step    | base device halo physics acquisition kernels config | mpi
src/engine  | base device halo physics acquisition step kernels config io | mpi
src/propagator | base device halo physics acquisition step engine kernels config io | mpi
src/shot    | base device halo physics acquisition step engine propagator kernels config io | mpi
src/survey  | base device halo physics acquisition step engine propagator shot kernels config io | mpi
src/library | base device step shot survey config io include      | cuda
src/run     | base device halo physics acquisition step engine propagator shot survey kernels config io | mpi
'

# Prints "FILE:LINE HEADER" of every #include below ROOT; the header with its quote or bracket in front.
includes() {
  (cd "$1" && find src kernels io config -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) \
    -exec grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' {} + |
    sed -E 's/^([^:]*:[0-9]*):[^<"]*([<"][^>"]*).*/\1 \2/')
}

library_of() { # HEADER -> name of a library that not every module may use
  case $1 in
    '<mpi.h' | '"mpi.h') echo mpi ;;
    [\<\"]*hdf5.h | [\<\"]*hdf5_hl.h | [\<\"]*H5*.h) echo hdf5 ;;
    [\<\"]nvtx3/*) echo nvtx ;;
    [\<\"]cuda* | [\<\"]cooperative_groups*) echo cuda ;;
  esac
}

declare -A may_use libraries
while IFS='|' read -r module others allowed; do
  module=${module// /}
  [[ $module ]] || continue
  may_use[$module]=" ${others} " libraries[$module]=" ${allowed} "
done <<<"$modules"

# may_include FILE HEADER: says why not.
may_include() {
  local file=$1 header=$2 module=${1%/*} name=${2#?} library stem allowed
  stem=${file##*/} stem=${stem%%.*}
  if [[ ! -v may_use[$module] ]]; then echo "$module is no module"; return 1; fi
  library=$(library_of "$header")
  if [[ $library ]]; then
    allowed=${libraries[$module]}
    if [[ $library == cuda && ! $file =~ \.cuh?$ ]]; then echo "CUDA is for .cu and .cuh files"; return 1; fi
    [[ $allowed == *" $library "* || $allowed =~ \ $library:([^ ]*,)?$stem[\ ,] ]] && return 0
    echo "$module may not use $library${allowed:+ (it may:$allowed)}"
    return 1
  fi
  [[ $header == \"* && $name == */* ]] || return 0
  if [[ $name == ../* ]]; then echo "a header of another module is included as \"module/name.h\""; return 1; fi
  [[ $name == "${module%%/*}"/*/* ]] && name=${name#*/}
  [[ ${may_use[$module]} == *" ${name%%/*} "* ]] && return 0
  echo "$module may use only:${may_use[$module]}"
  return 1
}

# Prints "FILE:LINE: NAME ..." of every static function below ROOT that lacks its file's prefix: its first word and one of the
# file's name begin with the same four letters (a shorter word: with all of it).
unprefixed() {
  (cd "$1" && find src kernels io config -name '*.c' -exec awk '
    function begins(a, b, n) {
      n = length(a) < length(b) ? length(a) : length(b)
      return substr(a, 1, n < 4 ? n : 4) == substr(b, 1, n < 4 ? n : 4)
    }
    /^static [^=;]*[ *][a-z_0-9]+\(/ {
      name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
      first = name; sub(/_.*/, "", first)
      n = split(FILENAME, path, "/"); sub(/\.c$/, "", path[n]); m = split(path[n], word, "_")
      for (i = 1; i <= m; i++) if (begins(first, word[i])) next
      print FILENAME ":" FNR ": " name " does not begin with a word of the name of its file"
    }' {} +)
}

# Prints "FILE:LINE: ..." of every line of code below ROOT that names or compares an equation.
naming() {
  local names
  names=$(sed -nE 's/^EQUATION\((\w+),.*/\1/p' "$1/kernels/equations.def" | paste -sd '|')
  (cd "$1" && grep -rnE "EQUATION_($names)\b|\bequation (==|!=)" --include='*.[ch]' --include='*.cu' --include='*.cuh' \
    src io config kernels | sed 's/$/ names an equation/')
}

# Prints "FILE:LINE ..." of every variable of the environment below ROOT, but Open MPI's, that no document names.
unwritten() {
  local place name
  while read -r place name; do
    grep -qw "$name" "$tree"/README.md "$tree"/docs/*.md || echo "$place no document names the variable $name"
  done < <(cd "$1" && grep -rnoE 'getenv\("[^"]+"' src io config kernels | sed -E '/"OMPI_/d; s/getenv\("(.*)"/ \1/')
}

check_tree() {
  local place header why bad=0 count=0
  while read -r place header; do
    count=$((count + 1))
    why=$(may_include "${place%:*}" "$header") || { echo "$place: includes ${header#?}: $why"; bad=1; }
  done < <(includes "$1")
  why=$(unprefixed "$1"; unwritten "$1"; naming "$1" || true)
  if [[ $why ]]; then echo "$why"; bad=1; fi
  if ((count < 20)); then
    echo "layering: only $count includes found below $1: nothing to check?"
    return 1
  fi
  ((bad)) || echo "layering: $count includes follow the rules"
  return "$bad"
}

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
self_test() {
  local plant file header module
  local plants=('src/base/error.c "device/device.h"' 'src/base/error.c <mpi.h>' 'kernels/registry.c "kernels/equations/terms.h"'
    'kernels/equations/point.h "kernels/host/host_simd.h"' 'kernels/operations/operations.c "kernels/layers/absorb.h"'
    'kernels/layers/absorb.c "kernels/host/host_simd.h"' 'kernels/host/reference.c "halo/slab.h"'
    'kernels/cuda/persistent.cu "kernels/host/host_simd.h"' 'kernels/staging/naive.cu "kernels/host/host_simd.h"'
    'config/config.c "device/device.h"' 'src/device/device.c "halo/halo.h"' 'src/halo/slab.c "step/step.h"'
    'src/halo/transport_ipc.c <hdf5.h>' 'io/hdf5/field_io.c "io/input/input.h"' 'io/bytes/rows.c <hdf5.h>'
    'io/input/input.c "io/output/space.h"' 'io/output/series.c "io/files.h"' 'io/checkpoint/checkpoint_read.c "halo/halo.h"' 'io/files.c "step/step.h"' 'src/physics/fd.c "acquisition/place.h"'
    'src/step/step.c "io/files.h"' 'src/engine/engine.c "shot/shot.h"' 'src/acquisition/place.c "step/step.h"'
    'src/propagator/plan.c "shot/shot.h"' 'src/shot/misfit.c "survey/batch.h"' 'src/survey/batch.c "run/run.h"' 'src/survey/report.c <hdf5.h>' 'src/library/arrays.c <hdf5.h>' 'src/run/cli.c <hdf5.h>'
    'src/device/device_host.c <cuda_runtime.h>' 'src/run/run.c "../shot/shot.h"')
  for module in "${!may_use[@]}"; do
    if [[ "${plants[*]/#/@}" != *"@$module/"* ]]; then echo "layering: self-test: no violation is planted in $module"; return 1; fi
  done
  cp -r "$tree"/{src,kernels,io,config} "$copy"
  for plant in "${plants[@]}"; do printf '  #  include %s\n' "${plant#* }" >>"$copy/${plant%% *}"; done
  printf 'static int other_name(int a) { return a; }\n' >>"$copy/io/bytes/rows.c"
  printf 'int a = EQUATION_WAVE;\n' >>"$copy/io/output/space.c"
  printf 'int b = c->equation == 2;\n' >>"$copy/kernels/staging/naive.cu"
  printf 'const char *a = getenv("%s");\n' TRIED >>"$copy/io/output/series.c"
  check_tree "$copy" >"$copy/output" || true
  grep -q "^io/bytes/rows.c:[0-9]*: other_name does not" "$copy/output" || { echo "layering: self-test: no prefix is missed"; return 1; }
  grep -q "^io/output/series.c:[0-9]*:.*variable TRIED" "$copy/output" || { echo "layering: self-test: a variable is missed"; return 1; }
  for plant in io/output/space.c kernels/staging/naive.cu; do
    grep -q "^$plant:[0-9]*:.*names an equation" "$copy/output" || { echo "layering: self-test: an equation in $plant is missed"; return 1; }
  done
  for plant in "${plants[@]}"; do
    file=${plant%% *}
    header=${plant#* } header=${header:1:-1}
    if ! grep -F "$file:" "$copy/output" | grep -qF "includes $header: "; then
      echo "layering: self-test: '#include ${plant#* }' in $file was not found"
      return 1
    fi
  done
  echo "layering: all ${#plants[@]} planted violations were found"
}

check_tree "$tree"
self_test
