#ifndef SAFETENSORS_MMAP_FILE_COPY_BINDING_H_
#define SAFETENSORS_MMAP_FILE_COPY_BINDING_H_

#include <napi.h>

// allocate(fd, byteLength): 0
// copyFileRange(sourceFd, sourcePosition, targetFd, targetPosition, byteLength): number
// Both also with the suffix Async, on libuv's thread pool, as a promise of the same number. The
// descriptors are JavaScript's, which keeps them open until that is settled.
void ExportFileCopy(Napi::Env env, Napi::Object exports);

#endif  // SAFETENSORS_MMAP_FILE_COPY_BINDING_H_
