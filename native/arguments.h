// Mappings, sizes, ranges and arrays from JavaScript's values; results and failures for it.
#ifndef SAFETENSORS_MMAP_ARGUMENTS_H_
#define SAFETENSORS_MMAP_ARGUMENTS_H_

#include <errno.h>
#include <napi.h>

#include <cstdint>
#include <type_traits>

#include "handle.h"
#include "mapping.h"

// Arguments and results of the functions that JavaScript calls.
//
// A function returns its result, or a negative errno, or the name of the first argument that it
// cannot use; `src/platform/addon/failures.ts` turns the last two into errors. All of this is
// called on the JavaScript thread of the environment.
//
// The calls to Node-API are raw ones wherever they can fail: in a worker that is being terminated
// they do, and the wrapper would then throw, which cannot be done there either. The rest of the
// wrapper is compiled to swallow such an error instead of ending the process.

// A count, 0 for success, or a negative errno.
inline napi_value Result(napi_env env, int64_t result) {
  napi_value value = nullptr;
  napi_create_int64(env, result, &value);
  return value;
}

// Returned instead of a result: the name of an argument, or a negative errno.
// `Failure()` stands for none.
class Failure {
 public:
  Failure() = default;
  Failure(const char* argument) : argument_(argument) {}
  Failure(int error) : error_(error) {}

  // Whether there is a failure.
  explicit operator bool() const { return argument_ != nullptr || error_ != 0; }

  napi_value ToValue(napi_env env) const {
    if (argument_ == nullptr) return Result(env, error_);
    napi_value value = nullptr;
    napi_create_string_utf8(env, argument_, NAPI_AUTO_LENGTH, &value);
    return value;
  }

 private:
  const char* argument_ = nullptr;
  int error_ = 0;
};

// Larger integers are not all exact in a double.
inline constexpr double kMaxSafeInteger = 9007199254740991.0;

// The following return false when the value cannot be used.

inline bool ReadSize(double number, uint64_t* size) {
  if (!(number >= 0 && number <= kMaxSafeInteger)) return false;
  *size = static_cast<uint64_t>(number);
  return static_cast<double>(*size) == number;
}

inline bool ReadSize(const Napi::Value& value, uint64_t* size) {
  double number;
  return napi_get_value_double(value.Env(), value, &number) == napi_ok && ReadSize(number, size);
}

// A size above 0.
template <typename Number>
bool ReadLength(const Number& number, uint64_t* length) {
  return ReadSize(number, length) && *length > 0;
}

template <typename Number>
bool ReadDescriptor(const Number& number, int* fd) {
  uint64_t size;
  if (!ReadSize(number, &size) || size > INT32_MAX) return false;
  *fd = static_cast<int>(size);
  return true;
}

template <typename Item>
constexpr napi_typedarray_type ArrayType();
template <>
constexpr napi_typedarray_type ArrayType<uint8_t>() {
  return napi_uint8_array;
}
template <>
constexpr napi_typedarray_type ArrayType<float>() {
  return napi_float32_array;
}
template <>
constexpr napi_typedarray_type ArrayType<double>() {
  return napi_float64_array;
}

// The items of a typed array. The memory is JavaScript's, which can detach it when it runs again.
template <typename Item>
bool ReadItems(const Napi::Value& value, Item** items, size_t* count) {
  napi_typedarray_type type;
  void* data = nullptr;
  if (napi_get_typedarray_info(value.Env(), value, &type, count, &data, nullptr, nullptr) !=
          napi_ok ||
      type != ArrayType<std::remove_const_t<Item>>()) {
    return false;
  }
  *items = static_cast<Item*>(data);
  return true;
}

// The mapping of the handle that is the first argument; it stays the handle's.
inline Failure ReadMapping(const Napi::CallbackInfo& info, Mapping** mapping) {
  const Handle* handle = Handle::From(info.Env(), info[0]);
  if (handle == nullptr) return "mapping";
  *mapping = handle->mapping();
  return *mapping == nullptr ? Failure(-EBADF) : Failure();
}

// At least one byte of a mapping, with a separate reference.
struct MappedRange {
  MappingRef mapping;
  uint64_t offset;
  uint64_t length;

  uint8_t* begin() const { return mapping->base() + offset; }
  uint8_t* end() const { return begin() + length; }
};

// Reads the arguments (mapping, byteOffset, byteLength).
inline Failure ReadRange(const Napi::CallbackInfo& info, MappedRange* range) {
  Mapping* mapping;
  if (const Failure failure = ReadMapping(info, &mapping)) return failure;
  if (!ReadLength(info[2], &range->length) || range->length > mapping->length()) {
    return "byteLength";
  }
  if (!ReadSize(info[1], &range->offset) || range->offset > mapping->length() - range->length) {
    return "byteOffset";
  }
  range->mapping = MappingRef(mapping);
  return {};
}

#endif  // SAFETENSORS_MMAP_ARGUMENTS_H_
