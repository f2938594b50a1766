/*
 * The limits of reading and writing, with nothing between the file and the loop, and what brings
 * files into the page cache. Every use prints a line.
 *
 * - limits warm|cold FILE
 *   brings it into the page cache or drops it: the share that is there afterwards
 * - limits METHOD FILE LOOPS INDEX BEGIN LENGTH NAME
 *   sums a range, over a plain mapping (mapping), or over memory that it was read into, through the
 *   page cache (read) or past it (direct), or past it into one block that is used again
 *   (direct-block): the line of read.mjs; keeps the memory until standard input ends
 * - limits write|copy SOURCE TARGET
 *   makes TARGET of memory that SOURCE was read into, or by the kernel from file to file: 0 when it
 *   is ready; starts its clock when standard input ends: the line of save.mjs
 * - limits hold BYTES
 *   fills so much memory: 0; gives it back when standard input ends
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "touch.h"

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

/* What O_DIRECT wants positions, lengths and addresses to be multiples of. */
#define SECTOR 4096u
/* Bytes per call of read or write: enough that the calls cost nothing. */
#define BLOCK (8u << 20)

static double Milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* A field of a file such as /proc/self/status, in bytes; 0 where there is no /proc. */
static uint64_t ReadField(const char* path, const char* field) {
  char line[256];
  uint64_t kilobytes = 0;
  size_t length = strlen(field);
  FILE* file = fopen(path, "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, field, length) == 0) sscanf(line + length, ": %" SCNu64, &kilobytes);
  }
  if (file != NULL) fclose(file);
  return kilobytes * 1024;
}

/* New private memory; NULL when the system refuses. */
static char* NewMemory(size_t length) {
  void* memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void WaitForEnd(void) {
  fflush(stdout);
  while (getchar() != EOF) {
  }
}

static int Fail(const char* path) {
  fprintf(stderr, "%s: %s\n", path, strerror(errno));
  return 1;
}

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
 * Reads the file once past the page cache. What lies below it, the cache of a disk or of the host
 * of a virtual machine, cannot be emptied; so it is filled before each reader, not only for the
 * later ones. File systems without O_DIRECT have nothing below.
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

static int BringInto(int cold, const char* path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || (cold && (Drop(fd) != 0 || FillBelow(path) != 0))) return Fail(path);
  if (!cold && ResidentShare(fd) < 1 && ReadAll(fd) != 0) return Fail(path);
  double share = ResidentShare(fd);
  if (share < 0) return Fail(path);
  printf("%.6f\n", share);
  return 0;
}

/* Resident memory in bytes. */
typedef struct {
  uint64_t anonymous;
  uint64_t file_backed;
  uint64_t proportional;
} Memory;

static Memory ReadMemory(void) {
  Memory memory = {ReadField("/proc/self/status", "RssAnon"),
                   ReadField("/proc/self/status", "RssFile"),
                   ReadField("/proc/self/smaps_rollup", "Pss")};
  return memory;
}

static void PrintMemory(const char* name, Memory memory) {
  printf(",\"%s\":{\"anonymous\":%" PRIu64 ",\"fileBacked\":%" PRIu64 ",\"proportional\":%" PRIu64
         "}",
         name, memory.anonymous, memory.file_backed, memory.proportional);
}

static char* MapRange(int fd, size_t begin, size_t length) {
  char* map = mmap(NULL, begin + length, PROT_READ, MAP_PRIVATE, fd, 0);
  return map == MAP_FAILED ? NULL : map + begin;
}

/* Reads whole sectors until the end is in memory; NULL when the system refuses. */
static char* ReadRange(int fd, size_t begin, size_t length) {
  size_t first = begin / SECTOR * SECTOR;
  size_t total = begin + length - first;
  char* memory = NewMemory((total + BLOCK) / BLOCK * BLOCK);
  if (memory == NULL) return NULL;
  for (size_t done = 0; done < total;) {
    size_t wanted = total - done < BLOCK ? (total - done + SECTOR - 1) / SECTOR * SECTOR : BLOCK;
    ssize_t count = pread(fd, memory + done, wanted, (off_t)(first + done));
    if (count <= 0) return NULL;
    done += (size_t)count;
  }
  return memory + (begin - first);
}

/* Reads whole sectors until the end, each block over the one before; 0 when the system refuses. */
static int SumBlocks(int fd, size_t begin, size_t length, uint64_t* sum) {
  char* block = NewMemory(BLOCK);
  if (block == NULL) return 0;
  size_t end = begin + length;
  for (size_t position = begin / SECTOR * SECTOR; position < end;) {
    ssize_t count = pread(fd, block, BLOCK, (off_t)position);
    if (count <= 0) return 0;
    size_t skipped = begin > position ? begin - position : 0;
    size_t last = end - position < (size_t)count ? end - position : (size_t)count;
    *sum += touch_words(block + skipped, last - skipped);
    position += (size_t)count;
  }
  return 1;
}

