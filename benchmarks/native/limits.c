/*
 * The limit of reading, a plain mapping with nothing between the file and the loop, and what brings
 * files into the page cache. Every use prints a line.
 *
 * - limits mapping FILE LOOPS
 *   sums all tensors: the line of read.mjs; keeps the file mapped until standard input ends
 * - limits direct FILE|INDEX LOOPS
 *   sums them past the page cache, four blocks at once: a line without memory
 * - limits warm|cold FILE|INDEX
 *   brings it into the page cache or drops it: the share that is there afterwards
 * - limits hold BYTES
 *   fills so much memory: 0; gives it back when standard input ends
 *
 * INDEX, whose name ends in .safetensors.index.json, stands for the shards beside it, one after the
 * other.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <pthread.h>
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
/* Bytes per call of read: enough that the calls cost nothing. */
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

/* Pages of files, and how many of them are in the page cache. */
typedef struct {
  size_t all;
  size_t resident;
} Pages;

/* Counts those of a file, which must not be empty. */
static int CountPages(int fd, Pages* pages) {
  struct stat file;
  if (fstat(fd, &file) != 0) return -1;
  size_t length = (size_t)file.st_size;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  *pages = (Pages){.all = (length + page - 1) / page};
  char* flags = malloc(pages->all);
  void* map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
  if (flags == NULL || map == MAP_FAILED || mincore(map, length, (void*)flags) != 0) return -1;
  for (size_t i = 0; i < pages->all; i++) pages->resident += flags[i] & 1;
  munmap(map, length);
  free(flags);
  return 0;
}

static int BringFileInto(int cold, const char* path, Pages* pages) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || (cold && Drop(fd) != 0)) return Fail(path);
  /*
   * What lies below the page cache, the cache of a disk or of the host of a virtual machine, cannot
   * be emptied; so it is filled before each reader, not only for the later ones. File systems
   * without O_DIRECT have nothing below.
   */
  int source = cold ? open(path, O_RDONLY | O_CLOEXEC | O_DIRECT) : fd;
  if (CountPages(fd, pages) != 0) return Fail(path);
  int is_needed = cold || pages->resident < pages->all;
  if (source >= 0 && is_needed && ReadAll(source) != 0) return Fail(path);
  if (CountPages(fd, pages) != 0) return Fail(path);
  if (source >= 0 && source != fd) close(source);
  close(fd);
  return 0;
}

static int BringInto(int cold, char** paths, size_t count) {
  Pages total = {0};
  for (size_t i = 0; i < count; i++) {
    Pages pages;
    if (BringFileInto(cold, paths[i], &pages) != 0) return 1;
    total.all += pages.all;
    total.resident += pages.resident;
  }
  printf("%.6f\n", (double)total.resident / (double)total.all);
  return 0;
}

/* Prints resident memory in bytes as it is now, a member of the line. */
static void PrintMemory(const char* name) {
  printf("\"%s\":{\"anonymous\":%" PRIu64 ",\"fileBacked\":%" PRIu64 ",\"proportional\":%" PRIu64
         "},",
         name, ReadField("/proc/self/status", "RssAnon"), ReadField("/proc/self/status", "RssFile"),
         ReadField("/proc/self/smaps_rollup", "Pss"));
}

/* The last members of a line; the times are ms since the start. */
static int PrintSum(double every_byte, size_t length, uint64_t sum) {
  printf("\"everyByte\":%.4f,\"bytes\":%zu,\"checksum\":\"%016" PRIx64 "\"}\n", every_byte, length,
         sum);
  WaitForEnd();
  return 0;
}

static int ReadMapping(const char* path) {
  putchar('{');
  PrintMemory("before");
  double start = Milliseconds();
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat file;
  if (fd < 0 || fstat(fd, &file) != 0) return Fail(path);
  double opened = Milliseconds() - start;
  size_t length = (size_t)file.st_size;
  char* data = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return Fail(path);
  double exposed = Milliseconds() - start;
  uint64_t header;
  memcpy(&header, data, sizeof header);
  size_t begin = sizeof header + header;
  uint64_t sum = touch_words(data + begin, length - begin);
  double end = Milliseconds() - start;
  PrintMemory("after");
  printf("\"open\":%.4f,\"firstTensor\":%.4f,\"exposed\":%.4f,", opened, exposed, exposed);
  return PrintSum(end, length - begin, sum);
}

