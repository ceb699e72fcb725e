// What one work item of a shuffle does, on the GPU and on the host.

#ifndef JAX_UPSAMPLE_PIXEL_SHUFFLE_BODY_H_
#define JAX_UPSAMPLE_PIXEL_SHUFFLE_BODY_H_

#include <cmath>

#include "host_device.h"
#include "number_formats.h"
#include "pixel_shuffle.h"

namespace jax_upsample {

// The sizes that both directions divide by.
template <typename Index>
struct ShuffleAxes {
  explicit ShuffleAxes(const ShuffleExtents& extents)
      : inner(static_cast<Index>(extents.inner)),
        window(static_cast<Index>(extents.Window())) {
    for (int k = 0; k < 3; ++k) {
      positions[k] = Divider<Index>(static_cast<Index>(extents.positions[k]));
      scale[k] = Divider<Index>(static_cast<Index>(extents.scale[k]));
      // An empty image has no item that divides by its size.
      const Index image = static_cast<Index>(extents.size[k]);
      size[k] = Divider<Index>(image == 0 ? 1 : image);
      first[k] = static_cast<Index>(extents.first[k]);
    }
  }

  Divider<Index> inner;
  Divider<Index> window;
  Divider<Index> positions[3];
  Divider<Index> scale[3];
  Divider<Index> size[3];
  Index first[3];
};

// The forward, each unit changed by `finish(value, item, unit of an array [outer, inner],
// unit of inner)` on its way.
template <int kUnitBytes, typename Index, typename Finish>
class PixelShuffleFwd {
 public:
  using IndexType = Index;
  using Vector = Unit<kUnitBytes>;

  PixelShuffleFwd(const ShufflePlan& plan, const void* packed, void* image,
                  const Finish& finish)
      : packed_(static_cast<const Vector*>(packed)),
        image_(static_cast<Vector*>(image)),
        axes_(plan.extents),
        finish_(finish) {}

  JAX_UPSAMPLE_HOST_DEVICE void operator()(Index item) const {
    auto [rest, unit] = axes_.inner.DivMod(item);
    Index position[3], phase[3];
    for (int k = 2; k >= 0; --k) {
      const auto [next, o] = axes_.size[k].DivMod(rest);
      const auto [p, a] = axes_.scale[k].DivMod(o + axes_.first[k]);
      position[k] = p;
      phase[k] = a;
      rest = next;
    }
    const Index outer = rest;
    Index from = outer;
    for (int k = 0; k < 3; ++k)
      from = from * axes_.positions[k].divisor() + position[k];
    for (int k = 0; k < 3; ++k) from = from * axes_.scale[k].divisor() + phase[k];
    from = from * axes_.inner.divisor() + unit;
    StoreOnce(image_ + item, finish_(LoadShared(packed_ + from), item,
                                     outer * axes_.inner.divisor() + unit, unit));
  }

 private:
  const Vector* packed_;
  Vector* image_;
  ShuffleAxes<Index> axes_;
  Finish finish_;
};

template <int kUnitBytes, typename Index>
class PixelShuffleBwd {
 public:
  using IndexType = Index;
  using Vector = Unit<kUnitBytes>;

  PixelShuffleBwd(const ShufflePlan& plan, const void* image, void* packed)
      : image_(static_cast<const Vector*>(image)),
        packed_(static_cast<Vector*>(packed)),
        axes_(plan.extents) {
    for (int k = 0; k < 3; ++k) size_[k] = static_cast<Index>(plan.extents.size[k]);
  }

  JAX_UPSAMPLE_HOST_DEVICE void operator()(Index item) const {
    const auto [pixel_and_phase, unit] = axes_.inner.DivMod(item);
    auto [rest, phases] = axes_.window.DivMod(pixel_and_phase);
    Index o[3];
    bool is_there = true;
    for (int k = 2; k >= 0; --k) {
      const auto [next_phases, a] = axes_.scale[k].DivMod(phases);
      const auto [next, p] = axes_.positions[k].DivMod(rest);
      // Before the image it wraps around, and is no less beyond its size.
      o[k] = axes_.scale[k].divisor() * p + a - axes_.first[k];
      is_there &= o[k] < size_[k];
      phases = next_phases;
      rest = next;
    }
    Vector value{};
    if (is_there) {
      Index from = rest;
      for (int k = 0; k < 3; ++k) from = from * size_[k] + o[k];
      value = LoadShared(image_ + (from * axes_.inner.divisor() + unit));
    }
    StoreOnce(packed_ + item, value);
  }

 private:
  const Vector* image_;
  Vector* packed_;
  ShuffleAxes<Index> axes_;
  Index size_[3];
};

// ---------------------------------------------------------------------------- finishes

struct CopyUnit {
  template <typename Vector, typename Index>
  JAX_UPSAMPLE_HOST_DEVICE Vector operator()(const Vector& value, Index, Index,
                                             Index) const {
    return value;
  }
};

template <typename FormatT>
class AddAndActivate {
 public:
  explicit AddAndActivate(const ShuffleSum& sum) : sum_(sum) {}

  template <typename Vector, typename Index>
  JAX_UPSAMPLE_HOST_DEVICE Vector operator()(const Vector& value, Index item,
                                             Index unit_of_each, Index unit) const {
    constexpr int kNumbers = sizeof(Vector) / sizeof(Bits);
    float sums[kNumbers];
    const auto add = [&](const Vector& terms) {
      Bits bits[kNumbers];
      memcpy(bits, &terms, sizeof(bits));
      for (int k = 0; k < kNumbers; ++k) sums[k] += FormatT::Decode(bits[k]);
    };
    const Vector bias = LoadShared(static_cast<const Vector*>(sum_.bias) +
                                   (sum_.bias_of_each ? unit_of_each : unit));
    Vector added{};
    if (sum_.added != nullptr)
      added = LoadShared(static_cast<const Vector*>(sum_.added) + item);
    for (int k = 0; k < kNumbers; ++k) sums[k] = -0.0f;
    add(value);
    if (sum_.added != nullptr) add(added);
    add(bias);
    Bits activated[kNumbers];
    for (int k = 0; k < kNumbers; ++k)
      activated[k] = FormatT::Encode(Activate(sums[k]));
    Vector stored;
    memcpy(&stored, activated, sizeof(stored));
    return stored;
  }

 private:
  using Bits = typename FormatT::Bits;

  JAX_UPSAMPLE_HOST_DEVICE float Activate(float x) const {
    switch (sum_.activation) {
      case Activation::kNone:
        return x;
      case Activation::kRelu:
        return x < 0 ? 0.0f : x;  // a NaN stays
      case Activation::kSilu:
        return x / (1 + expf(-x));
    }
    return x;
  }

  ShuffleSum sum_;
};

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_PIXEL_SHUFFLE_BODY_H_
