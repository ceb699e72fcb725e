// The host build of the kernel bodies against plain loops, on random problems.
//
// Reaches what no call through XLA does: buffers of every alignment, the 64-bit bodies
// and several rows an item on small arrays, and tables that lie. Each buffer is one
// allocation of just its size, so that the address sanitizer sees a single byte too
// many. Usage: host_bodies COUNT

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "dispatch.h"
#include "number_formats.h"
#include "pixel_shuffle.h"
#include "resize_nearest.h"
#include "upsample_add.h"
#include "upsample_concat.h"
#include "upsample_nearest.h"

using namespace jax_upsample;

namespace {

std::mt19937_64 generator(0);

int64_t Random(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(generator);
}

// A buffer whose address is a multiple of `number_bytes`, half of the time not of 16.
class Buffer {
 public:
  Buffer(int64_t bytes, int number_bytes) : bytes_(bytes) {
    const int64_t offset = Random(0, 1) * Random(0, 16 / number_bytes) * number_bytes;
    memory_.reset(static_cast<char*>(std::malloc(bytes + offset)));
    data_ = memory_.get() + offset;  // malloc aligns to 16
    Poison(0xA5);
  }
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  void Poison(int byte) { std::memset(data_, byte, bytes_); }
  void FillRandom() {
    for (int64_t i = 0; i < bytes_; ++i) data_[i] = static_cast<char>(Random(0, 255));
  }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> memory_;
  char* data_;
  int64_t bytes_;
};

int64_t Alignment(const Buffer& a, const Buffer& b) {
  const uintptr_t both = reinterpret_cast<uintptr_t>(a.data()) |
                         reinterpret_cast<uintptr_t>(b.data()) | 16;
  return static_cast<int64_t>(both & (~both + 1));
}

constexpr Element kElements[] = {
    {8, Format::kFloat64, 1},           {16, Format::kFloat64, 2},
    {4, Format::kFloat32, 1},           {8, Format::kFloat32, 2},
    {2, Format::kFloat16, 1},           {2, Format::kBFloat16, 1},
    {1, Format::kFloat8E3M4, 1},        {1, Format::kFloat8E4M3, 1},
    {1, Format::kFloat8E5M2, 1},        {1, Format::kFloat8E4M3Fn, 1},
    {1, Format::kFloat8E4M3Fnuz, 1},    {1, Format::kFloat8E5M2Fnuz, 1},
    {1, Format::kFloat8E4M3B11Fnuz, 1},
};

// The float8 formats are many, but one size.
Element RandomElement() {
  return kElements[Random(0, Random(0, 1) ? 6 : std::size(kElements) - 1)];
}

int NumberBytes(Element element) { return element.bytes / element.components; }

void Encode(Format format, double number, char* to) {
  WithFormat(format, [&](auto type) {
    const auto bits = decltype(type)::type::Encode(number);
    std::memcpy(to, &bits, sizeof(bits));
    return 0;
  });
}

double Decode(Format format, const char* from) {
  double number = 0;
  WithFormat(format, [&](auto type) {
    typename decltype(type)::type::Bits bits;
    std::memcpy(&bits, from, sizeof(bits));
    number = decltype(type)::type::Decode(bits);
    return 0;
  });
  return number;
}

// --------------------------------------------------------------------------- problems

constexpr int64_t kMaxCount = 50000;

// Each dimension on its own: source_of[d][j] is the source index of target index j.
struct Problem {
  std::vector<int64_t> source, target;
  std::vector<std::vector<int32_t>> source_of;
  bool wide = Random(0, 3) == 0;  // in 64-bit arithmetic
  bool hostile = false;           // what the op is told is not what source_of says

  int rank() const { return static_cast<int>(source.size()); }
  int64_t SourceCount() const { return Count(source); }
  int64_t TargetCount() const { return Count(target); }
  // The source element that an element of the target repeats.
  int64_t Source(int64_t element) const {
    int64_t result = 0, stride = 1;
    for (int d = rank(); d-- > 0;) {
      result += source_of[d][element % target[d]] * stride;
      element /= target[d];
      stride *= source[d];
    }
    return result;
  }

