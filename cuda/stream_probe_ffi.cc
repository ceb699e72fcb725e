#include "stream_probe_ffi.h"

#include <utility>

#include "ffi_helpers.h"
#include "stream_probe.h"

namespace jax_upsample {
namespace {

constexpr const char* kOp = "stream_probe";

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

template <typename Context>
auto Binding(Context context) {
  return std::move(context)
      .template Arg<ffi::AnyBuffer>()
      .template Ret<ffi::AnyBuffer>();
}

template <typename Where>
ffi::Error Run(Where where, ffi::AnyBuffer operand,
               ffi::Result<ffi::AnyBuffer> result) {
  int64_t read, written;
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeBytes(operand, &read));
  JAX_UPSAMPLE_RETURN_IF_ERROR(DecodeBytes(*result, &written));
  const int64_t blocks = ProbeBlocks(read, written);
  JAX_UPSAMPLE_RETURN_IF_ERROR(CheckBlocks(kOp, blocks));
  if (blocks == 0) return ffi::Error::Success();
  return RunError(kOp, RunStreamProbe(operand.untyped_data(), read,
                                      result->untyped_data(), written, where));
}

}  // namespace
}  // namespace jax_upsample

JAX_UPSAMPLE_DEFINE_HANDLERS(JaxUpsampleStreamProbe, jax_upsample::Run,
                             jax_upsample::Binding);
