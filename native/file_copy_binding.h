// Copies between files, for JavaScript.
#ifndef SAFETENSORS_MMAP_FILE_COPY_BINDING_H_
#define SAFETENSORS_MMAP_FILE_COPY_BINDING_H_

#include <napi.h>

// Adds `allocateAsync`, `copyFileRangeAsync` and `gatherRangesAsync` to what JavaScript
// sees. The descriptors are JavaScript's, which keeps them open until the promise settles.
void ExportFileCopy(Napi::Env env, Napi::Object exports);

#endif  // SAFETENSORS_MMAP_FILE_COPY_BINDING_H_
