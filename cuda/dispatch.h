// From values of run time to template arguments, for every op's dispatch.
//
// A dispatch maps a plan to the kernel body that it names, once for every backend. A
// backend has
//   int ForEachItem(const Body&, const Plan&)   call body(item) for every item
//   int SumItems(const Body&, const Plan&)      body.Sum over lanes, then body.Store
// and returns an error code, 0 if there is none.

#ifndef JAX_UPSAMPLE_DISPATCH_H_
#define JAX_UPSAMPLE_DISPATCH_H_

#include <type_traits>

#include "launch.h"
#include "number_formats.h"

namespace jax_upsample {

template <int kValue>
using Constant = std::integral_constant<int, kValue>;

template <typename T>
struct Type {
  using type = T;
};

template <typename Visitor>
int WithUnitBytes(int unit_bytes, Visitor visit) {
  switch (unit_bytes) {
    case 1:
      return visit(Constant<1>());
    case 2:
      return visit(Constant<2>());
    case 4:
      return visit(Constant<4>());
    case 8:
      return visit(Constant<8>());
    case 16:
      return visit(Constant<16>());
    default:
      return kNoSuchKernel;
  }
}

template <typename Visitor>
int WithFormat(Format format, Visitor visit) {
  switch (format) {
    case Format::kNone:
      return kNoSuchKernel;
    case Format::kFloat64:
      return visit(Type<Float64>());
    case Format::kFloat32:
      return visit(Type<Float32>());
    case Format::kFloat16:
      return visit(Type<Float16>());
    case Format::kBFloat16:
      return visit(Type<BFloat16>());
    case Format::kFloat8E3M4:
      return visit(Type<Float8E3M4>());
    case Format::kFloat8E4M3:
      return visit(Type<Float8E4M3>());
    case Format::kFloat8E5M2:
      return visit(Type<Float8E5M2>());
    case Format::kFloat8E4M3Fn:
      return visit(Type<Float8E4M3Fn>());
    case Format::kFloat8E4M3Fnuz:
      return visit(Type<Float8E4M3Fnuz>());
    case Format::kFloat8E4M3B11Fnuz:
      return visit(Type<Float8E4M3B11Fnuz>());
    case Format::kFloat8E5M2Fnuz:
      return visit(Type<Float8E5M2Fnuz>());
  }
  return kNoSuchKernel;
}

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_DISPATCH_H_
