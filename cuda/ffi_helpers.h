// What every FFI handler needs: errors with names and numbers, and the dtypes.

#ifndef JAX_UPSAMPLE_FFI_HELPERS_H_
#define JAX_UPSAMPLE_FFI_HELPERS_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

#include "launch.h"
#include "xla/ffi/api/ffi.h"

namespace jax_upsample {

namespace ffi = xla::ffi;

// A handler never throws, aborts or prints: it returns.
#define JAX_UPSAMPLE_RETURN_IF_ERROR(expression)                        \
  do {                                                                  \
    if (ffi::Error error = (expression); error.failure()) return error; \
  } while (false)

template <typename... Parts>
ffi::Error InvalidArgument(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  return ffi::Error::InvalidArgument(message.str());
}

template <typename... Parts>
ffi::Error Internal(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  return ffi::Error::Internal(message.str());
}

inline std::string DimensionsText(ffi::AnyBuffer::Dimensions dims) {
  std::ostringstream text;
  text << '(';
  for (size_t d = 0; d < dims.size(); ++d) text << (d == 0 ? "" : ", ") << dims[d];
  text << ')';
  return text.str();
}

using Integers = ffi::Span<const int64_t>;
using CudaStream = ffi::PlatformStream<CUstream_st*>;

struct Dtype {
  const char* name;  // as numpy and ml_dtypes say it
  ffi::DataType type;
  Element element;
};

// The dtypes that the kernels take. Those of less than a byte are missing: XLA
// packs them, several elements to a byte, and tells a handler nothing of it.
inline constexpr Dtype kDtypes[] = {
    {"bool", ffi::PRED, {1, Format::kNone, 1}},
    {"int8", ffi::S8, {1, Format::kNone, 1}},
    {"int16", ffi::S16, {2, Format::kNone, 1}},
    {"int32", ffi::S32, {4, Format::kNone, 1}},
    {"int64", ffi::S64, {8, Format::kNone, 1}},
    {"uint8", ffi::U8, {1, Format::kNone, 1}},
    {"uint16", ffi::U16, {2, Format::kNone, 1}},
    {"uint32", ffi::U32, {4, Format::kNone, 1}},
    {"uint64", ffi::U64, {8, Format::kNone, 1}},
    {"float16", ffi::F16, {2, Format::kFloat16, 1}},
    {"bfloat16", ffi::BF16, {2, Format::kBFloat16, 1}},
    {"float32", ffi::F32, {4, Format::kFloat32, 1}},
    {"float64", ffi::F64, {8, Format::kFloat64, 1}},
    {"complex64", ffi::C64, {8, Format::kFloat32, 2}},
    {"complex128", ffi::C128, {16, Format::kFloat64, 2}},
    {"float8_e3m4", ffi::F8E3M4, {1, Format::kFloat8E3M4, 1}},
    {"float8_e4m3", ffi::F8E4M3, {1, Format::kFloat8E4M3, 1}},
    {"float8_e5m2", ffi::F8E5M2, {1, Format::kFloat8E5M2, 1}},
    {"float8_e4m3fn", ffi::F8E4M3FN, {1, Format::kFloat8E4M3Fn, 1}},
    {"float8_e4m3fnuz", ffi::F8E4M3FNUZ, {1, Format::kFloat8E4M3Fnuz, 1}},
    {"float8_e4m3b11fnuz", ffi::F8E4M3B11FNUZ, {1, Format::kFloat8E4M3B11Fnuz, 1}},
    {"float8_e5m2fnuz", ffi::F8E5M2FNUZ, {1, Format::kFloat8E5M2Fnuz, 1}},
    {"float8_e8m0fnu", ffi::F8E8M0FNU, {1, Format::kNone, 1}},
};

template <typename Predicate>
const Dtype* FindDtype(Predicate predicate) {
  const Dtype* dtype = std::find_if(std::begin(kDtypes), std::end(kDtypes), predicate);
  return dtype == std::end(kDtypes) ? nullptr : dtype;
}

// The dtype of a call, checked; `with_sum` asks for one that the backward takes.
inline ffi::Error DecodeDtype(const char* op, ffi::AnyBuffer operand,
                              ffi::AnyBuffer result, bool with_sum,
                              const Dtype** dtype) {
  const int type = static_cast<int>(operand.element_type());
  if (operand.element_type() != result.element_type()) {
    return InvalidArgument(op, ": operand and result must have one dtype, got codes ",
                           type, " and ", static_cast<int>(result.element_type()));
  }
  *dtype = FindDtype(
      [&](const Dtype& dtype) { return dtype.type == operand.element_type(); });
  if (*dtype == nullptr) {
    return InvalidArgument(op, ": no kernel for the dtype of XLA's code ", type);
  }
  if (with_sum && (*dtype)->element.format == Format::kNone) {
    return InvalidArgument(op, ": no kernel for dtype ", (*dtype)->name);
  }
  return ffi::Error::Success();
}

inline bool IsEmpty(Integers dims) {
  return std::find(dims.begin(), dims.end(), 0) != dims.end();
}

// The power of two up to 16 that divides all addresses, at least a number's size.
inline ffi::Error DecodeAlignment(const char* op, Element element,
                                  std::initializer_list<const void*> buffers,
                                  int64_t* alignment) {
  const int64_t number_bytes = element.bytes / element.components;
  *alignment = kVectorBytes;
  for (const void* buffer : buffers) {
    const auto address = reinterpret_cast<uintptr_t>(buffer);
    if (buffer == nullptr || address % number_bytes != 0) {
      return InvalidArgument(op, ": the buffers must be aligned to ", number_bytes,
                             " bytes, got address ", buffer);
    }
    *alignment = PowerOfTwoDivisor(static_cast<int64_t>(address), *alignment);
  }
  return ffi::Error::Success();
}

inline ffi::Error CheckBlocks(const char* op, int64_t blocks) {
  if (blocks <= kMaxBlocks) return ffi::Error::Success();
  return InvalidArgument(op, ": ", blocks, " blocks are needed, at most ", kMaxBlocks,
                         " can be launched");
}

// What became of a run or a launch.
inline ffi::Error RunError(const char* op, int error) {
  if (error == 0) return ffi::Error::Success();
#ifdef JAX_UPSAMPLE_WITH_CUDA
  if (error != kNoSuchKernel) {
    return Internal(op, ": the launch failed: ", CudaErrorText(error));
  }
#endif
  return Internal(op, ": no kernel for the plan");
}

}  // namespace jax_upsample

