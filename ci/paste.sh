#!/usr/bin/env bash
# The page into which a log is pasted: the reader of `everybuddy-memory` as WebAssembly, in one file that works offline.
# Each text of the reader's tests gives the same verdict and the same HTML in a real browser and by the program. 4 minutes.
#
#     ci/paste.sh                # tests the page, 1280 and 500 pixels wide
#     ci/paste.sh write FILE     # writes the page
#     ci/paste.sh pictures       # leaves pictures of the page in target/paste-shots: look at them after a change
set -euo pipefail
cd "$(dirname "$0")/.."

data=lab/memory/tests/data
target=${CARGO_TARGET_DIR:-target}
work=$target/paste
mkdir -p "$work"
work=$(cd "$work" && pwd)

compile() { # Compiles the module into a file that gzip packed.
    ci/install.sh wasm
    # Messages of panics name files: those of the toolchain and of this clone by paths that do not depend on the machine.
    local maps="--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
    RUSTFLAGS="$maps --remap-path-prefix=$(rustc --print sysroot)=rust" cargo rustc --quiet --locked --profile play \
        -p everybuddy-memory --lib --crate-type cdylib --target wasm32-unknown-unknown --target-dir "$work/build"
    gzip -9nc "$work/build/wasm32-unknown-unknown/play/everybuddy_memory.wasm" >"$work/engine.wasm.gz"
}

page() { # FILE SCRIPT...: writes the page, with scripts at its end.
    local file=$1 assets=lab/memory/assets page
    shift
    page=$(<$assets/paste.html)
    page=${page/"{{style}}"/"$(cat $assets/{answer,paste}.css)"}
    page=${page/"{{sample}}"/"$(<$data/s13-paf-4.4-two.txt)"}
    page=${page/"{{engine}}"/"$(base64 -w0 "$work/engine.wasm.gz")"}
    printf '%s\n' "${page/"{{script}}"/"$(cat $assets/{map,paste}.js "$@")"}" >"$file"
}

has_browser() {
    command -v chromium >/dev/null || command -v google-chrome >/dev/null || ci/install.sh chromium
    command -v chromium >/dev/null || command -v google-chrome >/dev/null
}

browser() { # ARGUMENT...: runs the browser.
    local name
    name=$(command -v chromium || command -v google-chrome)
    timeout 300 "$name" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" "$@"
}

# Every text alone, and those that belong together. Other files of that folder are lists.
cases() {
    local file
    for file in "$data"/*.txt; do
        printf '%s\n' "$(basename "$file")"
    done
    echo "s01-buddyinfo-5.4.txt s02-pagetypeinfo-5.4.txt s03-zoneinfo-5.4.txt"
    echo "k1-zoneinfo.txt k1-buddyinfo.txt k1-pagetypeinfo.txt k1-iomem.txt k1-kpageflags.gz"
}
needs="200x32MiB 20x2MiB,movable 1x64KiB,zone=Normal 1x4KiB,node=1"

# What the program says: one line per case, as the script of the page writes it.
native() (
    local names need code words html folder=$PWD
    cd "$data"
    while read -r names; do
        for need in $needs; do
            code=0 html=
            # shellcheck disable=SC2086 # Names are words.
            words=$("$program" --need "$need" $names 2>"$work/error") || code=$?
            if [ "$code" = 2 ]; then
                words=$(head -1 "$work/error")
            else
                # shellcheck disable=SC2086
                html=$("$program" --need "$need" --html - $names 2>/dev/null |
                    sed '1,/^<main class="answer">$/d; /^<\/main>$/,$d' | base64 -w0) || true
            fi
            printf '%s|%s|%s|%s\n' "$names" "$need" "$words" "$html"
        done
    done < <(cd "$folder" && cases)
)

check() { # WIDTH: compares what the page answers with what the program does.
    browser --window-size="$1,900" --enable-logging=stderr --virtual-time-budget=100000 --dump-dom \
        "file://$work/page.html" >"$work/dom" 2>"$work/log" || { tail "$work/log" >&2; exit 1; }
    sed -n '/<pre>/,/<\/pre>/p' "$work/dom" | sed '1d; /<\/pre>/d; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' >"$work/shown"
    if grep '^fault' "$work/shown" || [ "$(tail -1 "$work/shown")" != checked ]; then
        grep CONSOLE "$work/log" >&2 || true
        echo "paste: the page is not as it should be" >&2
        exit 1
    fi
    sed -i '$d' "$work/shown"
    diff "$work/native" "$work/shown" >"$work/differences" || {
        cut -c1-300 "$work/differences" | head -4 >&2
        echo "paste: the page does not answer as the program does" >&2
        exit 1
    }
    echo "paste: $(wc -l <"$work/shown") answers are those of the program, $1 pixels wide"
}

case ${1:-} in
write)
    compile
    page "$2"
    echo "paste: $2 has $(stat -c %s "$2") bytes"
    ;;
pictures)
    has_browser || { echo "paste: no browser (ci/install.sh chromium installs it)"; exit 77; }
    compile
    mkdir -p target/paste-shots
    shot() { # NAME WIDTH HEIGHT SCRIPT: the page after a script.
        printf 'started.then(async () => { %s });\n' "$4" >"$work/shot.js"
        page "$work/shot.html" lab/memory/tests/page/sync.js "$work/shot.js"
        browser --window-size="$2,$3" --virtual-time-budget=10000 --screenshot="$PWD/target/paste-shots/$1.png" \
            ${5:+"$5"} "file://$work/shot.html" 2>"$work/log" || { tail "$work/log" >&2; exit 1; }
    }
    with() { # NAME...: a script that drops files.
        local name script='const all = [];'
        for name in "$@"; do
            script+="all.push(new File([Uint8Array.from(atob('$(base64 -w0 "$data/$name")'), (c) => c.charCodeAt(0))], '$name'));"
        done
        echo "$script await add(all);"
    }
    frames=$(with k1-zoneinfo.txt k1-buddyinfo.txt k1-iomem.txt k1-kpageflags.gz)
    shot empty 1280 800 ''
    shot log 1280 1800 'find("example").click()'
    shot log-dark 1280 1800 'find("example").click()' --blink-settings=preferredColorScheme=0
    shot log-500 500 2200 'find("example").click()'
    shot frames 1280 3400 "$frames"
    shot frames-500 500 4200 "$frames"
    echo "paste: pictures are in target/paste-shots"
    ;;
'')
    has_browser || { echo "paste: no browser (ci/install.sh chromium installs it)"; exit 77; }
    compile
    cargo build --quiet --locked --profile gate -p everybuddy-memory --bin everybuddy-memory
    program=$(cd "$target/gate" && pwd)/everybuddy-memory
    native >"$work/native"
    {
        echo 'const cases = ['
        cases | while read -r names; do
            printf '["%s", "%s"' "$names" "$needs"
            for name in $names; do
                printf ', "%s"' "$(base64 -w0 "$data/$name")"
            done
            echo '],'
        done
        echo '];'
    } >"$work/cases.js"
    page "$work/page.html" lab/memory/tests/page/sync.js "$work/cases.js" lab/memory/tests/page/check.js
    check 1280
    check 500
    ;;
*)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
