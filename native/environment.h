// The addon's state for the JavaScript of one thread.
#ifndef SAFETENSORS_MMAP_ENVIRONMENT_H_
#define SAFETENSORS_MMAP_ENVIRONMENT_H_

#include <node_api.h>

#include "accounting.h"
#include "counted.h"
#include "mutex.h"
#include "uncounted_buffer.h"

class Handle;

// The handles of an environment that have not ended.
struct OpenHandles {
  Handle* first = nullptr;
  // What all of them cost; see `kOpenCost` in handle.cc.
  uint64_t cost = 0;
  // Their cost at the last search for dropped ones, or less since.
  uint64_t cost_after_search = 0;
  // Guards the list where finalizers may run on any thread.
  Mutex mutex;
};

// The addon's state for an environment: the JavaScript of one thread.
//
// Owners: the environment, every handle and every live buffer, because these can be finalized after
// the environment's data has been.
struct Environment : public Counted {
  // The environment's own; null when the addon was not loaded to the end.
  static Environment* Of(napi_env env) {
    void* data = nullptr;
    napi_get_instance_data(env, &data);
    return static_cast<Environment*>(data);
  }

  Accounting accounting;
  UncountedBuffers uncounted_buffers;
  OpenHandles open_handles;
};

#endif  // SAFETENSORS_MMAP_ENVIRONMENT_H_
