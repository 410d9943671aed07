# The commands of daily work: `just` lists them. Each is one line that also works without just.

# list the commands
default:
    @just --list --unsorted

# format, tidy, and the tests of the allocators, the traces and the page: a minute
quick:
    ci/quick.sh

# tests of one package, or of one name in it: `just test everybuddy tree`
test package *name:
    cargo test --locked --profile gate -p {{package}} -- {{name}}

# format, clippy, documentation, tidy
lint:
    ci/lint.sh

# everything that must hold before a change lands
gate:
    .ci/run

# the long checks, or the parts named; resumable: `just full --list`
full *parts:
    ci/full.sh {{parts}}

# write what is generated from the code and the results
docs:
    cargo run --quiet --locked --profile gate -p xtask -- docs

# the program as users run it: `just run compare gcc_build`
run *arguments:
    cargo run --release -- {{arguments}}

# instructions of the hot paths: `just instructions OLD.tsv` stores them, `just instructions --against OLD.tsv` compares
instructions *arguments:
    ci/instructions.sh {{arguments}}
