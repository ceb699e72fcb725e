// The FFI handlers, one a platform. Both share the target name, attributes and checks:
//
//   jax_upsample_add_v1   small, lateral -> large
//   axes, scale, tiled    as of jax_upsample_nearest_fwd_v1; lateral is like large

#ifndef JAX_UPSAMPLE_UPSAMPLE_ADD_FFI_H_
#define JAX_UPSAMPLE_UPSAMPLE_ADD_FFI_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(JaxUpsampleAddHostFfi);
#ifdef JAX_UPSAMPLE_WITH_CUDA
XLA_FFI_DECLARE_HANDLER_SYMBOL(JaxUpsampleAddCudaFfi);
#endif

#endif  // JAX_UPSAMPLE_UPSAMPLE_ADD_FFI_H_
