// Dequantization for JavaScript.
#ifndef SAFETENSORS_MMAP_DEQUANTIZE_BINDING_H_
#define SAFETENSORS_MMAP_DEQUANTIZE_BINDING_H_

#include <napi.h>

// Exports `dequantizeRows` and `decodeBlocks` to JavaScript.
void ExportDequantize(Napi::Env env, Napi::Object exports);

#endif  // SAFETENSORS_MMAP_DEQUANTIZE_BINDING_H_
