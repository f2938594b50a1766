// Hides the lengths of counted buffers from the engine's counter of external memory.
#ifndef SAFETENSORS_MMAP_ACCOUNTING_H_
#define SAFETENSORS_MMAP_ACCOUNTING_H_

#include <node_api.h>

#include <atomic>
#include <cstdint>

// Hides the length of our external buffers from the engine, which counts external memory as its own
// and collects garbage for it: 20 GB of tensors would cost it 4 to 50 seconds.
//
// It adds a reserve to the engine's counter, which costs one collection. The engine itself adds the
// length of every new buffer; that is then taken out of the reserve. So the counter always holds
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
// Belongs to an `Environment`. Everything but `AfterFree` runs on the JavaScript thread.
class Accounting {
 public:
  // Off until this is called: only the V8 of Node counts in the way described above.
  void Enable() { enabled_ = true; }
  bool enabled() const { return enabled_; }

  // Before a buffer of `length` bytes over a mapping of `mapping_length` is created: makes the
  // reserve at least as large, once the live buffers are large enough for the engine to collect.
  void BeforeCreation(napi_env env, uint64_t length, uint64_t mapping_length);

  // After the buffer was created: takes its length out of the engine's counter.
  void AfterCreation(napi_env env, uint64_t length);

  // Once for every BeforeCreation. Any thread, and also after the environment's end.
  void AfterFree(uint64_t length) {
    live_.fetch_sub(static_cast<int64_t>(length), std::memory_order_relaxed);
  }

  // Makes the engine collect all garbage before this returns. False when the accounting is off.
  bool Collect(napi_env env) { return Raise(env, 0); }

  // The environment ends: gives the rest of the reserve back.
  void End(napi_env env);

 private:
  bool Raise(napi_env env, int64_t bytes);

  bool enabled_ = false;
  int64_t reserve_ = 0;
  int64_t told_ = 0;
  std::atomic<int64_t> live_{0};
};

#endif  // SAFETENSORS_MMAP_ACCOUNTING_H_
