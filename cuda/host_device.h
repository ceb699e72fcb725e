// What a kernel body needs to compile for both the GPU and the host:
// qualifiers, units of memory that move as one access, and exact division by a
// fixed divisor.

#ifndef JAX_UPSAMPLE_HOST_DEVICE_H_
#define JAX_UPSAMPLE_HOST_DEVICE_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __CUDACC__
#define JAX_UPSAMPLE_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define JAX_UPSAMPLE_HOST_DEVICE inline
#endif

namespace jax_upsample {

// ----------------------------------------------------------------------- memory units

// Made of the widest words there are, so that the compiler takes a unit apart
// in registers and not byte by byte.
template <int kBytes>
struct alignas(kBytes) Unit {
  using Word = std::conditional_t<kBytes == 1, uint8_t,
                                  std::conditional_t<kBytes == 2, uint16_t, uint32_t>>;
  Word words[kBytes / sizeof(Word)];
};

#ifdef __CUDACC__
// The built-in types are what the cache-hint intrinsics and single wide
// load/store instructions are defined for.
template <int kBytes>
struct DeviceWord;
template <>
struct DeviceWord<1> {
  using type = unsigned char;
};
template <>
struct DeviceWord<2> {
  using type = unsigned short;
};
template <>
struct DeviceWord<4> {
  using type = unsigned int;
};
template <>
struct DeviceWord<8> {
  using type = uint2;
};
template <>
struct DeviceWord<16> {
  using type = uint4;
};
#endif

// Loads a unit that other work items read too: worth keeping in cache.
template <int kBytes>
JAX_UPSAMPLE_HOST_DEVICE Unit<kBytes> LoadShared(const Unit<kBytes>* from) {
#ifdef __CUDA_ARCH__
  using Word = typename DeviceWord<kBytes>::type;
  const Word word = __ldg(reinterpret_cast<const Word*>(from));
  Unit<kBytes> unit;
  memcpy(&unit, &word, kBytes);
  return unit;
#else
  return *from;
#endif
}

// Loads a unit that nobody reads again: first to leave the cache.
template <int kBytes>
JAX_UPSAMPLE_HOST_DEVICE Unit<kBytes> LoadOnce(const Unit<kBytes>* from) {
#ifdef __CUDA_ARCH__
  using Word = typename DeviceWord<kBytes>::type;
  const Word word = __ldcs(reinterpret_cast<const Word*>(from));
  Unit<kBytes> unit;
  memcpy(&unit, &word, kBytes);
  return unit;
#else
  return *from;
#endif
}

// Stores a unit that this kernel does not read back: first to leave the cache.
template <int kBytes>
JAX_UPSAMPLE_HOST_DEVICE void StoreOnce(Unit<kBytes>* to, const Unit<kBytes>& unit) {
#ifdef __CUDA_ARCH__
  using Word = typename DeviceWord<kBytes>::type;
  Word word;
  memcpy(&word, &unit, kBytes);
  __stcs(reinterpret_cast<Word*>(to), word);
#else
  *to = unit;
#endif
}

// --------------------------------------------------------------------- exact division

template <typename Index>
struct QuotientRemainder {
  Index quotient;
  Index remainder;
};

// n / divisor for 0 <= n < 2^31 (32-bit indices) or any n (64-bit indices).
template <typename Index>
class Divider;

// Division by an invariant integer as one high multiplication, one addition and
// one shift: Granlund and Montgomery, "Division by Invariant Integers using
// Multiplication", PLDI 1994, figure 4.1. n < 2^31 keeps the addition in 32
// bits.
template <>
class Divider<uint32_t> {
 public:
  Divider() : Divider(1) {}
  explicit Divider(uint32_t divisor) : divisor_(divisor), shift_(0) {
    while (shift_ < 31 && (uint32_t{1} << shift_) < divisor) ++shift_;
    const uint64_t power = uint64_t{1} << shift_;
    magic_ =
        static_cast<uint32_t>((power - divisor) * (uint64_t{1} << 32) / divisor + 1);
  }

  JAX_UPSAMPLE_HOST_DEVICE uint32_t divisor() const { return divisor_; }

  JAX_UPSAMPLE_HOST_DEVICE uint32_t Divide(uint32_t n) const {
#ifdef __CUDA_ARCH__
    const uint32_t high = __umulhi(n, magic_);
#else
    const uint32_t high = static_cast<uint32_t>((uint64_t{n} * magic_) >> 32);
#endif
    return (high + n) >> shift_;
  }

  JAX_UPSAMPLE_HOST_DEVICE QuotientRemainder<uint32_t> DivMod(uint32_t n) const {
    const uint32_t quotient = Divide(n);
    return {quotient, n - quotient * divisor_};
  }

 private:
  uint32_t divisor_;
  uint32_t magic_;
  uint32_t shift_;
};

template <>
class Divider<uint64_t> {
 public:
  Divider() : Divider(1) {}
  explicit Divider(uint64_t divisor) : divisor_(divisor) {}

  JAX_UPSAMPLE_HOST_DEVICE uint64_t divisor() const { return divisor_; }

  JAX_UPSAMPLE_HOST_DEVICE uint64_t Divide(uint64_t n) const { return n / divisor_; }

  JAX_UPSAMPLE_HOST_DEVICE QuotientRemainder<uint64_t> DivMod(uint64_t n) const {
    const uint64_t quotient = n / divisor_;
    return {quotient, n - quotient * divisor_};
  }

 private:
  uint64_t divisor_;
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_HOST_DEVICE_H_
