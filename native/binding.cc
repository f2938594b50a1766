// The addon's functions on mappings and their descriptors, and its start. See arguments.h for
// results and failures. Everything here runs on the JavaScript thread of the environment that calls
// it.

#include <errno.h>
#include <napi.h>

#include <utility>

#include "arguments.h"
#include "convert_binding.h"
#include "dequantize_binding.h"
#include "environment.h"
#include "exports.h"
#include "file_copy_binding.h"
#include "file_descriptor.h"
#include "guard.h"
#include "handle.h"
#include "mapping.h"
#include "merge_binding.h"
#include "prefetch_binding.h"
#include "quarantine.h"
#include "range_reads_binding.h"
#include "replacement_binding.h"
#include "tensor_buffer.h"

namespace {

// version(): string. The version of the package that the addon was compiled for.
napi_value Version(const Napi::CallbackInfo& info) {
  napi_value version = nullptr;
  napi_create_string_utf8(info.Env(), SAFETENSORS_MMAP_VERSION, NAPI_AUTO_LENGTH, &version);
  return version;
}

// compensateExternalMemory(): 0
napi_value CompensateExternalMemory(const Napi::CallbackInfo& info) {
  Environment::Of(info.Env())->accounting.Enable();
  return Result(info.Env(), 0);
}

// uncountBuffers(maxByteLength): 0
napi_value UncountBuffers(const Napi::CallbackInfo& info) {
  napi_env env = info.Env();
  uint64_t max_length;
  if (!ReadLength(info[0], &max_length)) return Failure("maxByteLength").ToValue(env);
  return Result(env, Environment::Of(env)->uncounted_buffers.Enable(env, max_length));
}

// externalBuffersAllowed(): boolean. Engines with a sandbox for memory (Electron) refuse them all.
napi_value ExternalBuffersAllowed(const Napi::CallbackInfo& info) {
  static uint8_t byte;
  napi_value buffer;
  const napi_status status =
      napi_create_external_arraybuffer(info.Env(), &byte, 1, nullptr, nullptr, &buffer);
  return Napi::Boolean::New(info.Env(), status == napi_ok);
}

// descriptorsWork(): boolean
napi_value GetDescriptorsWork(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), DescriptorsWork());
}

// truncations(): ArrayBuffer of 4 bytes, the guard's counter as it changes
napi_value Truncations(const Napi::CallbackInfo& info) {
  static_assert(sizeof(guard::truncations) == sizeof(uint32_t));
  napi_value buffer;
  const napi_status status = napi_create_external_arraybuffer(
      info.Env(), &guard::truncations, sizeof(uint32_t), nullptr, nullptr, &buffer);
  return status == napi_ok ? buffer : Result(info.Env(), -ENOTSUP);
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
  const int error = Mapping::Open(fd, length, guarded, DropOldestOfQuarantine, &mapping);
  if (error != 0) return Result(env, error);

  napi_value object = Handle::Create(env, std::move(mapping));
  return object == nullptr ? Result(env, -ENOMEM) : object;
}

// tensorBuffer(mapping, byteOffset, byteLength): ArrayBuffer
napi_value TensorBuffer(const Napi::CallbackInfo& info) {
  napi_env env = info.Env();
  MappedRange range;
  if (const Failure failure = ReadRange(info, &range)) return failure.ToValue(env);
  napi_value buffer;
  const napi_status status = CreateTensorBuffer(env, Environment::Of(env), range.mapping.get(),
                                                range.offset, range.length, &buffer);
  if (status == napi_ok) return buffer;
  return Result(env, status == napi_no_external_buffers_allowed ? -ENOTSUP : -ENOMEM);
}

