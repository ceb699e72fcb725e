// How the rows of the large and of the small array belong together.

#ifndef JAX_UPSAMPLE_UPSAMPLE_NEAREST_ROW_MAP_H_
#define JAX_UPSAMPLE_UPSAMPLE_NEAREST_ROW_MAP_H_

#include "host_device.h"
#include "upsample_nearest.h"

namespace jax_upsample {

// Rows are runs of [n2, inner] in the small array and [n2, s2, inner] in the
// large one. A small row is the source of s0 s1 large rows, its window.
template <typename Index>
struct RowMap {
  explicit RowMap(const Extents& extents)
      : size1(static_cast<Index>(extents.size[1])),
        scale1(static_cast<Index>(extents.scale[1])),
        window_rows(static_cast<Index>(extents.scale[0] * extents.scale[1])),
        large_size1(static_cast<Index>(extents.size[1] * extents.scale[1])),
        scale0(static_cast<Index>(extents.scale[0])),
        size1_count(extents.size[1]),
        large_rows1(extents.size[1] * extents.scale[1]),
        scale0_count(extents.scale[0]),
        scale1_count(extents.scale[1]) {}

  JAX_UPSAMPLE_HOST_DEVICE int64_t FirstLargeRow(Index small_row) const {
    const auto [i0, i1] = size1.DivMod(small_row);
    return i0 * scale0_count * large_rows1 + i1 * scale1_count;
  }
  JAX_UPSAMPLE_HOST_DEVICE int64_t WindowRow(Index window_row) const {
    const auto [k0, k1] = scale1.DivMod(window_row);
    return k0 * large_rows1 + k1;
  }

  // The small row that a large row repeats.
  JAX_UPSAMPLE_HOST_DEVICE int64_t SmallRow(Index large_row) const {
    const auto [large0, large1] = large_size1.DivMod(large_row);
    return scale0.Divide(large0) * size1_count + scale1.Divide(large1);
  }

  Divider<Index> size1;
  Divider<Index> scale1;
  Index window_rows;
  Divider<Index> large_size1;
  Divider<Index> scale0;
  int64_t size1_count;
  int64_t large_rows1;  // of one step along the large axis 0
  int64_t scale0_count;
  int64_t scale1_count;
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_UPSAMPLE_NEAREST_ROW_MAP_H_
