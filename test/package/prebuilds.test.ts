/** The addons that the package ships: names that they import from their systems. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, describe, expect, it } from 'vitest';
import { SHIPPED_PLATFORMS } from '../../src/platform/addon/location.js';
import { hasLinkersSignature, readBinary } from '../support/binaries.js';
import { pack } from '../support/installed-package.js';
import { root, textOf } from '../support/source-tree.js';

const FILE = 'safetensors-mmap.node';
const MAX_PACKED_BYTES = 1_500_000;
const MAX_UNPACKED_BYTES = 3_400_000;

const EXPORTS = ['napi_register_module_v1', 'node_api_module_get_api_version_v1'];

const C_LIBRARY = `abort close fcntl flock free malloc memchr memcpy memmove mmap munmap pread pwrite
  pthread_mutex_lock pthread_mutex_unlock strlen sysconf`;

/** All have been in GNU's C library since 2.27, and are in musl. */
const LINUX = `${C_LIBRARY} __errno_location copy_file_range fallocate fremovexattr fsetxattr geteuid
  getxattr madvise memset mincore raise sched_yield sigaction sigdelset sigfillset syscall`;

/** Weak ones but for the first two: the file is loaded without them. */
const V8 = `dl_iterate_phdr dlsym gnu_get_libc_version
  _ZN2v811ArrayBuffer15GetBackingStoreEv
  _ZN2v811ArrayBuffer15NewBackingStoreEPvmPFvS1_mS1_ES1_
  _ZN2v811ArrayBuffer3NewEPNS_7IsolateESt10shared_ptrINS_12BackingStoreEE
  _ZN2v812BackingStore12EmptyDeleterEPvmS1_ _ZN2v812BackingStoreD1Ev _ZN2v87Isolate10GetCurrentEv`;

// The compiler calls `bzero` for memory that is set to zero, and `memset_pattern16` for loops that set one value: both
// have been in macOS since 10.5.
const DARWIN = `${C_LIBRARY} __bzero __error bzero dyld_stub_binder fstat fstat$INODE64 memset
  memset_pattern16 posix_madvise`;

const WINDOWS = `AcquireSRWLockExclusive AcquireSRWLockShared AddVectoredExceptionHandler CloseHandle
  CreateFileMappingW DeleteCriticalSection DuplicateHandle EnterCriticalSection GetCurrentProcess
  GetFileInformationByHandle GetFileSizeEx GetLastError GetModuleHandleExW GetModuleHandleW
  GetProcAddress InitializeCriticalSection LeaveCriticalSection LockFileEx MapViewOfFile
  PrefetchVirtualMemory ReadFile ReleaseSRWLockExclusive ReleaseSRWLockShared
  SetFileInformationByHandle Sleep SwitchToThread TlsGetValue UnmapViewOfFile VirtualAlloc VirtualFree
  VirtualProtect VirtualQuery WriteFile __iob_func _amsg_exit _initterm _lock _unlock abort calloc
  free fwrite malloc memchr realloc strlen strncmp vfprintf`;

const SYSTEM = ['/usr/lib/libSystem.B.dylib'];
const LIBRARIES_OF_WINDOWS = ['KERNEL32.dll', 'msvcrt.dll'];

/** Names that a file may take besides those of Node-API, and all libraries that it may need. */
const ALLOWED: Readonly<Record<string, { imports: string; libraries: readonly string[] }>> = {
  'linux-x64': { imports: `${LINUX} ${V8}`, libraries: [] },
  'linux-arm64': { imports: LINUX, libraries: [] },
  'darwin-x64': { imports: DARWIN, libraries: SYSTEM },
  'darwin-arm64': { imports: DARWIN, libraries: SYSTEM },
  'win32-x64': { imports: WINDOWS, libraries: LIBRARIES_OF_WINDOWS },
  'win32-arm64': { imports: WINDOWS, libraries: LIBRARIES_OF_WINDOWS },
};

const sums = new Map(
  textOf('scripts/cross/SHA256SUMS')
    .trimEnd()
    .split('\n')
    .map((line) => line.split('  ').toReversed() as [string, string]),
);

/** The file of a platform; undefined where a local build took its place, or none was made. */
function shippedFile(platform: string): Buffer | undefined {
  const path = join(root, 'prebuilds', platform, FILE);
  if (!existsSync(path)) return undefined;
  const bytes = readFileSync(path);
  const sum = createHash('sha256').update(bytes).digest('hex');
  return sum === sums.get(`${platform}/${FILE}`) ? bytes : undefined;
}

const made = SHIPPED_PLATFORMS.filter((platform) => shippedFile(platform) !== undefined);
const folders: string[] = [];

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-prebuilds-'));
  folders.push(folder);
  return folder;
}

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

describe('the list of files', () => {
  it('has a checksum for every platform, and no other', () => {
    const paths = SHIPPED_PLATFORMS.map((platform) => `${platform}/${FILE}`);
    expect([...sums.keys()]).toEqual(paths);
    expect([...sums.values()].filter((sum) => !/^[0-9a-f]{64}$/.test(sum))).toEqual([]);
    expect(Object.keys(ALLOWED)).toEqual(SHIPPED_PLATFORMS);
  });

  it('is that of the page about platforms', () => {
    const [, section = ''] =
      /^## Platforms\n([\s\S]*?)^## /m.exec(textOf('docs/guarantees.md')) ?? [];
    const labels = Array.from(section.matchAll(/^\| ([^|]+) \|/gm), ([, label = '']) => label);
    const named = labels.flatMap((label) => label.split(', ')).filter((name) => name.includes('-'));
    expect([...new Set(named)].toSorted()).toEqual([...SHIPPED_PLATFORMS].toSorted());
  });

  it('is whole or says what is missing', () => {
    process.stdout.write(`checked files of prebuilds: ${made.join(', ') || 'none was made'}\n`);
    expect([0, SHIPPED_PLATFORMS.length - 1, SHIPPED_PLATFORMS.length]).toContain(made.length);
  });
});

