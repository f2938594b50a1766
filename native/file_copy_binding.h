#ifndef SAFETENSORS_MMAP_FILE_COPY_BINDING_H_
#define SAFETENSORS_MMAP_FILE_COPY_BINDING_H_

#include <napi.h>

// Adds `allocate`, `copyFileRange` and `gatherRanges` to what JavaScript sees, and the same with
// the suffix `Async`, on libuv's thread pool. The descriptors are JavaScript's, which keeps them
// open until the promise settles.
void ExportFileCopy(Napi::Env env, Napi::Object exports);

#endif  // SAFETENSORS_MMAP_FILE_COPY_BINDING_H_