 private:
  static int64_t Count(const std::vector<int64_t>& dims) {
    int64_t count = 1;
    for (int64_t size : dims) count *= size;
    return count;
  }
};

int64_t RandomSize() { return Random(1, Random(0, 1) ? 3 : 9); }

int64_t RandomChannels() {
  constexpr int64_t kChannels[] = {1, 2, 3, 4, 8, 16, 24, 32, 48};
  return kChannels[Random(0, 8)];
}

std::vector<int64_t> RandomDims() {
  std::vector<int64_t> dims;
  for (int64_t rank = Random(0, 6); rank > 0; --rank) dims.push_back(RandomSize());
  if (!dims.empty() && Random(0, 1)) dims.back() = RandomChannels();
  return dims;
}

struct UpsampleProblem : Problem {
  static constexpr const char* kOp = "upsample_nearest";
  std::vector<int64_t> scales;

  UpsampleProblem() {
    source = target = RandomDims();
    scales.assign(rank(), 1);
    for (int axis = 0; rank() > 0 && axis < 3; ++axis) {
      scales[Random(0, rank() - 1)] = Random(0, 9) == 0 ? Random(5, 100) : Random(1, 5);
    }
    for (int d = 0; d < rank(); ++d) {
      target[d] *= scales[d];
      source_of.emplace_back(target[d]);
      for (int64_t j = 0; j < target[d]; ++j) source_of[d][j] = j / scales[d];
    }
  }

  bool Fits() const { return TargetCount() <= kMaxCount; }

  int RunForward(Element element, int64_t alignment, const void* from, void* to) const {
    Plan plan = PlanUpsampleNearestFwd(Merged(), element, alignment);
    if (wide) Widen(plan);
    return RunUpsampleNearestFwd(plan, from, to, HostThread());
  }

  int RunBackward(Element element, int64_t alignment, const void* from,
                  void* to) const {
    Plan plan = PlanUpsampleNearestBwd(Merged(), element, alignment);
    if (wide) Widen(plan);
    return RunUpsampleNearestBwd(plan, from, to, HostThread());
  }

  void Print() const {}

  Extents Merged() const {
    return MergeDimensions(source.data(), scales.data(), rank());
  }

 protected:
  // The same problem in 64-bit arithmetic, which the planner keeps for huge arrays.
  static void Widen(Plan& plan) {
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
};

// The same upsampling as part of a larger array, and added to another.
struct JoinProblem : UpsampleProblem {
  int axis = 0;                   // of the concatenation
  int64_t before = 0, after = 0;  // sizes along it around the part
  bool joins = false;             // whether there are kernels for that axis

  JoinProblem() {
    (Random(0, 1) ? before : after) = Random(1, 3) * RandomChannels();
    (before > 0 ? after : before) = 0;
    if (rank() == 0) return;
    axis = static_cast<int>(Random(0, rank() - 1));
    joins = scales[axis] == 1 && TargetCount() > 0 && Part(&part_);
  }

  int64_t Whole() const { return source[axis] + before + after; }
  // The dimensions after the axis, in elements.
  int64_t Step() const {
    int64_t step = 1;
    for (int d = axis + 1; d < rank(); ++d) step *= target[d];
    return step;
  }
  // Where an element of the target lies in the whole.
  int64_t InWhole(int64_t element) const {
    const int64_t length = target[axis] * Step();
    return element / length * Whole() * Step() + before * Step() + element % length;
  }

  ConcatExtents InBytes(int64_t bytes) const {
    ConcatExtents extents;
    extents.upsampled = part_;
    extents.period = Whole() * Step() * bytes;
    extents.upsampled_at = before * Step() * bytes;
    extents.skip_at = before > 0 ? 0 : target[axis] * Step() * bytes;
    extents.skip_part = (before + after) * Step() * bytes;
    extents.skip_bytes = TargetCount() / (target[axis] * Step()) * extents.skip_part;
    return extents;
  }

  int RunConcat(Element element, int64_t alignment, const void* from, const void* skip,
                void* to) const {
    const ConcatExtents extents = InBytes(element.bytes);
    ConcatPlan plan =
        PlanUpsampleConcat(extents, element, PartAlignment(extents, alignment));
    if (wide) {
      Widen(plan.upsampled);
      plan.items =
          plan.upsampled.items + extents.skip_bytes / plan.upsampled.unit_bytes;
    }
    return RunUpsampleConcat(plan, from, skip, to, HostThread());
  }

