// Channels to space and back: the last step of a sub-pixel convolution and its
// transpose. Three spatial axes k at most, axes and channels side by side:
//
//   forward   image[n, o0, o1, o2, inner] = packed[n, p0, p1, p2, a0, a1, a2, inner]
//             where o_k + first_k = scale_k p_k + a_k
//   backward  the same from right to left, zeros where there is no such o
//
// with row-major memory on both sides. The sum of the forward also adds another image
// and a bias to it and applies an activation, rounding once.

#ifndef JAX_UPSAMPLE_PIXEL_SHUFFLE_H_
#define JAX_UPSAMPLE_PIXEL_SHUFFLE_H_

#include <cstdint>

#include "launch.h"

namespace jax_upsample {

// The array equation above, in elements. All of the image stems from packed ones:
// first + size <= scale positions.
struct ShuffleExtents {
  int64_t outer = 1;
  int64_t positions[3] = {1, 1, 1};
  int64_t scale[3] = {1, 1, 1};
  int64_t first[3] = {0, 0, 0};
  int64_t size[3] = {1, 1, 1};  // of the image
  int64_t inner = 1;

  int64_t Window() const { return scale[0] * scale[1] * scale[2]; }
  int64_t ImageCount() const { return outer * size[0] * size[1] * size[2] * inner; }
  int64_t PackedCount() const {
    return outer * positions[0] * positions[1] * positions[2] * Window() * inner;
  }
};

enum class Activation { kNone, kRelu, kSilu };

// Which kernel runs. One work item is a unit of the result, its source the only one.
struct ShufflePlan {
  ShuffleExtents extents;  // with `inner` in units
  Format format;           // of the sum only
  int unit_bytes;
  bool wide_index;
  int64_t items;
  int64_t blocks;
};

// `alignment` is a power of two that divides all addresses. Units of the sum are 16
// bytes or one number.
ShufflePlan PlanPixelShuffle(Direction direction, ShuffleExtents extents,
                             Element element, int64_t alignment);
ShufflePlan PlanPixelShuffleSum(ShuffleExtents extents, Element element,
                                int64_t alignment);

struct ShuffleSum {
  const void* added;  // like the image, or null
  const void* bias;   // one number for each of `inner`,
  bool bias_of_each;  // and that for each of `outer`
  Activation activation;
};

// As RunUpsampleNearestFwd and LaunchUpsampleNearestFwd.
int RunPixelShuffleFwd(const ShufflePlan& plan, const void* packed, void* image,
                       HostThread);
int RunPixelShuffleBwd(const ShufflePlan& plan, const void* image, void* packed,
                       HostThread);
int RunPixelShuffleSum(const ShufflePlan& plan, const void* packed,
                       const ShuffleSum& sum, void* image, HostThread);
int RunPixelShuffleFwd(const ShufflePlan& plan, const void* packed, void* image,
                       CUstream_st* stream);
int RunPixelShuffleBwd(const ShufflePlan& plan, const void* image, void* packed,
                       CUstream_st* stream);
int RunPixelShuffleSum(const ShufflePlan& plan, const void* packed,
                       const ShuffleSum& sum, void* image, CUstream_st* stream);

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_PIXEL_SHUFFLE_H_
