/*
 * Brings files into the page cache or drops them from it, and says how much of them is there
 * afterwards, as the kernel tells by mincore. Prints {"resident":BYTES,"total":BYTES}. Usage:
 *   page_cache warm|drop|tell FILE...
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"

#define BLOCK (4u << 20)
/* What O_DIRECT wants positions, lengths and addresses to be multiples of. */
#define SECTOR 4096

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

static int Warm(int fd) {
  char* block = malloc(BLOCK);
  ssize_t count = block == NULL ? -1 : 1;
  for (off_t position = 0; count > 0; position += count) {
    count = pread(fd, block, BLOCK, position);
  }
  free(block);
  return count == 0 ? 0 : -1;
}

/* Dirty pages cannot be dropped, so they are written first. */
static int Drop(int fd) {
#ifdef POSIX_FADV_DONTNEED
  if (fsync(fd) != 0) return -1;
  return posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 ? 0 : -1;
#else
  (void)fd;
  errno = ENOTSUP;
  return -1;
#endif
}

/*
 * Reads the file once past the page cache. What lies below it, the cache of a disk or of the host of
 * a virtual machine, cannot be emptied; so it is filled before each reader, not only for the later
 * ones. File systems that know no O_DIRECT have nothing below.
 */
static int FillBelow(const char* path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (fd < 0) return 0;
  void* block = aligned_alloc(SECTOR, BLOCK);
  ssize_t count = block == NULL ? -1 : 1;
  for (off_t position = 0; count > 0; position += count) {
    count = pread(fd, block, BLOCK, position);
    /* Only the end of the file makes a read short; the position behind it would be refused. */
    if (count % SECTOR != 0) break;
  }
  free(block);
  close(fd);
  return count >= 0 ? 0 : -1;
}

static long long Resident(int fd, size_t length) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t pages = (length + page - 1) / page;
  if (pages == 0) return 0;
  char* flags = malloc(pages);
  void* map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
  if (flags == NULL || map == MAP_FAILED || mincore(map, length, (void*)flags) != 0) return -1;
  long long resident = 0;
  for (size_t i = 0; i < pages; i++) resident += flags[i] & 1 ? (long long)page : 0;
  munmap(map, length);
  free(flags);
  return resident;
}

int main(int argc, char** argv) {
  long long resident = 0;
  long long total = 0;
  for (int i = 2; i < argc; i++) {
    int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
    struct stat file;
    if (fd < 0 || fstat(fd, &file) != 0) return Fail(argv[i]);
    if (strcmp(argv[1], "warm") == 0 && Warm(fd) != 0) return Fail(argv[i]);
    if (strcmp(argv[1], "drop") == 0 && Drop(fd) != 0) return Fail(argv[i]);
    if (strcmp(argv[1], "drop") == 0 && FillBelow(argv[i]) != 0) return Fail(argv[i]);
    long long found = Resident(fd, (size_t)file.st_size);
    if (found < 0) return Fail(argv[i]);
    resident += found;
    total += file.st_size;
    close(fd);
  }
  printf("{\"resident\":%lld,\"total\":%lld}\n", resident, total);
  return 0;
}
