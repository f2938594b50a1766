// The functions of range_reads.h for JavaScript.
#ifndef SAFETENSORS_MMAP_RANGE_READS_BINDING_H_
#define SAFETENSORS_MMAP_RANGE_READS_BINDING_H_

#include <napi.h>

void ExportRangeReads(Napi::Env env, Napi::Object exports);

#endif  // SAFETENSORS_MMAP_RANGE_READS_BINDING_H_