  int RunBackwardOfPart(Element element, int64_t alignment, const char* from,
                        void* to) const {
    const ConcatExtents extents = InBytes(element.bytes);
    Plan plan =
        PlanUpsampleNearestBwd(part_, element, PartAlignment(extents, alignment));
    if (wide) Widen(plan);
    return RunUpsampleNearestBwd(plan, from + extents.upsampled_at, to, HostThread());
  }

  int RunAdd(Element element, int64_t alignment, const void* from, const void* lateral,
             void* to) const {
    const Element number = {NumberBytes(element), element.format, 1};
    Plan plan = PlanUpsampleAdd(Merged(), element, wide ? number.bytes : alignment);
    if (wide) Widen(plan);
    return RunUpsampleAdd(plan, from, lateral, to, HostThread());
  }

 private:
  bool Part(Extents* extents) const {
    return MergeDimensionsOfPart(source.data(), scales.data(), rank(), axis, Whole(),
                                 extents);
  }

  static int64_t PartAlignment(const ConcatExtents& extents, int64_t alignment) {
    for (int64_t distance : {extents.period, extents.upsampled_at, extents.skip_part}) {
      alignment = PowerOfTwoDivisor(distance, alignment);
    }
    return alignment;
  }

  Extents part_;
};

struct ResizeProblem : Problem {
  static constexpr const char* kOp = "resize_nearest";

  ResizeProblem() {
    hostile = Random(0, 2) == 0;
    source = target = RandomDims();
    std::vector<bool> changes(rank(), false);
    // Whole vectors along `inner` need a last dimension that stays.
    const int last = rank() - (rank() > 1 && Random(0, 1) ? 2 : 1);
    for (int axis = 0; rank() > 0 && axis < 3; ++axis) changes[Random(0, last)] = true;
    for (int d = 0; d < rank(); ++d) {
      if (changes[d]) target[d] = RandomTargetSize();
      source_of.push_back(RandomSources(source[d], target[d], changes[d]));
      std::vector<int32_t> first(source[d] + 1);
      for (int64_t i = 0; i <= source[d]; ++i) {
        first[i] = static_cast<int32_t>(
            std::lower_bound(source_of[d].begin(), source_of[d].end(), i) -
            source_of[d].begin());
      }
      index_tables_.push_back(Table(source_of[d], source[d], changes[d]));
      first_tables_.push_back(Table(first, target[d], changes[d]));
    }
  }

  // Ranges that lie may all be the whole axis.
  bool Fits() const {
    return hostile ? SourceCount() * TargetCount() <= kMaxCount
                   : std::max(SourceCount(), TargetCount()) <= kMaxCount;
  }

  int RunForward(Element element, int64_t alignment, const void* from, void* to) const {
    const ResizePlan plan =
        Planned(&PlanResizeNearestFwd, index_tables_, element, alignment);
    return RunResizeNearestFwd(plan, from, to, HostThread());
  }

  int RunBackward(Element element, int64_t alignment, const void* from,
                  void* to) const {
    const ResizePlan plan =
        Planned(&PlanResizeNearestBwd, first_tables_, element, alignment);
    return RunResizeNearestBwd(plan, from, to, HostThread());
  }

  void Print() const {
    std::printf(", hostile %d, at most %d rows an item", hostile, rows_per_item_);
  }

 private:
  using Planner = ResizePlan (*)(ResizeExtents, Element, int64_t);

  static int64_t RandomTargetSize() {
    switch (Random(0, 19)) {
      case 0:
        return 0;  // a gradient of zeros
      case 1:
        return Random(10, 100);
      default:
        return Random(0, 1) ? RandomSize() : RandomChannels();
    }
  }

  static std::vector<int32_t> RandomSources(int64_t source_size, int64_t target_size,
                                            bool changes) {
    const bool even = Random(0, 1);
    std::vector<int32_t> sources(target_size);
    for (int64_t j = 0; j < target_size; ++j) {
      sources[j] = static_cast<int32_t>(!changes ? j
                                        : even   ? j * source_size / target_size
                                                 : Random(0, source_size - 1));
    }
    std::sort(sources.begin(), sources.end());
    return sources;
  }

