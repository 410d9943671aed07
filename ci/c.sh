#!/usr/bin/env bash
# The library for C (crates/everybuddy-c), as its users have it: builds and installs it, compares the header with the
# interface, checks what the libraries need and export, runs the commands of its README.md, and runs the programs of its
# tests/c with gcc and clang, statically and dynamically linked, and under sanitizers.
#
#   ci/c.sh          everything; 5 minutes
#   ci/c.sh cost     only what a call through C costs, in instructions (valgrind)
#
# Tools: ci/install.sh c. If one is missing, its checks are skipped and the script ends with 77.
set -euo pipefail
cd "$(dirname "$0")/.."

crate=crates/everybuddy-c
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/installed
missing=()

step() {
    echo "c: $* ($SECONDS s)"
}

have() { # COMMAND: whether there is such a command; notes it otherwise.
    command -v "$1" >/dev/null && return
    missing+=("$1")
    return 1
}

fail() {
    echo "c: $*" >&2
    exit 1
}

finish() {
    if [ ${#missing[@]} -gt 0 ]; then
        echo "c: without $(printf '%s\n' "${missing[@]}" | sort -u | tr '\n' ' ')(ci/install.sh c): the rest passed: skipped"
        exit 77
    fi
    echo "c: passed in $SECONDS s"
    exit
}

# Runs a program of tests/c with its arguments.
execute() { # PROGRAM SOURCE STEPS OPERATIONS: those of conformance.c, and of lend.c and threads.c.
    case $2 in
    conformance.c) "$1" "$3" ;;
    lend.c | threads.c) "$1" "$4" ;;
    *) "$1" ;;
    esac
}

warnings=(-Wall -Wextra -Werror -pedantic -g -pthread)

# Compiles a program for C11, or for C++17 by its name, and prints where it is.
compile() { # COMPILER SOURCE NAME [ARGUMENT...]
    local compiler=$1 source=$crate/tests/c/$2 standard=-std=c11 program=$folder/$3
    shift 3
    [ "${source##*.}" = c ] || standard=-std=c++17
    "$compiler" "$standard" "${warnings[@]}" -I"$prefix/include" "$source" "$@" -o "$program"
    echo "$program"
}

step "installation"
$crate/install.sh "$prefix" >/dev/null

# Instructions of a run.
collected() { # PROGRAM ARGUMENT...
    "$@" >/dev/null || fail "$* does not run"
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" 2>&1 | sed -n 's/.*Collected : //p'
}

# Instructions of a pair, from the difference of two runs of a program.
instructions() { # PROGRAM ARGUMENT...: the number of pairs is appended.
    local few many
    few=$(collected "$@" 10000)
    many=$(collected "$@" 20000)
    echo $(((many - few) / 10000))
}

cost() {
    local program shared system
    have valgrind || return 0
    cargo build --quiet --profile counted --locked -p everybuddy-example-instructions --bin hit_cost
    program=$(compile cc cost.c cost -O2 "$prefix/lib/libeverybuddy.a")
    shared=$(compile cc cost.c cost-shared -O2 -L"$prefix/lib" -leverybuddy -Wl,-rpath,"$prefix/lib")
    echo "pair of an allocation and a free of a frame: instructions"
    printf '%-12s %8s %12s %12s\n' system Rust "C, static" "C, shared"
    for system in everybuddy lbs-31 linux-6 llfree bs; do
        printf '%-12s %8d %12d %12d\n' $system \
            "$(instructions "${CARGO_TARGET_DIR:-target}/counted/hit_cost" count $system)" \
            "$(instructions "$program" $system)" "$(instructions "$shared" $system)"
    done
}

if [ "${1:-}" = cost ]; then
    cost
    finish
fi

step "header"
$crate/header.sh check
if have cbindgen; then
    cp $crate/include/everybuddy.h "$folder/committed.h"
    $crate/header.sh
    cmp $crate/include/everybuddy.h "$folder/committed.h" || fail "the header was out of date; it was written anew"
