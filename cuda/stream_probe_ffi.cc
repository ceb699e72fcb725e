#include "stream_probe_ffi.h"

#include <utility>

#include "ffi_helpers.h"
#include "stream_probe.h"

namespace jax_upsample {
namespace {

constexpr const char* kOp = "stream_probe";

// The arguments of one run, and the blocks it takes, 0 if there is nothing to do.
struct Call {
  const void* operand;
  int64_t operand_bytes;
  void* result;
  int64_t result_bytes;
  int64_t blocks;
};

ffi::Error DecodeBytes(ffi::AnyBuffer buffer, int64_t* bytes) {
  // Not size_bytes(): it counts a byte for an element of less.
  const Dtype* dtype = FindDtype(
      [&](const Dtype& dtype) { return dtype.type == buffer.element_type(); });
  if (dtype == nullptr) {
    return InvalidArgument(kOp, ": no kernel for the dtype of XLA's code ",
                           static_cast<int>(buffer.element_type()));
  }
  *bytes = static_cast<int64_t>(buffer.element_count()) * dtype->element.bytes;
  const void* address = buffer.untyped_data();
  if (*bytes >= kVectorBytes &&
      (address == nullptr ||
       reinterpret_cast<uintptr_t>(address) % kVectorBytes != 0)) {
    return InvalidArgument(kOp, ": the buffers must be aligned to ", kVectorBytes,
                           " bytes, got address ", address);
  }
  return ffi::Error::Success();
}

ffi::Error DecodeCall(ffi::AnyBuffer operand, ffi::AnyBuffer result, Call* call) {
  call->operand = operand.untyped_data();
  call->result = result.untyped_data();
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeBytes(operand, &call->operand_bytes));
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeBytes(result, &call->result_bytes));
  call->blocks = ProbeBlocks(call->operand_bytes, call->result_bytes);
  return CheckBlocks(kOp, call->blocks);
}

template <typename Context>
auto ProbeBinding(Context context) {
  return std::move(context)
      .template Arg<ffi::AnyBuffer>()
      .template Ret<ffi::AnyBuffer>();
}

ffi::Error ProbeOnHost(ffi::AnyBuffer operand, ffi::Result<ffi::AnyBuffer> result) {
  Call call;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeCall(operand, *result, &call));
  if (call.blocks == 0) return ffi::Error::Success();
  RunStreamProbe(call.operand, call.operand_bytes, call.result, call.result_bytes);
  return ffi::Error::Success();
}

#ifdef JAX_UPSAMPLE_WITH_CUDA
ffi::Error ProbeOnCuda(CUstream_st* stream, ffi::AnyBuffer operand,
                       ffi::Result<ffi::AnyBuffer> result) {
  Call call;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeCall(operand, *result, &call));
  if (call.blocks == 0) return ffi::Error::Success();
  return RunError(kOp, LaunchStreamProbe(call.operand, call.operand_bytes, call.result,
                                         call.result_bytes, stream));
}
#endif

}  // namespace
}  // namespace jax_upsample

XLA_FFI_DEFINE_HANDLER_SYMBOL(StreamProbeHostFfi, jax_upsample::ProbeOnHost,
                              jax_upsample::ProbeBinding(xla::ffi::Ffi::Bind()));

#ifdef JAX_UPSAMPLE_WITH_CUDA
// Records into a CUDA graph, as the ops' handlers do.
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    StreamProbeCudaFfi, jax_upsample::ProbeOnCuda,
    jax_upsample::ProbeBinding(xla::ffi::Ffi::Bind().Ctx<jax_upsample::CudaStream>()),
    {xla::ffi::Traits::kCmdBufferCompatible});
#endif
