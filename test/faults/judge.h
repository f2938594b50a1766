// Decides which call gets a fault. What to do stands in the file that FAULTS_CONTROL names, which
// the harness writes and this library maps: `struct Control`.

#ifndef TEST_FAULTS_JUDGE_H_
#define TEST_FAULTS_JUDGE_H_

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "preload.h"

// The order is that of KINDS in interposer.mjs.
enum Kind {
  kOpen,
  kClose,
  kStat,
  kAccess,
  kRead,
  kWrite,
  kCopyRange,
  kSendfile,
  kAllocate,
  kTruncate,
  kSync,
  kMap,
  kAdvise,
  kResidency,
  kDuplicate,
  kLock,
  kRename,
  kExchange,
  kLink,
  kSymlink,
  kUnlink,
  kMakeFolder,
  kRemoveFolder,
  kListFolder,
  kRealpath,
  kReadlink,
  kMode,
  kOwner,
  kAttribute,
  kFreeSpace,
  kClone,
  kKinds,
};

// What happens to the chosen call, if it gets no errno.
enum { kShorten = 0 };

struct Control {
  // 0 passes everything on, uncounted.
  uint32_t is_on;
  // The kind of call that fails; kKinds for none.
  uint32_t kind;
  // Which of them, from 1; 0 for none.
  uint32_t ordinal;
  int32_t fault;
  // Whether all later ones fail too.
  uint32_t is_lasting;
  // How many calls have got the fault.
  uint32_t hits;
  uint32_t counts[64];
  // The folder, and the file of the call that got the fault.
  char root[512];
  char hit[512];
};

static struct Control* control;

__attribute__((constructor)) static void Begin(void) {
  const char* path = getenv("FAULTS_CONTROL");
  if (path == NULL) return;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd == -1) abort();
  void* mapped = mmap(NULL, sizeof(struct Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) abort();
  close(fd);
  control = mapped;
}

static int IsOn(void) {
  return control != NULL && __atomic_load_n(&control->is_on, __ATOMIC_ACQUIRE) != 0;
}

static int IsWatchedPath(const char* path) {
  return IsOn() && path != NULL && IsIn(control->root, path);
}

// Whether a descriptor leads to a file in the folder, and to which.
static int IsWatchedFile(int fd, char path[PATH_MAX]) {
  return IsOn() && PathIn(control->root, fd, path);
}

// Counts a call, and says whether it gets the fault.
static int IsChosen(enum Kind kind, const char* path) {
  const uint32_t count = __atomic_add_fetch(&control->counts[kind], 1, __ATOMIC_ACQ_REL);
  if (control->kind != (uint32_t)kind) return 0;
  const uint32_t ordinal = control->ordinal;
  if (ordinal == 0 || count < ordinal || (count > ordinal && !control->is_lasting)) return 0;
  __atomic_add_fetch(&control->hits, 1, __ATOMIC_ACQ_REL);
  snprintf(control->hit, sizeof control->hit, "%s", path);
  return 1;
}

// What becomes of a call: it is passed on, shortened, or ends with an errno.
enum Verdict { kPass, kShort, kFail };

static enum Verdict Judge(enum Kind kind, const char* path) {
  if (!IsChosen(kind, path)) return kPass;
  if (control->fault == kShorten) return kShort;
  errno = control->fault;
  return kFail;
}

static enum Verdict JudgePath(enum Kind kind, const char* path) {
  return IsWatchedPath(path) ? Judge(kind, path) : kPass;
}

static enum Verdict JudgeFd(enum Kind kind, int fd) {
  char path[PATH_MAX];
  return IsWatchedFile(fd, path) ? Judge(kind, path) : kPass;
}

#endif  // TEST_FAULTS_JUDGE_H_
