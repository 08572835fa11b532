"""Numbers of a cell, and their printed form."""

import statistics

HEADER = (f"{'':<4}{'mb':>3}{'ranks':>6}  {'schedule':<22}{'who':<9}{'step ms':>9}{'min':>8}{'of ours':>8}{'tok/s':>8}"
          f"{'launch s':>9}{'cpu s':>7}{'rss MB':>8}{'pss MB':>8}{'tensors':>8}{'bubble':>8}{'loss diff':>10}")


def summarize(cell, who, runs):
    """Returns the row of one side. runs: the rounds after the first, each {seconds, cpu, bubble, ...},
    without warm-up steps."""
    seconds = [s for run in runs for s in run["seconds"]]
    row = dict(cell, who=who, step=statistics.median(seconds), min=min(seconds), steps=len(seconds),
               tokens_per_second=cell["tokens"] / statistics.median(seconds),
               cpu=statistics.median(run["cpu"] for run in runs),
               bubble=statistics.median(b for run in runs for b in run["bubble"]))
    return row


def print_rows(rows):
    ours = next((row for row in rows if row["who"] == "sluice"), None)
    for row in rows:
        head = f"{row['size']:<4}{row['microbatches']:>3}{row['ranks']:>6}  {row['schedule']:<22}{row['who']:<9}"
        if "failed" in row:
            print(f"{head}failed: {row['failed']}", flush=True)
            continue
        ratio = f"{row['step'] / ours['step']:>8.2f}" if ours and "step" in ours else f"{'':>8}"
        difference = f"{row['difference']:>10.0e}" if "difference" in row else f"{'':>10}"
        tensors = f"{row['tensors'] / 2**20:>8.0f}" if "tensors" in row else f"{'':>8}"
        print(f"{head}{1e3 * row['step']:>9.1f}{1e3 * row['min']:>8.1f}{ratio}{row['tokens_per_second']:>8.0f}"
              f"{row['launch']:>9.2f}{row['cpu']:>7.2f}{row['rss']:>8.0f}{row['pss']:>8.0f}{tensors}"
              f"{100 * row['bubble']:>7.1f}%{difference}", flush=True)


def best_of(rows, who, key):
    fits = [row for row in rows if row["who"] == who and key in row]
    return min(fits, key=lambda row: row[key]) if fits else None


def print_best(rows, key, title):
    """Prints the best schedule of each side against the others."""
    bests = {who: best_of(rows, who, key) for who in ("eager", "compiled", "sluice")}
    if not bests["sluice"]:
        return None
    texts, found = [], {}
    for who, row in bests.items():
        if row:
            texts.append(f"{who} {row['schedule']} {1e3 * row[key]:.1f} ms")
            found[who] = {"schedule": row["schedule"], "seconds": row[key], "of_ours": row[key] / bests["sluice"][key]}
    ratios = ", ".join(f"{found[who]['of_ours']:.2f} times as fast as {who}" for who in ("eager", "compiled")
                       if who in found)
    print(f"  best by {title}: {'; '.join(texts)}: sluice is {ratios}", flush=True)
    return found
