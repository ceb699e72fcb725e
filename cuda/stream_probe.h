// What the memory gives: a kernel that reads one array and writes another, linearly and
// with nothing else to do, to hold the ops against. For sizes of every ratio.
//
// An array is its whole units of 16 bytes; the bytes after them are neither read nor
// written. Each array is cut into the same number of blocks of whole lines of
// kProbeLineUnits units (the array's last line may be short): of l lines, b blocks get
// l / b each, and the first l % b blocks one more. There are as few blocks as give none
// more than kProbeBlockLines lines of either array.
//
// Unit u of a block belongs to thread u % kThreadsPerBlock. A thread writes, to each
// of its units of the result's block, the exclusive or of its units of the operand's
// block, or zeros if it has none there:
//
//   result[begin + u] = xor of operand[begin' + v] over v = u mod kThreadsPerBlock,
//
// where begin and begin' are the block's first units, and u and v lie within its two
// parts. So every unit of the operand is read once and every unit of the result written
// once. Where the operand is over four times the result, some threads write nothing:
// what they read is in no result.

#ifndef JAX_UPSAMPLE_STREAM_PROBE_H_
#define JAX_UPSAMPLE_STREAM_PROBE_H_

#include <algorithm>
#include <cstdint>

#include "host_device.h"
#include "launch.h"

namespace jax_upsample {

constexpr int kProbeAccesses = 4;   // of a thread to either array, all independent
constexpr int kProbeLineUnits = 8;  // 128 bytes: no two blocks share a cache line
constexpr int kProbeBlockLines = kProbeAccesses * kThreadsPerBlock / kProbeLineUnits;

inline int64_t ProbeLines(int64_t bytes) {
  const int64_t units = bytes / kVectorBytes;
  return (units + kProbeLineUnits - 1) / kProbeLineUnits;
}

inline int64_t ProbeBlocks(int64_t operand_bytes, int64_t result_bytes) {
  const int64_t lines = ProbeLines(std::max(operand_bytes, result_bytes));
  return (lines + kProbeBlockLines - 1) / kProbeBlockLines;
}

// The units of a block, of one of the two arrays.
struct ProbePart {
  int64_t begin;
  int size;
};

// How an array is cut into blocks, of which there is at least one.
class ProbeCut {
 public:
  ProbeCut(int64_t bytes, int64_t blocks)
      : units_(bytes / kVectorBytes),
        longer_(ProbeLines(bytes) % blocks),
        lines_(static_cast<int>(ProbeLines(bytes) / blocks)) {}

  JAX_UPSAMPLE_HOST_DEVICE ProbePart operator()(int64_t block) const {
    const int64_t longer_before = block < longer_ ? block : longer_;
    const int64_t begin = (block * lines_ + longer_before) * kProbeLineUnits;
    const int64_t rest = units_ - begin;
    const int size = (lines_ + (block < longer_ ? 1 : 0)) * kProbeLineUnits;
    return {begin, rest < size ? static_cast<int>(rest) : size};
  }

 private:
  int64_t units_;
  int64_t longer_;  // blocks that get a line more
  int lines_;
};

// What one thread does, on the GPU and on the host.
class StreamProbe {
 public:
  StreamProbe(const void* operand, int64_t operand_bytes, void* result,
              int64_t result_bytes)
      : operand_(static_cast<const Vector*>(operand)),
        result_(static_cast<Vector*>(result)),
        operand_cut_(operand_bytes, ProbeBlocks(operand_bytes, result_bytes)),
        result_cut_(result_bytes, ProbeBlocks(operand_bytes, result_bytes)) {}

  JAX_UPSAMPLE_HOST_DEVICE void operator()(int64_t block, int thread) const {
    const ProbePart reads = operand_cut_(block);
    const ProbePart writes = result_cut_(block);
    const Vector* from = operand_ + reads.begin + thread;
    Vector* to = result_ + writes.begin + thread;

    Vector vectors[kProbeAccesses];
    for (int k = 0; k < kProbeAccesses; ++k) {
      vectors[k] = Vector{};
      if (thread + k * kThreadsPerBlock < reads.size) {
        vectors[k] = LoadOnce(from + k * kThreadsPerBlock);
      }
    }
    Vector combined{};
    for (int k = 0; k < kProbeAccesses; ++k) {
      for (int w = 0; w < kWords; ++w) combined.words[w] ^= vectors[k].words[w];
    }
    // Never true, but not to the compiler, which would leave out the loads of threads
    // that write nothing.
    const bool kept = (combined.words[0] & no_bits_) != 0;
    for (int k = 0; k < kProbeAccesses; ++k) {
      if (kept || thread + k * kThreadsPerBlock < writes.size) {
        StoreOnce(to + k * kThreadsPerBlock, combined);
      }
    }
  }

 private:
  using Vector = Unit<kVectorBytes>;
  static constexpr int kWords = sizeof(Vector::words) / sizeof(Vector::Word);

  const Vector* operand_;
  Vector* result_;
  ProbeCut operand_cut_;
  ProbeCut result_cut_;
  uint32_t no_bits_ = 0;
};

// Run the probe on the calling thread, or enqueue it on a CUDA stream and return 0 or
// the CUDA error of the launch. Both addresses are aligned to 16 bytes, and there is at
// least one block.
int RunStreamProbe(const void* operand, int64_t operand_bytes, void* result,
                   int64_t result_bytes, HostThread);
int RunStreamProbe(const void* operand, int64_t operand_bytes, void* result,
                   int64_t result_bytes, CUstream_st* stream);

}  // namespace jax_upsample

#endif  // JAX_UPSAMPLE_STREAM_PROBE_H_
