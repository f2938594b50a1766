#include "prefetch_binding.h"

#include <errno.h>

#include "arguments.h"
#include "call.h"
#include "exports.h"
#include "prefetch.h"

namespace {

// populate(mapping, byteOffset, byteLength): Promise<0>. The reference keeps the range mapped until
// the call is done. When the mapping is detached meanwhile, zero pages lie there, and populating
// those costs no memory but the page table's.
struct PopulateCall {
  static constexpr char kName[] = "safetensors-mmap.populate";

  MappedRange range;

  Failure Read(const Napi::CallbackInfo& info) { return ReadRange(info, &range); }
  int64_t Run() const { return Populate(range.begin(), range.end(), range.mapping->guarded()); }
};

// residentBytes(mapping, byteOffset, byteLength): number, null when the kernel does not tell
napi_value GetResidentBytes(const Napi::CallbackInfo& info) {
  MappedRange range;
  if (const Failure failure = ReadRange(info, &range)) return failure.ToValue(info.Env());
  const int64_t bytes = ResidentBytes(range.mapping->fd(), range.begin(), range.end());
  if (bytes == -ENOTSUP) return info.Env().Null();
  return Result(info.Env(), bytes);
}

}  // namespace

void ExportPrefetch(Napi::Env env, Napi::Object exports) {
  Define(env, exports,
         {
             Export<RunOnPool<PopulateCall>>("populate"),
             Export<GetResidentBytes>("residentBytes"),
         });
}
