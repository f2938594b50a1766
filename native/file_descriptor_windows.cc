// Implements file_descriptor.h on Windows.
#include <errno.h>

#include <algorithm>

#include "file_descriptor.h"
#include "system_handle_windows.h"

namespace {

// Most bytes of one call: lengths are 32-bit numbers here.
constexpr size_t kMaxLength = size_t{1} << 30;

// Times are counted in units of 100 ns since 1601.
constexpr int64_t kUnitsPerSecond = 10'000'000;
constexpr int64_t kUnitsUntil1970 = 116'444'736'000'000'000;

// The functions of libuv that know the runtime's descriptors. Node, Electron and Bun export them;
// Deno lacks them. The addon looks them up by name, so it loads everywhere.
struct DescriptorFunctions {
  HANDLE (*handle_of)(int fd);
  int (*open_handle)(HANDLE handle);
  int (*close)(void* loop, void* request, int fd, void (*callback)(void*));
  void (*clean_up)(void* request);
};

const DescriptorFunctions& Functions() {
  static const DescriptorFunctions functions = [] {
    const HMODULE program = GetModuleHandleW(nullptr);
    DescriptorFunctions found;
    const auto find = [program](auto* function, const char* name) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(
          reinterpret_cast<void*>(GetProcAddress(program, name)));
      return *function != nullptr;
    };
    const bool all = find(&found.handle_of, "uv_get_osfhandle") &&
                     find(&found.open_handle, "uv_open_osfhandle") &&
                     find(&found.close, "uv_fs_close") &&
                     find(&found.clean_up, "uv_fs_req_cleanup");
    return all ? found : DescriptorFunctions{};
  }();
  return functions;
}

OVERLAPPED At(uint64_t position) {
  OVERLAPPED at = {};
  at.Offset = static_cast<DWORD>(position);
  at.OffsetHigh = static_cast<DWORD>(position >> 32);
  return at;
}

}  // namespace

HANDLE HandleOf(int fd) {
  if (!DescriptorsWork()) return INVALID_HANDLE_VALUE;
  const HANDLE handle = Functions().handle_of(fd);
  // The C library's handle for a missing standard stream; elsewhere it means this thread.
  const auto none = reinterpret_cast<HANDLE>(intptr_t{-2});
  return handle == none ? INVALID_HANDLE_VALUE : handle;
}

bool DescriptorsWork() {
  return Functions().handle_of != nullptr;
}

int FileDescriptor::Duplicate(int fd, FileDescriptor* duplicate) {
  const HANDLE original = HandleOf(fd);
  // As an argument, the same number means this process.
  if (original == INVALID_HANDLE_VALUE) return -EBADF;
  const HANDLE process = GetCurrentProcess();
  HANDLE handle;
  if (!DuplicateHandle(process, original, process, &handle, 0, FALSE, DUPLICATE_SAME_ACCESS)) {
    return LastErrno();
  }
  OwnedHandle owned(handle);
  *duplicate = FileDescriptor(Functions().open_handle(handle));
  if (duplicate->get() == -1) return -EMFILE;
  // The descriptor owns it now.
  static_cast<void>(owned.release());
  return 0;
}

int FileDescriptor::Close() {
  const int fd = Release();
  if (fd == -1) return 0;
  // Longer than libuv's `uv_fs_t`, whose declaration is not among the headers of Node-API.
  alignas(16) unsigned char request[2048];
  const int result = Functions().close(nullptr, request, fd, nullptr);
  Functions().clean_up(request);
  return result < 0 ? -EIO : 0;
}

int ReadSizeAndTime(int fd, SizeAndTime* result) {
  BY_HANDLE_FILE_INFORMATION file;
  if (!GetFileInformationByHandle(HandleOf(fd), &file)) return LastErrno();
  const auto join = [](DWORD high, DWORD low) {
    return static_cast<int64_t>(uint64_t{high} << 32 | low);
  };
  const int64_t time =
      join(file.ftLastWriteTime.dwHighDateTime, file.ftLastWriteTime.dwLowDateTime);
  const int64_t units = time - kUnitsUntil1970;
  const int64_t part = (units % kUnitsPerSecond + kUnitsPerSecond) % kUnitsPerSecond;
  *result = {join(file.nFileSizeHigh, file.nFileSizeLow), (units - part) / kUnitsPerSecond,
             part * 100};
  return 0;
}

int64_t ReadAt(int fd, void* target, size_t length, uint64_t position) {
  OVERLAPPED at = At(position);
  DWORD count = 0;
  const auto limited = static_cast<DWORD>(std::min(length, kMaxLength));
  if (ReadFile(HandleOf(fd), target, limited, &count, &at)) return count;
  return GetLastError() == ERROR_HANDLE_EOF ? 0 : LastErrno();
}

int64_t WriteAt(int fd, const void* source, size_t length, uint64_t position) {
  OVERLAPPED at = At(position);
  DWORD count = 0;
  const auto limited = static_cast<DWORD>(std::min(length, kMaxLength));
  return WriteFile(HandleOf(fd), source, limited, &count, &at) ? count : LastErrno();
}
