// The FFI handlers of the probe, for benchmarks. Both platforms share the target name
// and the checks:
//
//   jax_upsample_stream_probe_v1   operand -> result
//
// of any shapes and of any two of the dtypes that the kernels take; what the result is,
// stream_probe.h says.

#ifndef JAX_UPSAMPLE_STREAM_PROBE_FFI_H_
#define JAX_UPSAMPLE_STREAM_PROBE_FFI_H_

#include "ffi_helpers.h"

JAX_UPSAMPLE_DECLARE_HANDLERS(JaxUpsampleStreamProbe);

#endif  // JAX_UPSAMPLE_STREAM_PROBE_FFI_H_
