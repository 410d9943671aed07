"""Compares predictions for this host with measurements on it: ci/host.py ROWS.jsonl SUMMARY.jsonl [PREDICTED.jsonl].

ROWS has the rows of `everybuddy scaling`. PREDICTED has those of another prediction, also of `everybuddy simulate`. It
then replaces the one in ROWS, which may be of `everybuddy bench`.
Prints a table in Markdown: for each workload and number of CPUs the rank correlation, the median of predicted over
measured calls per second, and the cells within a factor of 1.5 with one CPU and 2 with more; then all cells. Writes the
summary as rows to SUMMARY, too.
"""

import collections
import json
import math
import statistics
import sys

import rows as stored


def rows(path):
    for row in stored.read(path):
        system = row["system"] + ("+" + row["options"] if row["options"] else "")
        yield row, (row["source"], row["cpus"]), system


def ranks(values):
    order = sorted(values)
    # Equal values share the mean of their ranks.
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]


def main():
    parts = collections.defaultdict(lambda: collections.defaultdict(dict))
    predicted = collections.defaultdict(dict)
    sections = collections.Counter()
    for row, key, system in rows(sys.argv[1]):
        if row["metric"] == "throughput" and row["statistic"] == "rate":
            parts[key][system][row["operation"]] = row["value"]
        elif row["metric"] in ("sections", "sections_dropped"):
            sections[row["metric"]] += row["value"]
    other = len(sys.argv) > 3
    for row, key, system in rows(sys.argv[3] if other else sys.argv[1]):
        is_rate = row["metric"] == "predicted_throughput" or (other and row["metric"] == "throughput")
        if is_rate and row["statistic"] == "rate":
            predicted[key][system] = row["value"]
    measured = collections.defaultdict(dict)
    for key, systems in parts.items():
        for system, own in systems.items():
            whole = own.get("all", own.get("pair"))
            if whole is None:
                # As many of both take the time of both.
                whole = 2 / (1 / own["allocate"] + 1 / own["free"])
            measured[key][system] = whole
    keys = sorted(measured.keys() & predicted.keys(), key=lambda key: (key[1], key[0]))
    if not keys:
        sys.exit("host: no workload was measured and predicted")
    print("| workload | CPUs | systems | rank correlation | predicted / measured, median | within | mean factor |")
    print("|---|---|---|---|---|---|---|")
    out, cells = [], collections.defaultdict(list)
    for key in keys:
        systems = sorted(measured[key].keys() & predicted[key].keys())
        one = [measured[key][system] for system in systems]
        two = [predicted[key][system] for system in systems]
        ratios = [b / a for a, b in zip(one, two)]
        bound = 1.5 if key[1] == 1 else 2
        within = sum(1 / bound <= ratio <= bound for ratio in ratios)
        cells[min(key[1], 2)] += [(ratio, bound) for ratio in ratios]
        correlation = statistics.correlation(ranks(one), ranks(two)) if len(systems) > 2 else math.nan
        factor = math.exp(statistics.mean(abs(math.log(ratio)) for ratio in ratios))
        median = statistics.median(ratios)
        print(
            f"| {key[0]} | {key[1]} | {len(systems)} | {correlation:.2f} | {median:.2f} | {within} | {factor:.2f} |"
        )
        found = (
            ("rank_correlation", correlation),
            ("predicted_over_measured", median),
            ("cells", len(systems)),
            ("cells_within", within),
        )
        for metric, value in found:
            out.append(
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
    with open(sys.argv[2], "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in out)
    print()
    for cpus, own in cells.items():
        within = sum(1 / bound <= ratio <= bound for ratio, bound in own)
        factor = math.exp(statistics.mean(abs(math.log(ratio)) for ratio, _ in own))
        print(f"{cpus} CPUs: {within} of {len(own)} cells within a factor of {own[0][1]}; mean factor {factor:.2f}.")
    print(f"{sections['sections']:.0f} sections count, {sections['sections_dropped']:.0f} were discarded.")
    print()
    print("| workload | CPUs | system | measured, million calls per second | predicted | ratio |")
    print("|---|---|---|---|---|---|")
    for key in keys:
        for system in sorted(measured[key].keys() & predicted[key].keys(), key=measured[key].get):
            own, other = measured[key][system], predicted[key][system]
            print(f"| {key[0]} | {key[1]} | {system} | {own / 1e6:.1f} | {other / 1e6:.1f} | {other / own:.2f} |")


main()