  // No entry should exceed `bound`. Without bytes where a dimension has no table.
  Buffer Table(const std::vector<int32_t>& entries, int64_t bound, bool changes) const {
    constexpr int kBytes = sizeof(int32_t);
    Buffer table(changes ? static_cast<int64_t>(entries.size()) * kBytes : 0, kBytes);
    for (int64_t i = 0; i < table.bytes() / kBytes; ++i) {
      const int32_t entry = hostile ? RandomLie(entries[i], bound) : entries[i];
      std::memcpy(table.data() + i * kBytes, &entry, kBytes);
    }
    return table;
  }

  static int32_t RandomLie(int32_t truth, int64_t bound) {
    using Limits = std::numeric_limits<int32_t>;
    switch (Random(0, 6)) {
      case 0:
        return static_cast<int32_t>(Random(Limits::min(), Limits::max()));
      case 1:
        return Random(0, 1) ? Limits::min() : Limits::max();
      case 2:
        return static_cast<int32_t>(bound + Random(0, 2));
      case 3:
        return static_cast<int32_t>(-Random(1, 3));
      case 4:
        return static_cast<int32_t>(Random(0, bound));
      default:
        return truth;
    }
  }

  ResizePlan Planned(Planner planner, const std::vector<Buffer>& buffers,
                     Element element, int64_t alignment) const {
    std::vector<const int32_t*> tables;
    for (const Buffer& buffer : buffers) {
      tables.push_back(buffer.bytes() == 0
                           ? nullptr
                           : reinterpret_cast<const int32_t*>(buffer.data()));
    }
    ResizeExtents extents =
        MergeResizeDimensions(source.data(), target.data(), tables.data(), rank());
    // The planner takes 64 bits for so many copies of the problem; one of them is run.
    const int64_t copies = wide ? int64_t{1} << 31 : 1;
    extents.outer[0] *= copies;
    ResizePlan plan = planner(extents, element, alignment);
    plan.extents.outer[0] /= copies;
    plan.items /= copies;
    if (plan.wide_index != wide) std::abort();

    // The planner lets rows share an item where there are very many items.
    const bool forward = plan.direction == Direction::kForward;
    const int64_t rows = (forward ? extents.target : extents.source)[1];
    const auto chunks = [&] {
      return (rows + plan.rows_per_item - 1) / plan.rows_per_item;
    };
    plan.items /= chunks();
    plan.rows_per_item = forward || extents.table[0] == nullptr ? rows_per_item_ : 1;
    while (plan.rows_per_item > rows) plan.rows_per_item /= 2;
    plan.items *= chunks();
    return plan;
  }

