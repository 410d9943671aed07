#!/usr/bin/env bash
# Makes the picture of README.md: the page of the run that its table is an excerpt of, in a browser. Minutes, for the
# program; then seconds.
#
#     ci/picture.sh results/RUN/compare.jsonl.gz    # after a run with new rows; without an argument, of the same rows again
#
# Nothing is measured. Look at the picture before you commit it.
set -euo pipefail
cd "$(dirname "$0")/.."

mark='<!-- excerpt: compare gcc_build, pictured from '
rows=${1:-$(sed -n "s/^$mark\(.*\) -->\$/\1/p" README.md)}
[ -f "$rows" ] || { echo "picture: no file \`$rows\`" >&2; exit 2; }
browser=$(command -v chromium || command -v google-chrome) || {
    echo "picture: no browser (ci/install.sh chromium installs it)" >&2
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo run --quiet --locked --profile gate -p everybuddy-cli -- compare gcc_build --rows "$rows" --html "$work/page.html" \
    >"$work/table"
cat "$work/table"
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --window-size=1150,1475 --force-device-scale-factor=1.3 --virtual-time-budget=10000 \
    --screenshot="$PWD/docs/pictures/report.png" "file://$work/page.html" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
sed -i "s#^$mark.* -->#$mark$rows -->#" README.md
echo "picture: docs/pictures/report.png shows $rows"
