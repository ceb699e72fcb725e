// What one work item of a concatenation does, on the GPU and on the host.

#ifndef JAX_UPSAMPLE_UPSAMPLE_CONCAT_BODY_H_
#define JAX_UPSAMPLE_UPSAMPLE_CONCAT_BODY_H_

#include "host_device.h"
#include "upsample_concat.h"

namespace jax_upsample {

// Blocks of items of `Upsample`, a body of UpsampleNearestFwd, and blocks of vectors of
// skip. They alternate in proportion, so that what is written at a time lies together.
template <typename Upsample>
class UpsampleConcat {
 public:
  using IndexType = typename Upsample::IndexType;
  using Vector = typename Upsample::Vector;

  UpsampleConcat(const ConcatPlan& plan, const Upsample& upsample, const void* skip,
                 void* large)
      : upsample_(upsample),
        upsample_items_(static_cast<IndexType>(plan.upsampled.items)),
        skip_vectors_(static_cast<IndexType>(plan.skip_vectors)),
        share_(plan.upsample_share),
        skip_(static_cast<const Vector*>(skip)),
        large_(static_cast<Vector*>(large) + plan.extents.skip_at / kBytes),
        period_(plan.extents.period / kBytes),
        part_(static_cast<IndexType>(plan.extents.skip_part / kBytes)) {}

  JAX_UPSAMPLE_HOST_DEVICE void operator()(IndexType item) const {
    const IndexType block = item / kThreadsPerBlock, thread = item % kThreadsPerBlock;
    const IndexType before = UpsampleBlocksBefore(block);
    if (UpsampleBlocksBefore(block + 1) != before) {
      const IndexType at = before * kThreadsPerBlock + thread;
      if (at < upsample_items_) upsample_(at);
    } else {
      const IndexType at = (block - before) * kThreadsPerBlock + thread;
      if (at < skip_vectors_) Copy(at);
    }
  }

 private:
  static constexpr int64_t kBytes = sizeof(Vector);

  JAX_UPSAMPLE_HOST_DEVICE IndexType UpsampleBlocksBefore(IndexType block) const {
    return static_cast<IndexType>((static_cast<uint64_t>(block) * share_) >> 32);
  }

  JAX_UPSAMPLE_HOST_DEVICE void Copy(IndexType vector) const {
    const auto [part, in_part] = part_.DivMod(vector);
    StoreOnce(large_ + part * period_ + in_part, LoadOnce(skip_ + vector));
  }

  Upsample upsample_;
  IndexType upsample_items_;
  IndexType skip_vectors_;
  uint64_t share_;
  const Vector* skip_;
  Vector* large_;
  int64_t period_;  // in vectors, like the next
  Divider<IndexType> part_;
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_CONCAT_BODY_H_
