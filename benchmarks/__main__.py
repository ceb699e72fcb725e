"""Runs every benchmark, each in a process of its own, and draws the results.

    pip install '.[benchmarks,cuda13]'
    python benchmarks --output results       # a folder: JSON, Markdown and pictures

On a CPU, where the kernels are their host build, it says so and times it all the same;
`--quick` takes a few small cases.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import plots

HERE = Path(__file__).parent
NAMES = (
    "upsample_nearest",
    "resize_nearest",
    "upsample_join",
    "upsample_conv",
    "models",
    "compile_time",
)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--quick", action="store_true", help="a few small cases")
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        print(f"\n== {name}", flush=True)
        program = [sys.executable, str(HERE / f"{name}.py")]
        output = ["--output", str(arguments.output / f"{name}.json")]
        quick = ["--quick", "--iterations", "2"] if arguments.quick else []
        subprocess.run(program + output + quick, check=True)
    for picture in plots.draw(arguments.output):
        print(picture)


if __name__ == "__main__":
    main()
