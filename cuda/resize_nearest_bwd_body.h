// The backward body: what one work item does, on the GPU and on the host.

#ifndef JAX_UPSAMPLE_RESIZE_NEAREST_BWD_BODY_H_
#define JAX_UPSAMPLE_RESIZE_NEAREST_BWD_BODY_H_

#include "host_device.h"
#include "number_formats.h"
#include "resize_nearest.h"
#include "resize_nearest_map.h"

namespace jax_upsample {

// An item is kStored numbers side by side along `inner`, in some rows one below the
// other. The target rows of those rows are one range, which is read in order; where it
// passes from one source row to the next, a sum is complete.
template <typename FormatT, int kStored, bool kContiguous, typename Index>
class ResizeNearestBwd {
 public:
  using IndexType = Index;
  using Bits = typename FormatT::Bits;
  using Sums = jax_upsample::Sums<FormatT, kStored>;
  using Vector = typename Sums::Stored;

  ResizeNearestBwd(const ResizePlan& plan, const void* target, void* source)
      : target_(static_cast<const Vector*>(target)),
        source_(static_cast<Vector*>(source)),
        map_(plan, plan.extents.source, plan.extents.target),
        table0_(plan.extents.table[0], plan.extents.target[0]),
        table1_(plan.extents.table[1], plan.extents.target[1]),
        table2_(plan.extents.table[2], plan.extents.target[2]),
        source_row_(plan.extents.source[2] * plan.extents.inner / kStored),
        target_row_(plan.extents.target[2] * plan.extents.inner / kStored),
        inner_(static_cast<Index>(plan.extents.inner / kStored)) {}

  JAX_UPSAMPLE_HOST_DEVICE void operator()(Index item) const {
    const auto at = map_.At(item);
    Index column = at.vector, channel = 0;
    if constexpr (!kContiguous) {
      const auto split = inner_.DivMod(at.vector);
      column = split.quotient;
      channel = split.remainder;
    }
    const auto planes = table0_.TargetsOf(at.index0);
    const auto rows = table1_.TargetsOf(at.first1, at.end1 - at.first1);
    const auto columns = table2_.TargetsOf(column);

    const int64_t source_step = map_.RowStep() * source_row_;
    const int64_t target_step = map_.RowStep() * target_row_;
    Vector* to = source_ + map_.WrittenRow(at) * source_row_ + at.first1 * source_step +
                 at.vector;
    Index row = at.first1;
    Index row_end = table1_.FirstTarget(row + 1);
    Sums sums;
    for (Index plane = planes.begin; plane < planes.end; ++plane) {
      const Vector* from = target_ + map_.ReadRow(at, plane) * target_row_ + channel;
      for (Index j = rows.begin; j < rows.end; j += kRows) {
        Sums of_row[kRows];
        for (Index c = columns.begin; c < columns.end; c += kColumns) {
          Vector loaded[kRows][kColumns] = {};  // zeros where nothing is to be added
          for (int r = 0; r < kRows; ++r) {
            for (int k = 0; k < kColumns; ++k) {
              if (j + r < rows.end && c + k < columns.end) {
                loaded[r][k] =
                    LoadOnce(from + (j + r) * target_step +
                             (c + k) * static_cast<int64_t>(inner_.divisor()));
              }
            }
          }
          for (int r = 0; r < kRows; ++r) {
            for (int k = 0; k < kColumns; ++k) Add(loaded[r][k], of_row[r]);
          }
        }
        for (int r = 0; r < kRows; ++r) {
          while (j + r >= row_end && row + 1 < at.end1) {
            StoreOnce(to, sums.Encode());
            sums = Sums();
            to += source_step;
            ++row;
            row_end = table1_.FirstTarget(row + 1);
          }
          sums.Add(of_row[r]);  // zeros beyond rows.end
        }
      }
    }
    for (; row < at.end1; ++row, to += source_step) {
      StoreOnce(to, sums.Encode());
      sums = Sums();
    }
  }

 private:
  // What is on its way before the first is added.
  static constexpr int kRows = kStored == 1 ? 4 : 2;
  static constexpr int kColumns = 2;

  JAX_UPSAMPLE_HOST_DEVICE static void Add(const Vector& vector, Sums& sums) {
    Bits numbers[kStored];
    memcpy(numbers, &vector, sizeof(numbers));
    for (int k = 0; k < kStored; ++k) sums.of[k].Add(FormatT::Decode(numbers[k]));
  }

  const Vector* target_;
  Vector* source_;
  ResizeMap<Index> map_;
  AxisTable<Index> table0_;
  AxisTable<Index> table1_;
  AxisTable<Index> table2_;
  int64_t source_row_;  // both in vectors
  int64_t target_row_;
  Divider<Index> inner_;  // in vectors
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_RESIZE_NEAREST_BWD_BODY_H_
