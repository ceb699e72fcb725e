// The forward bodies: what one work item does, on the GPU and on the host.

#ifndef JAX_UPSAMPLE_UPSAMPLE_NEAREST_FWD_BODY_H_
#define JAX_UPSAMPLE_UPSAMPLE_NEAREST_FWD_BODY_H_

#include "host_device.h"
#include "upsample_nearest.h"
#include "upsample_nearest_row_map.h"

namespace jax_upsample {

// n / scale with the scale a template argument, or 0 for one known at run time.
template <int kScale, typename Index>
JAX_UPSAMPLE_HOST_DEVICE Index DivideByScale(Index n, const Divider<Index>& scale) {
  if constexpr (kScale != 0) {
    return n / kScale;
  } else {
    return scale.Divide(n);
  }
}

// Where the rows of an item go: into the large array as they are. `offset_of` says, in
// bytes, where for each of the rows [begin, end).
class CopyTarget {
 public:
  explicit CopyTarget(void* large) : large_(static_cast<char*>(large)) {}

  template <typename Vector, typename Index, typename OffsetOf>
  JAX_UPSAMPLE_HOST_DEVICE void Store(Index begin, Index end, const OffsetOf& offset_of,
                                      const Vector& value) const {
    for (Index row = begin; row < end; ++row) {
      StoreOnce(reinterpret_cast<Vector*>(large_ + offset_of(row)), value);
    }
  }

 private:
  char* large_;
};

template <int kUnitBytes, int kUnits, int kScale, bool kContiguous, typename Index,
          typename Target = CopyTarget>
class UpsampleNearestFwd {
 public:
  using IndexType = Index;
  using Source = Unit<kUnitBytes>;
  using Vector = Unit<kUnitBytes * kUnits>;

  UpsampleNearestFwd(const Plan& plan, const void* small, const Target& target)
      : small_(static_cast<const Source*>(small)),
        target_(target),
        rows_(plan.extents),
        rows_per_item_(static_cast<Index>(plan.rows_per_item)),
        small_row_(plan.extents.size[2] * plan.extents.inner),
        large_inner_(plan.extents.large_inner),
        large_row_(plan.extents.size[2] * plan.extents.scale[2] * large_inner_),
        window_rows_(static_cast<Index>(plan.extents.scale[0] * plan.extents.scale[1])),
        chunks_((window_rows_ + rows_per_item_ - 1) / rows_per_item_),
        vectors_(static_cast<Index>(small_row_ * plan.extents.scale[2] / kUnits)),
        inner_(static_cast<Index>(plan.extents.inner)),
        scale_(static_cast<Index>(plan.extents.scale[2])) {}

  JAX_UPSAMPLE_HOST_DEVICE void operator()(Index item) const {
    const auto [row_and_chunk, vector] = vectors_.DivMod(item);
    const auto [row, chunk] = chunks_.DivMod(row_and_chunk);
    const Vector value = Gather(small_ + row * small_row_, vector);

    const int64_t first_row = rows_.FirstLargeRow(row);
    const Index begin = chunk * rows_per_item_;
    const Index end =
        begin + rows_per_item_ < window_rows_ ? begin + rows_per_item_ : window_rows_;
    const int64_t in_row = LargeUnit(vector);
    const auto offset_of = [&](Index window_row) {
      return ((first_row + rows_.WindowRow(window_row)) * large_row_ + in_row) *
             kUnitBytes;
    };
    target_.Store(begin, end, offset_of, value);
  }

 private:
  JAX_UPSAMPLE_HOST_DEVICE Vector Gather(const Source* row, Index vector) const {
    Source units[kUnits];
    if constexpr (kContiguous && (kScale == 2 || kScale == 4) && kUnits >= kScale) {
      // The source units stand side by side: one load for all.
      constexpr int kSources = kUnits / kScale;
      const Unit<kUnitBytes * kSources> sources =
          LoadOnce(reinterpret_cast<const Unit<kUnitBytes * kSources>*>(
              row + static_cast<int64_t>(vector) * kSources));
      Source source[kSources];
      memcpy(source, &sources, sizeof(source));
      for (int k = 0; k < kUnits; ++k) units[k] = source[k / kScale];
    } else {
      for (int k = 0; k < kUnits; ++k) {
        units[k] = LoadShared(row + SourceUnit(vector * kUnits + k));
      }
    }
    Vector value;
    memcpy(&value, units, sizeof(value));
    return value;
  }

