#ifndef SAFETENSORS_MMAP_TENSOR_BUFFER_H_
#define SAFETENSORS_MMAP_TENSOR_BUFFER_H_

#include <node_api.h>

#include <atomic>
#include <cstdint>

#include "counted.h"
#include "mapping.h"

// Hides the length of our buffers from the engine, which counts external memory as its own and
// collects garbage for it: 20 GB of tensors would cost it 4 to 50 seconds.
//
// One object per environment. It adds a reserve to the engine's counter, which costs one
// collection. The engine itself adds the length of every new buffer; that is then taken out of the
// reserve. So the counter always holds
//
//     sum of the live buffers' lengths + reserve, with reserve >= 0,
//
// and never comes below what the engine will subtract when it frees the buffers: newer engines
// abort the process when it does. A dead buffer's length is not put back, because raising the
// counter again is what makes the engine collect. Instead each reserve is as large as all before it
// together: opening n files costs O(log n) collections.
//
// No reserve helps a single buffer above 64 MB: the engine looks at its counter between adding the
// length and our taking it out.
//
// Owners: the environment and every live buffer, because a buffer can be finalized after the
// environment's data has been. Everything but AfterFree runs on the JavaScript thread.
class Accounting : public Counted {
 public:
  // Off until this is called: only the V8 of Node counts in the way described above.
  void Enable() { enabled_ = true; }

  // Before a buffer of `length` bytes over a mapping of `mapping_length` is created: makes the
  // reserve at least as large, once the live buffers are large enough for the engine to collect.
  void BeforeCreation(napi_env env, uint64_t length, uint64_t mapping_length);

  // After the buffer was created: takes its length out of the engine's counter.
  void AfterCreation(napi_env env, uint64_t length);

  // Once for every BeforeCreation. Any thread, and also after the environment's end.
  void AfterFree(uint64_t length) {
    live_.fetch_sub(static_cast<int64_t>(length), std::memory_order_relaxed);
  }

  // The environment ends: gives the rest of the reserve back.
  void End(napi_env env);

 private:
  friend Ref<Accounting>;
  ~Accounting() = default;

  bool enabled_ = false;
  int64_t reserve_ = 0;
  int64_t told_ = 0;
  std::atomic<int64_t> live_{0};
};

// Creates an external ArrayBuffer over `length` > 0 bytes of the mapping at `offset`; the caller
// has checked the range. The buffer owns a reference on the mapping until its finalizer has run.
napi_status CreateTensorBuffer(napi_env env, Accounting* accounting, Mapping* mapping,
                               uint64_t offset, uint64_t length, napi_value* buffer);

#endif  // SAFETENSORS_MMAP_TENSOR_BUFFER_H_
