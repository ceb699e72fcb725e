// The FFI handlers of upsample_nearest, called as XLA calls them, over launchers that
// print their plan instead of running it. Reads a problem a line,
//
//   direction dtype rank dims.. number_of_axes axes.. scale..
//
// dims being those of the small array, and answers with a line of name=value.

#include <iostream>
#include <string>
#include <vector>

#include "ffi_helpers.h"
#include "upsample_nearest.h"
#include "upsample_nearest_ffi.h"

namespace jax_upsample {

static int Print(const Plan& plan) {
  VisitFields(plan, [](const char* name, auto value) {
    std::cout << name << '=' << value << ' ';
  });
  std::cout << '\n';
  return 0;
}

int RunUpsampleNearestFwd(const Plan& plan, const void*, void*, HostThread) {
  return Print(plan);
}

int RunUpsampleNearestBwd(const Plan& plan, const void*, void*, HostThread) {
  return Print(plan);
}

}  // namespace jax_upsample

namespace {

using Sizes = std::vector<int64_t>;

XLA_FFI_Error* PrintError(XLA_FFI_Error_Create_Args* error) {
  std::cout << "error: " << error->message << '\n';
  return nullptr;
}

Sizes ReadSizes(int64_t count) {
  Sizes sizes(count);
  for (int64_t& size : sizes) std::cin >> size;
  return sizes;
}

XLA_FFI_Buffer BufferOf(Sizes& sizes, XLA_FFI_DataType dtype) {
  alignas(16) static char memory[16];
  XLA_FFI_Buffer buffer{};
  buffer.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
  buffer.dtype = dtype;
  buffer.data = memory;
  buffer.rank = static_cast<int64_t>(sizes.size());
  buffer.dims = sizes.data();
  return buffer;
}

void Call(XLA_FFI_Handler* handler, XLA_FFI_Buffer operand, XLA_FFI_Buffer result,
          Sizes& axes, Sizes& scale) {
  XLA_FFI_Api api{};
  api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api.XLA_FFI_Error_Create = PrintError;

  XLA_FFI_Array vectors[] = {{XLA_FFI_DataType_S64, axes.size(), axes.data()},
                             {XLA_FFI_DataType_S64, scale.size(), scale.data()}};
  int64_t no = 0;
  XLA_FFI_Scalar tiled{XLA_FFI_DataType_S64, &no};
  XLA_FFI_ByteSpan names[] = {{"axes", 4}, {"scale", 5}, {"tiled", 5}};
  XLA_FFI_ByteSpan* name_pointers[] = {&names[0], &names[1], &names[2]};
  XLA_FFI_AttrType types[] = {XLA_FFI_AttrType_ARRAY, XLA_FFI_AttrType_ARRAY,
                              XLA_FFI_AttrType_SCALAR};
  void* attributes[] = {&vectors[0], &vectors[1], &tiled};
  XLA_FFI_ArgType argument_type = XLA_FFI_ArgType_BUFFER;
  XLA_FFI_RetType result_type = XLA_FFI_RetType_BUFFER;
  void *arguments[] = {&operand}, *results[] = {&result};

  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &api;
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, 1, &argument_type, arguments};
  frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, 1, &result_type, results};
  frame.attrs = {
      XLA_FFI_Attrs_STRUCT_SIZE, nullptr, 3, types, name_pointers, attributes};
  handler(&frame);
}

}  // namespace

int main() {
  std::string direction, dtype_name;
  int64_t rank, count;
  while (std::cin >> direction >> dtype_name >> rank) {
    Sizes small = ReadSizes(rank), large = small;
    std::cin >> count;
    Sizes axes = ReadSizes(count), scale = ReadSizes(count);
    for (int64_t i = 0; i < count; ++i) large[axes[i]] *= scale[i];
    const auto* dtype =
        jax_upsample::FindDtype([&](const jax_upsample::Dtype& candidate) {
          return candidate.name == dtype_name;
        });
    const auto type = static_cast<XLA_FFI_DataType>(dtype->type);
    const XLA_FFI_Buffer of_small = BufferOf(small, type);
    const XLA_FFI_Buffer of_large = BufferOf(large, type);
    if (direction == "fwd") {
      Call(JaxUpsampleNearestFwdOnHost, of_small, of_large, axes, scale);
    } else {
      Call(JaxUpsampleNearestBwdOnHost, of_large, of_small, axes, scale);
    }
  }
}
