// Records what changes a folder, for the tests of a loss of power: preloaded, it writes a line for
// every call that changes a file or a name below RECORD_ROOT, or syncs one, into the file
// RECORD_FILE, in the order in which the changes were made, followed by the bytes that were
// written.
//
// A line has the kind of change, the number of the file (its inode), position and length, and
// paths, with tabs between them. Names are those of interposer.c's calls; calls within the C
// library are not seen.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload.h"

static const char* root;
static int record = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void Begin(void) {
  root = getenv("RECORD_ROOT");
  const char* path = getenv("RECORD_FILE");
  if (root == NULL || path == NULL) return;
  record = NEXT(open)(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (record == -1) abort();
}

static int IsBelow(const char* path) {
  return record != -1 && IsIn(root, path);
}

static int PathOf(int fd, char path[PATH_MAX]) {
  return record != -1 && PathIn(root, fd, path);
}

static void Put(const void* bytes, size_t length) {
  for (size_t done = 0; done < length;) {
    const ssize_t count = NEXT(write)(record, (const char*)bytes + done, length - done);
    if (count <= 0) abort();
    done += (size_t)count;
  }
}

static unsigned long FileOf(const char* path) {
  struct stat stats;
  return fstatat(AT_FDCWD, path, &stats, AT_SYMLINK_NOFOLLOW) == 0 ? stats.st_ino : 0;
}

static unsigned long FileOfFd(int fd) {
  struct stat stats;
  return fstatat(fd, "", &stats, AT_EMPTY_PATH) == 0 ? stats.st_ino : 0;
}

static void Line(const char* kind, unsigned long file, long long position, size_t length,
                 const char* path, const char* other) {
  char line[2 * PATH_MAX + 128];
  const int size = snprintf(line, sizeof line, "%s\t%lu\t%lld\t%zu\t%s\t%s\n", kind, file, position,
                            length, path, other);
  Put(line, (size_t)size);
}

// A change of names: made and written down before the next one.
#define NAMED(kind, path, other, call)                            \
  {                                                               \
    if (!IsBelow(path)) return call;                              \
    pthread_mutex_lock(&mutex);                                   \
    const int result = call;                                      \
    if (result == 0) Line(kind, FileOf(path), 0, 0, path, other); \
    pthread_mutex_unlock(&mutex);                                 \
    return result;                                                \
  }

int rename(const char* from, const char* to) {
  NAMED("rename", to, from, NEXT(rename)(from, to));
}
int link(const char* from, const char* to) {
  NAMED("link", to, from, NEXT(link)(from, to));
}
int symlink(const char* text, const char* path) {
  NAMED("symlink", path, text, NEXT(symlink)(text, path));
}
int unlink(const char* path) {
  NAMED("unlink", path, "", NEXT(unlink)(path));
}
int remove(const char* path) {
  NAMED("unlink", path, "", NEXT(remove)(path));
}
int mkdir(const char* path, mode_t mode) {
  NAMED("mkdir", path, "", NEXT(mkdir)(path, mode));
}
int rmdir(const char* path) {
  NAMED("rmdir", path, "", NEXT(rmdir)(path));
}

#define OPEN(name)                                                        \
  int name(const char* path, int flags, ...) {                            \
    mode_t mode = 0;                                                      \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                \
      va_list arguments;                                                  \
      va_start(arguments, flags);                                         \
      mode = va_arg(arguments, mode_t);                                   \
      va_end(arguments);                                                  \
    }                                                                     \
    if (!IsBelow(path)) return NEXT(name)(path, flags, mode);             \
    pthread_mutex_lock(&mutex);                                           \
    const int is_new = (flags & O_CREAT) && FileOf(path) == 0;            \
    const int fd = NEXT(name)(path, flags, mode);                         \
    if (fd != -1 && is_new) Line("create", FileOfFd(fd), 0, 0, path, ""); \
    if (fd != -1 && !is_new && (flags & O_TRUNC)) {                       \
      Line("truncate", FileOfFd(fd), 0, 0, path, "");                     \
    }                                                                     \
    pthread_mutex_unlock(&mutex);                                         \
    return fd;                                                            \
  }
OPEN(open)
OPEN(open64)

