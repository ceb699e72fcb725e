// The number formats that the backward kernels sum, one struct a format. Each
// says how an element is stored (`Bits`), read (`Decode`), summed (`Sum`) and
// rounded back (`Encode`, once, to nearest even).

#ifndef JAX_UPSAMPLE_NUMBER_FORMATS_H_
#define JAX_UPSAMPLE_NUMBER_FORMATS_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "host_device.h"

namespace jax_upsample {

template <typename To, typename From>
JAX_UPSAMPLE_HOST_DEVICE To BitCast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

// -------------------------------------------------------------------------------- sums

template <typename Value>
class PlainSum {
 public:
  JAX_UPSAMPLE_HOST_DEVICE void Add(Value value) { sum_ += value; }
  JAX_UPSAMPLE_HOST_DEVICE void Add(const PlainSum& other) { sum_ += other.sum_; }
  JAX_UPSAMPLE_HOST_DEVICE Value Total() const { return sum_; }

 private:
  Value sum_ = 0;
};

// A float32 sum with the rounding errors carried along, so that the total is
// the exact sum rounded once for all but extreme cancellation: the cascaded sum
// of Ogita, Rump and Oishi, "Accurate Sum and Dot Product", SIAM J. Sci.
// Comput. 26 (2005), algorithm 4.4 (Sum2), whose error-free addition is Knuth's
// TwoSum.
class CompensatedSum {
 public:
  JAX_UPSAMPLE_HOST_DEVICE void Add(float value) {
    const float sum = sum_ + value;
    const float rounded = sum - sum_;
    error_ += (sum_ - (sum - rounded)) + (value - rounded);
    sum_ = sum;
  }
  JAX_UPSAMPLE_HOST_DEVICE void Add(const CompensatedSum& other) {
    Add(other.sum_);
    error_ += other.error_;
  }
  JAX_UPSAMPLE_HOST_DEVICE float Total() const {
    // An infinity or NaN among the terms makes the error NaN; the sum is then
    // right.
    return error_ == error_ ? sum_ + error_ : sum_;
  }

 private:
  float sum_ = 0;
  float error_ = 0;
};

// ----------------------------------------------------------------------------- formats

struct Float64 {
  using Bits = uint64_t;
  using Sum = PlainSum<double>;
  JAX_UPSAMPLE_HOST_DEVICE static double Decode(Bits bits) {
    return BitCast<double>(bits);
  }
  JAX_UPSAMPLE_HOST_DEVICE static Bits Encode(double value) {
    return BitCast<Bits>(value);
  }
};

struct Float32 {
  using Bits = uint32_t;
  using Sum = CompensatedSum;
  JAX_UPSAMPLE_HOST_DEVICE static float Decode(Bits bits) {
    return BitCast<float>(bits);
  }
  JAX_UPSAMPLE_HOST_DEVICE static Bits Encode(float value) {
    return BitCast<Bits>(value);
  }
};

// float32 without its low 16 bits: the same exponent, so a shift decodes it.
struct BFloat16 {
  using Bits = uint16_t;
  using Sum = PlainSum<float>;
  JAX_UPSAMPLE_HOST_DEVICE static float Decode(Bits bits) {
    return BitCast<float>(uint32_t{bits} << 16);
  }
  JAX_UPSAMPLE_HOST_DEVICE static Bits Encode(float value) {
#ifdef __CUDA_ARCH__
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
    const uint32_t bits = BitCast<uint32_t>(value);
    if (value != value)
      return static_cast<Bits>((bits >> 16) | 0x40);  // stays NaN, quiet
    return static_cast<Bits>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
  }
};

// How a format of few bits spends its last codes; the names are those of
// ml_dtypes.
enum class Specials {
  kIeee,  // infinities and NaNs in the highest exponent
  kFn,    // finite, one NaN: all ones
  kFnuz,  // finite, unsigned zero, one NaN: the code of negative zero
};

// A sign, kExponentBits and kMantissaBits, at most 16 bits in all, narrower in
// range than float32 (so every value, subnormals too, is a normal float32).
template <int kExponentBits, int kMantissaBits, int kBias, Specials kSpecials>
struct SmallFloat {
  static constexpr int kMagnitudeBits = kExponentBits + kMantissaBits;
  static constexpr uint32_t kSign = 1u << kMagnitudeBits;
  static constexpr uint32_t kInfinity = ((1u << kExponentBits) - 1) << kMantissaBits;
  static constexpr uint32_t kLargest =  // the largest finite magnitude
      kSpecials == Specials::kIeee ? kInfinity - 1
      : kSpecials == Specials::kFn ? kSign - 2
                                   : kSign - 1;
  static constexpr uint32_t kNan = kSpecials == Specials::kIeee
                                       ? kInfinity | (1u << (kMantissaBits - 1))
                                   : kSpecials == Specials::kFn ? kSign - 1
                                                                : kSign;

