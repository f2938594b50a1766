#include "convert_binding.h"

#include <errno.h>

#include "arguments.h"
#include "call.h"
#include "convert.h"
#include "exports.h"

namespace {

// convert(dtype, bytes, output, level): 0
struct ConvertCall {
  static constexpr char kName[] = "safetensors-mmap.convert";

  Kernel kernel;
  const uint8_t* source;
  float* output;
  size_t value_count;

  Failure Read(const Napi::CallbackInfo& info) {
    uint64_t dtype_code;
    uint64_t level_code;
    size_t byte_length;
    if (!ReadSize(info[0], &dtype_code) || dtype_code >= kDtypeCount) return "dtype";
    if (!ReadItems(info[1], &source, &byte_length)) return "bytes";
    if (!ReadItems(info[2], &output, &value_count)) return "output";
    if (!ReadSize(info[3], &level_code) || level_code >= kLevelCount) return "level";
    const auto dtype = static_cast<Dtype>(dtype_code);
    const uint64_t bits = uint64_t{value_count} * BitsPerValue(dtype);
    if (bits != uint64_t{byte_length} * 8) return "output";
    kernel = FindKernel(dtype, static_cast<Level>(level_code));
    return kernel == nullptr ? Failure(-ENOTSUP) : Failure();
  }

  int64_t Run() const {
    kernel(source, output, value_count);
    return 0;
  }
};

// Keeps a JavaScript object from being collected. Made and deleted on the JavaScript thread.
class Kept {
 public:
  Kept() = default;
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() {
    if (reference_ != nullptr) napi_delete_reference(env_, reference_);
  }

  bool Keep(napi_env env, napi_value object) {
    env_ = env;
    return napi_create_reference(env, object, 1, &reference_) == napi_ok;
  }

 private:
  napi_env env_ = nullptr;
  napi_ref reference_ = nullptr;
};

// The same on the pool, with references on both arrays. These do not keep the memory from being
// detached: the caller must pass only memory that nobody else can reach.
struct ConvertPoolCall : ConvertCall {
  Kept kept_bytes;
  Kept kept_output;

  Failure Read(const Napi::CallbackInfo& info) {
    if (const Failure failure = ConvertCall::Read(info)) return failure;
    const bool are_kept =
        kept_bytes.Keep(info.Env(), info[1]) && kept_output.Keep(info.Env(), info[2]);
    return are_kept ? Failure() : Failure(-ENOMEM);
  }
};

}  // namespace

void ExportConvert(Napi::Env env, Napi::Object exports) {
  Define(env, exports,
         {
             Export<RunHere<ConvertCall>>("convert"),
             Export<RunOnPool<ConvertPoolCall>>("convertAsync"),
         });
}
