// Implements guard.h on Linux.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "guard.h"
#include "mutex.h"
#include "pages.h"

namespace guard {

std::atomic<uint32_t> truncations{0};

// All fields are written under the lock. The handler also reads `begin` and `end` without it, to
// find the slot: they do not change during reads from a mapping.
struct Slot {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> truncated{false};
  std::atomic_flag lock = ATOMIC_FLAG_INIT;
  // The file of the range; -1 when its descriptor is closed.
  int fd = -1;
  // From here to the end, zero pages lie over the file already.
  uintptr_t zeros_begin = 0;
  // Faults in succession on one page that turned out to be readable.
  uintptr_t retried_page = 0;
  int retries = 0;
  Slot* next_free = nullptr;
};

namespace {

// Never freed: the handler can walk the blocks at any time.
constexpr size_t kSlotsPerBlock = 128;
struct Block {
  Slot slots[kSlotsPerBlock];
  std::atomic<Block*> next{nullptr};
};

// Threads that fault on one page together need one retry each. When it never ends, the page can be
// read but not written (hugetlbfs out of pages), and trying again is no use.
constexpr int kMaxRetries = 10000;

std::atomic<Block*> first_block{nullptr};
struct sigaction previous_action;

// Guards the list of free slots and the installation; never taken by the handler.
Mutex registry_mutex;
Slot* free_slots = nullptr;
bool installed = false;

// A spin lock, held for a few system calls: a signal handler may not take a mutex. The handler
// blocks all signals whose handlers could interrupt it, so the holder always finishes.
class SlotLock {
 public:
  explicit SlotLock(Slot* slot) : slot_(slot) {
    while (slot_->lock.test_and_set(std::memory_order_acquire)) sched_yield();
  }
  ~SlotLock() { slot_->lock.clear(std::memory_order_release); }
  SlotLock(const SlotLock&) = delete;
  SlotLock& operator=(const SlotLock&) = delete;

