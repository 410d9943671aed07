"""Compares a simulation of this host with measurements on it: ci/host.py NATIVE.jsonl SIMULATED.jsonl ROWS.jsonl.

NATIVE has rows of `everybuddy bench`, SIMULATED has rows of `everybuddy simulate --machine FILE --think 0`, where FILE
is what `everybuddy machines --measure` wrote. Prints a table in Markdown: for each workload and number of CPUs the
times of both, how similarly they order the systems, and the systems whose ratio differs most from the median. The
time is that of an allocation and a free. Writes the summary of each workload as rows to ROWS, too.
"""

import collections
import json
import statistics
import sys


def times(path, statistic):
    """Returns the time of an allocation and a free, by workload and CPUs, then by system."""
    values = collections.defaultdict(lambda: collections.defaultdict(float))
    calls = collections.defaultdict(dict)
    with open(path) as lines:
        for line in lines:
            row = json.loads(line)
            if row["metric"] != "latency" or row["statistic"] != statistic or "@" in row["experiment"]:
                continue
            if row["order"] is not None:
                continue
            system = row["system"] + ("+" + row["options"] if row["options"] else "")
            key = row["source"], row["cpus"]
            if row["operation"] in ("allocate", "free", "pair"):
                values[key][system] += row["value"]
            elif row["operation"] == "all":
                calls[key][system] = row["value"]
    # Where allocations and frees are not timed apart, as in churn, the time is that of a call.
    for key, systems in calls.items():
        for system, value in systems.items():
            if system not in values[key]:
                values[key][system] = 2 * value
    return values


def ranks(values):
    order = sorted(values)
    # Equal values share the mean of their ranks.
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]


def main():
    native, simulated = times(sys.argv[1], "p50"), times(sys.argv[2], "mean")
    shared = sorted(native.keys() & simulated.keys(), key=lambda key: (key[1], key[0]))
    if not shared:
        sys.exit("host: no workload is in both files")
    print("| workload | CPUs | systems | rank correlation | simulated / native, median | slower than that | faster |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for key in shared:
        systems = sorted(native[key].keys() & simulated[key].keys())
        if len(systems) < 3:
            continue
        one = [native[key][system] for system in systems]
        two = [simulated[key][system] for system in systems]
        correlation = statistics.correlation(ranks(one), ranks(two))
        ratios = {system: b / a for system, a, b in zip(systems, one, two)}
        median = statistics.median(ratios.values())
        slow, fast = max(ratios, key=ratios.get), min(ratios, key=ratios.get)
        print(
            f"| {key[0]} | {key[1]} | {len(systems)} | {correlation:.2f} | {median:.2f} "
            f"| {slow} {ratios[slow] / median:.2f} | {fast} {ratios[fast] / median:.2f} |"
        )
        for metric, value in (("rank_correlation", correlation), ("simulated_over_native", median)):
            rows.append(
                {
                    "experiment": "host",
                    "source": key[0],
                    "system": "all",
                    "options": "",
                    "platform": "sim:host",
                    "cpus": key[1],
                    "seed": 1,
                    "operation": "all",
                    "order": None,
                    "metric": metric,
                    "statistic": "value",
                    "value": round(value, 4),
                    "unit": "1",
                    "expected": None,
                    "simulated": True,
                }
            )
    with open(sys.argv[3], "w") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)
    print()
    print("| workload | CPUs | system | native ns | simulated ns |")
    print("|---|---|---|---|---|")
    for key in shared:
        for system in sorted(native[key].keys() & simulated[key].keys(), key=native[key].get):
            print(f"| {key[0]} | {key[1]} | {system} | {native[key][system]:.1f} | {simulated[key][system]:.1f} |")


main()