// readFileState(mapping, state): 0. When the descriptor is closed, only the last item is written.
napi_value ReadFileState(const Napi::CallbackInfo& info) {
  napi_env env = info.Env();
  Mapping* mapping;
  double* state;
  size_t count;
  if (const Failure failure = ReadMapping(info, &mapping)) return failure.ToValue(env);
  if (!ReadItems(info[1], &state, &count) || count != 4) return Failure("state").ToValue(env);

  FileState now;
  const int error = mapping->ReadFileState(&now);
  if (error != 0) return Result(env, error);
  state[3] = now.truncated ? 1 : 0;
  if (mapping->fd() == -1) return Result(env, 0);
  state[0] = static_cast<double>(now.file.size);
  state[1] = static_cast<double>(now.file.mtime_seconds);
  state[2] = static_cast<double>(now.file.mtime_nanoseconds);
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
  FileDescriptor duplicate;
  const int error = FileDescriptor::Duplicate(mapping->fd(), &duplicate);
  if (error != 0) return Result(env, error);
  const int fd = duplicate.Release();
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

// closeFile(mapping): 0
napi_value CloseFile(const Napi::CallbackInfo& info) {
  Handle* handle = Handle::From(info.Env(), info[0]);
  if (handle == nullptr) return Failure("mapping").ToValue(info.Env());
  handle->CloseFile();
  return Result(info.Env(), 0);
}

// release(mapping): 0
napi_value Release(const Napi::CallbackInfo& info) {
  Handle* handle = Handle::From(info.Env(), info[0]);
  if (handle == nullptr) return Failure("mapping").ToValue(info.Env());
  handle->End();
  return Result(info.Env(), 0);
}

// releaseDropped(): 0. Collects garbage, and ends the handles that are garbage.
napi_value ReleaseDropped(const Napi::CallbackInfo& info) {
  Handle::EndDropped(info.Env());
  return Result(info.Env(), 0);
}

// Detaches one of the mapping's buffers and counts it once; false if the buffer belongs elsewhere.
bool DetachBuffer(napi_env env, const Mapping& mapping, napi_value buffer, uint64_t* detached) {
  bool is_buffer = false;
  bool is_detached = false;
  void* data = nullptr;
  size_t length = 0;
  if (napi_is_arraybuffer(env, buffer, &is_buffer) != napi_ok || !is_buffer) return false;
  if (napi_is_detached_arraybuffer(env, buffer, &is_detached) != napi_ok) return false;
  if (is_detached) return true;
  if (napi_get_arraybuffer_info(env, buffer, &data, &length) != napi_ok) return false;
  const auto begin = reinterpret_cast<uintptr_t>(mapping.base());
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (address < begin || address >= begin + mapping.length()) return false;
  if (napi_detach_arraybuffer(env, buffer) != napi_ok) return false;
  ++*detached;
  return true;
}

// detach(mapping, buffers, emptied): 0
napi_value Detach(const Napi::CallbackInfo& info) {
  napi_env env = info.Env();
  Handle* handle = Handle::From(env, info[0]);
  uint32_t count;
  uint64_t emptied;
  if (handle == nullptr) return Failure("mapping").ToValue(env);
  if (napi_get_array_length(env, info[1], &count) != napi_ok) {
    return Failure("buffers").ToValue(env);
  }
  if (!ReadSize(info[2], &emptied)) return Failure("emptied").ToValue(env);
  // Reading the array can run JavaScript. For that the handle has ended meanwhile.
  MappingRef mapping = handle->Lend();
  bool all_ours = true;
  for (uint32_t i = 0; mapping && all_ours && i < count; i++) {
    napi_handle_scope scope;
    napi_open_handle_scope(env, &scope);
    napi_value buffer;
    all_ours = napi_get_element(env, info[1], i, &buffer) == napi_ok &&
               DetachBuffer(env, *mapping.get(), buffer, &emptied);
    napi_close_handle_scope(env, scope);
  }
  handle->TakeBack(std::move(mapping));
  if (!all_ours) return Failure("buffers").ToValue(env);

  mapping = handle->End();
  if (!mapping || !mapping->exposed()) return Result(env, 0);
  // An uncounted buffer that was emptied has let go of the mapping, and is not among `buffers`.
  const bool all_emptied =
      !Environment::Of(env)->uncounted_buffers.enabled() && emptied == mapping->buffers();
  const int error = mapping->Overlay(all_emptied);
  Quarantine(std::move(mapping));
  return Result(env, error);
}

// An environment ends; buffers of it may still be finalized after this.
void FinalizeEnvironment(napi_env env, void* data, void*) {
  const auto environment = Ref<Environment>::Adopt(static_cast<Environment*>(data));
  Handle::EndAll(environment.get());
  environment->accounting.End(env);
}

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  Ref<Environment> environment(new Environment());
  if (napi_set_instance_data(env, environment.get(), FinalizeEnvironment, nullptr) != napi_ok) {
    return exports;
  }
  environment.Release();
  Define(env, exports,
         {
             Export<Version>("version"),
             Export<CompensateExternalMemory>("compensateExternalMemory"),
             Export<UncountBuffers>("uncountBuffers"),
             Export<ExternalBuffersAllowed>("externalBuffersAllowed"),
             Export<GetDescriptorsWork>("descriptorsWork"),
             Export<Truncations>("truncations"),
             Export<MapFile>("mapFile"),
             Export<TensorBuffer>("tensorBuffer"),
             Export<ReadFileState>("readFileState"),
             Export<ReadBytes>("readBytes"),
             Export<CloseFile>("closeFile"),
             Export<Release>("release"),
             Export<ReleaseDropped>("releaseDropped"),
             Export<Detach>("detach"),
             Export<DuplicateDescriptor>("duplicateDescriptor"),
             Export<CloseDescriptor>("closeDescriptor"),
         });
  ExportPrefetch(env, exports);
  ExportRangeReads(env, exports);
  ExportFileCopy(env, exports);
  ExportReplacement(env, exports);
  ExportConvert(env, exports);
  ExportDequantize(env, exports);
  ExportMerge(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(NODE_GYP_MODULE_NAME, Init)
