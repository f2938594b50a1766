// ArrayBuffers over a mapping: uncounted ones, else external ones of Node-API.
#ifndef SAFETENSORS_MMAP_TENSOR_BUFFER_H_
#define SAFETENSORS_MMAP_TENSOR_BUFFER_H_

#include <node_api.h>

#include <cstdint>

#include "environment.h"
#include "mapping.h"

// Creates an external ArrayBuffer over `length` > 0 bytes of the mapping at `offset`; the caller
// has checked the range. The buffer owns a reference on the mapping until its finalizer has run.
napi_status CreateTensorBuffer(napi_env env, Environment* environment, Mapping* mapping,
                               uint64_t offset, uint64_t length, napi_value* buffer);

#endif  // SAFETENSORS_MMAP_TENSOR_BUFFER_H_
