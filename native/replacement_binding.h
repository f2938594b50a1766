// Locks and exchanges of names, for JavaScript.
#ifndef SAFETENSORS_MMAP_REPLACEMENT_BINDING_H_
#define SAFETENSORS_MMAP_REPLACEMENT_BINDING_H_

#include <napi.h>

// Adds `lockFile`, `exchangeFiles` and `copyAccessList` to what JavaScript sees. The descriptors
// are JavaScript's.
void ExportReplacement(Napi::Env env, Napi::Object exports);

#endif  // SAFETENSORS_MMAP_REPLACEMENT_BINDING_H_
