// What upsample_add does with the rows that UpsampleNearestFwd gathers.

#ifndef JAX_UPSAMPLE_UPSAMPLE_ADD_BODY_H_
#define JAX_UPSAMPLE_UPSAMPLE_ADD_BODY_H_

#include "host_device.h"
#include "number_formats.h"

namespace jax_upsample {

// As CopyTarget (upsample_nearest_fwd_body.h), each row added to that of `lateral`.
template <typename FormatT>
class AddTarget {
 public:
  AddTarget(const void* lateral, void* large)
      : lateral_(static_cast<const char*>(lateral)),
        large_(static_cast<char*>(large)) {}

  template <typename Vector, typename Index, typename OffsetOf>
  JAX_UPSAMPLE_HOST_DEVICE void Store(Index begin, Index end, const OffsetOf& offset_of,
                                      const Vector& value) const {
    Index row = begin;
    for (; row + 1 < end; row += 2) {
      // Two rows are on their way before the first is added.
      const int64_t first = offset_of(row), second = offset_of(row + 1);
      const Vector first_lateral = Load<Vector>(first);
      const Vector second_lateral = Load<Vector>(second);
      StoreSum(first, first_lateral, value);
      StoreSum(second, second_lateral, value);
    }
    if (row < end) StoreSum(offset_of(row), Load<Vector>(offset_of(row)), value);
  }

 private:
  template <typename Vector>
  JAX_UPSAMPLE_HOST_DEVICE Vector Load(int64_t offset) const {
    return LoadOnce(reinterpret_cast<const Vector*>(lateral_ + offset));
  }

  template <typename Vector>
  JAX_UPSAMPLE_HOST_DEVICE void StoreSum(int64_t offset, const Vector& lateral,
                                         const Vector& value) const {
    constexpr int kNumbers = sizeof(Vector) / sizeof(typename FormatT::Bits);
    typename FormatT::Bits terms[kNumbers], sums[kNumbers];
    memcpy(terms, &value, sizeof(terms));
    memcpy(sums, &lateral, sizeof(sums));
    for (int k = 0; k < kNumbers; ++k) {
      sums[k] = FormatT::Encode(FormatT::Decode(sums[k]) + FormatT::Decode(terms[k]));
    }
    Vector stored;
    memcpy(&stored, sums, sizeof(stored));
    StoreOnce(reinterpret_cast<Vector*>(large_ + offset), stored);
  }

  const char* lateral_;
  char* large_;
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_ADD_BODY_H_
