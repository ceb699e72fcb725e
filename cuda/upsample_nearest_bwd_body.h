// The backward bodies: what one work item does, on the GPU and on the host.

#ifndef JAX_UPSAMPLE_UPSAMPLE_NEAREST_BWD_BODY_H_
#define JAX_UPSAMPLE_UPSAMPLE_NEAREST_BWD_BODY_H_

#include "host_device.h"
#include "number_formats.h"
#include "upsample_nearest.h"
#include "upsample_nearest_row_map.h"

namespace jax_upsample {

// What both backward bodies know: where an item's window begins and its sums
// go. An item is kStored numbers of the small array; one load takes kLoaded of
// the large.
template <typename FormatT, int kLoaded, int kStored, typename Index>
class UpsampleNearestBwdBase {
 public:
  using IndexType = Index;
  using Bits = typename FormatT::Bits;
  using Loaded = Unit<static_cast<int>(sizeof(Bits)) * kLoaded>;
  using Sums = jax_upsample::Sums<FormatT, kStored>;
  using Stored = typename Sums::Stored;

  UpsampleNearestBwdBase(const Plan& plan, const void* large, void* small)
      : large_(static_cast<const Loaded*>(large)),
        small_(static_cast<Stored*>(small)),
        rows_(plan.extents),
        column_step_(
            plan.extents.large_inner == 1 ? 1 : plan.extents.large_inner / kStored),
        large_row_(plan.extents.size[2] * plan.extents.scale[2] *
                   plan.extents.large_inner / kLoaded),
        small_row_(
            static_cast<Index>(plan.extents.size[2] * plan.extents.inner / kStored)),
        inner_(static_cast<Index>(
            plan.extents.inner == 1 ? 1 : plan.extents.inner / kStored)) {}

  JAX_UPSAMPLE_HOST_DEVICE void Store(Index item, const Sums& sums) const {
    StoreOnce(small_ + item, sums.Encode());
  }

 protected:
  // Where the window of an item begins, if a window is `columns` loads wide.
  JAX_UPSAMPLE_HOST_DEVICE int64_t WindowBegin(Index item, int64_t columns) const {
    const auto [row, in_row] = small_row_.DivMod(item);
    const auto [column, channel] = inner_.DivMod(in_row);
    return rows_.FirstLargeRow(row) * large_row_ + column * columns * column_step_ +
           channel;
  }

  const Loaded* large_;
  Stored* small_;
  RowMap<Index> rows_;
  int64_t column_step_;  // in loads, the next too
  int64_t large_row_;
  Divider<Index> small_row_;  // in items
  Divider<Index> inner_;
};

// One item a thread. The compiler knows the columns of a window, and its rows
// where kRows is not 0. Columns are `inner` apart, or side by side where
// kContiguous.
template <typename FormatT, int kLoaded, int kStored, int kRows, int kScale,
          bool kContiguous, typename Index>
class UpsampleNearestBwd
    : public UpsampleNearestBwdBase<FormatT, kLoaded, kStored, Index> {
  using Base = UpsampleNearestBwdBase<FormatT, kLoaded, kStored, Index>;

 public:
  using Base::Base;

  JAX_UPSAMPLE_HOST_DEVICE void operator()(Index item) const {
    const int64_t begin = this->WindowBegin(item, kLoads);
    const int64_t step0 = this->rows_.step0() * this->large_row_;
    const int64_t rows0 = kRows != 0 ? 1 : this->rows_.scale0();
    const int64_t rows1 = kRows != 0 ? kRows : this->rows_.scale1();
    typename Base::Sums sums;
    for (int64_t k0 = 0; k0 < rows0; ++k0) {
      int64_t from = begin + k0 * step0;
      int64_t k1 = 0;
      for (; k1 + 1 < rows1; k1 += 2) {
        // Two rows are on their way before the first is added.
        Columns row, next;
        LoadColumns(from, row);
        LoadColumns(from + this->large_row_, next);
        AddColumns(row, sums);
        AddColumns(next, sums);
        from += 2 * this->large_row_;
      }
      if (k1 < rows1) {
        Columns row;
        LoadColumns(from, row);
        AddColumns(row, sums);
      }
    }
    this->Store(item, sums);
  }

 private:
  // The loads of one row of an item's windows.
  static constexpr int kLoads = kScale * kStored / kLoaded;
  using Columns = typename Base::Loaded[kLoads];

  JAX_UPSAMPLE_HOST_DEVICE void LoadColumns(int64_t from, Columns& columns) const {
    for (int v = 0; v < kLoads; ++v) {
      columns[v] =
          LoadOnce(this->large_ + from + (kContiguous ? v : v * this->column_step_));
    }
  }

  JAX_UPSAMPLE_HOST_DEVICE static void AddColumns(const Columns& columns,
                                                  typename Base::Sums& sums) {
    typename Base::Bits numbers[kLoads * kLoaded];
    memcpy(numbers, columns, sizeof(numbers));
    for (int n = 0; n < kLoads * kLoaded; ++n) {
      sums.of[kContiguous ? n / kScale : n % kStored].Add(FormatT::Decode(numbers[n]));
    }
  }
};

// Any scale, the window of an item shared among lanes: lane l of L adds the
// window's loads l, l + L, l + 2 L, ... in that order.
template <typename FormatT, int kLoaded, int kStored, typename Index>
class UpsampleNearestBwdLanes
    : public UpsampleNearestBwdBase<FormatT, kLoaded, kStored, Index> {
  using Base = UpsampleNearestBwdBase<FormatT, kLoaded, kStored, Index>;

 public:
  UpsampleNearestBwdLanes(const Plan& plan, const void* large, void* small)
      : Base(plan, large, small),
        columns_count_(plan.extents.scale[2] * kStored / kLoaded),
        columns_(static_cast<Index>(columns_count_)),
        window_(static_cast<Index>(plan.extents.scale[0] * plan.extents.scale[1] *
                                   columns_count_)) {}

  JAX_UPSAMPLE_HOST_DEVICE typename Base::Sums Sum(Index item, Index lane,
                                                   Index lanes) const {
    constexpr int kAhead = 4;  // loads on their way before the first is added
    const int64_t begin = this->WindowBegin(item, columns_count_);
    typename Base::Sums sums;
    Index load = lane;
    for (; load + (kAhead - 1) * lanes < window_; load += kAhead * lanes) {
      typename Base::Loaded loaded[kAhead];
      for (int k = 0; k < kAhead; ++k) loaded[k] = Load(begin, load + k * lanes);
      for (int k = 0; k < kAhead; ++k) Add(loaded[k], sums);
    }
    for (; load < window_; load += lanes) Add(Load(begin, load), sums);
    return sums;
  }

 private:
  JAX_UPSAMPLE_HOST_DEVICE typename Base::Loaded Load(int64_t begin, Index load) const {
    const auto [row, column] = columns_.DivMod(load);
    return LoadOnce(this->large_ + begin +
                    this->rows_.WindowRow(row) * this->large_row_ +
                    column * this->column_step_);
  }

  JAX_UPSAMPLE_HOST_DEVICE static void Add(const typename Base::Loaded& loaded,
                                           typename Base::Sums& sums) {
    typename Base::Bits numbers[kLoaded];
    memcpy(numbers, &loaded, sizeof(numbers));
    for (int k = 0; k < kLoaded; ++k) {
      sums.of[k % kStored].Add(FormatT::Decode(numbers[k]));
    }
  }

  int64_t columns_count_;  // of a window, in loads
  Divider<Index> columns_;
  Index window_;
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_NEAREST_BWD_BODY_H_
