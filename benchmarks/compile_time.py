"""Times what whole Flax models cost before they run: tracing and compilation.

    python benchmarks/compile_time.py --output results.json

The training steps of models.py, with the upsampling of a column. A trace ends in
StableHLO, a compilation begins there; both are host times, each in a process in which
all that a first call loads is loaded, with JAX's caches empty.
"""

import time
from collections.abc import Iterator

import harness
import jax
import models

CASES = tuple(case for case in models.CASES if case.model != "merges")
QUICK = models.QUICK[:1]


def rows(case: models.Case, iterations: int) -> Iterator[harness.Row]:
    """Times every form of a case, by turns."""
    us: dict[tuple[str, str], list[float]] = {}
    for iteration in range(iterations + 1):
        for form in models.FORMS:
            forward, parameters, x = models.build(case, form)
            jax.clear_caches()
            function = jax.jit(harness.step(forward))
            start = time.perf_counter()
            lowered = function.lower(parameters, x)
            traced = time.perf_counter()
            lowered.compile()
            compiled = time.perf_counter()
            if iteration > 0:  # the first warms up
                us.setdefault((form, "trace"), []).append(1e6 * (traced - start))
                us.setdefault((form, "compile"), []).append(1e6 * (compiled - traced))
    for (form, direction), times in us.items():
        yield {
            "direction": direction,
            "form": form,
            "right": None,
            "us": times,
        }


def report(results: list[harness.Row]) -> Iterator[str]:
    """A table in milliseconds; the last column is ours by the quickest plain form."""
    yield ""
    yield f"| training step, ms | {' | '.join(models.FORMS)} | ours/plain |"
    yield "| --- |" + " ---: |" * (len(models.FORMS) + 1)
    for case in dict.fromkeys(row["case"] for row in results):
        for direction in ("trace", "compile"):
            ms = {
                row["form"]: row["median_us"] / 1e3
                for row in results
                if (row["case"], row["direction"]) == (case, direction)
            }
            cells = " | ".join(f"{ms[form]:.0f}" for form in models.FORMS)
            part = ms["ours"] / min(ms["resize"], ms["broadcast"])
            yield f"| {case}, {direction} | {cells} | {part:.2f} |"


if __name__ == "__main__":
    description = (__doc__ or "").split("\n")[0]
    harness.run_rows(description, CASES, QUICK, rows, report, iterations=3)
