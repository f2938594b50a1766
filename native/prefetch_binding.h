// Prefetching, for JavaScript.
#ifndef SAFETENSORS_MMAP_PREFETCH_BINDING_H_
#define SAFETENSORS_MMAP_PREFETCH_BINDING_H_

#include <napi.h>

// Exports `populate`, `residentBytes` and their like to JavaScript.
void ExportPrefetch(Napi::Env env, Napi::Object exports);

#endif  // SAFETENSORS_MMAP_PREFETCH_BINDING_H_
