// Implements uncounted_buffer.h.
#include "uncounted_buffer.h"

#include <errno.h>

// The calls assume V8's standard library and calling convention.
#if defined(__linux__) && defined(__x86_64__)

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

#include "v8_abi.h"

// Only GNU's C library has it: with another one, buffers that are not counted were not tried.
extern "C" [[gnu::weak]] const char* gnu_get_libc_version();

namespace v8_abi {

namespace {

// The runtime's own, which pairs with its `new`; the addon may have another one in itself.
auto FindOperatorDelete() {
  return reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, "_ZdlPv"));
}

const auto operator_delete = FindOperatorDelete();

}  // namespace

bool CanFreeBackingStores() {
  return operator_delete != nullptr;
}

void FreeBackingStore(BackingStore* store) {
  EndBackingStore(store);
  operator_delete(store);
}

}  // namespace v8_abi

namespace {

using v8_abi::BackingStore;
using v8_abi::SharedStore;

// Addresses without memory. So long that the test's buffer outweighs whatever else a collection
// takes from the engine's counter meanwhile.
constexpr size_t kTestLength = size_t{1} << 30;

template <typename Function>
uintptr_t AddressOf(Function* function) {
  return reinterpret_cast<uintptr_t>(function);
}

// Whether all functions are in one object, and it is the one that has Node-API.
int HasFunctions(struct dl_phdr_info* object, size_t, void*) {
  for (const uintptr_t address :
       {AddressOf(&napi_create_external_arraybuffer), AddressOf(&v8_abi::EmptyDeleter),
        AddressOf(&v8_abi::EndBackingStore), AddressOf(&v8_abi::NewBackingStore),
        AddressOf(&v8_abi::GetCurrentIsolate), AddressOf(&v8_abi::NewArrayBuffer),
        AddressOf(&v8_abi::GetBackingStore)}) {
    bool is_inside = false;
    for (int i = 0; i < object->dlpi_phnum; i++) {
      const ElfW(Phdr) & part = object->dlpi_phdr[i];
      const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
      is_inside |= part.p_type == PT_LOAD && address >= begin && address - begin < part.p_memsz;
    }
    if (!is_inside) return 0;
  }
  return 1;
}

// Frees the backing store, then calls `let_go`.
template <typename Function>
class StoreBlock final : public v8_abi::ControlBlock {
 public:
  StoreBlock(BackingStore* store, Function let_go) : store_(store), let_go_(std::move(let_go)) {}

  void Dispose() noexcept override {
    v8_abi::FreeBackingStore(store_);
    let_go_();
  }

 private:
  BackingStore* const store_;
  Function let_go_;
};

// The store frees nothing but itself. `let_go` is called when its last owner drops it, on whatever
// thread that happens. `block` receives the control block that counts the owners.
template <typename Function>
SharedStore MakeStore(void* data, size_t length, Function let_go,
                      v8_abi::ControlBlock** block = nullptr) {
  auto made = v8_abi::NewBackingStore(data, length, v8_abi::EmptyDeleter, nullptr);
  auto* owners = new StoreBlock<Function>(made.store, std::move(let_go));
  if (block != nullptr) *block = owners;
  return SharedStore(std::exchange(made.store, nullptr), owners);
}

// Whether V8 counts the owners of a store where we do: the buffer is one, and `GetBackingStore`
// makes another one, which we drop.
bool TestOwnership(napi_value buffer, const v8_abi::ControlBlock& block) {
  if (block.owners() != 1) return false;
  {
    const SharedStore another = v8_abi::GetBackingStore(buffer);
    if (block.owners() != 2) return false;
  }
  return block.owners() == 1;
}

// Whether a buffer is what we asked for, and not counted. A collection can lower the counter
// meanwhile. No buffer is detached here: the first one slows typed arrays.
bool TestBuffer(napi_env env, v8_abi::Isolate* isolate, void* memory) {
  int64_t before = 0;
  int64_t after = 0;
  bool is_buffer = false;
  void* data = nullptr;
  size_t length = 0;
  v8_abi::ControlBlock* block;
  const napi_status status = napi_adjust_external_memory(env, 0, &before);
  napi_value buffer =
      v8_abi::NewArrayBuffer(isolate, MakeStore(memory, kTestLength, [] {}, &block));
  return status == napi_ok && napi_adjust_external_memory(env, 0, &after) == napi_ok &&
         after <= before && napi_is_arraybuffer(env, buffer, &is_buffer) == napi_ok && is_buffer &&
         napi_get_arraybuffer_info(env, buffer, &data, &length) == napi_ok && data == memory &&
         length == kTestLength && TestOwnership(buffer, *block);
}

}  // namespace

int UncountedBuffers::Enable(napi_env env, uint64_t max_length) {
  if (gnu_get_libc_version == nullptr || !v8_abi::CanFreeBackingStores() ||
      dl_iterate_phdr(HasFunctions, nullptr) == 0) {
    return -ENOSYS;
  }
  v8_abi::Isolate* isolate = v8_abi::GetCurrentIsolate();
  if (isolate == nullptr) return -EPROTO;
  void* memory =
      mmap(nullptr, kTestLength, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return -errno;
  napi_handle_scope scope;
  napi_open_handle_scope(env, &scope);
  const bool works = TestBuffer(env, isolate, memory);
  napi_close_handle_scope(env, scope);
  // The buffer is unreachable garbage, and the engine does not look at its memory.
  munmap(memory, kTestLength);
  if (!works) return -EPROTO;
  max_length_ = max_length;
  return 0;
}

napi_value UncountedBuffers::Create(Mapping* mapping, uint64_t offset, uint64_t length) const {
  if (length > max_length_) return nullptr;
  v8_abi::Isolate* isolate = v8_abi::GetCurrentIsolate();
  if (isolate == nullptr) return nullptr;
  auto let_go = [reference = MappingRef(mapping)]() mutable { reference = {}; };
  return v8_abi::NewArrayBuffer(isolate,
                                MakeStore(mapping->base() + offset, length, std::move(let_go)));
}

#else

int UncountedBuffers::Enable(napi_env, uint64_t) {
  return -ENOSYS;
}

napi_value UncountedBuffers::Create(Mapping*, uint64_t, uint64_t) const {
  return nullptr;
}

#endif
