// Surveys and merges of elements for JavaScript.
#ifndef SAFETENSORS_MMAP_MERGE_BINDING_H_
#define SAFETENSORS_MMAP_MERGE_BINDING_H_

#include <napi.h>

// Exports `survey` and `mergeElements`, and both for the pool, to JavaScript.
void ExportMerge(Napi::Env env, Napi::Object exports);

#endif  // SAFETENSORS_MMAP_MERGE_BINDING_H_
