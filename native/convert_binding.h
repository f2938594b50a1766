// Conversion, casts and products for JavaScript.
#ifndef SAFETENSORS_MMAP_CONVERT_BINDING_H_
#define SAFETENSORS_MMAP_CONVERT_BINDING_H_

#include <napi.h>

// Exports `convert`, `cast` and `addProduct`, and all for the pool, to JavaScript.
void ExportConvert(Napi::Env env, Napi::Object exports);

#endif  // SAFETENSORS_MMAP_CONVERT_BINDING_H_
