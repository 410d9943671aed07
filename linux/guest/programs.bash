# SPDX-License-Identifier: GPL-2.0-only
# Runs programs, one instance for each CPU at the same time, and prints how long the slowest one took and a checksum of
# what they printed. From `mab` to `write_zeros`, they are programs with which Porter (2007) measured how long a lock is
# held, as far as they do not need a disk; docs/papers.md has that paper. `mab` does what its namesake, the Modified
# Andrew Benchmark, does before it compiles. Then follow benchmarks that others use.
cd /tmp || exit 1
set -o pipefail
source=/mnt

mab() { # INSTANCE
    mkdir -p "copy$1" && cp -r $source/lib "copy$1/" || return 1
    find "copy$1" -type f -size +0 | sort | xargs ls -l --time-style=+ | cksum || return 1
    find "copy$1" -type f -print0 | sort -z | xargs -0 cat | cksum
}

# Lists the files without the text, which are all files.
find_text() { { grep -rL "no file has this text" "copy$1" || [ $? = 1 ]; } | sort | cksum; }

config() {
    local header
    for header in stdio.h sys/mman.h pthread.h no.h linux/fs.h none.h math.h signal.h sys/epoll.h stdlib.h unistd.h fcntl.h; do
        echo "#include <$header>" | gcc -x c -c -o "probe$1.o" - 2>/dev/null && echo "has $header"
    done
    [ -s "probe$1.o" ]
}

compile() {
    local file objects=()
    for file in conf confdata expr lexer.lex menu parser.tab preprocess symbol util; do
        gcc -O1 -I$source/scripts/include -I$source/scripts/kconfig -c "$source/scripts/kconfig/$file.c" -o "$file$1.o" ||
            return 1
        objects+=("$file$1.o")
    done
    gcc -o "conf$1" "${objects[@]}" && cksum <"conf$1"
}

disassemble() { objdump -d $source/mm/page_alloc.o $source/mm/memory.o $source/mm/slub.o | grep mov | cksum; }

write_zeros() {
    local time
    for time in 1 2 3 4 5 6 7 8; do
        dd if=/dev/zero of="zeros$1" bs=16k count=2048 2>/dev/null && stat -c %s "zeros$1" && rm "zeros$1" || return 1
    done
}

fork_and_exec() { ./storm exec 60; }

map_and_unmap() { ./storm map 30; }

write_memory() { sysbench memory --memory-block-size=32M --memory-total-size=4G run | grep -o 'transferred'; }

for program in mab find_text config compile disassemble write_zeros fork_and_exec map_and_unmap write_memory; do
    begin=${EPOCHREALTIME/./}
    running=()
    for instance in $(seq "$(nproc)"); do
        $program "$instance" >"out$instance" 2>&1 &
        running+=($!)
    done
    failed=
    for job in "${running[@]}"; do wait "$job" || failed=yes; done
    end=${EPOCHREALTIME/./}
    [ -z "$failed" ] || { echo "FAILED: $program" && cat out*; }
    echo "program $program us=$((end - begin)) sum=$(cat out* | cksum | cut -d' ' -f1)"
done

# A file server's load, which is repeated until its time is over: the time that 1000 MB took.
rm -rf copy* zeros*
dbench -t 3 -c /usr/share/dbench/client.txt -D . "$(nproc)" >out 2>&1
awk '/^Throughput/ { printf "program serve_files us=%d sum=0\n", 1e9 / $2; found = 1 } END { exit !found }' out ||
    { echo "FAILED: serve_files" && cat out; }
