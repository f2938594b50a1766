// The object Mapping; ends handles that were dropped.
#ifndef SAFETENSORS_MMAP_HANDLE_H_
#define SAFETENSORS_MMAP_HANDLE_H_

#include <node_api.h>

#include <cstdint>
#include <utility>

#include "counted.h"
#include "mapping.h"

struct Environment;

// Owned by the JavaScript object `Mapping`: a reference on the mapping until the handle is ended,
// and none afterwards. It ends when the object is collected, too.
//
// A file that is dropped without close() holds a descriptor and addresses, and a closed one of
// which tensors are left holds addresses, but the engine sees no reason to collect them, and tells
// of garbage only in a later turn of the event loop. So we make it collect, and look for the
// dropped handles ourselves, once there are so many that the process could soon lack one or the
// other.
//
// Only on the JavaScript thread, but for finalizers outside of Node.
class Handle {
 public:
  // Makes the object. Null, without owning anything, when the engine refuses.
  static napi_value Create(napi_env env, MappingRef mapping);

  // Null when the value is no such object.
  static Handle* From(napi_env env, napi_value value);

  // Collects garbage, and ends the handles whose objects are garbage. Does nothing where the
  // accounting is off.
  static void EndDropped(napi_env env);

  // Ends the handles that are left when the environment ends: Deno finalizes no objects of a worker
  // that is terminated, but ends the environment's data.
  static void EndAll(Environment* environment);

  // Stays the handle's; null when it has ended.
  Mapping* mapping() const { return mapping_.get(); }

  // Closes the descriptor; the mapping stays until the handle ends.
  void CloseFile();

  // Ends the handle and returns its mapping, or none when it has ended before.
  MappingRef End();

  // Between these two calls JavaScript finds the handle ended.
  MappingRef Lend() { return std::move(mapping_); }
  void TakeBack(MappingRef mapping) { mapping_ = std::move(mapping); }

 private:
  Handle(Environment* environment, MappingRef mapping);
  ~Handle();
  static void Finalize(napi_env env, void* data, void*);
  void SetCost(uint64_t cost);
  void Link();
  void Unlink();

  Ref<Environment> environment_;
  MappingRef mapping_;
  // A weak reference on the object.
  napi_ref object_ = nullptr;
  uint64_t cost_ = 0;
  // Whether it is in the environment's list.
  bool is_linked_ = false;
  Handle* previous_ = nullptr;
  Handle* next_ = nullptr;
};

#endif  // SAFETENSORS_MMAP_HANDLE_H_
