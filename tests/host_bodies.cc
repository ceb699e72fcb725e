// The host build of the kernel bodies against plain loops, on random problems.
//
// Reaches what no call through XLA does: buffers of every alignment, and the 64-bit
// bodies on small arrays. Each buffer is one allocation of just its size, so that the
// address sanitizer sees a single byte too many. Usage: host_bodies COUNT

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "number_formats.h"
#include "upsample_nearest.h"

using namespace jax_upsample;

namespace {

std::mt19937_64 generator(0);

int64_t Random(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(generator);
}

// A buffer whose address is `offset` beyond one that malloc aligns to 16.
class Buffer {
 public:
  Buffer(int64_t bytes, int64_t offset)
      : memory_(static_cast<char*>(std::malloc(bytes + offset)), &std::free),
        data_(memory_.get() + offset),
        bytes_(bytes) {
    std::memset(data_, 0xA5, bytes);  // poison
  }
  char* data() const { return data_; }
  void FillRandom() {
    for (int64_t i = 0; i < bytes_; ++i) data_[i] = static_cast<char>(Random(0, 255));
  }

 private:
  std::unique_ptr<char, decltype(&std::free)> memory_;
  char* data_;
  int64_t bytes_;
};

struct Problem {
  std::vector<int64_t> dims;
  std::vector<int64_t> scales;

