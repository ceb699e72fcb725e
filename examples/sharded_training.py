"""Trains the U-Net of denoise_unet.py on several processes of several devices.

    pip install '.[examples]'
    python examples/sharded_training.py --processes 2 --devices 4 --shard rows

starts two processes of four CPU devices each, which find one another through
`jax.distributed`; all eight share every batch, by photographs or by rows of pixels.
What they print is the loss of one device, to rounding: the mesh changes where numbers
are, not which. On a cluster your scheduler starts the processes, one a host, and
`jax.distributed.initialize()` needs no arguments; the rest stays as it is.

Sharded by rows, XLA exchanges the rows at the seams for the convolutions; an upsampling
needs none, for every row of its result stems from a row of the same device.
"""

import argparse
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--devices", type=int, default=4, help="CPU devices of each")
    parser.add_argument("--shard", choices=("batch", "rows"), default="batch")
    parser.add_argument(
        "--implementation", choices=("auto", "kernel", "xla"), default="auto"
    )
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--coordinator", help=argparse.SUPPRESS)
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def start_all(options: argparse.Namespace) -> None:
    """This program once a process; what they print goes where this one prints."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    count = f"--xla_force_host_platform_device_count={options.devices}"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {count}"
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    command = [sys.executable, *sys.argv, "--coordinator", address, "--process"]
    started = [
        subprocess.Popen([*command, str(process)], env=environment)
        for process in range(options.processes)
    ]
    failed = [process.wait() for process in started]
    if any(failed):
        sys.exit(f"exit codes of the processes: {failed}")


def train(options: argparse.Namespace) -> None:
    """This process's part of the training."""
    import jax

    jax.distributed.initialize(options.coordinator, options.processes, options.process)
    import denoise_unet
    import numpy as np
    import optax
    from flax import nnx
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), ("devices",))
    spec = {"batch": ("devices",), "rows": (None, "devices")}[options.shard]
    of_batch = NamedSharding(mesh, PartitionSpec(*spec))
    everywhere = NamedSharding(mesh, PartitionSpec())

    implementation = {"auto": None}.get(options.implementation, options.implementation)
    model = denoise_unet.UNet(implementation, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    def replicated(x: jax.Array) -> jax.Array:
        return jax.make_array_from_process_local_data(everywhere, np.asarray(x))

    for part in (model, optimizer):
        nnx.update(part, jax.tree.map(replicated, nnx.state(part)))

    photos = [denoise_unet.load_photo(name) for name in denoise_unet.TRAINING]
    rng, key = np.random.default_rng(0), jax.random.key(0)
    if jax.process_index() == 0:
        places = f"{jax.process_count()} processes, {jax.device_count()} devices"
        print(f"{places}, sharded by {options.shard}")
    for step in range(options.steps):
        # Every process draws the same crops; of them its devices hold their part.
        crops = denoise_unet.random_crops(photos, options.batch_size, rng)

        def cut(index: Any, crops: Any = crops) -> Any:
            return crops[index]

        clean = jax.make_array_from_callback(crops.shape, of_batch, cut)
        loss = denoise_unet.train_step(
            model, optimizer, clean, jax.random.fold_in(key, step)
        )
        if jax.process_index() == 0:
            print(f"step {step} loss {float(loss):.8f}", flush=True)


if __name__ == "__main__":
    options = parse()
    if options.process is None:
        start_all(options)
    else:
        train(options)