fi

step "symbols"
# What a program that uses everything that the header declares needs besides the static library.
names=$(grep -oE '\beb_[a-z_]+\(' "$prefix/include/everybuddy.h" | tr -d '(' | sort -u |
    grep -vE '^eb_(setup_new|request_|release_|place_)')
{
    for name in $names; do echo "extern char $name[];"; done
    echo "char *volatile all[] = {$(sed 's/$/,/' <<<"$names")};"
} >"$folder/all.c"
cc -c "$folder/all.c" -o "$folder/all.o"
ld -r -o "$folder/linked.o" "$folder/all.o" "$prefix/lib/libeverybuddy.a"
ld -r --gc-sections -u all -e all -o "$folder/used.o" "$folder/linked.o"
needed=$(nm -u "$folder/used.o" | awk '{ print $2 }' | sort -u | tr '\n' ' ')
echo "  the static library needs $needed"
allowed=' abort bcmp memcmp memcpy memmove memset strlen '
for name in $needed; do
    [[ $allowed == *" $name "* ]] || fail "the static library needs $name, which a kernel does not have"
done
exported=$(nm -D --defined-only "$prefix/lib/libeverybuddy.so" | awk '{ print $3 }' | sort -u)
[ "$exported" = "$names" ] || fail "exported and declared functions differ: $(comm -3 <(echo "$exported") <(echo "$names"))"
size "$prefix/lib/libeverybuddy.so" | awk 'NR == 2 { print "  the shared library has " $1 " bytes of code and constants" }'

# As a new user would, except that the repository is not cloned.
if have pkg-config; then
    step "commands of crates/everybuddy-c/README.md"
    sed -n '/^```sh$/,/^```$/p' crates/everybuddy-c/README.md | grep -v '^```' >"$folder/commands"
    bash -euo pipefail "$folder/commands" >"$folder/output" || fail "a command of crates/everybuddy-c/README.md failed"
    [ "$(grep -c '^freed twice: the frame is free already' "$folder/output")" = 2 ] ||
        fail "the example does not run by both ways of linking: $(cat "$folder/output")"
fi

step "a library of one system"
(CARGO_TARGET_DIR=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)/c-one
    export CARGO_TARGET_DIR EVERYBUDDY_ONLY=everybuddy
    $crate/install.sh "$folder/one" >/dev/null)
program=$(compile cc example.c alone -O2 -Wl,--gc-sections "$folder/one/lib/libeverybuddy.a")
"$program" >/dev/null
code=$(size -A "$program" | awk '$1 == ".text" { print $2 }')
all=$(size "$program" | awk 'NR == 2 { print $1 }')
echo "  a program with it has $code bytes of code, $all with constants"
[ "$code" -lt 200000 ] || fail "a program with one system has $code bytes of code"
sed 's/eb_setup_new(ranges, 2, 2);/& setup.system = "lbs-31";/' $crate/tests/c/example.c >"$folder/other.c"
cc -std=c11 -I"$prefix/include" "$folder/other.c" "$folder/one/lib/libeverybuddy.a" -o "$folder/other"
if "$folder/other" >"$folder/output" 2>&1; then fail "a library of one system has another one"; fi
grep -q EVERYBUDDY_ONLY "$folder/output" || fail "the error does not say why: $(cat "$folder/output")"

step "a library for kernels"
if [ "$(uname -m)" != x86_64 ] || [ ! -d "$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-none/lib" ]; then
    missing+=("x86_64-unknown-none (ci/install.sh boot)")
