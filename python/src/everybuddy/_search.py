"""Proposes systems with options, and learns from their numbers: a search by Optuna.

The program `everybuddy sweep --minimize ...` contains this file and runs it, so it needs Optuna and nothing else of this
package. Its argument describes the search. It prints lines `{"trials": [{"number", "system", "options"}, ...]}`, and
reads a line `{"values": [{"number", "value", "excesses"}, ...]}` for each; a trial without a value failed. An excess
above 0 breaks a bound. The same search with the same numbers makes the same proposals.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO


def main(search: dict[str, Any], values: TextIO, answers: TextIO) -> int:
    def answer(**own: Any) -> None:
        print(json.dumps(own), file=answers, flush=True)

    try:
        import optuna
    except ImportError as missing:
        help = f"install it with `{sys.executable} -m pip install optuna`"
        answer(error=f"{sys.executable} has no Optuna ({missing})\nhelp: {help}")
        return 2
    if not hasattr(optuna.Trial, "set_constraint"):
        answer(error=f"Optuna {optuna.__version__} is too old\nhelp: install version 5 or later")
        return 2
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=search["seed"])
    study = optuna.create_study(direction=search["direction"], sampler=sampler)
    answer(ready=True)

    left = search["trials"]
    while left > 0:
        trials = [study.ask() for _ in range(min(left, search["batch"]))]
        left -= len(trials)
        answer(trials=[{"number": trial.number, **proposal(trial, search["systems"])} for trial in trials])
        line = values.readline()
        if not line:
            return 2
        for trial, result in zip(trials, json.loads(line)["values"], strict=True):
            if "value" not in result:
                # Optuna forgets failed trials, and would propose the same again. A pruned one was worse than all others.
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                continue
            for number, excess in enumerate(result["excesses"]):
                trial.set_constraint(str(number), excess)
            study.tell(trial, result["value"])
    answer(ended=True)
    return 0


def proposal(trial: Any, systems: list[dict[str, Any]]) -> dict[str, Any]:
    """Lets a trial choose a system, and the options that this system takes."""
    names = [system["name"] for system in systems]
    name = trial.suggest_categorical("system", names) if len(names) > 1 else names[0]
    system = systems[names.index(name)]
    options = [{"key": own["key"], "value": value(trial, own["key"], own["values"])} for own in system["options"]]
    return {"system": name, "options": options}


def value(trial: Any, key: str, values: dict[str, Any]) -> Any:
    if "choices" in values:
        return trial.suggest_categorical(key, values["choices"])
    return trial.suggest_int(key, values["low"], values["high"], step=values["step"], log=values["log"])


if __name__ == "__main__":
    # Whatever the library prints must not come between the answers.
    own_output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.exit(main(json.loads(sys.argv[1]), sys.stdin, own_output))