  // Where in a row of the large array a vector begins. The columns of a part may be
  // apart; no vector then spans two.
  JAX_UPSAMPLE_HOST_DEVICE int64_t LargeUnit(Index vector) const {
    if constexpr (kContiguous || kUnits > 1) {
      return static_cast<int64_t>(vector) * kUnits;
    } else {
      const auto [column, channel] = inner_.DivMod(vector);
      return column * large_inner_ + channel;
    }
  }

  // Which unit of the small row fills a unit of the large row.
  JAX_UPSAMPLE_HOST_DEVICE Index SourceUnit(Index unit) const {
    if constexpr (kContiguous) {
      return DivideByScale<kScale>(unit, scale_);
    } else {
      const auto [column, channel] = inner_.DivMod(unit);
      return DivideByScale<kScale>(column, scale_) * inner_.divisor() + channel;
    }
  }

  const Source* small_;
  Target target_;
  RowMap<Index> rows_;
  Index rows_per_item_;
  int64_t small_row_;  // in units, like the next two
  int64_t large_inner_;
  int64_t large_row_;
  Index window_rows_;
  Divider<Index> chunks_;
  Divider<Index> vectors_;
  Divider<Index> inner_;
  Divider<Index> scale_;
};

// The forward where rows of the large array are no whole number of 16 byte
// vectors: a vector then may begin in one row and end in the next.
template <int kUnitBytes, int kUnits, typename Index>
class UpsampleNearestFwdFlat {
 public:
  using IndexType = Index;
  using Source = Unit<kUnitBytes>;
  using Vector = Unit<kUnitBytes * kUnits>;

  UpsampleNearestFwdFlat(const Plan& plan, const void* small, void* large)
      : small_(static_cast<const Source*>(small)),
        large_(static_cast<Source*>(large)),
        rows_(plan.extents),
        small_row_(plan.extents.size[2] * plan.extents.inner),
        count_(static_cast<Index>(plan.extents.LargeCount())),
        large_row_(static_cast<Index>(small_row_ * plan.extents.scale[2])),
        inner_(static_cast<Index>(plan.extents.inner)),
        scale_(static_cast<Index>(plan.extents.scale[2])) {}

  JAX_UPSAMPLE_HOST_DEVICE void operator()(Index item) const {
    const Index first = item * kUnits;
    auto [large_row, unit] = large_row_.DivMod(first);
    auto [large_column, channel] = inner_.DivMod(unit);
    auto [column, repeat] = scale_.DivMod(large_column);
    const Source* row = small_ + rows_.SmallRow(large_row) * small_row_;
    int64_t pixel = column * static_cast<int64_t>(inner_.divisor());
    Source units[kUnits];
    const Index end = count_ - first < kUnits ? count_ - first : kUnits;
    for (Index k = 0; k < kUnits; ++k) {
      if (k < end) units[k] = LoadShared(row + pixel + channel);
      if (++channel < inner_.divisor()) continue;
      channel = 0;
      if (++repeat < scale_.divisor()) continue;
      repeat = 0;
      pixel += inner_.divisor();
      if (pixel < small_row_) continue;
      pixel = 0;
      if (k + 1 < end) row = small_ + rows_.SmallRow(++large_row) * small_row_;
    }
    if (end == kUnits) {
      Vector value;
      memcpy(&value, units, sizeof(value));
      StoreOnce(reinterpret_cast<Vector*>(large_ + static_cast<int64_t>(first)), value);
    } else {
      for (Index k = 0; k < kUnits; ++k) {
        if (k < end) StoreOnce(large_ + static_cast<int64_t>(first) + k, units[k]);
      }
    }
  }

 private:
  const Source* small_;
  Source* large_;
  RowMap<Index> rows_;
  int64_t small_row_;  // in units, like all the sizes here
  Index count_;
  Divider<Index> large_row_;
  Divider<Index> inner_;
  Divider<Index> scale_;
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_NEAREST_FWD_BODY_H_
