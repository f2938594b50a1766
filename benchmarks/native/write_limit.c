/*
 * The limits of writing, with nothing between the bytes and the new file. Usage:
 *   write_limit METHOD SOURCE TARGET
 * makes TARGET of the bytes of SOURCE: of memory that they were read into (write), or by the kernel
 * from file to file (copy). Prints 0 when it is ready, starts its clock when standard input ends, and
 * prints {"elapsed":MILLISECONDS,"extraMemory":BYTES}.
 *   write_limit hold BYTES
 * fills so much memory, prints 0, and gives it back when standard input ends.
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

static void WaitForStart(void) {
  puts("0");
  fflush(stdout);
  WaitForEnd();
}

static int Hold(size_t length) {
  char* memory = NewMemory(length);
  if (memory == NULL) return Fail("memory");
#ifdef MADV_HUGEPAGE
  /* Large writes use huge pages, which the system does not make from small ones that were freed. */
  madvise(memory, length, MADV_HUGEPAGE);
#endif
  memset(memory, 1, length);
  WaitForStart();
  return 0;
}

static char* ReadWhole(int fd, size_t length) {
  char* memory = NewMemory(length);
  if (memory == NULL) return NULL;
  for (size_t done = 0; done < length;) {
    ssize_t count = pread(fd, memory + done, length - done, (off_t)done);
    if (count <= 0) return NULL;
    done += (size_t)count;
  }
  return memory;
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

/* Forgets the highest resident memory so far; returns what is resident now, in bytes. */
static uint64_t ResetPeak(void) {
  FILE* file = fopen("/proc/self/clear_refs", "w");
  if (file != NULL) {
    fputs("5", file);
    fclose(file);
  }
  return ReadField("/proc/self/status", "VmHWM");
}

static int Write(const char* method, const char* path, const char* target_path) {
  int source = open(path, O_RDONLY | O_CLOEXEC);
  struct stat file;
  if (source < 0 || fstat(source, &file) != 0) return Fail(path);
  size_t length = (size_t)file.st_size;
  char* memory = NULL;
  if (strcmp(method, "write") == 0 && (memory = ReadWhole(source, length)) == NULL) return Fail(path);
  WaitForStart();
  uint64_t before = ResetPeak();
  double start = Milliseconds();
  int target = open(target_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (target < 0) return Fail(target_path);
  int failed =
      memory != NULL ? WriteAll(target, memory, length) : Copy(source, target, length);
  if (failed || close(target) != 0) return Fail(target_path);
  double end = Milliseconds();
  uint64_t peak = ReadField("/proc/self/status", "VmHWM");
  printf("{\"elapsed\":%.4f,\"extraMemory\":%lld}\n", end - start, (long long)(peak - before));
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "hold") == 0) return Hold(strtoull(argv[2], NULL, 10));
  if (argc == 4) return Write(argv[1], argv[2], argv[3]);
  fprintf(stderr, "usage: write_limit METHOD SOURCE TARGET | write_limit hold BYTES\n");
  return 1;
}
