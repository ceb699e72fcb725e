// The probe on the calling thread: for its definition's sake, it measures nothing.

#include "stream_probe.h"

namespace jax_upsample {

int RunStreamProbe(const void* operand, int64_t operand_bytes, void* result,
                   int64_t result_bytes, HostThread) {
  const StreamProbe probe(operand, operand_bytes, result, result_bytes);
  const int64_t blocks = ProbeBlocks(operand_bytes, result_bytes);
  for (int64_t block = 0; block < blocks; ++block) {
    for (int thread = 0; thread < kThreadsPerBlock; ++thread) probe(block, thread);
  }
  return 0;
}

}  // namespace jax_upsample
