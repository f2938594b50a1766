// The addon's functions on mappings and their descriptors, and its start. See arguments.h for what
// functions return. Everything here runs on the JavaScript thread of the environment that calls it.

#include <errno.h>
#include <napi.h>

#include <memory>
#include <new>
#include <utility>

#include "arguments.h"
#include "convert_binding.h"
#include "exports.h"
#include "file_copy_binding.h"
#include "file_descriptor.h"
#include "mapping.h"
#include "prefetch_binding.h"
#include "quarantine.h"
#include "replacement_binding.h"
#include "tensor_buffer.h"

namespace {

// The environment owns a reference on it.
Accounting* EnvironmentAccounting(napi_env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  return static_cast<Accounting*>(data);
}

// compensateExternalMemory(): 0
napi_value CompensateExternalMemory(const Napi::CallbackInfo& info) {
  EnvironmentAccounting(info.Env())->Enable();
  return Result(info.Env(), 0);
}

// externalBuffersAllowed(): boolean. Engines with a sandbox for memory (Electron) refuse them all.
napi_value ExternalBuffersAllowed(const Napi::CallbackInfo& info) {
  static uint8_t byte;
  napi_value buffer;
  const napi_status status =
      napi_create_external_arraybuffer(info.Env(), &byte, 1, nullptr, nullptr, &buffer);
  return Napi::Boolean::New(info.Env(), status == napi_ok);
}

void FinalizeHandle(napi_env, void* data, void*) {
  delete static_cast<Handle*>(data);
}

// mapFile(fd, byteLength, guard): Mapping
napi_value MapFile(const Napi::CallbackInfo& info) {
  napi_env env = info.Env();
  int fd;
  uint64_t length;
  bool guarded;
  if (!ReadDescriptor(info[0], &fd)) return Failure("fd").ToValue(env);
  if (!ReadLength(info[1], &length)) return Failure("byteLength").ToValue(env);
  if (napi_get_value_bool(env, info[2], &guarded) != napi_ok) return Failure("guard").ToValue(env);

  MappingRef mapping;
  const int error = Mapping::Open(fd, length, guarded, &mapping);
  if (error != 0) return Result(env, error);

  std::unique_ptr<Handle> handle(new (std::nothrow) Handle{std::move(mapping)});
  napi_value object;
  if (!handle || napi_create_object(env, &object) != napi_ok ||
      napi_wrap(env, object, handle.get(), FinalizeHandle, nullptr, nullptr) != napi_ok) {
    return Result(env, -ENOMEM);
  }
  // Now the object owns the handle.
  handle.release();
  if (napi_type_tag_object(env, object, &kHandleTag) != napi_ok) return Result(env, -ENOMEM);
  return object;
}

// tensorBuffer(mapping, byteOffset, byteLength): ArrayBuffer
napi_value TensorBuffer(const Napi::CallbackInfo& info) {
  napi_env env = info.Env();
  MappedRange range;
  if (const Failure failure = ReadRange(info, &range)) return failure.ToValue(env);
  napi_value buffer;
  const napi_status status = CreateTensorBuffer(
      env, EnvironmentAccounting(env), range.mapping.get(), range.offset, range.length, &buffer);
  if (status == napi_ok) return buffer;
  return Result(env, status == napi_no_external_buffers_allowed ? -ENOTSUP : -ENOMEM);
}

// readFileState(mapping, state): 0
napi_value ReadFileState(const Napi::CallbackInfo& info) {
  napi_env env = info.Env();
  Mapping* mapping;
  double* state;
  size_t count;
  if (const Failure failure = ReadMapping(info, &mapping)) return failure.ToValue(env);
  if (!ReadItems(info[1], &state, &count) || count != 4) return Failure("state").ToValue(env);

  FileState file;
  const int error = mapping->ReadFileState(&file);
  if (error != 0) return Result(env, error);
  state[0] = static_cast<double>(file.size);
  state[1] = static_cast<double>(file.mtime_seconds);
  state[2] = static_cast<double>(file.mtime_nanoseconds);
  state[3] = file.truncated ? 1 : 0;
  return Result(env, 0);
}

// readBytes(mapping, position, target): number
napi_value ReadBytes(const Napi::CallbackInfo& info) {
  napi_env env = info.Env();
  Mapping* mapping;
  uint64_t position;
  uint8_t* target;
  size_t length;
  if (const Failure failure = ReadMapping(info, &mapping)) return failure.ToValue(env);
  if (!ReadSize(info[1], &position)) return Failure("position").ToValue(env);
  if (!ReadItems(info[2], &target, &length) || length == 0) return Failure("target").ToValue(env);
  return Result(env, mapping->ReadBytes(position, target, length));
}

void CloseDescriptorAtEnd(void* fd) {
  FileDescriptor(static_cast<int>(reinterpret_cast<intptr_t>(fd))).Close();
}

// duplicateDescriptor(mapping): number. It belongs to JavaScript, which closes it with
// `closeDescriptor`. A worker that is terminated first never does: the end of its environment does.
napi_value DuplicateDescriptor(const Napi::CallbackInfo& info) {
  napi_env env = info.Env();
  Mapping* mapping;
  if (const Failure failure = ReadMapping(info, &mapping)) return failure.ToValue(env);
  const int fd = FileDescriptor::Duplicate(mapping->fd()).Release();
  if (fd == -1) return Result(env, -errno);
  napi_add_env_cleanup_hook(env, CloseDescriptorAtEnd, reinterpret_cast<void*>(intptr_t{fd}));
  return Result(env, fd);
}

// closeDescriptor(fd): 0
napi_value CloseDescriptor(const Napi::CallbackInfo& info) {
  napi_env env = info.Env();
  int fd;
  if (!ReadDescriptor(info[0], &fd)) return Failure("fd").ToValue(env);
  napi_remove_env_cleanup_hook(env, CloseDescriptorAtEnd, reinterpret_cast<void*>(intptr_t{fd}));
  return Result(env, FileDescriptor(fd).Close());
}

// release(mapping): 0
napi_value Release(const Napi::CallbackInfo& info) {
  Handle* handle = ToHandle(info[0]);
  if (handle == nullptr) return Failure("mapping").ToValue(info.Env());
  handle->mapping = {};
  return Result(info.Env(), 0);
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

// detach(mapping, buffers): 0
napi_value Detach(const Napi::CallbackInfo& info) {
  napi_env env = info.Env();
  Handle* handle = ToHandle(info[0]);
  uint32_t count;
  if (handle == nullptr) return Failure("mapping").ToValue(env);
  if (napi_get_array_length(env, info[1], &count) != napi_ok) {
    return Failure("buffers").ToValue(env);
  }
  // Taken from the handle first: reading the array can run JavaScript, which may call `release`.
  MappingRef mapping = std::move(handle->mapping);
  if (!mapping) return Result(env, 0);

  bool all_ours = true;
  for (uint32_t i = 0; all_ours && i < count; i++) {
    napi_handle_scope scope;
    napi_open_handle_scope(env, &scope);
    napi_value buffer;
    all_ours = napi_get_element(env, info[1], i, &buffer) == napi_ok &&
               DetachBuffer(env, mapping.get(), buffer);
    napi_close_handle_scope(env, scope);
  }
  if (!all_ours) {
    handle->mapping = std::move(mapping);
    return Failure("buffers").ToValue(env);
  }

  if (!mapping->exposed()) return Result(env, 0);
  const int error = mapping->Overlay();
  Quarantine(std::move(mapping));
  return Result(env, error);
}

// An environment ends; buffers of it may still be finalized after this.
void FinalizeEnvironment(napi_env env, void* data, void*) {
  Ref<Accounting>::Adopt(static_cast<Accounting*>(data))->End(env);
}

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  Ref<Accounting> accounting(new Accounting());
  if (napi_set_instance_data(env, accounting.get(), FinalizeEnvironment, nullptr) != napi_ok) {
    return exports;
  }
  accounting.Release();
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
             Export<DuplicateDescriptor>("duplicateDescriptor"),
             Export<CloseDescriptor>("closeDescriptor"),
         });
  ExportPrefetch(env, exports);
  ExportFileCopy(env, exports);
  ExportReplacement(env, exports);
  ExportConvert(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(NODE_GYP_MODULE_NAME, Init)
