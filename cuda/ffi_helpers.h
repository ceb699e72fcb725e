// What every FFI handler needs: errors with names and numbers, and the dtypes.

#ifndef JAX_UPSAMPLE_FFI_HELPERS_H_
#define JAX_UPSAMPLE_FFI_HELPERS_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <string>

#include "upsample_nearest.h"
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

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_FFI_HELPERS_H_
