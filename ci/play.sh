#!/usr/bin/env bash
# The page of `everybuddy play`: every script on every system in a real browser, compared with the same steps natively.
# 6 minutes on 2 CPUs.
#
#     ci/play.sh              # tests the page with the committed module, and with one that is compiled now
#     ci/play.sh write        # compiles lab/play/assets/engine.wasm.gz, which is committed, again
#     ci/play.sh trace        # writes the recorded script from its trace again
#     ci/play.sh pictures     # leaves pictures of the page in target/play-shots: look at them after a change
#
# The module is the crate everybuddy-session for wasm32-unknown-unknown, whose standard library rustup installs
# (ci/install.sh wasm). Another version of Rust makes other bytes, so states are compared and not bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

asset=lab/play/assets/engine.wasm.gz
work=target/play-check
mkdir -p "$work"

compile() { # FILE: compiles the module into a file that gzip packed.
    ci/install.sh wasm
    # Messages of panics name files: those of the toolchain and of this clone by paths that do not depend on the machine.
    local maps="--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
    RUSTFLAGS="$maps --remap-path-prefix=$(rustc --print sysroot)=rust" cargo rustc --quiet --locked --profile play \
        -p everybuddy-session --lib --crate-type cdylib --target wasm32-unknown-unknown --target-dir target/play
    gzip -9nc target/play/wasm32-unknown-unknown/play/everybuddy_session.wasm >"$1"
}

browser() { # ARGUMENT...: runs the browser.
    local name
    name=$(command -v chromium || command -v google-chrome)
    timeout 900 "$name" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" "$@"
}

has_browser() {
    command -v chromium >/dev/null || command -v google-chrome >/dev/null || ci/install.sh chromium
    command -v chromium >/dev/null || command -v google-chrome >/dev/null
}

page() { # MODULE SCRIPT...: writes the page with a module, and with scripts at its end.
    cargo run --quiet --locked --profile gate -p everybuddy-play --example check_page -- "$work/page.html" "$@"
}

check() { # MODULE WIDTH: compares what the page shows with what sessions say.
    page "$1" lab/play/tests/{sync,check}.js
    browser --window-size="$2,900" --enable-logging=stderr --virtual-time-budget=100000 --dump-dom \
        "file://$PWD/$work/page.html" >"$work/dom" 2>"$work/log" || { tail "$work/log" >&2; exit 1; }
    sed -n '/<pre>/,/<\/pre>/p' "$work/dom" | sed '1d; /<\/pre>/d; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' >"$work/shown"
    if grep CONSOLE "$work/log" || grep '^fault' "$work/shown" || [ "$(tail -1 "$work/shown")" != checked ]; then
        echo "play: the page of $1 is not as it should be" >&2
        exit 1
    fi
    sed -i '$d' "$work/shown"
    diff "$work/native" "$work/shown" >"$work/differences" || {
        head -4 "$work/differences" >&2
        echo "play: the page of $1 does not show what sessions say (ci/play.sh write compiles the module again)" >&2
        exit 1
    }
    echo "play: $(wc -l <"$work/shown") states of $(basename "$1") are as they are natively, $2 pixels wide"
}

# Writes the script of a recorded program: the steps of every 1,500th block of up to order 3, in the order of the trace.
# Numbers of columns: 2 CPU, 4 call (1 is a free), 5 frame, 6 order, 11 flags (4: nothing of the block is left).
recorded() {
    cargo run --quiet --locked --profile gate -p everybuddy-cli -- trace export sysbench_mt_cut --to csv 2>/dev/null |
        awk -F, 'NR > 1 && $4 == 0 { delete slot[$5]; if ($6 <= 3 && n++ % 1500 == 0) {
                slot[$5] = count++; print "a " $2 " " $6 } }
            NR > 1 && $4 == 1 && int($11 / 4) % 2 && ($5 in slot) { print "f " $2 " " slot[$5]; delete slot[$5] }'
}

case ${1:-} in
trace) recorded >lab/session/src/sysbench_mt_cut.txt ;;
write)
    compile "$asset"
    echo "play: $asset has $(stat -c %s "$asset") bytes"
    ;;
pictures)
    has_browser || { echo "play: no browser (ci/install.sh chromium installs it)"; exit 77; }
    page "$asset" lab/play/tests/sync.js
    mkdir -p target/play-shots
    shot() { # NAME WIDTH HEIGHT ADDRESS
        browser --window-size="$2,$3" --virtual-time-budget=10000 --screenshot="$PWD/target/play-shots/$1.png" \
            "file://$PWD/$work/page.html#$4" 2>"$work/log" || { tail "$work/log" >&2; exit 1; }
    }
    shot figure-7 1280 1180 'script=ibuddy-7&step=1&theme=light'
    shot spring-5 1280 1180 'script=spring-5&step=2&theme=dark'
    shot handover 1280 1180 'script=handover&step=12&theme=light'
    # The window of a headless browser is 500 pixels wide at least, so the page is told its width by a frame.
    printf '<!doctype html><style>body{margin:0}iframe{border:0;width:390px;height:1900px}</style>%s' \
        "<iframe src='page.html#script=delay-2&amp;step=4&amp;theme=light'></iframe>" >"$work/phone.html"
    browser --window-size=500,1900 --virtual-time-budget=10000 --screenshot="$PWD/target/play-shots/phone.png" \
        "file://$PWD/$work/phone.html" 2>"$work/log"
    echo "play: pictures are in target/play-shots"
    ;;
'')
    has_browser || { echo "play: no browser (ci/install.sh chromium installs it)"; exit 77; }
    recorded | diff lab/session/src/sysbench_mt_cut.txt - >&2 || {
        echo "play: the recorded script is not that of its trace (ci/play.sh trace writes it again)" >&2
        exit 1
    }
    cargo test --quiet --locked --profile gate -p everybuddy-session
    cargo run --quiet --locked --profile gate -p everybuddy-session --example pictures >"$work/native"
    check "$asset" 1280
    compile "$work/engine.wasm.gz"
    check "$work/engine.wasm.gz" 500
    ;;
*)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
