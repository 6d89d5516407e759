#!/usr/bin/env bash
# What runs on a rented GPU, in rounds of at most ten minutes:
#
#   here:   ./dev gpu-pack                              # builds, and packs what a machine without compilers and headers needs
#   there:  OUT=FOLDER tests/gpu/rounds.sh ROUND        # in the checkout, with build/gpu-pack beside it
#
# ROUND  tests    programs, AOTI, the demo, launches that are saved and replayed; their results as JSON in $OUT
#        alone    what fills the GPU or measures it: nothing runs beside it; results as JSON in $OUT
#        stories  torture and the Python stories; the results file, with the JSON files that lie in build/gpu-pack
#        figures  ./dev bench; goes on with build/gpu-pack/bench/bench.json
#        matrix   ./dev matrix, what cufence finds; goes on with build/gpu-pack/matrix.json, takes build/gpu-pack/corpora.txz: corpora/NAME/built
#        others   the same of other tools, with the compute-sanitizer of build/sanitizer/*.tgz, else that of PATH. MATRIX_JOBS: 12 without it
#        sweep    no false NaN in PyTorch's operators; torture
#        elsewhere  replays of the bundles (bundle_*.tgz) in build/gpu-pack: of another machine. Then the cost of values
# Each part has a line in the table at the end: exit status, seconds, what it said last; its log is in logs.tgz in $OUT. A part that no
# time is left for is "left out". ROUND_SECONDS: the time of a round, 580 without it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${OUT:?"OUT names the folder for logs and results"} pack=build/gpu-pack
table=$out/table.txt logs=$(mktemp -d)
mkdir -p "$out"
: >"$table"

# part NAME SECONDS COMMAND...
part() {
    local name=$1 limit=$2 left=$((${ROUND_SECONDS:-580} - SECONDS)) began=$SECONDS status=0
    shift 2
    if [ "$left" -lt 15 ]; then
        printf '%-14s left out\n' "$name" >>"$table"
        return
    fi
    timeout -k 5 "$((limit < left ? limit : left))" "$@" >"$logs/$name.log" 2>&1 || status=$?
    printf '%-14s %3d %4d s  %s\n' "$name" "$status" "$((SECONDS - began))" "$(tail -1 "$logs/$name.log" | cut -c1-100)" >>"$table"
}

unpack() {
    if [ -e "$pack/pack.tgz" ]; then
        tar xzf "$pack/pack.tgz" && rm "$pack/pack.tgz"
    fi
    export CUFENCE_PREBUILT=1 LD_LIBRARY_PATH=$PWD/build/extra-libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    wheel=$(compgen -G 'build/wheel/*.whl' | tail -1)
}

# Bundles of a few faults, for the round `elsewhere`.
save_bundles() {
    local kind folder
    for kind in store_4 pinned graph; do
        folder=$(mktemp -d)
        build/bin/cufence run --set "keep=$folder" -- build/bin/programs/rerun.static "$kind" || true
        (cd "$folder" && tar czf - .) >"$out/bundle_$kind.tgz"
    done
}

replay_bundles() {
    local file folder bundle status=0
    for file in "$pack"/bundle_*.tgz; do
        folder=$(mktemp -d)
        tar xzf "$file" -C "$folder"
        for bundle in "$folder"/fault-*/; do
            echo "== $(basename "$file")"
            build/bin/cufence replay "$bundle"
            [ $? -eq 86 ] || status=1
        done
    done
    return $status
}
export -f save_bundles replay_bundles
export out pack

unpack
case ${1:?"which round? See the top of this file"} in
    tests)
        part doctor 60 build/bin/cufence doctor
        {
            part aoti 200 python3 tests/gpu/aoti.py --json "$out/aoti.json"
            part demo 60 python3 tests/gpu/demo.py --json "$out/demo.json"
            part saved 90 python3 tests/gpu/saved.py
            part guarded 200 python3 tests/gpu/guarded.py --json "$out/guarded.json"
        } &
        part programs 300 python3 tests/gpu/run.py --programs --json "$out/programs.json"
        part program_dump 120 python3 tests/gpu/faults.py program_dump --json "$out/program_dump.json"
        part bundles 60 bash -c save_bundles
        wait
        ;;
    alone)
        part contract 300 python3 tests/contract/contract.py --json "$out/contract.json"
        part loaded 120 python3 tests/gpu/faults.py loaded --json "$out/loaded.json"
        part alike 270 python3 tests/gpu/alike.py --json "$out/alike.json"
        part ends 300 python3 tests/gpu/faults.py ends --json "$out/ends.json"
        part full_card 150 python3 tests/gpu/full_card.py --json "$out/full_card.json"
        ;;
    stories)
        also=()
        for json in "$pack"/*.json; do
            [ ! -e "$json" ] || also+=(--also "$json")
        done
        CUFENCE_TORTURE_MINUTES=${CUFENCE_TORTURE_MINUTES:-2} part torture 200 python3 tests/torture/torture.py --json "$out/torture.json"
        [ ! -e "$out/torture.json" ] || also+=(--also "$out/torture.json")
        part stories 560 python3 tests/gpu/run.py --stories --jobs 4 ${wheel:+--wheel "$wheel"} "${also[@]}" --results "$out/results.md" --json "$out/stories.json"
        ;;
    figures)
        [ ! -e "$pack/bench/bench.json" ] || cp "$pack/bench/bench.json" "$out/bench.json"
        part bench $((${ROUND_SECONDS:-580} - 20)) ./dev bench --json "$out/bench.json" --limit $((${ROUND_SECONDS:-580} - 40))
        ;;
    matrix | others)
        tools=(--only run --only strict --only own)
        if [ "$1" = others ]; then
            tools=(--only native --only dumps --only memcheck --only memcheck_uncached --only own_tool)
            tar xzf build/sanitizer/*.tgz -C build/sanitizer && PATH=$(echo "$PWD"/build/sanitizer/*/):$PATH
        fi
        [ ! -e "$pack/matrix.json" ] || cp "$pack/matrix.json" "$out/matrix.json"
        corpora=()
        [ ! -e "$pack/corpora.txz" ] || python3 -m tarfile -e "$pack/corpora.txz" "$pack"
        for folder in "$pack"/corpora/*/; do
            [ ! -d "$folder" ] || corpora+=(--corpus "$(basename "$folder")=$folder")
        done
        part matrix $((${ROUND_SECONDS:-580} - 5)) ./dev matrix --json "$out/matrix.json" --jobs "${MATRIX_JOBS:-12}" \
            --limit $((${ROUND_SECONDS:-580} - 40)) "${tools[@]}" "${corpora[@]}"
        ;;
    sweep)
        part nan_sweep 420 python3 tests/gpu/nan_sweep.py --json "$out/nan_sweep.json"
        CUFENCE_TORTURE_MINUTES=${CUFENCE_TORTURE_MINUTES:-2} part torture 160 python3 tests/torture/torture.py --devices 1 --json "$out/torture.json"
        ;;
    elsewhere)
        part replays 120 bash -c replay_bundles
        part values 300 ./dev bench --limit 280 --json "$out/values.json" --only training --only inference --only small --only run \
            --only values_none --only values_one --only values_all --only nan --only nan_10 --only nan_stop
        ;;
    *)
        sed -n '2,17p' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
esac
tar czf "$out/logs.tgz" -C "$logs" . && rm -r "$logs"
cat "$table"
! grep -Eq '^[^ ]+ +[1-9]' "$table"
