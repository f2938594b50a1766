// Stands between Node and the system for the tests of faults: preloaded, it counts the calls on
// files below one folder by kind, fails the n-th of a kind, or shortens it.
//
// Calls that a C library makes within itself are not seen: `scandir`, `realpath` are one call each,
// as for Node. What Node asks by `syscall` is seen there.

#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>

#include "judge.h"

static size_t Half(size_t length) {
  return length > 1 ? length / 2 : length;
}

#define FAIL_PATH(kind, path) \
  if (JudgePath(kind, path) == kFail) return -1
#define FAIL_FD(kind, fd) \
  if (JudgeFd(kind, fd) == kFail) return -1

// Names, and what is asked of them.

#define OPEN(name)                             \
  int name(const char* path, int flags, ...) { \
    mode_t mode = 0;                           \
    if (flags & (O_CREAT | __O_TMPFILE)) {     \
      va_list arguments;                       \
      va_start(arguments, flags);              \
      mode = va_arg(arguments, mode_t);        \
      va_end(arguments);                       \
    }                                          \
    FAIL_PATH(kOpen, path);                    \
    return NEXT(name)(path, flags, mode);      \
  }
OPEN(open)
OPEN(open64)

int rename(const char* from, const char* to) {
  FAIL_PATH(kRename, to);
  return NEXT(rename)(from, to);
}
int link(const char* from, const char* to) {
  FAIL_PATH(kLink, to);
  return NEXT(link)(from, to);
}
int symlink(const char* text, const char* path) {
  FAIL_PATH(kSymlink, path);
  return NEXT(symlink)(text, path);
}
int unlink(const char* path) {
  FAIL_PATH(kUnlink, path);
  return NEXT(unlink)(path);
}
int remove(const char* path) {
  FAIL_PATH(kUnlink, path);
  return NEXT(remove)(path);
}
int mkdir(const char* path, mode_t mode) {
  FAIL_PATH(kMakeFolder, path);
  return NEXT(mkdir)(path, mode);
}
int rmdir(const char* path) {
  FAIL_PATH(kRemoveFolder, path);
  return NEXT(rmdir)(path);
}
int access(const char* path, int mode) {
  FAIL_PATH(kAccess, path);
  return NEXT(access)(path, mode);
}
ssize_t readlink(const char* path, char* text, size_t size) {
  FAIL_PATH(kReadlink, path);
  return NEXT(readlink)(path, text, size);
}
char* realpath(const char* path, char* resolved) {
  if (JudgePath(kRealpath, path) == kFail) return NULL;
  return NEXT(realpath)(path, resolved);
}
int scandir64(const char* path, struct dirent64*** names, int (*filter)(const struct dirent64*),
              int (*order)(const struct dirent64**, const struct dirent64**)) {
  FAIL_PATH(kListFolder, path);
  return NEXT(scandir64)(path, names, filter, order);
}
DIR* opendir(const char* path) {
  if (JudgePath(kListFolder, path) == kFail) return NULL;
  return NEXT(opendir)(path);
}
int chmod(const char* path, mode_t mode) {
  FAIL_PATH(kMode, path);
  return NEXT(chmod)(path, mode);
}
int statfs64(const char* path, struct statfs64* result) {
  FAIL_PATH(kFreeSpace, path);
  return NEXT(statfs64)(path, result);
}
ssize_t getxattr(const char* path, const char* name, void* value, size_t size) {
  FAIL_PATH(kAttribute, path);
  return NEXT(getxattr)(path, name, value, size);
}

// Old and new names of what asks about files: those of Node, and those of its C++ library.

int __xstat(int version, const char* path, struct stat* result);
int __lxstat(int version, const char* path, struct stat* result);
int __xstat64(int version, const char* path, struct stat64* result);
int __lxstat64(int version, const char* path, struct stat64* result);
int __fxstat64(int version, int fd, struct stat64* result);

