// Prints how many handles a process of Windows has: those that can be duplicated. Its own count would be
// GetProcessHandleCount, which returns 0 under wine. For tests under wine; on Windows PowerShell knows it.
//
//     zig cc -target x86_64-windows-gnu test/platforms/handle-count.c -o handle-count.exe

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  const DWORD id = (DWORD)strtoul(argv[1], NULL, 10);
  const HANDLE process = OpenProcess(PROCESS_DUP_HANDLE, FALSE, id);
  if (process == NULL) return 1;
  unsigned count = 0;
  // Handles are multiples of 4, and the lowest that is free is taken.
  for (uintptr_t value = 4; value < 65536; value += 4) {
    HANDLE copy;
    if (!DuplicateHandle(process, (HANDLE)value, GetCurrentProcess(), &copy, 0, FALSE,
                         DUPLICATE_SAME_ACCESS)) {
      continue;
    }
    count++;
    CloseHandle(copy);
  }
  printf("%u\n", count);
  return 0;
}
