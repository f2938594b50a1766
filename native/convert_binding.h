// Conversion and casts for JavaScript.
#ifndef SAFETENSORS_MMAP_CONVERT_BINDING_H_
#define SAFETENSORS_MMAP_CONVERT_BINDING_H_

#include <napi.h>

// Exports `convert` and `cast`, and both for the pool, to JavaScript.
void ExportConvert(Napi::Env env, Napi::Object exports);

#endif  // SAFETENSORS_MMAP_CONVERT_BINDING_H_