  std::vector<Buffer> index_tables_, first_tables_;  // as resize_nearest.h says
  int rows_per_item_ = 1 << Random(0, 2);
};

// ----------------------------------------------------------------------------- checks

// Whether `run` fills the result, whatever it held before.
template <typename Run>
bool FillsAgain(const Run& run, Buffer& result) {
  const std::vector<char> first(result.data(), result.data() + result.bytes());
  result.Poison(0x5A);
  return run() == 0 && std::equal(first.begin(), first.end(), result.data());
}

template <typename ProblemT>
bool CheckForward(const ProblemT& problem, Element element) {
  const int bytes = element.bytes;
  Buffer source(problem.SourceCount() * bytes, NumberBytes(element));
  Buffer target(problem.TargetCount() * bytes, NumberBytes(element));
  if (target.bytes() == 0) return true;  // never planned
  source.FillRandom();
  const auto run = [&] {
    return problem.RunForward(element, Alignment(source, target), source.data(),
                              target.data());
  };
  if (run() != 0) return false;
  if (problem.hostile) return FillsAgain(run, target);
  for (int64_t i = 0; i < problem.TargetCount(); ++i) {
    if (std::memcmp(target.data() + i * bytes,
                    source.data() + problem.Source(i) * bytes, bytes) != 0)
      return false;
  }
  return true;
}

// Fills the target, whose elements lie where `place` says, and returns the sums due:
// of terms of -1, 0 and 1, few enough not to be 0 that every format holds every sum.
template <typename Place>
std::vector<double> FillTerms(const Problem& problem, Element element,
                              const Place& place, const Buffer& target) {
  const int components = element.components, bytes = NumberBytes(element);
  std::vector<double> sums(problem.SourceCount() * components, 0.0);
  const int64_t window = problem.TargetCount() / problem.SourceCount();
  for (int64_t i = 0; i < problem.TargetCount() * components; ++i) {
    double& sum = sums[problem.Source(i / components) * components + i % components];
    double term = Random(0, window / 4) == 0 ? static_cast<double>(Random(-1, 1)) : 0.0;
    if (std::abs(sum + term) > 8) term = 0;
    sum += term;
    Encode(
        element.format, term,
        target.data() + place(i / components) * element.bytes + i % components * bytes);
  }
  return sums;
}

bool Holds(const Buffer& source, Element element, const std::vector<double>& sums) {
  for (size_t i = 0; i < sums.size(); ++i) {
    if (Decode(element.format, source.data() + i * NumberBytes(element)) != sums[i])
      return false;
  }
  return true;
}

template <typename ProblemT>
bool CheckBackward(const ProblemT& problem, Element element) {
  Buffer target(problem.TargetCount() * element.bytes, NumberBytes(element));
  Buffer source(problem.SourceCount() * element.bytes, NumberBytes(element));
  const std::vector<double> sums =
      FillTerms(problem, element, [](int64_t i) { return i; }, target);
  const auto run = [&] {
    return problem.RunBackward(element, Alignment(target, source), target.data(),
                               source.data());
  };
  if (run() != 0) return false;
  if (problem.hostile) return FillsAgain(run, source);
  return Holds(source, element, sums);
}

bool CheckConcat(const JoinProblem& problem, Element element) {
  const int bytes = element.bytes, number = NumberBytes(element);
  const ConcatExtents extents = problem.InBytes(bytes);
  Buffer source(problem.SourceCount() * bytes, number);
  Buffer skip(extents.skip_bytes, number);
  Buffer whole(problem.TargetCount() * bytes + extents.skip_bytes, number);
  source.FillRandom();
  skip.FillRandom();
  const int64_t alignment = std::min(Alignment(source, whole), Alignment(skip, whole));
  if (problem.RunConcat(element, alignment, source.data(), skip.data(), whole.data()))
    return false;
  for (int64_t i = 0; i < problem.TargetCount(); ++i) {
    if (std::memcmp(whole.data() + problem.InWhole(i) * bytes,
                    source.data() + problem.Source(i) * bytes, bytes) != 0)
      return false;
  }
  for (int64_t at = 0; at < extents.skip_bytes; at += extents.skip_part) {
    if (std::memcmp(
            whole.data() + at / extents.skip_part * extents.period + extents.skip_at,
            skip.data() + at, extents.skip_part) != 0)
      return false;
  }
  return true;
}

// As CheckBackward; what is around the part is 1, and no term.
bool CheckBackwardOfPart(const JoinProblem& problem, Element element) {
  const int bytes = NumberBytes(element);
  const ConcatExtents extents = problem.InBytes(element.bytes);
  Buffer whole(problem.TargetCount() * element.bytes + extents.skip_bytes, bytes);
  Buffer source(problem.SourceCount() * element.bytes, bytes);
  for (int64_t i = 0; i < whole.bytes(); i += bytes)
    Encode(element.format, 1, whole.data() + i);
  const std::vector<double> sums =
      FillTerms(problem, element, [&](int64_t i) { return problem.InWhole(i); }, whole);
  if (problem.RunBackwardOfPart(element, Alignment(whole, source), whole.data(),
                                source.data()))
    return false;
  return Holds(source, element, sums);
}

bool CheckAdd(const JoinProblem& problem, Element element) {
  const int components = element.components, bytes = NumberBytes(element);
  Buffer source(problem.SourceCount() * element.bytes, bytes);
  Buffer lateral(problem.TargetCount() * element.bytes, bytes);
  Buffer target(problem.TargetCount() * element.bytes, bytes);
  if (target.bytes() == 0) return true;
  for (Buffer* buffer : {&source, &lateral}) {
    for (int64_t i = 0; i < buffer->bytes(); i += bytes)
      Encode(element.format, static_cast<double>(Random(-4, 4)), buffer->data() + i);
  }
  const int64_t alignment =
      std::min(Alignment(source, target), Alignment(lateral, target));
  if (problem.RunAdd(element, alignment, source.data(), lateral.data(), target.data()))
    return false;
  for (int64_t i = 0; i < problem.TargetCount() * components; ++i) {
    const int64_t from = problem.Source(i / components) * components + i % components;
    const double sum = Decode(element.format, source.data() + from * bytes) +
                       Decode(element.format, lateral.data() + i * bytes);
    if (Decode(element.format, target.data() + i * bytes) != sum) return false;
  }
  return true;
}

int CountWrongJoins(int count) {
  int failed = 0, joined = 0;
  for (int i = 0; i < count; ++i) {
    JoinProblem problem;
    while (!problem.Fits()) problem = JoinProblem();
    const Element element = RandomElement();
    bool right = CheckAdd(problem, element);
    if (problem.joins) {
      ++joined;
      right &= CheckConcat(problem, element) && CheckBackwardOfPart(problem, element);
    }
    failed += !right;
  }
  std::printf("joins: %d of %d wrong, %d concatenations\n", failed, count, joined);
  return failed + (joined < count / 8);
}

// --------------------------------------------------------------------------- shuffles

struct ShuffleProblem {
  ShuffleExtents extents;
  bool wide = Random(0, 3) == 0;

