// How the rows of the large and of the small array belong together.

#ifndef JAX_UPSAMPLE_UPSAMPLE_NEAREST_ROW_MAP_H_
#define JAX_UPSAMPLE_UPSAMPLE_NEAREST_ROW_MAP_H_

#include "host_device.h"
#include "upsample_nearest.h"

namespace jax_upsample {

// Rows are runs of [n2, inner] in the small array and [n2, s2, inner] in the large
// one. A small row is the source of s0 s1 large rows, its window.
template <typename Index>
class RowMap {
 public:
  explicit RowMap(const Extents& extents)
      : scale0_(static_cast<Index>(extents.scale[0])),
        scale1_(static_cast<Index>(extents.scale[1])),
        small_size1_(static_cast<Index>(extents.size[1])),
        large_size1_(static_cast<Index>(extents.size[1] * extents.scale[1])),
        step0_(extents.large_rows) {}

  // The first row of a small row's window.
  JAX_UPSAMPLE_HOST_DEVICE int64_t FirstLargeRow(Index small_row) const {
    const auto [i0, i1] = small_size1_.DivMod(small_row);
    return i0 * scale0() * step0() + i1 * scale1();
  }

  // From there to another row of the window.
  JAX_UPSAMPLE_HOST_DEVICE int64_t WindowRow(Index window_row) const {
    const auto [k0, k1] = scale1_.DivMod(window_row);
    return k0 * step0() + k1;
  }

  // The small row that a large row repeats, in a large array that is no part.
  JAX_UPSAMPLE_HOST_DEVICE int64_t SmallRow(Index large_row) const {
    const auto [large0, large1] = large_size1_.DivMod(large_row);
    return scale0_.Divide(large0) * static_cast<int64_t>(small_size1_.divisor()) +
           scale1_.Divide(large1);
  }

  // In 64 bits, as are all products of them.
  JAX_UPSAMPLE_HOST_DEVICE int64_t scale0() const { return scale0_.divisor(); }
  JAX_UPSAMPLE_HOST_DEVICE int64_t scale1() const { return scale1_.divisor(); }
  JAX_UPSAMPLE_HOST_DEVICE int64_t step0() const { return step0_; }

 private:
  Divider<Index> scale0_;
  Divider<Index> scale1_;
  Divider<Index> small_size1_;
  Divider<Index> large_size1_;
  int64_t step0_;  // large rows of one step along the large axis 0
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_NEAREST_ROW_MAP_H_