template <>
struct xla::ffi::CtxDecoding<jax_upsample::HostThread> {
  using Type = jax_upsample::HostThread;
  static std::optional<Type> Decode(const XLA_FFI_Api*, XLA_FFI_ExecutionContext*,
                                    DiagnosticEngine&) {
    return Type();
  }
};

// One handler a platform of an op. `run(where, buffers.., attributes..)` is a template
// over the type of `where` (launch.h), `binding` binds the rest. On a stream it is one
// launch, no allocation and no synchronisation: XLA may record it into a CUDA graph.
#define JAX_UPSAMPLE_DECLARE_HOST_HANDLER(op) XLA_FFI_DECLARE_HANDLER_SYMBOL(op##OnHost)
#define JAX_UPSAMPLE_DEFINE_HOST_HANDLER(op, run, binding) \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                           \
      op##OnHost, run<jax_upsample::HostThread>,           \
      binding(xla::ffi::Ffi::Bind().Ctx<jax_upsample::HostThread>()))
#ifdef JAX_UPSAMPLE_WITH_CUDA
#define JAX_UPSAMPLE_DECLARE_HANDLERS(op) \
  JAX_UPSAMPLE_DECLARE_HOST_HANDLER(op);  \
  XLA_FFI_DECLARE_HANDLER_SYMBOL(op##OnCuda)
#define JAX_UPSAMPLE_DEFINE_HANDLERS(op, run, binding)                \
  JAX_UPSAMPLE_DEFINE_HOST_HANDLER(op, run, binding);                 \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                      \
      op##OnCuda, run<CUstream_st*>,                                  \
      binding(xla::ffi::Ffi::Bind().Ctx<jax_upsample::CudaStream>()), \
      {xla::ffi::Traits::kCmdBufferCompatible})
#else
#define JAX_UPSAMPLE_DECLARE_HANDLERS JAX_UPSAMPLE_DECLARE_HOST_HANDLER
#define JAX_UPSAMPLE_DEFINE_HANDLERS JAX_UPSAMPLE_DEFINE_HOST_HANDLER
#endif

#endif  // JAX_UPSAMPLE_FFI_HELPERS_H_