 private:
  Slot* const slot_;
};

// The kernel copies the signal set in before it looks at the (invalid) first argument: EFAULT tells
// an unreadable page from a readable one without a signal. No sandbox forbids this call.
bool IsReadable(uintptr_t address) {
  const uintptr_t word = address & ~uintptr_t{7};
  syscall(SYS_rt_sigprocmask, -1, word, nullptr, 8);
  return errno != EFAULT;
}

// False also for a range that is empty: the file has grown beyond what was laid before.
bool LayZeros(uintptr_t begin, uintptr_t end) {
  void* address = reinterpret_cast<void*>(begin);
  return begin < end &&
         mmap(address, end - begin, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == address;
}

bool Retry(Slot* slot, uintptr_t page) {
  if (slot->retried_page != page) slot->retries = 0;
  slot->retried_page = page;
  return ++slot->retries <= kMaxRetries;
}

// The present end of the file, given an unreadable page. Without a descriptor it is unknown; but
// the missing pages reach to the end.
uintptr_t FindEnd(const Slot& slot, uintptr_t page) {
  if (slot.fd == -1) return IsReadable(slot.zeros_begin - 1) ? slot.zeros_begin : page;
  struct stat file;
  if (fstat(slot.fd, &file) != 0) return slot.zeros_begin;
  return slot.begin.load(std::memory_order_relaxed) + PageEnd(static_cast<uintptr_t>(file.st_size));
}

// Makes the faulting page readable. The caller holds the slot's lock.
bool Repair(Slot* slot, uintptr_t address) {
  const uintptr_t page = PageBegin(address);
  // Another thread was faster, or the file has grown again.
  if (IsReadable(address)) return Retry(slot, page);

  if (!slot->truncated.exchange(true, std::memory_order_relaxed)) {
    truncations.fetch_add(1, std::memory_order_relaxed);
  }
  const uintptr_t end = FindEnd(*slot, page);
  // The page lies within the file but cannot be read: an I/O error.
  if (end > page) return LayZeros(page, page + page_size);
  // Only once for each page: what JavaScript has written into earlier zeros stays.
  if (!LayZeros(end, slot->zeros_begin)) return false;
  slot->zeros_begin = end;
  return true;
}

// False if no mapping of ours contains the address, or the page cannot be repaired.
bool HandleFault(uintptr_t address) {
  for (Block* block = first_block.load(std::memory_order_acquire); block != nullptr;
       block = block->next.load(std::memory_order_acquire)) {
    for (Slot& slot : block->slots) {
      if (address < slot.begin.load(std::memory_order_acquire) ||
          address >= slot.end.load(std::memory_order_acquire)) {
        continue;
      }
      const SlotLock lock(&slot);
      if (address >= slot.begin.load() && address < slot.end.load()) {
        return Repair(&slot, address);
      }
    }
  }
  return false;
}

// Passes the signal on to the handler that was there before ours.
void Chain(int signal, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler == SIG_IGN && info->si_code <= 0) {
    return;
  } else if (previous_action.sa_handler == SIG_DFL || previous_action.sa_handler == SIG_IGN) {
    // The kernel does not let a fault be ignored either.
    struct sigaction fatal = {};
    fatal.sa_handler = SIG_DFL;
    sigaction(SIGBUS, &fatal, nullptr);
    static_cast<void>(raise(signal));
  } else {
    previous_action.sa_handler(signal);
  }
}

// Runs on the thread that touched the page, anywhere in its code: system calls and atomics only.
// Passes on signals of other processes (si_code <= 0), misaligned accesses and broken memory.
void OnSigbus(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  if (info->si_code != BUS_ADRERR || !HandleFault(reinterpret_cast<uintptr_t>(info->si_addr))) {
    Chain(signal, info, context);
  }
  errno = saved_errno;
}

// Once for the process. The library is linked with -z nodelete: the handler's code stays loaded
// when the worker that loaded the addon is gone.
int Install() {
  if (installed) return 0;
  if (sigaction(SIGBUS, nullptr, &previous_action) != 0) return -errno;
  struct sigaction action = {};
  action.sa_sigaction = OnSigbus;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigfillset(&action.sa_mask);
  for (const int fatal : {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&action.sa_mask, fatal);
  }
  if (sigaction(SIGBUS, &action, nullptr) != 0) return -errno;
  installed = true;
  return 0;
}

bool AddBlock() {
  auto* block = new (std::nothrow) Block();
  if (block == nullptr) return false;
  for (Slot& slot : block->slots) {
    slot.next_free = free_slots;
    free_slots = &slot;
  }
  block->next.store(first_block.load(std::memory_order_relaxed), std::memory_order_relaxed);
  first_block.store(block, std::memory_order_release);
  return true;
}

}  // namespace

int Watch(void* base, size_t length, int fd, Slot** result) {
  const MutexLock registry(registry_mutex);
  if (const int error = Install(); error != 0) return error;
  if (free_slots == nullptr && !AddBlock()) return -ENOMEM;
  Slot* slot = free_slots;
  free_slots = slot->next_free;

  const SlotLock lock(slot);
  const auto begin = reinterpret_cast<uintptr_t>(base);
  slot->fd = fd;
  slot->zeros_begin = PageEnd(begin + length);
  slot->retried_page = 0;
  slot->truncated.store(false, std::memory_order_relaxed);
  slot->begin.store(begin, std::memory_order_release);
  slot->end.store(slot->zeros_begin, std::memory_order_release);
  *result = slot;
  return 0;
}

bool Truncated(const Slot* slot) {
  return slot != nullptr && slot->truncated.load(std::memory_order_relaxed);
}

void ForgetFile(Slot* slot) {
  if (slot == nullptr) return;
  const SlotLock lock(slot);
  slot->fd = -1;
}

void Leave(Slot* slot) {
  if (slot == nullptr) return;
  {
    const SlotLock lock(slot);
    slot->begin.store(0, std::memory_order_release);
    slot->end.store(0, std::memory_order_release);
    slot->fd = -1;
  }
  const MutexLock registry(registry_mutex);
  slot->next_free = free_slots;
  free_slots = slot;
}

}  // namespace guard
