#!/usr/bin/env bash
# From a fresh clone to a picture: installs what is missing, builds, makes a layered input field, runs stencil on two
# ranks and draws a slice before and after. Everything lands in build/.
#   jobs/quickstart.sh [section.key=value ...]      e.g. jobs/quickstart.sh time.steps=1000 output.every=250
#   RANKS=4 jobs/quickstart.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ${1-} == -h || ${1-} == --help ]]; then
  sed -n '2,5s/^# \{0,1\}//p' jobs/quickstart.sh
  exit 0
fi
overrides=("$@")
set -- # a sourced script sees these arguments
. jobs/setup.sh

out=build/quickstart
config=config/quickstart.ini
ranks=${RANKS:-2}
grid() { sed -n "s/^$1 *= *\([0-9]*\).*/\1/p" "$config"; }

mkdir -p "$out"
rm -f "$out"/field.* "$out"/slice.png

echo "[1/4] building (log: $out/build.log)"
cuda=AUTO
if command -v nvcc >/dev/null && [[ ! -e /dev/dxg ]] && ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  cuda=OFF
  echo "      no GPU here, so without CUDA; with it: cmake --preset cuda && cmake --build --preset cuda"
fi
run_logged "$out/configure.log" cmake --preset release -DSTENCIL_CUDA="$cuda"
run_logged "$out/build.log" cmake --build --preset release --target stencil

echo "[2/4] making the input field"
/usr/bin/python3 jobs/make_input.py "$out/input.h5" "$(grid nx)" "$(grid ny)" "$(grid nz)"

echo "[3/4] mpirun -np $ranks build/release/stencil $config ${overrides[*]}"
here=("initial.u=$out/input.h5:/u" "output.path=$out/field")
mpirun -np "$ranks" build/release/stencil --report "$out/report.json" "$config" "${here[@]}" "${overrides[@]}"

echo "[4/4] drawing"
fields=("$out"/field.*.hdf)
/usr/bin/python3 jobs/plot.py "${fields[-1]}" --compare "${fields[0]}" --axis y --label "velocity (m/s)" \
  --out "$out/slice.png"

cat <<END

  picture      $out/slice.png
  fields       $out/field.xdmf and field.*.hdf (ParaView 5.11 or later opens them)
  report       $out/report.json
  next         build/release/stencil --dry-run $config ${here[*]}; or edit the .ini
END
