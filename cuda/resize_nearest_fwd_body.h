// The forward body: what one work item does, on the GPU and on the host.

#ifndef JAX_UPSAMPLE_RESIZE_NEAREST_FWD_BODY_H_
#define JAX_UPSAMPLE_RESIZE_NEAREST_FWD_BODY_H_

#include "host_device.h"
#include "resize_nearest.h"
#include "resize_nearest_map.h"

namespace jax_upsample {

template <int kUnitBytes, int kUnits, bool kContiguous, typename Index>
class ResizeNearestFwd {
 public:
  using IndexType = Index;
  using Source = Unit<kUnitBytes>;
  using Vector = Unit<kUnitBytes * kUnits>;

  ResizeNearestFwd(const ResizePlan& plan, const void* source, void* target)
      : source_(static_cast<const Source*>(source)),
        target_(static_cast<Source*>(target)),
        map_(plan, plan.extents.target, plan.extents.source),
        table0_(plan.extents.table[0], plan.extents.source[0]),
        table1_(plan.extents.table[1], plan.extents.source[1]),
        table2_(plan.extents.table[2], plan.extents.source[2]),
        source_row_(plan.extents.source[2] * plan.extents.inner),
        target_row_(plan.extents.target[2] * plan.extents.inner),
        inner_(static_cast<Index>(plan.extents.inner)) {}

  JAX_UPSAMPLE_HOST_DEVICE void operator()(Index item) const {
    const auto at = map_.At(item);
    Index units[kUnits];
    SourceUnits(at.vector * kUnits, units);

    const Source* from =
        source_ + map_.ReadRow(at, table0_.SourceOf(at.index0)) * source_row_;
    const int64_t source_step = map_.RowStep() * source_row_;
    const int64_t target_step = map_.RowStep() * target_row_;
    Source* to = target_ + map_.WrittenRow(at) * target_row_ + at.first1 * target_step +
                 static_cast<int64_t>(at.vector) * kUnits;
    Index j = at.first1;
    for (; j + 1 < at.end1; j += 2, to += 2 * target_step) {
      // Two rows are on their way before the first is stored.
      const Index row = table1_.SourceOf(j), next_row = table1_.SourceOf(j + 1);
      const Vector value = Gather(from + row * source_step, units);
      const Vector next =
          next_row == row ? value : Gather(from + next_row * source_step, units);
      StoreOnce(reinterpret_cast<Vector*>(to), value);
      StoreOnce(reinterpret_cast<Vector*>(to + target_step), next);
    }
    if (j < at.end1) {
      StoreOnce(reinterpret_cast<Vector*>(to),
                Gather(from + table1_.SourceOf(j) * source_step, units));
    }
  }

 private:
  JAX_UPSAMPLE_HOST_DEVICE static Vector Gather(const Source* row,
                                                const Index (&units)[kUnits]) {
    Source gathered[kUnits];
    for (int k = 0; k < kUnits; ++k) gathered[k] = LoadShared(row + units[k]);
    Vector value;
    memcpy(&value, gathered, sizeof(value));
    return value;
  }

  // Which units of the source row fill the units from `first` on of the target row.
  JAX_UPSAMPLE_HOST_DEVICE void SourceUnits(Index first, Index (&units)[kUnits]) const {
    if constexpr (kContiguous) {
      table2_.SourcesOf(first, units);
    } else {
      for (int k = 0; k < kUnits; ++k) {
        const auto [column, channel] = inner_.DivMod(first + k);
        units[k] = table2_.SourceOf(column) * inner_.divisor() + channel;
      }
    }
  }

  const Source* source_;
  Source* target_;
  ResizeMap<Index> map_;
  AxisTable<Index> table0_;
  AxisTable<Index> table1_;
  AxisTable<Index> table2_;
  int64_t source_row_;  // both in units
  int64_t target_row_;
  Divider<Index> inner_;
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_RESIZE_NEAREST_FWD_BODY_H_
