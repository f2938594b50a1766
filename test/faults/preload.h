// Shared by the preloaded libraries: the functions that they replace, and which files are
// watched.

#ifndef TEST_FAULTS_PRELOAD_H_
#define TEST_FAULTS_PRELOAD_H_

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// The function of this name after ours.
#define NEXT(name)                                                       \
  ({                                                                     \
    static __typeof__(&name) next;                                       \
    if (next == NULL) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
    next;                                                                \
  })

// Whether a path is that of the folder, or below it.
static inline int IsIn(const char* folder, const char* path) {
  const size_t length = strlen(folder);
  return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

// Where the descriptor leads now; false when that is no file in the folder.
static inline int PathIn(const char* folder, int fd, char path[PATH_MAX]) {
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const long length = NEXT(syscall)(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1, 0);
  if (length <= 0) return 0;
  path[length] = 0;
  return IsIn(folder, path);
}

#endif  // TEST_FAULTS_PRELOAD_H_