/* Blocks of one of the readers that share the files: every READERS-th of each file. */
#define READERS 4
#define DIRECT_BLOCK (4u << 20)

typedef struct {
  pthread_t thread;
  char** paths;
  size_t count;
  off_t first;
  size_t length;
  uint64_t sum;
  /* The number of an error, or 0. */
  int failed;
} Reader;

/* Adds what its blocks of a file have of tensors. */
static int ReadBlocksOf(const char* path, Reader* reader, char* block) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
  ssize_t count = fd < 0 ? -1 : 1;
  for (off_t at = reader->first; count > 0; at += READERS * (off_t)DIRECT_BLOCK) {
    count = pread(fd, block, DIRECT_BLOCK, at);
    uint64_t header = 0;
    if (at == 0 && count > 0) memcpy(&header, block, sizeof header);
    size_t begin = at == 0 ? sizeof header + header : 0;
    /* The other readers take their first blocks for data. */
    if (begin > DIRECT_BLOCK) {
      errno = EFBIG;
      count = -1;
    }
    if (count <= (ssize_t)begin) continue;
    reader->sum += touch_words(block + begin, count - begin);
    reader->length += count - begin;
  }
  int failed = count < 0 ? errno : 0;
  if (fd >= 0) close(fd);
  return failed;
}

static void* ReadBlocks(void* argument) {
  Reader* reader = argument;
  char* block = NULL;
  /* In pages of 4 kB the kernel needs as long to pin them as the disk to read. */
  reader->failed = posix_memalign((void**)&block, 2u << 20, DIRECT_BLOCK);
#ifdef MADV_HUGEPAGE
  if (reader->failed == 0) madvise(block, DIRECT_BLOCK, MADV_HUGEPAGE);
#endif
  for (size_t i = 0; i < reader->count && reader->failed == 0; i++) {
    reader->failed = ReadBlocksOf(reader->paths[i], reader, block);
  }
  free(block);
  return NULL;
}

static int ReadDirectly(char** paths, size_t count) {
  double start = Milliseconds();
  Reader readers[READERS];
  for (int i = 0; i < READERS; i++) {
    readers[i] = (Reader){.paths = paths, .count = count, .first = i * (off_t)DIRECT_BLOCK};
    errno = pthread_create(&readers[i].thread, NULL, ReadBlocks, &readers[i]);
    if (errno != 0) return Fail("thread");
  }
  size_t length = 0;
  uint64_t sum = 0;
  for (int i = 0; i < READERS; i++) {
    pthread_join(readers[i].thread, NULL);
    errno = readers[i].failed;
    if (errno != 0) return Fail(paths[0]);
    length += readers[i].length;
    sum += readers[i].sum;
  }
  double end = Milliseconds() - start;
  putchar('{');
  return PrintSum(end, length, sum);
}

/* Fills memory, and gives it back when standard input ends. */
static int Hold(size_t length) {
  void* memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Fail("memory");
#ifdef MADV_HUGEPAGE
  /* Large writes use huge pages, which the system does not make from small ones that were freed. */
  madvise(memory, length, MADV_HUGEPAGE);
#endif
  memset(memory, 1, length);
  puts("0");
  WaitForEnd();
  return 0;
}

int main(int argc, char** argv) {
  const char* use = argc > 2 ? argv[1] : "";
  if (strcmp(use, "hold") == 0) return Hold(strtoull(argv[2], NULL, 10));
  if (strcmp(use, "mapping") == 0) return ReadMapping(argv[2]);
  char** paths = argv + 2;
  size_t count = 1;
  char* suffix = argc > 2 ? strstr(argv[2], ".safetensors.index.json") : NULL;
  if (suffix != NULL) {
    glob_t shards;
    strcpy(suffix, "-*.safetensors");
    if (glob(argv[2], 0, NULL, &shards) != 0) return Fail(argv[2]);
    paths = shards.gl_pathv;
    count = shards.gl_pathc;
  }
  if (strcmp(use, "direct") == 0) return ReadDirectly(paths, count);
  if (strcmp(use, "warm") != 0 && strcmp(use, "cold") != 0) return 1;
  return BringInto(strcmp(use, "cold") == 0, paths, count);
}
