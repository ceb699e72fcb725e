// What one work item of a concatenation does, on the GPU and on the host.

#ifndef JAX_UPSAMPLE_UPSAMPLE_CONCAT_BODY_H_
#define JAX_UPSAMPLE_UPSAMPLE_CONCAT_BODY_H_

#include "host_device.h"
#include "upsample_concat.h"

namespace jax_upsample {

// An item of `Upsample`, a body of UpsampleNearestFwd, or one vector of skip.
template <typename Upsample>
class UpsampleConcat {
 public:
  using IndexType = typename Upsample::IndexType;
  using Vector = typename Upsample::Vector;

  UpsampleConcat(const ConcatPlan& plan, const Upsample& upsample, const void* skip,
                 void* large)
      : upsample_(upsample),
        upsample_items_(static_cast<IndexType>(plan.upsampled.items)),
        skip_(static_cast<const Vector*>(skip)),
        large_(static_cast<Vector*>(large) + plan.extents.skip_at / kBytes),
        period_(plan.extents.period / kBytes),
        part_(static_cast<IndexType>(plan.extents.skip_part / kBytes)) {}

  JAX_UPSAMPLE_HOST_DEVICE void operator()(IndexType item) const {
    if (item < upsample_items_) {
      upsample_(item);
      return;
    }
    const IndexType vector = item - upsample_items_;
    const auto [part, in_part] = part_.DivMod(vector);
    StoreOnce(large_ + part * period_ + in_part, LoadOnce(skip_ + vector));
  }

 private:
  static constexpr int64_t kBytes = sizeof(Vector);

  Upsample upsample_;
  IndexType upsample_items_;
  const Vector* skip_;
  Vector* large_;
  int64_t period_;  // in vectors, like the next
  Divider<IndexType> part_;
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_CONCAT_BODY_H_