  int64_t Count(bool large) const {
    int64_t count = 1;
    for (size_t d = 0; d < dims.size(); ++d) count *= dims[d] * (large ? scales[d] : 1);
    return count;
  }
  // The element of the small array that an element of the large one repeats.
  int64_t Source(int64_t large) const {
    int64_t source = 0, stride = 1;
    for (size_t d = dims.size(); d-- > 0;) {
      const int64_t size = dims[d] * scales[d];
      source += large % size / scales[d] * stride;
      large /= size;
      stride *= dims[d];
    }
    return source;
  }
};

Problem RandomProblem() {
  Problem problem;
  const int rank = static_cast<int>(Random(0, 6));
  constexpr int64_t kChannels[] = {1, 2, 3, 4, 8, 16, 24, 32, 48};
  for (int d = 0; d < rank; ++d)
    problem.dims.push_back(Random(1, Random(0, 1) ? 3 : 9));
  if (rank > 0 && Random(0, 1)) problem.dims.back() = kChannels[Random(0, 8)];
  problem.scales.assign(rank, 1);
  for (int axis = 0; rank > 0 && axis < 3; ++axis) {
    problem.scales[Random(0, rank - 1)] =
        Random(0, 9) == 0 ? Random(5, 100) : Random(1, 5);
  }
  return problem;
}

int64_t Alignment(const Buffer& a, const Buffer& b) {
  const uintptr_t both = reinterpret_cast<uintptr_t>(a.data()) |
                         reinterpret_cast<uintptr_t>(b.data()) | 16;
  return static_cast<int64_t>(both & (~both + 1));
}

// The same problem in 64-bit arithmetic, which the planner keeps for huge arrays.
void Widen(Plan& plan) {
  const Extents& extents = plan.extents;
  plan.wide_index = true;
  plan.loaded = plan.stored = 1;
  plan.scale_constant = plan.rows_constant = 0;
  plan.contiguous = plan.flat = false;
  plan.items = extents.SmallCount();
  if (plan.direction == Direction::kForward) {
    const int64_t window_rows = extents.scale[0] * extents.scale[1];
    plan.items *= extents.scale[2] *
                  ((window_rows + plan.rows_per_item - 1) / plan.rows_per_item);
  }
}

bool CheckForward(const Problem& problem, int bytes, bool wide) {
  const int64_t small_count = problem.Count(false), large_count = problem.Count(true);
  Buffer small(small_count * bytes, Random(0, 1) * Random(0, 16 / bytes) * bytes);
  Buffer large(large_count * bytes, Random(0, 1) * Random(0, 16 / bytes) * bytes);
  small.FillRandom();
  Plan plan =
      PlanUpsampleNearestFwd(MergeDimensions(problem.dims.data(), problem.scales.data(),
                                             static_cast<int>(problem.dims.size())),
                             {bytes, Format::kNone, 1}, Alignment(small, large));
  if (wide) Widen(plan);
  if (RunUpsampleNearestFwd(plan, small.data(), large.data()) != 0) return false;
  for (int64_t i = 0; i < large_count; ++i) {
    if (std::memcmp(large.data() + i * bytes, small.data() + problem.Source(i) * bytes,
                    bytes) != 0)
      return false;
  }
  return true;
}

// Terms of -1, 0 and 1, few enough not to be 0 that every format holds every sum.
template <typename FormatT>
bool CheckBackward(const Problem& problem, Format format, bool wide) {
  using Bits = typename FormatT::Bits;
  constexpr int kBytes = sizeof(Bits);
  const int64_t small_count = problem.Count(false), large_count = problem.Count(true);
  const int components = kBytes >= 4 ? static_cast<int>(Random(1, 2)) : 1;
  const int64_t offset = Random(0, 1) * Random(0, 16 / kBytes) * kBytes;
  Buffer large(large_count * components * kBytes, offset);
  Buffer small(small_count * components * kBytes, Random(0, 1) * offset);
  std::vector<double> sums(small_count * components, 0.0);
  const int64_t window = large_count / small_count;
  for (int64_t i = 0; i < large_count * components; ++i) {
    double& sum = sums[problem.Source(i / components) * components + i % components];
    double term = Random(0, window / 4) == 0 ? static_cast<double>(Random(-1, 1)) : 0.0;
    if (std::abs(sum + term) > 8) term = 0;
    sum += term;
    const Bits bits = FormatT::Encode(term);
    std::memcpy(large.data() + i * kBytes, &bits, kBytes);
  }
  Plan plan = PlanUpsampleNearestBwd(
      MergeDimensions(problem.dims.data(), problem.scales.data(),
                      static_cast<int>(problem.dims.size())),
      {kBytes * components, format, components}, Alignment(small, large));
  if (wide) Widen(plan);
  if (RunUpsampleNearestBwd(plan, large.data(), small.data()) != 0) return false;
  for (int64_t i = 0; i < small_count * components; ++i) {
    Bits bits;
    std::memcpy(&bits, small.data() + i * kBytes, kBytes);
    if (FormatT::Decode(bits) != sums[i]) return false;
  }
  return true;
}

bool CheckBackward(const Problem& problem, bool wide) {
  switch (Random(0, 5)) {
    case 0:
      return CheckBackward<Float64>(problem, Format::kFloat64, wide);
    case 1:
      return CheckBackward<Float32>(problem, Format::kFloat32, wide);
    case 2:
      return CheckBackward<Float16>(problem, Format::kFloat16, wide);
    case 3:
      return CheckBackward<BFloat16>(problem, Format::kBFloat16, wide);
    case 4:
      return CheckBackward<Float8E4M3Fn>(problem, Format::kFloat8E4M3Fn, wide);
    default:
      return CheckBackward<Float8E5M2Fnuz>(problem, Format::kFloat8E5M2Fnuz, wide);
  }
}

}  // namespace

int main(int, char** arguments) {
  const int count = std::atoi(arguments[1]);
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    Problem problem = RandomProblem();
    while (problem.Count(true) > 50000) problem = RandomProblem();
    const bool wide = Random(0, 3) == 0;
    const bool forward = CheckForward(problem, 1 << Random(0, 4), wide);
    const bool backward = CheckBackward(problem, wide);
    if (forward && backward) continue;
    ++failed;
    std::printf("problem %d, forward %s, backward %s, 64-bit %d:", i,
                forward ? "right" : "wrong", backward ? "right" : "wrong", wide);
    for (size_t d = 0; d < problem.dims.size(); ++d) {
      std::printf(" %lldx%lld", static_cast<long long>(problem.dims[d]),
                  static_cast<long long>(problem.scales[d]));
    }
    std::printf("\n");
  }
  std::printf("%d of %d wrong\n", failed, count);
  return failed != 0;
}
