#ifndef SAFETENSORS_MMAP_PREFETCH_BINDING_H_
#define SAFETENSORS_MMAP_PREFETCH_BINDING_H_

#include <napi.h>

// populate(mapping, byteOffset, byteLength): Promise<number>, 0 or a negative errno. Works on
// libuv's thread pool, and holds a reference on the mapping until it is done.
Napi::Value PopulateRange(const Napi::CallbackInfo& info);

// residentBytes(mapping, byteOffset, byteLength): number | null
Napi::Value ResidentBytes(const Napi::CallbackInfo& info);

#endif  // SAFETENSORS_MMAP_PREFETCH_BINDING_H_