// A change of a file's bytes or length, or a sync.
#define CHANGED(kind, fd, position, length, call)                          \
  {                                                                        \
    char path[PATH_MAX];                                                   \
    if (!PathOf(fd, path)) return call;                                    \
    pthread_mutex_lock(&mutex);                                            \
    const int result = call;                                               \
    if (result == 0) Line(kind, FileOfFd(fd), position, length, path, ""); \
    pthread_mutex_unlock(&mutex);                                          \
    return result;                                                         \
  }

int fsync(int fd) {
  CHANGED("sync", fd, 0, 0, NEXT(fsync)(fd));
}
int fdatasync(int fd) {
  CHANGED("sync", fd, 0, 0, NEXT(fdatasync)(fd));
}
int ftruncate64(int fd, off64_t length) {
  CHANGED("truncate", fd, length, 0, NEXT(ftruncate64)(fd, length));
}
int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
  CHANGED("allocate", fd, offset + length, 0, NEXT(fallocate64)(fd, mode, offset, length));
}

// Bytes that were written: read again from the file, wherever they come from.
static void Bytes(int fd, const char* path, long long position, ssize_t length) {
  if (length <= 0) return;
  char* bytes = malloc((size_t)length);
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const int reader = NEXT(open)(name, O_RDONLY | O_CLOEXEC);
  if (bytes == NULL || reader == -1) abort();
  if (pread(reader, bytes, (size_t)length, position) != length) abort();
  NEXT(syscall)(SYS_close, reader);
  Line("write", FileOfFd(fd), position, (size_t)length, path, "");
  Put(bytes, (size_t)length);
  free(bytes);
}

#define WRITTEN(fd, position, call)     \
  {                                     \
    char path[PATH_MAX];                \
    if (!PathOf(fd, path)) return call; \
    pthread_mutex_lock(&mutex);         \
    const long long begin = position;   \
    const ssize_t count = call;         \
    Bytes(fd, path, begin, count);      \
    pthread_mutex_unlock(&mutex);       \
    return count;                       \
  }

ssize_t write(int fd, const void* bytes, size_t length) {
  WRITTEN(fd, lseek(fd, 0, SEEK_CUR), NEXT(write)(fd, bytes, length));
}
ssize_t writev(int fd, const struct iovec* views, int count_of_views) {
  WRITTEN(fd, lseek(fd, 0, SEEK_CUR), NEXT(writev)(fd, views, count_of_views));
}
ssize_t pwrite64(int fd, const void* bytes, size_t length, off64_t position) {
  WRITTEN(fd, position, NEXT(pwrite64)(fd, bytes, length, position));
}
ssize_t pwritev(int fd, const struct iovec* views, int count_of_views, off_t position) {
  WRITTEN(fd, position, NEXT(pwritev)(fd, views, count_of_views, position));
}
ssize_t pwritev64(int fd, const struct iovec* views, int count_of_views, off64_t position) {
  WRITTEN(fd, position, NEXT(pwritev64)(fd, views, count_of_views, position));
}
ssize_t copy_file_range(int from, off64_t* from_position, int to, off64_t* to_position,
                        size_t length, unsigned flags) {
  WRITTEN(to, to_position != NULL ? *to_position : lseek(to, 0, SEEK_CUR),
          NEXT(copy_file_range)(from, from_position, to, to_position, length, flags));
}
ssize_t sendfile64(int to, int from, off64_t* position, size_t length) {
  WRITTEN(to, lseek(to, 0, SEEK_CUR), NEXT(sendfile64)(to, from, position, length));
}

static long PassOn(long number, const long a[6]) {
  return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// Calls made through `syscall`.
long syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_renameat2 && IsBelow((const char*)a[3])) {
    pthread_mutex_lock(&mutex);
    const long result = PassOn(number, a);
    const char* kind = a[4] & 2 ? "exchange" : "rename";
    if (result == 0)
      Line(kind, FileOf((const char*)a[3]), 0, 0, (const char*)a[3], (const char*)a[1]);
    pthread_mutex_unlock(&mutex);
    return result;
  }
  if (number == SYS_copy_file_range) {
    const off64_t* position = (const off64_t*)a[3];
    WRITTEN((int)a[2], position != NULL ? *position : lseek((int)a[2], 0, SEEK_CUR),
            PassOn(number, a));
  }
  if (number == SYS_pwritev) WRITTEN((int)a[0], (long long)a[3], PassOn(number, a));
  return PassOn(number, a);
}
