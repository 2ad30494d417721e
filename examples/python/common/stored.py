"""Results that were measured elsewhere, as files in data/experiments that `rapt reproduce` shows beside its own.

format      1
title, document, about
provenance  [{of, date, machine, commands}, …]: where the numbers of each part of `measured` are from
measured    everything that was measured, nothing rounded
reasons     why claims do not hold, in a person's words, by the claim's name
tables      [{caption, head, rows}, …] and
claims      [{name, document, claim, theirs, ours, rule, holds, reason}, …], both made from `measured` and `reasons` alone
"""

import json
import math
import pathlib
import statistics

import pieces

DIRECTORY = pathlib.Path(__file__).parents[3] / "data" / "experiments"


def percent(values):
    text = f"{100 * statistics.mean(values):.2f}"
    return text + (f" ± {100 * statistics.stdev(values):.2f} %" if len(values) > 1 else " %")


# Of Student's distribution, 97.5 %, for 1, 2, … degrees of freedom.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def interval(values):
    """(mean, half the width of the 95 % confidence interval of the mean)."""
    if len(values) < 2:
        return statistics.mean(values), math.inf
    factor = _STUDENT[min(len(values) - 1, len(_STUDENT)) - 1]
    return statistics.mean(values), factor * statistics.stdev(values) / math.sqrt(len(values))


def claim(name, document, text, theirs, ours, rule, holds, reason, reasons):
    """The reason is kept only where the claim does not hold; a person's goes before."""
    holds = bool(holds)
    reason = "" if holds else reasons.get(name, reason)
    return {
        "name": name,
        "document": document,
        "claim": text,
        "theirs": theirs,
        "ours": ours,
        "rule": rule,
        "holds": holds,
        "reason": reason,
    }


def write(path, title, document, about, provenance, measured, derive, reasons=()):
    given = {}
    for text in reasons:
        name, sign, reason = text.partition("=")
        if not sign or not reason:
            raise SystemExit(f"--reason: expected CLAIM=TEXT, got '{text}'")
        given[name] = reason
    derived = derive(measured, given)
    unknown = set(given) - {one["name"] for one in derived["claims"]}
    if unknown:
        raise SystemExit(f"--reason: expected one of {', '.join(one['name'] for one in derived['claims'])}, got '{unknown.pop()}'")
    whole = {
        "format": 1, "title": title, "document": document, "about": about, "provenance": provenance, **derived,
        "reasons": given, "measured": measured,
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    pieces.write_text(path, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    for one in derived["claims"]:
        print(f"{'yes' if one['holds'] else 'NO ':3}  {one['claim']}: {one['ours']}{'' if one['holds'] else '. ' + one['reason']}")
    print(path)


def check(path, derive):
    whole = json.loads(pathlib.Path(path).read_text())
    derived = derive(whole["measured"], whole["reasons"])
    # What was written went through JSON; so must this.
    derived = json.loads(json.dumps(derived))
    for key in ("tables", "claims"):
        if derived[key] != whole[key]:
            raise SystemExit(f"{path}: {key}: expected what follows from `measured`, got something else")
    print(f"{path}: tables and claims follow from what was measured")
