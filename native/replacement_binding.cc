// Implements replacement_binding.h.
#include "replacement_binding.h"

#include <array>
#include <cstring>

#include "arguments.h"
#include "call.h"
#include "exports.h"
#include "replacement.h"

namespace {

// lockFile(fd): 0
struct LockCall {
  int fd;

  Failure Read(const Napi::CallbackInfo& info) {
    if (!ReadDescriptor(info[0], &fd)) return "fd";
    return {};
  }

  int64_t Run() const { return Lock(fd); }
};

// A path with the zero byte at its end, as long as Linux takes.
using Path = std::array<char, 4096>;

bool ReadPath(const Napi::Value& value, Path* path) {
  const uint8_t* bytes;
  size_t length;
  if (!ReadItems(value, &bytes, &length)) return false;
  if (length == 0 || length >= path->size() || memchr(bytes, 0, length) != nullptr) return false;
  memcpy(path->data(), bytes, length);
  (*path)[length] = 0;
  return true;
}

// exchangeFiles(path, otherPath): 0
struct ExchangeCall {
  Path path;
  Path other;

  Failure Read(const Napi::CallbackInfo& info) {
    if (!ReadPath(info[0], &path)) return "path";
    if (!ReadPath(info[1], &other)) return "otherPath";
    return {};
  }

  int64_t Run() const { return Exchange(path.data(), other.data()); }
};

// copyAccessList(path, fd): 1 or 0
struct CopyAccessListCall {
  Path path;
  int fd;

  Failure Read(const Napi::CallbackInfo& info) {
    if (!ReadPath(info[0], &path)) return "path";
    if (!ReadDescriptor(info[1], &fd)) return "fd";
    return {};
  }

  int64_t Run() const { return CopyAccessList(path.data(), fd); }
};

}  // namespace

void ExportReplacement(Napi::Env env, Napi::Object exports) {
  Define(env, exports,
         {
             Export<RunHere<LockCall>>("lockFile"),
             Export<RunHere<ExchangeCall>>("exchangeFiles"),
             Export<RunHere<CopyAccessListCall>>("copyAccessList"),
         });
}
