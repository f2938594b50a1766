// GNU's C++ library for programs that were made for musl, from Debian's own: Bun's build for musl asks for it,
// and Debian has it only for its C library. Good enough for tests, and for nothing else.

import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Functions of GNU's C library that the C++ library calls and musl lacks. */
const MISSING = `#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/random.h>
char __libc_single_threaded = 0;
void *__dso_handle = 0;
int _dl_find_object(void *address, void *result) { return -1; }
int __cxa_thread_atexit_impl(void (*end)(void *), void *object, void *library) { return 0; }
unsigned arc4random(void) { unsigned n; getrandom(&n, sizeof n, 0); return n; }
void _ZSt21__glibcxx_assert_failPKciS0_S0_(const char *f, int l, const char *n, const char *c) { abort(); }
`;

const NOT_OF_THE_LIBRARY = /assert_fail|__cxa_(?:finalize|thread_atexit_impl|atexit)$/;

function run(program, args, options) {
  const { error, status, stdout, stderr } = spawnSync(program, args, {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    ...options,
  });
  if (error !== undefined) throw new Error(`${program}: ${error.message}`);
  if (status !== 0) throw new Error(`${program} ended with ${status}\n${stdout}${stderr}`);
  return stdout;
}

/** Names that the program takes from the library, or has copies of. */
function namesOf(program) {
  return run('nm', ['-D', program])
    .split('\n')
    .filter((line) => / [Uw] |B _ZTV/.test(line))
    .map((line) => line.split(' ').at(-1))
    .filter((name) => /^(?:_Z|__cxa_|__dynamic_cast|__gxx|_Unwind)/.test(name))
    .filter((name) => !NOT_OF_THE_LIBRARY.test(name));
}

/** Makes the library that a program asks for; returns the folder that has it. */
export function makeCxxLibrary(program, scratch) {
  const folder = join(scratch, 'musl');
  mkdirSync(folder);
  writeFileSync(join(folder, 'missing.c'), MISSING);
  const archives = ['libstdc++.a', 'libgcc_eh.a', 'libgcc.a'].map((name) =>
    run('gcc', [`-print-file-name=${name}`]).trim(),
  );
  const names = namesOf(program).map((name) => `-Wl,-u,${name}`);
  const args = ['-shared', '-nostartfiles', '-fPIC', '-o', 'libstdc++.so.6', 'missing.c'];
  run('musl-gcc', [...args, ...names, ...archives], { cwd: folder });
  return folder;
}