  ShuffleProblem() {
    extents.outer = Random(1, 3);
    for (int k = static_cast<int>(Random(0, 2)); k < 3; ++k) {
      extents.positions[k] = Random(1, 5);
      extents.scale[k] = Random(1, 4);
      const int64_t reach = extents.positions[k] * extents.scale[k];
      extents.first[k] = Random(0, 1) * Random(0, reach);
      extents.size[k] = reach - extents.first[k];
      extents.size[k] -= Random(0, 1) * Random(0, extents.size[k]);
    }
    extents.inner = Random(0, 1) ? 8 * Random(1, 4) : Random(1, 20);
  }
  bool Fits() const { return extents.PackedCount() <= kMaxCount; }

  // The packed element that an element of the image is, and back, -1 where there is
  // none.
  int64_t Packed(int64_t element) const {
    const int64_t c = element % extents.inner;
    element /= extents.inner;
    int64_t position = 0, phase = 0, positions = 1, phases = 1;
    for (int k = 3; k-- > 0;) {
      const int64_t o = element % extents.size[k] + extents.first[k];
      element /= extents.size[k];
      position += o / extents.scale[k] * positions;
      phase += o % extents.scale[k] * phases;
      positions *= extents.positions[k];
      phases *= extents.scale[k];
    }
    return ((element * positions + position) * phases + phase) * extents.inner + c;
  }

