// ArrayBuffers that V8 does not count, by functions of V8; the test of these.
#ifndef SAFETENSORS_MMAP_UNCOUNTED_BUFFER_H_
#define SAFETENSORS_MMAP_UNCOUNTED_BUFFER_H_

#include <node_api.h>

#include <cstdint>

#include "mapping.h"

// Makes ArrayBuffers that the engine does not count as its own memory, where that is possible.
//
// An external buffer of Node-API is counted, and the engine collects garbage for it; for one above
// 64 MB `Accounting` cannot prevent that. V8 exempts memory whose deleter is its own
// `EmptyDeleter`. Node-API cannot make such a buffer, so this calls six functions of V8 by their
// names. Whether to try is decided by `src/platform/addon/uncounted-buffers.ts`, which lists the
// runtimes where this was tested.
//
// Belongs to an `Environment`. On its JavaScript thread. Takes no part in `Accounting`.
class UncountedBuffers {
 public:
  // Tests that the runtime does what we need, and if so, makes buffers of up to `max_length` bytes
  // from now on. Returns 0, or -ENOSYS where there are no such functions, -EPROTO when they do
  // something else, -ENOMEM without addresses for the test.
  int Enable(napi_env env, uint64_t max_length);
  bool enabled() const { return max_length_ > 0; }

  // An ArrayBuffer over `length` > 0 bytes of the mapping at `offset`, which owns a reference on
  // the mapping. The engine drops that on any thread, and at once when the buffer is emptied. Null
  // when it has to be an external buffer.
  napi_value Create(Mapping* mapping, uint64_t offset, uint64_t length) const;

 private:
  uint64_t max_length_ = 0;
};

#endif  // SAFETENSORS_MMAP_UNCOUNTED_BUFFER_H_