  using Bits = std::conditional_t<(kMagnitudeBits < 8), uint8_t, uint16_t>;
  using Sum = PlainSum<float>;

  JAX_UPSAMPLE_HOST_DEVICE static float Decode(Bits bits) {
    const uint32_t magnitude = bits & (kSign - 1);
    const uint32_t sign = uint32_t{bits} >> kMagnitudeBits << 31;
    uint32_t decoded;
    if (kSpecials == Specials::kFnuz ? bits == kNan : magnitude > kLargest) {
      const bool infinite = kSpecials == Specials::kIeee && magnitude == kInfinity;
      decoded = infinite ? 0x7f800000u : 0x7fc00000u;
    } else if (magnitude >> kMantissaBits != 0) {
      decoded = (magnitude << (23 - kMantissaBits)) + (uint32_t{127 - kBias} << 23);
    } else {
      constexpr uint32_t kQuantum = uint32_t{127 + 1 - kBias - kMantissaBits} << 23;
      decoded =
          BitCast<uint32_t>(static_cast<float>(magnitude) * BitCast<float>(kQuantum));
    }
    return BitCast<float>(sign | decoded);
  }

  JAX_UPSAMPLE_HOST_DEVICE static Bits Encode(float value) {
    uint32_t bits = BitCast<uint32_t>(value);
    const uint32_t sign = bits >> 31 << kMagnitudeBits;
    bits &= 0x7fffffffu;
    uint32_t magnitude;
    if (bits > 0x7f800000u) {
      return static_cast<Bits>(kSpecials == Specials::kFnuz ? kNan : sign | kNan);
    } else if (bits < uint32_t{127 + 1 - kBias} << 23) {
      // Adding a power of two whose unit in the last place is the subnormal
      // quantum makes the float32 addition itself round to nearest even.
      constexpr uint32_t kMagic = uint32_t{127 + 24 - kBias - kMantissaBits} << 23;
      magnitude =
          BitCast<uint32_t>(BitCast<float>(bits) + BitCast<float>(kMagic)) - kMagic;
    } else {
      constexpr int kDropped = 23 - kMantissaBits;
      const uint32_t half = (1u << (kDropped - 1)) - 1 + ((bits >> kDropped) & 1);
      magnitude =
          ((bits + half) >> kDropped) - (uint32_t{127 - kBias} << kMantissaBits);
    }
    if (kSpecials == Specials::kFnuz) {
      if (magnitude == 0) return 0;
      return static_cast<Bits>(magnitude > kLargest ? kNan : sign | magnitude);
    }
    if (magnitude > kLargest)
      magnitude = kSpecials == Specials::kIeee ? kInfinity : kNan;
    return static_cast<Bits>(sign | magnitude);
  }
};

struct Float16 : SmallFloat<5, 10, 15, Specials::kIeee> {
#ifdef __CUDA_ARCH__
  JAX_UPSAMPLE_HOST_DEVICE static float Decode(Bits bits) {
    return __half2float(__ushort_as_half(bits));
  }
  JAX_UPSAMPLE_HOST_DEVICE static Bits Encode(float value) {
    return __half_as_ushort(__float2half_rn(value));
  }
#endif
};

using Float8E3M4 = SmallFloat<3, 4, 3, Specials::kIeee>;
using Float8E4M3 = SmallFloat<4, 3, 7, Specials::kIeee>;
using Float8E5M2 = SmallFloat<5, 2, 15, Specials::kIeee>;
using Float8E4M3Fn = SmallFloat<4, 3, 7, Specials::kFn>;
using Float8E4M3Fnuz = SmallFloat<4, 3, 8, Specials::kFnuz>;
using Float8E4M3B11Fnuz = SmallFloat<4, 3, 11, Specials::kFnuz>;
using Float8E5M2Fnuz = SmallFloat<5, 2, 16, Specials::kFnuz>;

// ------------------------------------------------------------------- sums side by side

// kCount sums of neighbours, and the unit of memory that they are rounded to.
template <typename FormatT, int kCount>
struct Sums {
  using Bits = typename FormatT::Bits;
  using Stored = Unit<static_cast<int>(sizeof(Bits)) * kCount>;

  typename FormatT::Sum of[kCount];

  JAX_UPSAMPLE_HOST_DEVICE void Add(const Sums& other) {
    for (int k = 0; k < kCount; ++k) of[k].Add(other.of[k]);
  }
  JAX_UPSAMPLE_HOST_DEVICE Stored Encode() const {
    Bits encoded[kCount];
    for (int k = 0; k < kCount; ++k) encoded[k] = FormatT::Encode(of[k].Total());
    Stored stored;
    memcpy(&stored, encoded, sizeof(stored));
    return stored;
  }
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_NUMBER_FORMATS_H_