static int Read(const char* method, const char* path, size_t begin, size_t length) {
  int direct = strncmp(method, "direct", 6) == 0 ? O_DIRECT : 0;
  int blocks = strcmp(method, "direct-block") == 0;
  Memory before = ReadMemory();
  double start = Milliseconds();
  int fd = open(path, O_RDONLY | O_CLOEXEC | direct);
  if (fd < 0) return Fail(path);
  double opened = Milliseconds();
  uint64_t sum = 0;
  char* data = NULL;
  if (blocks) {
    if (!SumBlocks(fd, begin, length, &sum)) return Fail(path);
  } else {
    data =
        strcmp(method, "mapping") == 0 ? MapRange(fd, begin, length) : ReadRange(fd, begin, length);
    if (data == NULL) return Fail(path);
  }
  double handed_out = Milliseconds();
  if (!blocks) sum = touch_words(data, length);
  double end = Milliseconds();
  Memory after = ReadMemory();
  printf("{\"open\":%.4f,\"firstTensor\":%.4f,\"handedOut\":%.4f,\"everyByte\":%.4f",
         opened - start, handed_out - start, handed_out - start, end - start);
  printf(",\"bytes\":%zu,\"checksum\":\"%016" PRIx64 "\"", length, sum);
  PrintMemory("before", before);
  PrintMemory("after", after);
  printf("}\n");
  WaitForEnd();
  return 0;
}

static int Hold(size_t length) {
  char* memory = NewMemory(length);
  if (memory == NULL) return Fail("memory");
#ifdef MADV_HUGEPAGE
  /* Large writes use huge pages, which the system does not make from small ones that were freed. */
  madvise(memory, length, MADV_HUGEPAGE);
#endif
  memset(memory, 1, length);
  puts("0");
  WaitForEnd();
  return 0;
}

static int WriteAll(int target, const char* memory, size_t length) {
  for (size_t done = 0; done < length;) {
    ssize_t count = write(target, memory + done, length - done < BLOCK ? length - done : BLOCK);
    if (count < 0) return -1;
    done += (size_t)count;
  }
  return 0;
}

static int Copy(int source, int target, size_t length) {
#ifdef __linux__
  for (size_t done = 0; done < length;) {
    ssize_t count = copy_file_range(source, NULL, target, NULL, length - done, 0);
    if (count <= 0) return -1;
    done += (size_t)count;
  }
  return 0;
#else
  (void)source, (void)target, (void)length;
  errno = ENOTSUP;
  return -1;
#endif
}

static int Write(const char* method, const char* path, const char* target_path) {
  int source = open(path, O_RDONLY | O_CLOEXEC);
  struct stat file;
  if (source < 0 || fstat(source, &file) != 0) return Fail(path);
  size_t length = (size_t)file.st_size;
  char* memory = strcmp(method, "write") == 0 ? ReadRange(source, 0, length) : NULL;
  if (memory == NULL && strcmp(method, "copy") != 0) return Fail(path);
  puts("0");
  WaitForEnd();
  /* Forgets the highest resident memory so far. */
  FILE* refs = fopen("/proc/self/clear_refs", "w");
  if (refs != NULL) {
    fputs("5", refs);
    fclose(refs);
  }
  uint64_t before = ReadField("/proc/self/status", "VmHWM");
  double start = Milliseconds();
  int target = open(target_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (target < 0) return Fail(target_path);
  int failed = memory != NULL ? WriteAll(target, memory, length) : Copy(source, target, length);
  if (failed || close(target) != 0) return Fail(target_path);
  double end = Milliseconds();
  uint64_t peak = ReadField("/proc/self/status", "VmHWM");
  printf("{\"elapsed\":%.4f,\"extraMemory\":%lld}\n", end - start, (long long)(peak - before));
  return 0;
}

int main(int argc, char** argv) {
  const char* method = argc > 1 ? argv[1] : "";
  if (argc == 3 && strcmp(method, "hold") == 0) return Hold(strtoull(argv[2], NULL, 10));
  if (argc == 3) return BringInto(strcmp(method, "cold") == 0, argv[2]);
  if (argc == 4) return Write(method, argv[2], argv[3]);
  if (argc != 8) return 1;
  return Read(method, argv[2], strtoull(argv[5], NULL, 10), strtoull(argv[6], NULL, 10));
}