  // The planner takes 64 bits for so many copies of the problem; one of them is run.
  template <typename Planner>
  ShufflePlan Planned(const Planner& planner) const {
    const int64_t copies = wide ? int64_t{1} << 31 : 1;
    ShuffleExtents several = extents;
    several.outer *= copies;
    ShufflePlan plan = planner(several);
    plan.extents.outer /= copies;
    plan.items /= copies;
    if (plan.wide_index != wide) std::abort();
    return plan;
  }
};

bool CheckShuffle(const ShuffleProblem& problem, Element element) {
  const int bytes = element.bytes, number = NumberBytes(element);
  const int64_t count = problem.extents.ImageCount();
  Buffer packed(problem.extents.PackedCount() * bytes, number);
  Buffer image(count * bytes, number), back(packed.bytes(), number);
  packed.FillRandom();
  const auto plan = [&](Direction direction, const Buffer& from, const Buffer& to) {
    return problem.Planned([&](const ShuffleExtents& extents) {
      return PlanPixelShuffle(direction, extents, element, Alignment(from, to));
    });
  };
  if (RunPixelShuffleFwd(plan(Direction::kForward, packed, image), packed.data(),
                         image.data(), HostThread()) ||
      RunPixelShuffleBwd(plan(Direction::kBackward, image, back), image.data(),
                         back.data(), HostThread()))
    return false;
  std::vector<char> wanted(back.bytes(), 0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = problem.Packed(i) * bytes;
    if (std::memcmp(image.data() + i * bytes, packed.data() + from, bytes) != 0)
      return false;
    std::memcpy(&wanted[from], packed.data() + from, bytes);
  }
  return std::equal(wanted.begin(), wanted.end(), back.data());
}

// Of small integers, which every format adds without rounding.
bool CheckShuffleSum(const ShuffleProblem& problem, Element element) {
  const int bytes = element.bytes;
  const int64_t count = problem.extents.ImageCount();
  Buffer packed(problem.extents.PackedCount() * bytes, bytes);
  const bool adds = Random(0, 1) != 0, relu = Random(0, 1) != 0;
  const bool of_each = Random(0, 1) != 0;
  const int64_t inner = problem.extents.inner, outer = problem.extents.outer;
  Buffer bias((of_each ? outer : 1) * inner * bytes, bytes);
  Buffer added(count * bytes, bytes), image(count * bytes, bytes);
  for (Buffer* buffer : {&packed, &bias, &added}) {
    for (int64_t i = 0; i < buffer->bytes(); i += bytes)
      Encode(element.format, static_cast<double>(Random(-4, 4)), buffer->data() + i);
  }
  const int64_t alignment =
      std::min(Alignment(packed, image),
               std::min(Alignment(bias, image), Alignment(added, image)));
  const ShufflePlan plan = problem.Planned([&](const ShuffleExtents& extents) {
    return PlanPixelShuffleSum(extents, element, alignment);
  });
  const ShuffleSum sum = {adds ? added.data() : nullptr, bias.data(), of_each,
                          relu ? Activation::kRelu : Activation::kNone};
  if (RunPixelShuffleSum(plan, packed.data(), sum, image.data(), HostThread()))
    return false;
  const auto at = [&](const Buffer& buffer, int64_t i) {
    return Decode(element.format, buffer.data() + i * bytes);
  };
  for (int64_t i = 0; i < count; ++i) {
    const int64_t image_of_outer = of_each ? i / (count / outer) : 0;
    double wanted =
        at(packed, problem.Packed(i)) + at(bias, image_of_outer * inner + i % inner);
    if (adds) wanted += at(added, i);
    if (relu) wanted = std::max(wanted, 0.0);
    if (at(image, i) != wanted) return false;
  }
  return true;
}

int CountWrongShuffles(int count) {
  constexpr Format kSummed[] = {Format::kFloat32, Format::kFloat16, Format::kBFloat16};
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    ShuffleProblem problem;
    while (!problem.Fits()) problem = ShuffleProblem();
    const Format format = kSummed[Random(0, 2)];
    const Element summed = {format == Format::kFloat32 ? 4 : 2, format, 1};
    failed +=
        !CheckShuffle(problem, RandomElement()) || !CheckShuffleSum(problem, summed);
  }
  std::printf("shuffles: %d of %d wrong\n", failed, count);
  return failed;
}

template <typename ProblemT>
int CountWrong(int count) {
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    ProblemT problem;
    while (!problem.Fits()) problem = ProblemT();
    const Element element = RandomElement();
    const bool forward = CheckForward(problem, element);
    const bool backward = CheckBackward(problem, element);
    if (forward && backward) continue;
    ++failed;
    std::printf(
        "%s %d, forward %s, backward %s, %d bytes in %d of format %d, 64-bit %d",
        ProblemT::kOp, i, forward ? "right" : "wrong", backward ? "right" : "wrong",
        element.bytes, element.components, static_cast<int>(element.format),
        problem.wide);
    problem.Print();
    for (int d = 0; d < problem.rank(); ++d) {
      std::printf("%s%lld->%lld", d == 0 ? ": " : " ",
                  static_cast<long long>(problem.source[d]),
                  static_cast<long long>(problem.target[d]));
    }
    std::printf("\n");
  }
  std::printf("%s: %d of %d wrong\n", ProblemT::kOp, failed, count);
  return failed;
}

}  // namespace

int main(int, char** arguments) {
  const int count = std::atoi(arguments[1]);
  const int failed = CountWrong<UpsampleProblem>(count);
  return failed + CountWrongJoins(count) + CountWrongShuffles(count) +
             CountWrong<ResizeProblem>(count) !=
         0;
}
