// Implements zero_pages_windows.h on Windows.
#include "zero_pages_windows.h"

#include <errno.h>

#include <memory>
#include <new>

#include "pages.h"
#include "system_handle_windows.h"

namespace zero_pages {

namespace {

struct Range {
  uintptr_t begin;
  uintptr_t end;
  Range* next;
};

// Guards the list, and the ranges while they change. No thread touches a range while it holds the
// lock, so the handler never waits for its own thread.
SRWLOCK lock = SRWLOCK_INIT;
Range* ranges = nullptr;

struct ExclusiveLock {
  ExclusiveLock() { AcquireSRWLockExclusive(&lock); }
  ExclusiveLock(const ExclusiveLock&) = delete;
  ExclusiveLock& operator=(const ExclusiveLock&) = delete;
  ~ExclusiveLock() { ReleaseSRWLockExclusive(&lock); }
};

bool IsOurs(uintptr_t address) {
  AcquireSRWLockShared(&lock);
  const Range* range = ranges;
  while (range != nullptr && (address < range->begin || address >= range->end)) {
    range = range->next;
  }
  ReleaseSRWLockShared(&lock);
  return range != nullptr;
}

// On the thread that touched the page.
LONG CALLBACK OnFault(EXCEPTION_POINTERS* fault) {
  const EXCEPTION_RECORD& record = *fault->ExceptionRecord;
  if (record.ExceptionCode != EXCEPTION_ACCESS_VIOLATION || record.NumberParameters < 2) {
    return EXCEPTION_CONTINUE_SEARCH;
  }
  const auto address = static_cast<uintptr_t>(record.ExceptionInformation[1]);
  if (!IsOurs(address)) return EXCEPTION_CONTINUE_SEARCH;
  void* page = reinterpret_cast<void*>(PageBegin(address));
  const bool works = VirtualAlloc(page, page_size, MEM_COMMIT, PAGE_READWRITE) != nullptr;
  return works ? EXCEPTION_CONTINUE_EXECUTION : EXCEPTION_CONTINUE_SEARCH;
}

// Once for the process. The handler comes before others: that of Bun ends the process. The library
// stays loaded, as the handler must, when the worker that loaded it is gone.
bool Install() {
  static const bool installed = [] {
    HMODULE library;
    return GetModuleHandleExW(
               GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
               reinterpret_cast<const wchar_t*>(&ranges), &library) &&
           AddVectoredExceptionHandler(1, OnFault) != nullptr;
  }();
  return installed;
}

}  // namespace

int Replace(uint8_t* view, uint64_t length) {
  std::unique_ptr<Range> range(new (std::nothrow) Range());
  if (!range || !Install()) return -ENOMEM;
  range->begin = reinterpret_cast<uintptr_t>(view);
  range->end = PageEnd(range->begin + length);
  const ExclusiveLock exclusive;
  if (!UnmapViewOfFile(view)) return LastErrno();
  if (VirtualAlloc(view, length, MEM_RESERVE, PAGE_READWRITE) == nullptr) return 0;
  range->next = ranges;
  ranges = range.release();
  return 0;
}

void Free(uint8_t* view) {
  const auto begin = reinterpret_cast<uintptr_t>(view);
  // Freed when the lock is open again: an error in there would come to the handler.
  std::unique_ptr<Range> range;
  const ExclusiveLock exclusive;
  Range** link = &ranges;
  while (*link != nullptr && (*link)->begin != begin) link = &(*link)->next;
  range.reset(*link);
  if (!range) return;
  *link = range->next;
  VirtualFree(view, 0, MEM_RELEASE);
}

}  // namespace zero_pages