int __xstat(int version, const char* path, struct stat* result) {
  FAIL_PATH(kStat, path);
  return NEXT(__xstat)(version, path, result);
}
int __lxstat(int version, const char* path, struct stat* result) {
  FAIL_PATH(kStat, path);
  return NEXT(__lxstat)(version, path, result);
}
int __xstat64(int version, const char* path, struct stat64* result) {
  FAIL_PATH(kStat, path);
  return NEXT(__xstat64)(version, path, result);
}
int __lxstat64(int version, const char* path, struct stat64* result) {
  FAIL_PATH(kStat, path);
  return NEXT(__lxstat64)(version, path, result);
}
int __fxstat64(int version, int fd, struct stat64* result) {
  FAIL_FD(kStat, fd);
  return NEXT(__fxstat64)(version, fd, result);
}
int stat(const char* path, struct stat* result) {
  FAIL_PATH(kStat, path);
  return NEXT(stat)(path, result);
}
int lstat(const char* path, struct stat* result) {
  FAIL_PATH(kStat, path);
  return NEXT(lstat)(path, result);
}
int stat64(const char* path, struct stat64* result) {
  FAIL_PATH(kStat, path);
  return NEXT(stat64)(path, result);
}
int lstat64(const char* path, struct stat64* result) {
  FAIL_PATH(kStat, path);
  return NEXT(lstat64)(path, result);
}
int fstat64(int fd, struct stat64* result) {
  FAIL_FD(kStat, fd);
  return NEXT(fstat64)(fd, result);
}

// Descriptors.

// Linux closes the descriptor whatever the error is.
static int CloseAndFail(int fd) {
  NEXT(close)(fd);
  errno = control->fault;
  return -1;
}

int close(int fd) {
  return JudgeFd(kClose, fd) == kFail ? CloseAndFail(fd) : NEXT(close)(fd);
}
int fsync(int fd) {
  FAIL_FD(kSync, fd);
  return NEXT(fsync)(fd);
}
int fdatasync(int fd) {
  FAIL_FD(kSync, fd);
  return NEXT(fdatasync)(fd);
}
int ftruncate64(int fd, off64_t length) {
  FAIL_FD(kTruncate, fd);
  return NEXT(ftruncate64)(fd, length);
}
int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
  FAIL_FD(kAllocate, fd);
  return NEXT(fallocate64)(fd, mode, offset, length);
}
int fchmod(int fd, mode_t mode) {
  FAIL_FD(kMode, fd);
  return NEXT(fchmod)(fd, mode);
}
int fchown(int fd, uid_t owner, gid_t group) {
  FAIL_FD(kOwner, fd);
  return NEXT(fchown)(fd, owner, group);
}
int flock(int fd, int operation) {
  FAIL_FD(kLock, fd);
  return NEXT(flock)(fd, operation);
}
int fremovexattr(int fd, const char* name) {
  FAIL_FD(kAttribute, fd);
  return NEXT(fremovexattr)(fd, name);
}
int fsetxattr(int fd, const char* name, const void* value, size_t size, int flags) {
  FAIL_FD(kAttribute, fd);
  return NEXT(fsetxattr)(fd, name, value, size, flags);
}
int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (command == F_DUPFD_CLOEXEC || command == F_DUPFD) FAIL_FD(kDuplicate, fd);
  return NEXT(fcntl64)(fd, command, argument);
}
int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  FAIL_FD(kClone, fd);
  return NEXT(ioctl)(fd, request, argument);
}

// Bytes: these can also be shortened.

#define TRANSFER(kind, fd, length)                  \
  {                                                 \
    const enum Verdict verdict = JudgeFd(kind, fd); \
    if (verdict == kFail) return -1;                \
    if (verdict == kShort) length = Half(length);   \
  }

ssize_t read(int fd, void* bytes, size_t length) {
  TRANSFER(kRead, fd, length);
  return NEXT(read)(fd, bytes, length);
}
ssize_t pread64(int fd, void* bytes, size_t length, off64_t position) {
  TRANSFER(kRead, fd, length);
  return NEXT(pread64)(fd, bytes, length, position);
}
ssize_t write(int fd, const void* bytes, size_t length) {
  TRANSFER(kWrite, fd, length);
  return NEXT(write)(fd, bytes, length);
}
ssize_t pwrite64(int fd, const void* bytes, size_t length, off64_t position) {
  TRANSFER(kWrite, fd, length);
  return NEXT(pwrite64)(fd, bytes, length, position);
}
ssize_t copy_file_range(int from, off64_t* from_position, int to, off64_t* to_position,
                        size_t length, unsigned flags) {
  TRANSFER(kCopyRange, to, length);
  return NEXT(copy_file_range)(from, from_position, to, to_position, length, flags);
}
ssize_t sendfile64(int to, int from, off64_t* position, size_t length) {
  TRANSFER(kSendfile, to, length);
  return NEXT(sendfile64)(to, from, position, length);
}

// A vector is cut within its first view.
#define VECTOR(kind, call)                          \
  {                                                 \
    const enum Verdict verdict = JudgeFd(kind, fd); \
    if (verdict == kFail) return -1;                \
    if (verdict == kShort) {                        \
      struct iovec first = *views;                  \
      first.iov_len = Half(first.iov_len);          \
      views = &first;                               \
      count = 1;                                    \
      return call;                                  \
    }                                               \
    return call;                                    \
  }