describe.each(made)('%s', (platform) => {
  const file = readBinary(shippedFile(platform) ?? Buffer.alloc(0));
  const { imports = '', libraries = [] } = ALLOWED[platform] ?? {};

  it('needs no library but the system’s', () => {
    expect(file.libraries).toEqual(libraries);
  });

  it('asks for no versions of names', () => {
    expect(file.versions).toEqual([]);
  });

  it('takes nothing but Node-API and what is on the list', () => {
    const allowed = new Set(imports.split(/\s+/));
    const taken = file.imports.filter((name) => !name.startsWith('napi_') && !allowed.has(name));
    expect(taken).toEqual([]);
  });

  it('gives nothing but its two entry points', () => {
    // The linker for macOS makes names public that are hidden in C++. Nobody looks there for them.
    const isHidden = (name: string): boolean =>
      platform.startsWith('darwin-') && name.startsWith('_Z');
    expect(file.exports.filter((name) => !isHidden(name)).toSorted()).toEqual(EXPORTS);
  });
});

it.runIf(made.includes('darwin-arm64'))('darwin-arm64 is signed by the linker', () => {
  const bytes = shippedFile('darwin-arm64') ?? Buffer.alloc(0);
  expect(hasLinkersSignature(bytes)).toBe(true);
  const changed = Buffer.from(bytes);
  changed[bytes.length >> 1] = (changed[bytes.length >> 1] as number) ^ 1;
  expect(hasLinkersSignature(changed)).toBe(false);
});

describe('a release', () => {
  /** Runs the check of a package that has these files, with these sums. */
  function check(
    files: Readonly<Record<string, string>>,
    ...options: readonly string[]
  ): { status: number | null; text: string; written?: string } {
    const folder = makeFolder();
    cpSync(join(root, 'scripts'), join(folder, 'scripts'), {
      recursive: true,
      filter: (path) => !path.includes('node_modules'),
    });
    const lines = SHIPPED_PLATFORMS.map((platform) => sumLine(platform, platform));
    mkdirSync(join(folder, 'prebuilds'));
    writeFileSync(join(folder, 'scripts/cross/SHA256SUMS'), lines.join(''));
    for (const [platform, content] of Object.entries(files)) {
      mkdirSync(join(folder, 'prebuilds', platform));
      writeFileSync(join(folder, 'prebuilds', platform, FILE), content);
    }
    const script = join(folder, 'scripts/check-prebuilds.mjs');
    const { status, stderr } = spawnSync(process.execPath, [script, ...options], {
      encoding: 'utf8',
    });
    const written = join(folder, 'prebuilds/SHA256SUMS');
    return {
      ...{ status, text: stderr },
      ...(existsSync(written) && { written: readFileSync(written, 'utf8') }),
    };
  }

  const sumLine = (platform: string, content: string): string =>
    `${createHash('sha256').update(content).digest('hex')}  ${platform}/${FILE}\n`;

  const all = Object.fromEntries(SHIPPED_PLATFORMS.map((platform) => [platform, platform]));

  it('takes a package that has every file', () => {
    expect(check(all)).toEqual({ status: 0, text: '' });
  });

  it.each(SHIPPED_PLATFORMS)('refuses a package without the file for %s', (platform) => {
    const { [platform]: _, ...others } = all;
    const { status, text } = check(others);
    expect(status).toBe(1);
    expect(text).toMatch(`prebuilds/${platform}/${FILE} is missing\nRun `);
  });

  it('only says it of a tarball, whose SHA256SUMS has the files that are in it', () => {
    const sums = SHIPPED_PLATFORMS.map((platform) => sumLine(platform, platform)).join('');
    expect(check(all, '--pack')).toEqual({ status: 0, text: '', written: sums });
    expect(check({}, '--pack').written).toBe('');
    const { status, text, written } = check({ 'linux-x64': 'compiled here' }, '--pack');
    expect([status, written]).toEqual([0, sumLine('linux-x64', 'compiled here')]);
    const lacking = SHIPPED_PLATFORMS.filter((platform) => platform !== 'linux-x64');
    expect(text).toContain(`no addon for ${lacking.join(', ')}: `);
    expect(text).toContain('made here, not a file of SHA256SUMS: linux-x64.\n');
  });

  it('refuses a file that is not the one of SHA256SUMS', () => {
    const { status, text } = check({ ...all, 'linux-x64': 'compiled here' });
    expect(status).toBe(1);
    expect(text).toMatch(`prebuilds/linux-x64/${FILE} is not the file of SHA256SUMS\nRun `);
  });
});

describe.runIf(made.length === SHIPPED_PLATFORMS.length)('the package with all of them', () => {
  it('is below 1.5 MB, and 3.4 MB unpacked', () => {
    const { size, unpackedSize } = pack(root, join(makeFolder(), 'packed'), '--ignore-scripts');
    process.stdout.write(`packed with all files: ${size} bytes, unpacked ${unpackedSize}\n`);
    expect(size).toBeLessThan(MAX_PACKED_BYTES);
    expect(unpackedSize).toBeLessThan(MAX_UNPACKED_BYTES);
  });
});
