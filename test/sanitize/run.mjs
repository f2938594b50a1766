/**
 * Runs the addon under sanitizers, on Linux with GCC and its runtimes:
 *
 *     node test/sanitize/run.mjs [--quick] [addresses | threads] [paths of tests]
 *
 * `addresses`: tests with an addon that was compiled with AddressSanitizer (with LeakSanitizer) and
 * UndefinedBehaviorSanitizer, in a Node with their runtime, as are all processes that the tests start. Each
 * writes a log; a report in any of them fails the run, and so does a test.
 * `threads`: `threads.cc`, compiled with the addon's sources and ThreadSanitizer. Node itself is too noisy.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { build } from '../../scripts/build.mjs';
import { readOptions, refuse } from '../support/options.mjs';
import { addonParts, compile, folder, root, runtimeLibrary } from './compile.mjs';
import { collectFindings } from './reports.mjs';

const TESTS = [
  'test/platform/addon',
  'test/platform/storage',
  'test/quantized/native-kernels.test.ts',
  'test/tensor/storage',
  'test/file',
  'test/write/save',
  'processes.test.ts',
];

/** A selection for half a minute: each kind of call, faults in mapped pages, workers. */
const QUICK_TESTS = ['binding', 'file-copy', 'guard', 'prefetch', 'range-reads', 'replacement'].map(
  (name) => `test/platform/addon/${name}.test.ts`,
);

/** Tests of what AddressSanitizer changes: it keeps freed memory, and takes no memory at all as if it were there. */
const NOT_COMPARABLE = [
  // Measure private memory. LeakSanitizer reports such leaks itself.
  'nothing is left behind .*\\d (?:times|files)',
  // Ask for more bytes than there are addresses, or leave fewer than the sanitizer's own 16 TB.
  'more bytes than one buffer or the address space holds',
  'under a limit of .* of addresses',
];

/** Starts a program in the project's folder; false unless it ends well. */
function run(program, args, env) {
  const options = { cwd: root, env: { ...process.env, ...env }, stdio: 'inherit' };
  const { status, signal, error } = spawnSync(program, args, options);
  if (status !== 0) console.error(`sanitize: ${program}: ${error?.message ?? signal ?? status}`);
  return status === 0;
}

function options(settings) {
  return Object.entries(settings)
    .map((setting) => setting.join('='))
    .join(':');
}

async function checkAddresses(tests) {
  const sanitizers = ['-fsanitize=address,undefined,float-cast-overflow'];
  // Its functions hidden: otherwise the name of its log goes to the other runtime, and reports to stderr.
  const linker = ['-shared', '-static-libubsan', '-Wl,--exclude-libs,ALL'];
  const addon = await compile('safetensors-mmap.node', addonParts(), sanitizers, linker);
  const own = { flags: [], linkerFlags: ['-shared'], sources: ['test/sanitize/leak_check.cc'] };
  const logs = join(folder, 'logs');
  rmSync(logs, { recursive: true, force: true });
  mkdirSync(logs);
  const env = {
    SAFETENSORS_MMAP_ADDON: addon,
    SANITIZE_LEAK_CHECK: await compile('leak-check.node', [own], [], []),
    // Without the C++ library the runtime does not find what to call when something is thrown.
    LD_PRELOAD: `${await runtimeLibrary('libasan.so')} ${await runtimeLibrary('libstdc++.so')}`,
    ASAN_OPTIONS: options({
      log_path: join(logs, 'addresses'),
      // An error ends a process by a signal, and a leak leaves its exit code alone: shells leak.
      abort_on_error: 1,
      exitcode: 0,
      // The guard handles SIGBUS, and tests expect of some processes that it ends them.
      handle_sigbus: 0,
      allocator_may_return_null: 1,
      detect_stack_use_after_return: 1,
      // Naming Node's functions takes seconds in each process; the addon's are named below.
      symbolize: 0,
    }),
    UBSAN_OPTIONS: options({
      log_path: join(logs, 'undefined'),
      print_stacktrace: 1,
      symbolize: 0,
    }),
    // Python's readers have no part in this, and leak.
    SAFETENSORS_PYTHON: '',
  };
  const vitest = [
    ...['node_modules/vitest/vitest.mjs', 'run', '--project=sanitize', ...tests],
    ...['--testNamePattern', `^(?!.*(?:${NOT_COMPARABLE.join('|')}))`],
  ];
  const passed = run(process.execPath, vitest, env);
  const found = collectFindings(logs, addon);
  for (const report of found) console.error(`${report}\n`);
  console.log(`sanitize: addresses: ${found.length} reports`);
  return passed && found.length === 0;
}

/** These functions replace pages under readers on purpose: the kernel does it in one step. */
const REPLACED_PAGES = ['race:LayZeros'];

async function checkThreads(seconds) {
  const more = ['event_loop', 'node_api', 'threads'].map((name) => `test/sanitize/${name}.cc`);
  // Functions that the stand-in for Node-API lacks are never called.
  const linker = ['-pthread', '-no-pie', '-Wl,--unresolved-symbols=ignore-all'];
  const program = await compile('threads', addonParts(more), ['-fsanitize=thread'], linker);
  const scratch = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  const suppressions = join(scratch, 'suppressions');
  writeFileSync(suppressions, REPLACED_PAGES.join('\n'));
  const seed = String(Date.now() % 2 ** 31);
  console.log(`sanitize: threads: seed ${seed}`);
  try {
    return run(program, [scratch, String(seconds), seed], {
      // The longest history: of a write whose stack is forgotten nobody can tell that it replaced pages.
      TSAN_OPTIONS: options({ suppressions, second_deadlock_stack: 1, history_size: 7 }),
    });
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

const USAGE = `node test/sanitize/run.mjs [addresses | threads] [--quick] [PATHS]
  addresses  tests with AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer
  threads    many environments at once, with ThreadSanitizer; both unless told
  --quick    half a minute
  PATHS      of tests, for addresses, such as test/save`;

const { values, positionals } = readOptions('sanitize', USAGE, {
  quick: { type: 'boolean', default: false },
});
const paths = positionals.filter((word) => word !== 'addresses' && word !== 'threads');
for (const path of paths) {
  if (!existsSync(join(root, path))) refuse('sanitize', `there is no part and no test ${path}`);
}
const parts = positionals.filter((word) => !paths.includes(word));
const tests = paths.length > 0 ? paths : values.quick ? QUICK_TESTS : TESTS;
const isWanted = (part) => parts.length === 0 || parts.includes(part);
await build();
let passed = true;
if (isWanted('threads')) passed = (await checkThreads(values.quick ? 5 : 60)) && passed;
if (isWanted('addresses')) passed = (await checkAddresses(tests)) && passed;
if (!passed) process.exitCode = 1;
