// How the work items of a resize and the rows of its two arrays belong together.

#ifndef JAX_UPSAMPLE_RESIZE_NEAREST_MAP_H_
#define JAX_UPSAMPLE_RESIZE_NEAREST_MAP_H_

#include "host_device.h"
#include "resize_nearest.h"

namespace jax_upsample {

template <typename Index>
struct IndexRange {
  Index begin;
  Index end;
};

// A table of one axis. What it says is bounded, so that a wrong one cannot lead
// outside of a buffer. Without a table the axis does not change.
template <typename Index>
class AxisTable {
 public:
  AxisTable(const int32_t* table, int64_t bound)
      : table_(table),
        bound_(static_cast<Index>(bound)),
        vectors_(reinterpret_cast<uintptr_t>(table) % kVectorBytes == 0) {}

  // Of an index table: the source index of a target index.
  JAX_UPSAMPLE_HOST_DEVICE Index SourceOf(Index target) const {
    if (table_ == nullptr) return target;
    return BoundedSource(Entry(target));
  }

  // The same for kCount of them, from a multiple of kCount on: in wide loads.
  template <int kCount>
  JAX_UPSAMPLE_HOST_DEVICE void SourcesOf(Index first, Index (&sources)[kCount]) const {
    if constexpr (kCount % kEntriesPerVector == 0) {
      if (table_ != nullptr && vectors_) {
        for (int k = 0; k < kCount; k += kEntriesPerVector) {
          const auto entries = LoadShared(
              reinterpret_cast<const Unit<kVectorBytes>*>(table_ + first + k));
          for (int e = 0; e < kEntriesPerVector; ++e) {
            sources[k + e] = BoundedSource(entries.words[e]);
          }
        }
        return;
      }
    }
    for (int k = 0; k < kCount; ++k) sources[k] = SourceOf(first + k);
  }

  // Of a table of first outputs: the target indices of `count` source indices.
  JAX_UPSAMPLE_HOST_DEVICE IndexRange<Index> TargetsOf(Index source,
                                                       Index count = 1) const {
    return {FirstTarget(source), FirstTarget(source + count)};
  }

  JAX_UPSAMPLE_HOST_DEVICE Index FirstTarget(Index source) const {
    if (table_ == nullptr) return source;
    const Index first = Entry(source);
    return first < bound_ ? first : bound_;
  }

 private:
  static constexpr int kEntriesPerVector = kVectorBytes / sizeof(int32_t);

  JAX_UPSAMPLE_HOST_DEVICE Index BoundedSource(Index source) const {
    return source < bound_ ? source : bound_ - 1;
  }

  // A negative entry becomes a large one.
  JAX_UPSAMPLE_HOST_DEVICE Index Entry(Index index) const {
    const auto unit = LoadShared(reinterpret_cast<const Unit<4>*>(table_) + index);
    return unit.words[0];
  }

  const int32_t* table_;
  Index bound_;
  bool vectors_;  // aligned for wide loads
};

// Work items of the written array, [outer0, axis0, outer1, chunks of axis1, outer2,
// vectors of a row], and the rows of the array that is written and the one read.
template <typename Index>
class ResizeMap {
 public:
  struct Item {
    Index outer0, index0, outer1;
    Index first1, end1;  // the chunk along axis 1
    Index outer2;
    Index vector;
  };

  ResizeMap(const ResizePlan& plan, const int64_t (&written)[3],
            const int64_t (&read)[3])
      : outer1_(static_cast<Index>(plan.extents.outer[1])),
        outer2_(static_cast<Index>(plan.extents.outer[2])),
        written0_(static_cast<Index>(written[0])),
        written1_(static_cast<Index>(written[1])),
        read0_(static_cast<Index>(read[0])),
        read1_(static_cast<Index>(read[1])),
        rows_per_item_(static_cast<Index>(plan.rows_per_item)),
        chunks_((written1_ + rows_per_item_ - 1) / rows_per_item_),
        vectors_(static_cast<Index>(written[2] * plan.extents.inner / plan.stored)) {}

  JAX_UPSAMPLE_HOST_DEVICE Item At(Index item) const {
    const auto [rest, vector] = vectors_.DivMod(item);
    const auto [plane_and_chunk, outer2] = outer2_.DivMod(rest);
    const auto [plane, chunk] = chunks_.DivMod(plane_and_chunk);
    const auto [outer0_and_index0, outer1] = outer1_.DivMod(plane);
    const auto [outer0, index0] = written0_.DivMod(outer0_and_index0);
    const Index first1 = chunk * rows_per_item_;
    const Index end1 =
        written1_ - first1 < rows_per_item_ ? written1_ : first1 + rows_per_item_;
    return {outer0, index0, outer1, first1, end1, outer2, vector};
  }

  // The rows of index 0 along axis 1; RowStep() from there to the next.
  JAX_UPSAMPLE_HOST_DEVICE int64_t WrittenRow(const Item& at) const {
    return Row(at, written0_.divisor(), at.index0, written1_);
  }
  JAX_UPSAMPLE_HOST_DEVICE int64_t ReadRow(const Item& at, Index index0) const {
    return Row(at, read0_, index0, read1_);
  }
  JAX_UPSAMPLE_HOST_DEVICE int64_t RowStep() const { return outer2_.divisor(); }

 private:
  JAX_UPSAMPLE_HOST_DEVICE int64_t Row(const Item& at, Index size0, Index index0,
                                       Index size1) const {
    const int64_t plane =
        (at.outer0 * static_cast<int64_t>(size0) + index0) * outer1_.divisor() +
        at.outer1;
    return plane * size1 * RowStep() + at.outer2;
  }

  Divider<Index> outer1_;
  Divider<Index> outer2_;
  Divider<Index> written0_;
  Index written1_;
  Index read0_;
  Index read1_;
  Index rows_per_item_;
  Divider<Index> chunks_;
  Divider<Index> vectors_;
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_RESIZE_NEAREST_MAP_H_
