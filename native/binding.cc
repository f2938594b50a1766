// Glue between JavaScript and the mapping: argument checks and conversions, no decisions.
//
// Every function returns its result, or a negative errno, or the name of the first argument that it
// cannot use; `src/native-errors.ts` turns the last two into errors. Everything here runs on the
// JavaScript thread of the environment that calls it.

#include <errno.h>
#include <fcntl.h>
#include <napi.h>
#include <unistd.h>

#include <new>
#include <optional>

#include "arguments.h"
#include "convert_binding.h"
#include "exports.h"
#include "file_copy_binding.h"
#include "mapping.h"
#include "prefetch_binding.h"
#include "quarantine.h"
#include "tensor_buffer.h"

namespace {

void FinalizeHandle(napi_env, void* data, void*) {
  auto* handle = static_cast<Handle*>(data);
  if (Mapping* mapping = handle->Take()) mapping->Unref();
  delete handle;
}

Accounting* EnvironmentAccounting(Napi::Env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  return static_cast<Accounting*>(data);
}

// compensateExternalMemory(): void
Napi::Value CompensateExternalMemory(const Napi::CallbackInfo& info) {
  EnvironmentAccounting(info.Env())->Enable();
  return Errno(info.Env(), 0);
}

// externalBuffersAllowed(): boolean. Engines with a sandbox for memory (Electron) refuse them all.
Napi::Value ExternalBuffersAllowed(const Napi::CallbackInfo& info) {
  static uint8_t byte;
  napi_value buffer;
  const napi_status status =
      napi_create_external_arraybuffer(info.Env(), &byte, 1, nullptr, nullptr, &buffer);
  return Napi::Boolean::New(info.Env(), status == napi_ok);
}

// mapFile(fd, byteLength, guard): Mapping
Napi::Value MapFile(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const std::optional<uint64_t> fd = ToSize(info[0]);
  const std::optional<uint64_t> length = ToSize(info[1]);
  if (!fd || *fd > INT32_MAX) return Unusable(env, "fd");
  if (!length || *length == 0) return Unusable(env, "byteLength");
  if (!info[2].IsBoolean()) return Unusable(env, "guard");

  auto* handle = new (std::nothrow) Handle{nullptr};
  if (handle == nullptr) return Errno(env, ENOMEM);
  napi_value object;
  if (napi_create_object(env, &object) != napi_ok ||
      napi_wrap(env, object, handle, FinalizeHandle, nullptr, nullptr) != napi_ok) {
    delete handle;
    return Errno(env, ENOMEM);
  }
  if (napi_type_tag_object(env, object, &kHandleTag) != napi_ok) return Errno(env, ENOMEM);

  const bool guarded = info[2].As<Napi::Boolean>().Value();
  const int error = Mapping::Open(static_cast<int>(*fd), *length, guarded, &handle->mapping);
  return error == 0 ? Napi::Value(env, object) : Errno(env, error);
}

// tensorBuffer(mapping, byteOffset, byteLength): ArrayBuffer
Napi::Value TensorBuffer(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Napi::Value failure;
  const std::optional<MappedRange> range = ToRange(info, &failure);
  if (!range) return failure;

  napi_value buffer;
  const napi_status status = CreateTensorBuffer(env, EnvironmentAccounting(env), range->mapping,
                                                range->offset, range->length, &buffer);
  if (status == napi_ok) return Napi::Value(env, buffer);
  return Errno(env, status == napi_no_external_buffers_allowed ? ENOTSUP : ENOMEM);
}

// readFileState(mapping, state): void
Napi::Value ReadFileState(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const Handle* handle = ToHandle(info[0]);
  napi_typedarray_type type;
  size_t length = 0;
  void* data = nullptr;
  if (handle == nullptr) return Unusable(env, "mapping");
  if (napi_get_typedarray_info(env, info[1], &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_float64_array || length != 4) {
    return Unusable(env, "state");
  }
  if (handle->mapping == nullptr) return Errno(env, EBADF);

  FileState file;
  const int error = handle->mapping->ReadState(&file);
  if (error != 0) return Errno(env, error);
  auto* state = static_cast<double*>(data);
  state[0] = static_cast<double>(file.size);
  state[1] = static_cast<double>(file.mtime_seconds);
  state[2] = static_cast<double>(file.mtime_nanoseconds);
  state[3] = file.truncated ? 1 : 0;
  return Errno(env, 0);
}

// readBytes(mapping, position, target): number
Napi::Value ReadBytes(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const Handle* handle = ToHandle(info[0]);
  const std::optional<uint64_t> position = ToSize(info[1]);
  napi_typedarray_type type;
  size_t length = 0;
  void* data = nullptr;
  if (handle == nullptr) return Unusable(env, "mapping");
  if (!position) return Unusable(env, "position");
  if (!info[2].IsTypedArray() ||
      napi_get_typedarray_info(env, info[2], &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_uint8_array || length == 0) {
    return Unusable(env, "target");
  }
  if (handle->mapping == nullptr) return Errno(env, EBADF);
  const int64_t count = handle->mapping->ReadBytes(*position, data, length);
  return Napi::Number::New(env, static_cast<double>(count));
}

void CloseDescriptorAtEnd(void* fd) {
  close(static_cast<int>(reinterpret_cast<intptr_t>(fd)));
}

// duplicateDescriptor(mapping): number. A worker that is terminated while it reads never gives the
// descriptor back: the end of its environment does.
Napi::Value DuplicateDescriptor(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const Handle* handle = ToHandle(info[0]);
  if (handle == nullptr) return Unusable(env, "mapping");
  if (handle->mapping == nullptr) return Errno(env, EBADF);
  const int fd = fcntl(handle->mapping->fd(), F_DUPFD_CLOEXEC, 0);
  if (fd == -1) return Errno(env, errno);
  napi_add_env_cleanup_hook(env, CloseDescriptorAtEnd, reinterpret_cast<void*>(intptr_t{fd}));
  return Napi::Number::New(env, fd);
}

// closeDescriptor(fd): void
Napi::Value CloseDescriptor(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const std::optional<uint64_t> fd = ToSize(info[0]);
  if (!fd || *fd > INT32_MAX) return Unusable(env, "fd");
  napi_remove_env_cleanup_hook(env, CloseDescriptorAtEnd, reinterpret_cast<void*>(*fd));
  return Errno(env, close(static_cast<int>(*fd)) == 0 ? 0 : errno);
}

// release(mapping): void
Napi::Value Release(const Napi::CallbackInfo& info) {
  Handle* handle = ToHandle(info[0]);
  if (handle == nullptr) return Unusable(info.Env(), "mapping");
  if (Mapping* mapping = handle->Take()) mapping->Unref();
  return Errno(info.Env(), 0);
}

// Detaches one of the mapping's buffers; false when it is not one of them.
bool DetachBuffer(napi_env env, const Mapping* mapping, napi_value buffer) {
  bool is_buffer = false;
  bool is_detached = false;
  void* data = nullptr;
  size_t length = 0;
  if (napi_is_arraybuffer(env, buffer, &is_buffer) != napi_ok || !is_buffer) return false;
  if (napi_is_detached_arraybuffer(env, buffer, &is_detached) != napi_ok) return false;
  if (is_detached) return true;
  if (napi_get_arraybuffer_info(env, buffer, &data, &length) != napi_ok) return false;
  const auto begin = reinterpret_cast<uintptr_t>(mapping->base());
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (address < begin || address >= begin + mapping->length()) return false;
  return napi_detach_arraybuffer(env, buffer) == napi_ok;
}

// detach(mapping, buffers): void
Napi::Value Detach(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Handle* handle = ToHandle(info[0]);
  if (handle == nullptr) return Unusable(env, "mapping");
  if (!info[1].IsArray()) return Unusable(env, "buffers");
  Mapping* mapping = handle->Take();
  if (mapping == nullptr) return Errno(env, 0);

  bool all_ours = true;
  const Napi::Array buffers = info[1].As<Napi::Array>();
  for (uint32_t i = 0; all_ours && i < buffers.Length(); i++) {
    const Napi::HandleScope scope(env);
    napi_value buffer;
    all_ours =
        napi_get_element(env, buffers, i, &buffer) == napi_ok && DetachBuffer(env, mapping, buffer);
  }
  if (!all_ours) {
    handle->mapping = mapping;
    return Unusable(env, "buffers");
  }

  if (!mapping->exposed()) {
    mapping->Unref();
    return Errno(env, 0);
  }
  const int error = mapping->Overlay();
  Quarantine(mapping);
  return Errno(env, error);
}

// An environment ends; buffers of it may still be finalized after this.
void FinalizeEnvironment(napi_env env, void* data, void*) {
  auto* accounting = static_cast<Accounting*>(data);
  accounting->End(env);
  accounting->Unref();
}

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  auto* accounting = new Accounting();
  if (napi_set_instance_data(env, accounting, FinalizeEnvironment, nullptr) != napi_ok) {
    accounting->Unref();
    return exports;
  }
  Define(env, exports,
         {
             Export<CompensateExternalMemory>("compensateExternalMemory"),
             Export<ExternalBuffersAllowed>("externalBuffersAllowed"),
             Export<MapFile>("mapFile"),
             Export<TensorBuffer>("tensorBuffer"),
             Export<ReadFileState>("readFileState"),
             Export<ReadBytes>("readBytes"),
             Export<Release>("release"),
             Export<Detach>("detach"),
             Export<PopulateRange>("populate"),
             Export<ResidentBytes>("residentBytes"),
             Export<DuplicateDescriptor>("duplicateDescriptor"),
             Export<CloseDescriptor>("closeDescriptor"),
         });
  ExportConvert(env, exports);
  ExportFileCopy(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(NODE_GYP_MODULE_NAME, Init)
