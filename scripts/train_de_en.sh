#!/usr/bin/env bash
# Trains the bundled German-English model from the corpora in $SPECMT_CORPORA; every step goes on where it stopped.
# Usage: SPECMT_CORPORA=... scripts/train_de_en.sh [FOLDER]
set -euo pipefail
runs=${1:-runs/de-en}
train=$SPECMT_CORPORA/train

[[ -e $runs/data/data.json ]] || python "$(dirname "$0")/de_en_data.py" "$runs/data"

python -m specmt train verifier "$runs/verifier" --data "$runs/data" --updates 1800 --warmup 150 --lr 3e-3 \
    --dropout 0 --short-first 500 --short-length 24 --validate-every 400

python -m specmt distill "$runs/distilled" \
    "$train"/{msdocs-dynamics365,msdocs-dotnet,msdocs-aspnet,debian-website,php-manual,progit2,tails-website}.de.gz \
    "$train"/{gnome-user-docs,multi30k,tatoeba-anki-2018,wmt-newstest-old,mozilla-www,iwslt17-devtest}.de.gz \
    --model "$runs/verifier/model" --limit 240000 --max-length 64

python -m specmt train drafter "$runs/drafter" --data "$runs/distilled" --verifier "$runs/verifier/model" \
    --block-size 10 --spacing 6 --updates 5000 --warmup 100 --lr 2e-3 --dropout 0 --validate-every 500 \
    --validation-data "$runs/data"

python -m specmt train drafter "$runs/both" --kind autoregressive --data "$runs/distilled" \
    --verifier "$runs/drafter/model" --updates 2000 --warmup 40 --lr 5e-3 --dropout 0 --validate-every 500 \
    --save-every 100 --validation-data "$runs/data"

echo "The model is in $runs/both/model."
