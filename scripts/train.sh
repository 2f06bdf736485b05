#!/usr/bin/env bash
# Trains a bundled model from the corpora in $SPECMT_CORPORA; every step goes on where it stopped. See docs/training.md.
# Usage: SPECMT_CORPORA=... scripts/train.sh de-en|en-de [FOLDER]
# INITIAL=MODEL starts from a model folder (its pieces too), whatever its direction, instead of from nothing;
# where it has no drafters, they start from the bundled model's.
# BACK=MODEL, of the other direction, translates the monolingual text of the target language, to be trained on too.
# UPDATES, COOLDOWN, BEAMED, POLISH, SENTENCES, MASKED and AUTOREGRESSIVE (updates of drafters), EXCLUDE and PROCESSES
# change what they say.
set -euo pipefail
direction=${1:?de-en or en-de}
runs=${2:-runs/$direction}
source=${direction%-*} target=${direction#*-}
processes=${PROCESSES:-$(nproc)}
here=$(dirname "$0")

# glibc's malloc searches long lists of what was freed, since no two batches have the same shape. Memory is given back
# after a second: otherwise a process grows to 12 GB.
jemalloc=$(ldconfig -p 2>/dev/null | awk '/libjemalloc\.so\.2/ {print $NF; exit}' || true)

# A process a core with one thread each. Updates of 24,576 ids, so that all have enough to do.
train() {
    LD_PRELOAD=$jemalloc MALLOC_CONF=thp:always,dirty_decay_ms:1000,muzzy_decay_ms:1000 OMP_NUM_THREADS=1 \
        python -m torch.distributed.run --standalone --nproc-per-node "$processes" -m specmt train "$@" \
        --threads 1 --tokens-per-update 24576 --dropout 0
}

pieces=() start=(--warmup 100 --lr 3e-3 --short-first 200 --short-length 24) drafters=()
updates=${UPDATES:-6200} cooldown=${COOLDOWN:-1500} beamed=${BEAMED:-200000} polish=${POLISH:-600}
masked=${MASKED:-1200} autoregressive=${AUTOREGRESSIVE:-900}
if [[ -n ${INITIAL:-} ]]; then
    pieces=(--pieces "$INITIAL/pieces.model")
    if grep -q "\"source\": \"$source\"" "$INITIAL/config.json"; then
        start=(--warmup 40 --lr 2.5e-3)
        begin=$INITIAL
        grep -q '"drafter": {' "$INITIAL/config.json" || begin=$(python -m specmt models path "$direction")
        cmp -s "$INITIAL/pieces.model" "$begin/pieces.model" && drafters=(--initial "$begin")
    fi
    start+=(--initial "$INITIAL")
fi

back=()
if [[ -n ${BACK:-} ]]; then
    back=(--back "$runs/back" --back-weight 1.5)
    mkdir -p "$runs/back"
    for text in "$SPECMT_CORPORA"/mono/*."$target".gz; do
        name=$runs/back/$(basename "$text" ".$target.gz")
        [[ -e $name.$target ]] && continue
        python -m specmt translate "$text" -o "$name.$source" --model "$BACK" --threads "$processes"
        gunzip -c "$text" >"$name.$target.tmp"
        mv "$name.$target.tmp" "$name.$target" # last: the pair is whole
    done
fi

[[ -e $runs/data/data.json ]] || python "$here/data.py" "$runs/data" --direction "$direction" \
    --exclude "${EXCLUDE:-}" "${pieces[@]}" "${back[@]}"

train verifier "$runs/verifier" --data "$runs/data" --from "$source" --to "$target" "${start[@]}" \
    --updates "$updates" --schedule constant --cooldown "$cooldown" --validate-every 250 --validation-lines 200 \
    --save-every 25 --average 5

python "$here/best_of_beam.py" "$runs/beam" --data "$runs/data" --model "$runs/verifier/model" \
    --pairs "$beamed" --references "$((beamed * 5 / 7))" --threads "$processes"
final=$runs/final
train verifier "$final" --data "$runs/beam" --initial "$runs/verifier/model" --from "$source" --to "$target" \
    --updates "$polish" --cooldown "$((polish * 4 / 5))" --schedule constant --warmup 15 --lr 1.2e-3 \
    --label-smoothing 0 --validate-every 100 --validation-lines 200 --save-every 25

# Drawn from the mixture, in which news counts four times: of all distinct lines it would be a twentieth.
texts=()
for text in "$runs"/data/text/*."$source"; do
    [[ $text == */kde4-l10n.* || $text == */yast-l10n.* || $text == */back-* ]] || texts+=("$text")
done
cat "${texts[@]}" | shuf --random-source=<(yes) -n "${SENTENCES:-240000}" >"$runs/distilled.$source"
python -m specmt distill "$runs/distilled" "$runs/distilled.$source" --model "$final/model" \
    --max-length 64 --threads "$processes"

train drafter "$runs/drafter" --data "$runs/distilled" --verifier "$final/model" --block-size 10 --spacing 6 \
    --updates "$masked" --warmup 40 --lr 2e-3 --save-every 50 --validate-every 200 --validation-data "$runs/data" "${drafters[@]}"

train drafter "$runs/both" --kind autoregressive --data "$runs/distilled" --verifier "$runs/drafter/model" \
    --updates "$autoregressive" --warmup 20 --lr 5e-3 --save-every 50 --validate-every 200 --validation-data "$runs/data" "${drafters[@]}"

python -m specmt shortlist "$runs/both/model" --distilled "$runs/distilled" --limit 240000
python "$here/finish.py" "$runs/both/model" "$runs/model" --text "$runs/data/text"
echo "The model is in $runs/model."
