#!/usr/bin/env bash
# Dependencies run downwards only: who may include what (docs in DESIGN: "The house").
#   layering.sh   checks the tree, printing FILE:LINE and the reason for each violation; then checks itself: it plants
#                 one violation of every rule in a copy, and each must be found
set -euo pipefail
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# files a rule is about | headers (all of the name) | what it does not forbid, as "FILE HEADER" | reason       (regexes)
rules=(
  '. | mpi\.h | ^src/(main|run|simulation|setup|load|save|saving|survey|tune|tune_wavefront|cores|node_window|physics|source|receiver|state|stop|watchdog|halo|halo_test|transport\w*|step|cli|error_mpi)\.|^io/ | MPI is for the run and its parts, halo, step, cli, error_mpi and io'
  '. | (.*/)?(hdf5|H5).*\.h | ^io/ | HDF5 is for io/'
  '. | (cuda|cooperative_groups|nv).* | \.cuh?\ |^src/trace.h nvtx3/ | CUDA is for .cu and .cuh files'
  '. | (.*/)?nccl.*\.h | ^src/transport_nccl\.c | NCCL is for its transport'
  '^kernels/ | \.\./.* | \ \.\./src/(error|nearest)\.h$ | a kernel knows its arguments and errors, nothing else of the program'
  '^src/(error|slab|nearest|fd)\. | .*(device|halo|step|run|simulation|transfer|config|field_io|kernel|report|log)\.h | ^$ | the lowest layer includes none above it'
  '^src/(device|host_\w+) | .*(halo|step|run|simulation|transfer|config|field_io|series|report|cli)\.h | ^$ | a device knows nothing of the run, the halo or files'
  '^src/(halo|step|step_phases|transfer)\. | .*(run|simulation|config|field_io|series|report|cli)\.h | ^$ | the step loop knows nothing of the run, its configuration or files'
  '^config/ | .*(device|halo|step|run|simulation|field_io|report)\.h | ^$ | the configuration knows nothing of what uses it'
  '^io/ | .*(device|halo|step|run|simulation|transfer|cli|report)\.h | ^$ | files know nothing of the run'
)

# Prints "FILE:LINE:HEADER" of every #include below ROOT.
includes() {
  (cd "$1" && find src kernels io config -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) \
    -exec grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]' {} + |
    sed -E 's/^([^:]*:[0-9]*):[^<"]*[<"]([^>"]*).*/\1:\2/')
}

about=() headers=() except=() reason=()
for rule in "${rules[@]}"; do
  IFS='~' read -r about[${#about[@]}] headers[${#headers[@]}] except[${#except[@]}] reason[${#reason[@]}] <<<"${rule// | /\~}"
done

check_tree() {
  local file line header i bad=0 count=0
  while IFS=: read -r file line header; do
    count=$((count + 1))
    for i in "${!rules[@]}"; do
      if [[ $header =~ ^(${headers[i]})$ && $file =~ ${about[i]} && ! "$file $header" =~ ${except[i]} ]]; then
        echo "$file:$line: includes $header: ${reason[i]}"
        bad=1
      fi
    done
  done < <(includes "$1")
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
  local plant file last
  local plants=('src/slab.c <mpi.h>' 'src/report.c <hdf5.h>' 'src/device_host.c <cuda_runtime.h>'
    'src/transport_ipc.c <nccl.h>'
    'kernels/reference.c "../src/slab.h"' 'src/error.c "device.h"' 'src/device.c "halo.h"' 'src/halo.c "simulation.h"'
    'config/config.c "../src/device.h"' 'io/field_io.c "../src/step.h"')
  if ((${#plants[@]} < ${#rules[@]})); then
    echo "layering: self-test: ${#rules[@]} rules but only ${#plants[@]} planted violations"
    return 1
  fi
  cp -r "$tree"/{src,kernels,io,config} "$copy"
  for plant in "${plants[@]}"; do printf '  #  include %s\n' "${plant#* }" >>"$copy/${plant%% *}"; done
  check_tree "$copy" >"$copy/output" || true
  for plant in "${plants[@]}"; do
    file=${plant%% *} last=$(wc -l <"$copy/${plant%% *}")
    if ! grep -q "^$file:$last: " "$copy/output"; then
      echo "layering: self-test: '#include ${plant#* }' in $file was not found"
      return 1
    fi
  done
  echo "layering: all ${#plants[@]} planted violations were found"
}

check_tree "$tree"
self_test
