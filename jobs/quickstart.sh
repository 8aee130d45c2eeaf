#!/usr/bin/env bash
# From a fresh clone to a picture: installs missing packages, builds, makes a model of the subsurface, runs a seismic
# shot over it on two ranks (config/shot.ini) and draws the wave and the seismogram. Everything lands in build/.
#   jobs/quickstart.sh [section.key=value ...]      e.g. jobs/quickstart.sh "source.1.position=1200 320 16"
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
ranks=${RANKS:-2}
rm -f "$out"/{shot.*,*.png}

echo "[1/4] building (log: $out/build.log)"
stencil_build "$out"

echo "[2/4] making the model"
python3 jobs/make_model.py "$out/model.h5"

echo "[3/4] mpirun -np $ranks build/release/stencil config/shot.ini ${overrides[*]}"
here=("medium.velocity=$out/model.h5:/vp" "output.path=$out/shot")
mpirun -np "$ranks" build/release/stencil --report "$out/report.json" config/shot.ini "${here[@]}" "${overrides[@]}"

echo "[4/4] drawing"
fields=("$out"/shot.*.hdf)
python3 jobs/plot.py slice "${fields[${#fields[@]} / 3]}" --model "$out/model.h5:/vp" --out "$out/wave.png"
python3 jobs/plot.py gather "$out/shot.receivers.h5" --out "$out/gather.png"

cat <<END

  pictures     $out/wave.png      the wave over the model
               $out/gather.png    the seismogram
  fields       $out/shot.hdf.series (ParaView 5.11 or later opens it)
  report       $out/report.json
  next         build/release/stencil --dry-run config/shot.ini ${here[*]}; or edit the .ini
END
