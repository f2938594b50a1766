/*
 * The limits that the writers are measured against, with nothing between the bytes and the new file.
 * Prints {"elapsed":MILLISECONDS,"extraMemory":BYTES}. Usage:
 *   write_limit METHOD SOURCE TARGET HOLDER
 * makes TARGET of the bytes of SOURCE: of memory that they were read into (write), or by the kernel
 * from file to file, without (copy) and with (reserve) the disk's space asked for before. Before the
 * clock starts it ends the process HOLDER, a number or a dash. That is one of
 *   write_limit hold BYTES
 * which uses so much memory, prints 1, and gives the memory back when it is ended, or its standard
 * input: a virtual machine gets memory from its host when it is first touched, gives it back seconds
 * after it was freed, and both are slower than writing. So all find memory that is there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"

/* Bytes per call: enough that the calls cost nothing. */
#define BLOCK (8u << 20)

static char* NewMemory(size_t length) {
  void* memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void End(int signal) {
  (void)signal;
  _exit(0);
}

static int Hold(size_t length) {
  char* memory = NewMemory(length);
  if (memory == NULL || signal(SIGTERM, End) == SIG_ERR) return Fail("memory");
#ifdef MADV_HUGEPAGE
  /* Large writes take whole huge pages, which do not come of small ones that were freed. */
  madvise(memory, length, MADV_HUGEPAGE);
#endif
  memset(memory, 1, length);
  puts("1");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  return 0;
}

/* Waits until the process, which somebody else has started and waits for, is gone. */
static void EndHolder(const char* number) {
  pid_t holder = (pid_t)strtol(number, NULL, 10);
  if (holder <= 0) return;
  kill(holder, SIGTERM);
  while (kill(holder, 0) == 0) usleep(1000);
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
    size_t wanted = length - done < BLOCK ? length - done : BLOCK;
    ssize_t count = write(target, memory + done, wanted);
    if (count < 0) return -1;
    done += (size_t)count;
  }
  return 0;
}

static int Copy(int source, int target, size_t length, int reserve) {
#ifdef __linux__
  if (reserve && fallocate(target, 0, 0, (off_t)length) != 0) return -1;
  for (size_t done = 0; done < length;) {
    ssize_t count = copy_file_range(source, NULL, target, NULL, length - done, 0);
    if (count <= 0) return -1;
    done += (size_t)count;
  }
  return 0;
#else
  (void)source, (void)target, (void)length, (void)reserve;
  errno = ENOTSUP;
  return -1;
#endif
}

static int Write(const char* method, const char* path, const char* target_path,
                 const char* holder) {
  int source = open(path, O_RDONLY | O_CLOEXEC);
  struct stat file;
  if (source < 0 || fstat(source, &file) != 0) return Fail(path);
  size_t length = (size_t)file.st_size;
  char* memory = NULL;
  if (strcmp(method, "write") == 0 && (memory = ReadWhole(source, length)) == NULL) return Fail(path);
  EndHolder(holder);
  uint64_t before = ResetPeak();
  double start = Milliseconds();
  int target = open(target_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (target < 0) return Fail(target_path);
  int failed = memory != NULL ? WriteAll(target, memory, length)
                              : Copy(source, target, length, strcmp(method, "reserve") == 0);
  if (failed || close(target) != 0) return Fail(target_path);
  double end = Milliseconds();
  printf("{\"elapsed\":%.4f,\"extraMemory\":%lld}\n", end - start,
         (long long)(ReadPeak() - before));
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "hold") == 0) return Hold(strtoull(argv[2], NULL, 10));
  if (argc == 5) return Write(argv[1], argv[2], argv[3], argv[4]);
  fprintf(stderr, "usage: write_limit METHOD SOURCE TARGET HOLDER | write_limit hold BYTES\n");
  return 1;
}