else
    (CARGO_TARGET_DIR=$(realpath "${CARGO_TARGET_DIR:-target}/c-one")
        export CARGO_TARGET_DIR EVERYBUDDY_ONLY=everybuddy
        $crate/install.sh --kernel "$folder/kernel" >/dev/null)
    # The options are those of README.md there.
    options=$(grep -oE -- '-ffreestanding( -[fm][a-z=-]+)+' $crate/README.md)
    # shellcheck disable=SC2086 # Several options.
    cc -c $options "$folder/all.c" -o "$folder/kernel.o"
    ld -r -o "$folder/kernel-linked.o" "$folder/kernel.o" "$folder/kernel/lib/libeverybuddy.a"
    ld -r --gc-sections -u all -e all -o "$folder/kernel-used.o" "$folder/kernel-linked.o"
    # A kernel is not linked by `-r`, which joins the bitcode of all objects. The plugin of nm cannot read that.
    objcopy --remove-section=.llvmbc --remove-section=.llvmcmd "$folder/kernel-used.o"
    ci/kernel.sh inspect "$folder/kernel-used.o" '^abort$'
    # The code also runs in a program whose addresses are low.
    program=$(compile cc lend.c lend-kernel -no-pie "$folder/kernel/lib/libeverybuddy.a")
    "$program" 20000 everybuddy >/dev/null || fail "lend.c does not run with the library for kernels"
fi

# How programs are linked: the first argument names it.
link() {
    case $1 in
    static) echo "$prefix/lib/libeverybuddy.a" ;;
    shared) echo "-L$prefix/lib -leverybuddy -Wl,-rpath,$prefix/lib" ;;
    esac
}
declare -A cxx=([gcc]=g++ [clang]=clang++)
for compiler in gcc clang; do
    have $compiler || continue
    for how in static shared; do
        step "$compiler, $how"
        # shellcheck disable=SC2046 # Several arguments.
        for source in example.c conformance.c misuse.c rest.c lend.c threads.c; do
            execute "$(compile $compiler $source ${source%.c} -O2 $(link $how))" $source 50000 100000 | tail -1
        done
        have ${cxx[$compiler]} || continue
        # shellcheck disable=SC2046
        "$(compile ${cxx[$compiler]} cxx.cpp cxx -O2 $(link $how))"
    done
done

step "programs of the traces"
for name in linux-scalability threadtest; do
    cc -std=c11 "${warnings[@]}" -O2 examples/programs/$name.c -o "$folder/$name"
    "$folder/$name" 4 3 >"$folder/output" || fail "$name does not run"
    [ -s "$folder/output" ] || fail "$name prints nothing"
    for wrong in 0 -1 1x; do
        if "$folder/$name" "$wrong" 2>"$folder/output"; then fail "$name takes $wrong"; fi
        grep -q usage "$folder/output" || fail "$name does not explain $wrong"
    done
done

# The library itself is instrumented, so a sanitizer sees both sides.
if cargo +nightly --version >/dev/null 2>&1; then
    host=$(rustc -vV | sed -n 's/^host: //p')
    for sanitizer in address thread; do
        step "$sanitizer sanitizer"
        flags=-Zsanitizer=$sanitizer
        # `core` is not instrumented. Its atomics are, since they are compiled into the library.
        [ $sanitizer = address ] || flags+=" -Cunsafe-allow-abi-mismatch=sanitizer"
        target=${CARGO_TARGET_DIR:-target}/sanitize-c
        CARGO_TARGET_DIR=$target RUSTFLAGS=$flags cargo +nightly rustc --quiet --locked --profile c -p everybuddy-c \
            --lib --features runtime --crate-type staticlib --target "$host"
        library=$target/$host/c/libeverybuddy_c.a
        for compiler in gcc clang; do
            have $compiler || continue
            for source in threads.c lend.c conformance.c misuse.c rest.c; do
                program=$(compile $compiler $source ${source%.c}-$sanitizer -O1 -fsanitize=$sanitizer \
                    $crate/tests/c/tsan.c "$library")
                execute "$program" $source 5000 40000 | sed "s/^/  $compiler: /"
            done
        done
    done
else
    missing+=(nightly)
fi

step "cost"
cost

finish
