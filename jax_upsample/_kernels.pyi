from typing import Any, Literal

FFI_API_VERSION: tuple[int, int]
BUILD_NOTE: str
CUDA_ARCHITECTURES: tuple[int, ...]
FWD_DTYPES: tuple[str, ...]
BWD_DTYPES: tuple[str, ...]

def registrations(platform: str) -> dict[str, object]: ...
def launch_plan(
    direction: Literal["fwd", "bwd"],
    dtype: str,
    shape: list[int],
    scales: list[int],
    alignment: int = 16,
) -> dict[str, Any]: ...
