/*
 * Brings a file into the page cache or drops it from it, and prints the share of it that is there
 * afterwards, as the kernel tells by mincore. Usage: page_cache warm|cold FILE
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

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

/* Reads a file from its begin to its end. */
static int ReadAll(int fd) {
  void* block = aligned_alloc(SECTOR, BLOCK);
  ssize_t count = block == NULL ? -1 : 1;
  for (off_t position = 0; count > 0; position += count) {
    count = pread(fd, block, BLOCK, position);
    /* Only the end of the file makes a read short; O_DIRECT would refuse the position behind it. */
    if (count % SECTOR != 0) break;
  }
  free(block);
  return count >= 0 ? 0 : -1;
}

/* Dirty pages cannot be dropped, so they are written first. */
static int Drop(int fd) {
#ifdef POSIX_FADV_DONTNEED
  if (fsync(fd) != 0) return -1;
  errno = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return errno == 0 ? 0 : -1;
#else
  (void)fd;
  errno = ENOTSUP;
  return -1;
#endif
}

/*
 * Reads the file once past the page cache. What lies below it, the cache of a disk or of the host of
 * a virtual machine, cannot be emptied; so it is filled before each reader, not only for the later
 * ones. File systems without O_DIRECT have nothing below.
 */
static int FillBelow(const char* path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (fd < 0) return 0;
  int failed = ReadAll(fd);
  close(fd);
  return failed;
}

static double ResidentShare(int fd) {
  struct stat file;
  if (fstat(fd, &file) != 0) return -1;
  size_t length = (size_t)file.st_size;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t pages = (length + page - 1) / page;
  if (pages == 0) return 1;
  char* flags = malloc(pages);
  void* map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
  if (flags == NULL || map == MAP_FAILED || mincore(map, length, (void*)flags) != 0) return -1;
  size_t resident = 0;
  for (size_t i = 0; i < pages; i++) resident += flags[i] & 1;
  return (double)resident / (double)pages;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: page_cache warm|cold FILE\n");
    return 1;
  }
  const char* path = argv[2];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Fail(path);
  int cold = strcmp(argv[1], "cold") == 0;
  if (cold && (Drop(fd) != 0 || FillBelow(path) != 0)) return Fail(path);
  double share = ResidentShare(fd);
  if (!cold && share < 1) {
    if (ReadAll(fd) != 0) return Fail(path);
    share = ResidentShare(fd);
  }
  if (share < 0) return Fail(path);
  printf("%.6f\n", share);
  return 0;
}
