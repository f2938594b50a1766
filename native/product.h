// Adds a product of factors to rows of floating-point elements: what merges adapters and models.
#ifndef SAFETENSORS_MMAP_PRODUCT_H_
#define SAFETENSORS_MMAP_PRODUCT_H_

#include <stddef.h>
#include <stdint.h>

#include "convert.h"
#include "kernels.h"
#include "processor.h"

// Columns are computed in groups: `right` has as many more per row as the last group lacks.
constexpr size_t kProductLanes = 8;

struct ProductLoops;

// Rows of elements of one dtype, the factors of the product, and the output, of the same or another
// dtype. A rank of 0 only changes the dtype, rounding once.
struct Product {
  const uint8_t* bytes;
  uint8_t* output;
  const double* left;
  const float* right;
  size_t rows;
  size_t columns;
  size_t rank;
  // Distance of the rows of `right`.
  size_t stride;
  // To float32, or null for F64; from float32, without `decode` for F32 and F64.
  Kernel decode;
  CastKernel encode;
  size_t element_bytes;
  size_t output_bytes;
  const ProductLoops* loops;
};

// Sets the kernels for F64, F32, F16 and BF16; false for other dtypes and missing instructions.
bool SelectKernels(Dtype from, Dtype to, Level level, Product* product);

// Returns how many results are NaN, infinite, or too large for the output's dtype; 0 for F64. Pure:
// any thread, any alignment of bytes and output.
uint64_t AddProduct(const Product& product);

// Compiled for AVX2. Only built for x64.
const ProductLoops* Avx2ProductLoops();

#endif  // SAFETENSORS_MMAP_PRODUCT_H_
