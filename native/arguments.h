#ifndef SAFETENSORS_MMAP_ARGUMENTS_H_
#define SAFETENSORS_MMAP_ARGUMENTS_H_

#include <errno.h>
#include <napi.h>

#include <cmath>
#include <cstdint>
#include <optional>

#include "mapping.h"

// What the functions that JavaScript sees take and return; see binding.cc for the convention.

// Marks our handles, so that no other object is taken for one.
inline constexpr napi_type_tag kHandleTag = {0x7f3c1d0b58a94e26, 0x9a4de8c2f16b7035};

// Numbers of this size and beyond are not exact in a double.
inline constexpr double kMaxSafeInteger = 9007199254740991.0;

// What JavaScript holds: owns one reference on the mapping until it is released, detached or
// collected; null afterwards.
struct Handle {
  Mapping* mapping;

  Mapping* Take() {
    Mapping* taken = mapping;
    mapping = nullptr;
    return taken;
  }
};

inline Handle* ToHandle(const Napi::Value& value) {
  napi_env env = value.Env();
  bool tagged = false;
  void* data = nullptr;
  if (!value.IsObject() ||
      napi_check_object_type_tag(env, value, &kHandleTag, &tagged) != napi_ok || !tagged ||
      napi_unwrap(env, value, &data) != napi_ok) {
    return nullptr;
  }
  return static_cast<Handle*>(data);
}

inline std::optional<uint64_t> ToSize(const Napi::Value& value) {
  if (!value.IsNumber()) return std::nullopt;
  const double number = value.As<Napi::Number>().DoubleValue();
  if (!(number >= 0 && number <= kMaxSafeInteger) || number != std::floor(number)) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(number);
}

inline Napi::Value Errno(Napi::Env env, int error) {
  return Napi::Number::New(env, -error);
}

inline Napi::Value Unusable(Napi::Env env, const char* name) {
  return Napi::String::New(env, name);
}

// The range of a mapping that the first three arguments name.
struct MappedRange {
  Mapping* mapping;
  uint64_t offset;
  uint64_t length;
};

// The range (mapping, byteOffset, byteLength), with at least one byte; or `failure` is set to what
// the function has to return.
inline std::optional<MappedRange> ToRange(const Napi::CallbackInfo& info, Napi::Value* failure) {
  Napi::Env env = info.Env();
  const Handle* handle = ToHandle(info[0]);
  const std::optional<uint64_t> offset = ToSize(info[1]);
  const std::optional<uint64_t> length = ToSize(info[2]);
  if (handle == nullptr) {
    *failure = Unusable(env, "mapping");
  } else if (handle->mapping == nullptr) {
    *failure = Errno(env, EBADF);
  } else if (!length || *length == 0 || *length > handle->mapping->length()) {
    *failure = Unusable(env, "byteLength");
  } else if (!offset || *offset > handle->mapping->length() - *length) {
    *failure = Unusable(env, "byteOffset");
  } else {
    return MappedRange{handle->mapping, *offset, *length};
  }
  return std::nullopt;
}

#endif  // SAFETENSORS_MMAP_ARGUMENTS_H_