ssize_t readv(int fd, const struct iovec* views, int count) {
  VECTOR(kRead, NEXT(readv)(fd, views, count));
}
ssize_t preadv64(int fd, const struct iovec* views, int count, off64_t position) {
  VECTOR(kRead, NEXT(preadv64)(fd, views, count, position));
}
ssize_t preadv(int fd, const struct iovec* views, int count, off_t position) {
  VECTOR(kRead, NEXT(preadv)(fd, views, count, position));
}
ssize_t writev(int fd, const struct iovec* views, int count) {
  VECTOR(kWrite, NEXT(writev)(fd, views, count));
}
ssize_t pwritev(int fd, const struct iovec* views, int count, off_t position) {
  VECTOR(kWrite, NEXT(pwritev)(fd, views, count, position));
}
ssize_t pwritev64(int fd, const struct iovec* views, int count, off64_t position) {
  VECTOR(kWrite, NEXT(pwritev64)(fd, views, count, position));
}

// Mappings of files below the folder.

static struct {
  uintptr_t begin, end;
} mappings[256];
static pthread_mutex_t mappings_mutex = PTHREAD_MUTEX_INITIALIZER;

static void Remember(uintptr_t begin, size_t length) {
  pthread_mutex_lock(&mappings_mutex);
  for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++) {
    if (mappings[i].end != 0) continue;
    mappings[i].begin = begin;
    mappings[i].end = begin + length;
    break;
  }
  pthread_mutex_unlock(&mappings_mutex);
}

static int IsMapped(const void* address, int is_forgotten) {
  const uintptr_t at = (uintptr_t)address;
  int is_mapped = 0;
  pthread_mutex_lock(&mappings_mutex);
  for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++) {
    if (at < mappings[i].begin || at >= mappings[i].end) continue;
    is_mapped = 1;
    if (is_forgotten) mappings[i].begin = mappings[i].end = 0;
  }
  pthread_mutex_unlock(&mappings_mutex);
  return is_mapped;
}

static enum Verdict JudgeMapping(enum Kind kind, const void* address) {
  return IsOn() && IsMapped(address, 0) ? Judge(kind, "a mapping") : kPass;
}

void* mmap64(void* address, size_t length, int protection, int flags, int fd, off64_t offset) {
  char path[PATH_MAX];
  const int is_file = fd != -1 && IsWatchedFile(fd, path);
  if (is_file && Judge(kMap, path) == kFail) return MAP_FAILED;
  if (fd == -1 && (flags & MAP_FIXED) && JudgeMapping(kMap, address) == kFail) return MAP_FAILED;
  void* mapped = NEXT(mmap64)(address, length, protection, flags, fd, offset);
  if (is_file && mapped != MAP_FAILED) Remember((uintptr_t)mapped, length);
  return mapped;
}
int munmap(void* address, size_t length) {
  if (control != NULL) IsMapped(address, 1);
  return NEXT(munmap)(address, length);
}
int madvise(void* address, size_t length, int advice) {
  if (JudgeMapping(kAdvise, address) == kFail) return -1;
  return NEXT(madvise)(address, length, advice);
}
int mincore(void* address, size_t length, unsigned char* resident) {
  if (JudgeMapping(kResidency, address) == kFail) return -1;
  return NEXT(mincore)(address, length, resident);
}

// Calls made through `syscall`.
long syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
  va_end(arguments);
  switch (number) {
    case SYS_close:
      if (JudgeFd(kClose, (int)a[0]) == kFail) return CloseAndFail((int)a[0]);
      break;
    case SYS_statx:
      if (((const char*)a[1])[0] == 0) {
        FAIL_FD(kStat, (int)a[0]);
      } else {
        FAIL_PATH(kStat, (const char*)a[1]);
      }
      break;
    case SYS_renameat2:
      FAIL_PATH(kExchange, (const char*)a[3]);
      break;
    case SYS_copy_file_range:
      TRANSFER(kCopyRange, (int)a[2], a[4]);
      break;
    case SYS_preadv2:
      FAIL_FD(kRead, (int)a[0]);
      break;
    case SYS_preadv:
    case SYS_pwritev: {
      const enum Verdict verdict = JudgeFd(number == SYS_preadv ? kRead : kWrite, (int)a[0]);
      if (verdict == kFail) return -1;
      if (verdict == kShort) {
        struct iovec first = *(const struct iovec*)a[1];
        first.iov_len = Half(first.iov_len);
        return NEXT(syscall)(number, a[0], &first, 1L, a[3], a[4]);
      }
      break;
    }
  }
  return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
