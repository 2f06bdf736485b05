#!/usr/bin/env bash
# Trains a bundled model from the corpora in $SPECMT_CORPORA; every step goes on where it stopped. See docs/training.md.
# Usage: SPECMT_CORPORA=... scripts/train.sh de-en|en-de [FOLDER]
# INITIAL=MODEL starts from a model folder (its pieces too), whatever its direction, instead of from nothing.
# UPDATES, COOLDOWN, BEAMED, POLISH, THREADS, SENTENCES and EXCLUDE change what they say. It needs pip install '.[peers]'.
set -euo pipefail
direction=${1:?de-en or en-de}
runs=${2:-runs/$direction}
source=${direction%-*} target=${direction#*-}
threads=${THREADS:-$(nproc)}
here=$(dirname "$0")

pieces=() start=(--warmup 150 --lr 3e-3 --short-first 400 --short-length 24)
updates=${UPDATES:-6000} cooldown=${COOLDOWN:-2000} beamed=${BEAMED:-200000} polish=${POLISH:-2400}
if [[ -n ${INITIAL:-} ]]; then
    pieces=(--pieces "$INITIAL/pieces.model")
    if grep -q "\"source\": \"$source\"" "$INITIAL/config.json"; then
        start=(--warmup 60 --lr 2e-3)
        updates=${UPDATES:-2600} cooldown=${COOLDOWN:-700}
    fi
    start+=(--initial "$INITIAL")
fi

[[ -e $runs/data/data.json ]] || python "$here/data.py" "$runs/data" --direction "$direction" \
    --exclude "${EXCLUDE:-}" "${pieces[@]}"

python -m specmt train verifier "$runs/verifier" --data "$runs/data" --from "$source" --to "$target" "${start[@]}" \
    --updates "$updates" --schedule constant --cooldown "$cooldown" --dropout 0 --validate-every 200 \
    --validation-lines 200 --save-every 100 --threads "$threads"

python "$here/best_of_beam.py" "$runs/beam" --data "$runs/data" --model "$runs/verifier/model" \
    --pairs "$beamed" --references "$((beamed * 5 / 7))" --threads "$threads"
final=$runs/final
python -m specmt train verifier "$final" --data "$runs/beam" --initial "$runs/verifier/model" \
    --from "$source" --to "$target" --updates "$polish" --cooldown "$((polish * 4 / 5))" --schedule constant \
    --warmup 30 --lr 1.2e-3 --dropout 0 --label-smoothing 0 --validate-every 320 --validation-lines 200 --save-every 40 --threads "$threads"

texts=()
for text in "$runs"/data/text/*."$source"; do
    [[ $text == */kde4-l10n.* || $text == */yast-l10n.* ]] || texts+=("$text")
done
python -m specmt distill "$runs/distilled" "${texts[@]}" --model "$final/model" \
    --limit "${SENTENCES:-240000}" --max-length 64 --threads "$threads"

python -m specmt train drafter "$runs/drafter" --data "$runs/distilled" --verifier "$final/model" \
    --block-size 10 --spacing 6 --updates 5000 --warmup 100 --lr 2e-3 --dropout 0 --validate-every 500 \
    --validation-data "$runs/data" --threads "$threads"

python -m specmt train drafter "$runs/both" --kind autoregressive --data "$runs/distilled" \
    --verifier "$runs/drafter/model" --updates 2000 --warmup 40 --lr 5e-3 --dropout 0 --validate-every 500 \
    --save-every 100 --validation-data "$runs/data" --threads "$threads"

python -m specmt shortlist "$runs/both/model" --distilled "$runs/distilled" --limit 240000

echo "The model is in $runs/both/model."
