// Implements handle.h.
#include "handle.h"

#include <algorithm>
#include <new>

#include "environment.h"

namespace {

// Marks our handles, to tell them from other objects.
constexpr napi_type_tag kTag = {0x7f3c1d0b58a94e26, 0x9a4de8c2f16b7035};

// A process usually may have 1 024 descriptors and 65 530 mappings: an open handle, which has one
// of each, weighs as much as sixteen closed ones.
constexpr uint64_t kClosedCost = 1;
constexpr uint64_t kOpenCost = 16;

// 256 open handles: a quarter of the descriptors. With many files in use it takes twice as many to
// look again: opening n files costs O(log n) collections.
uint64_t LimitAbove(uint64_t cost) {
  return std::max(256 * kOpenCost, 2 * cost);
}

}  // namespace

Handle::Handle(Environment* environment, MappingRef mapping)
    : environment_(environment), mapping_(std::move(mapping)) {}

Handle::~Handle() = default;

void Handle::Finalize(napi_env env, void* data, void*) {
  auto* handle = static_cast<Handle*>(data);
  handle->End();
  if (handle->object_ != nullptr) napi_delete_reference(env, handle->object_);
  delete handle;
}

napi_value Handle::Create(napi_env env, MappingRef mapping) {
  Environment* environment = Environment::Of(env);
  auto* handle = new (std::nothrow) Handle(environment, std::move(mapping));
  if (handle == nullptr) return nullptr;
  // Elsewhere than in Node, finalizers may run on any thread.
  const bool is_costed = environment->accounting.enabled();
  napi_value object;
  if (napi_create_object(env, &object) != napi_ok ||
      napi_wrap(env, object, handle, Finalize, nullptr, is_costed ? &handle->object_ : nullptr) !=
          napi_ok) {
    delete handle;
    return nullptr;
  }
  // Now the object owns the handle.
  handle->Link();
  if (is_costed) {
    const OpenHandles& handles = environment->open_handles;
    handle->SetCost(kOpenCost);
    if (handles.cost > LimitAbove(handles.cost_after_search)) EndDropped(env);
  }
  return napi_type_tag_object(env, object, &kTag) == napi_ok ? object : nullptr;
}

Handle* Handle::From(napi_env env, napi_value value) {
  napi_valuetype type;
  bool is_tagged = false;
  void* data = nullptr;
  if (napi_typeof(env, value, &type) != napi_ok || type != napi_object ||
      napi_check_object_type_tag(env, value, &kTag, &is_tagged) != napi_ok || !is_tagged ||
      napi_unwrap(env, value, &data) != napi_ok) {
    return nullptr;
  }
  return static_cast<Handle*>(data);
}

void Handle::EndDropped(napi_env env) {
  Environment* environment = Environment::Of(env);
  if (!environment->accounting.Collect(env)) return;
  OpenHandles& handles = environment->open_handles;
  Handle* next;
  for (Handle* handle = handles.first; handle != nullptr; handle = next) {
    next = handle->next_;
    napi_value object = nullptr;
    if (napi_get_reference_value(env, handle->object_, &object) == napi_ok && object == nullptr) {
      handle->End();
    }
  }
  handles.cost_after_search = handles.cost;
}

void Handle::EndAll(Environment* environment) {
  OpenHandles& handles = environment->open_handles;
  for (;;) {
    MappingRef mapping;
    {
      const MutexLock lock(handles.mutex);
      Handle* handle = handles.first;
      if (handle == nullptr) return;
      handle->Unlink();
      mapping = std::move(handle->mapping_);
    }
    if (mapping) mapping->CloseFile();
  }
}

// The caller holds the mutex.
void Handle::Unlink() {
  if (!is_linked_) return;
  OpenHandles& handles = environment_->open_handles;
  if (next_ != nullptr) next_->previous_ = previous_;
  (previous_ != nullptr ? previous_->next_ : handles.first) = next_;
  next_ = previous_ = nullptr;
  is_linked_ = false;
}

void Handle::Link() {
  OpenHandles& handles = environment_->open_handles;
  const MutexLock lock(handles.mutex);
  next_ = handles.first;
  if (next_ != nullptr) next_->previous_ = this;
  handles.first = this;
  is_linked_ = true;
}

void Handle::SetCost(uint64_t cost) {
  OpenHandles& handles = environment_->open_handles;
  handles.cost += cost - cost_;
  handles.cost_after_search = std::min(handles.cost_after_search, handles.cost);
  cost_ = cost;
}

void Handle::CloseFile() {
  if (!mapping_) return;
  if (object_ != nullptr) SetCost(kClosedCost);
  mapping_->CloseFile();
}

MappingRef Handle::End() {
  MappingRef mapping;
  {
    // The list has the handles of other objects, which may be finalized at the same time.
    const MutexLock lock(environment_->open_handles.mutex);
    Unlink();
    mapping = std::move(mapping_);
  }
  if (!mapping) return mapping;
  if (object_ != nullptr) SetCost(0);
  mapping->CloseFile();
  return mapping;
}
