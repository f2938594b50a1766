/** Status and warning where files cannot be mapped. */
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import process from 'node:process';
import { beforeEach, describe, expect, test } from 'vitest';
import { SHIPPED_PLATFORMS } from '../../../src/platform/addon/location.js';
import { type MappingStatus, mappingStatus } from '../../support/api.js';
import { writeTemporary } from '../../support/make-file.js';
import { type ChildOptions, measureInChild } from '../../support/run-child.js';
import { root } from '../../support/source-tree.js';

interface Seen {
  readonly read: unknown;
  readonly warnedOfRead: boolean;
  readonly opened: readonly unknown[];
  readonly mapped: unknown;
  readonly warnings: readonly { name: string; code: string; message: string }[];
  readonly status: MappingStatus;
}

const shipped = join(root, `prebuilds/${process.platform}-${process.arch}/safetensors-mmap.node`);

/** Node 20 has the flag under its first name. */
const permission: string = process.allowedNodeEnvironmentFlags.has('--permission')
  ? '--permission'
  : '--experimental-permission';

let path: string;

beforeEach(() => {
  path = writeTemporary([{ name: 't', dtype: 'U8', shape: [4] }]);
});

function look(options: ChildOptions, ...args: readonly string[]): Promise<Seen> {
  return measureInChild<Seen>('tensor/storage/children/status.mjs', [path, ...args], options);
}

function named(file: string): ChildOptions {
  return { env: { SAFETENSORS_MMAP_ADDON: file } };
}

function expectMapped(seen: Seen, addon: string): void {
  expect(seen).toEqual({
    read: 'read 1,2,3,4',
    warnedOfRead: false,
    opened: ['mmap 1,2,3,4', 'mmap 1,2,3,4', 'mmap 1,2,3,4'],
    mapped: 'mmap 1,2,3,4',
    warnings: [],
    status: { ...mappingStatus(), available: true, addon },
  });
}

/** Files are read, and warning, error and status give the same reason and remedy. */
function expectRead({ status, ...seen }: Seen, reason: string, remedy: RegExp): void {
  expect(status).toEqual({ available: false, reason, remedy: expect.stringMatching(remedy) });
  const explanation = `because ${reason}. ${(status as { remedy: string }).remedy}. `;
  expect(seen).toEqual({
    read: 'read 1,2,3,4',
    warnedOfRead: false,
    opened: ['read 1,2,3,4', 'read 1,2,3,4', 'read 1,2,3,4'],
    mapped: {
      code: 'SAFETENSORS_MAPPING_UNAVAILABLE',
      message: expect.stringContaining(`cannot map the file, ${explanation}`),
    },
    warnings: [
      {
        name: 'SafetensorsWarning',
        code: 'SAFETENSORS_MAPPING_UNAVAILABLE',
        message: expect.stringContaining(
          `${path} is read into memory instead of mapped, ${explanation}`,
        ),
      },
    ],
  });
}

describe('with an addon', () => {
  test('files are mapped without a word', async () => {
    expect(existsSync(shipped)).toBe(true);
    expectMapped(await look({}), shipped);
  });

  test('the sources find the same file as the bundle', () => {
    const buffers = expect.anything();
    expect(mappingStatus()).toEqual({ available: true, addon: shipped, buffers });
  });

  test('the environment can name it, also relative to the working directory', async () => {
    expectMapped(await look(named(shipped)), shipped);
    expectMapped(await look(named(relative(process.cwd(), shipped))), shipped);
  });

  test('the program can name it after it has imported the package', async () => {
    expectMapped(await look(named('elsewhere.node'), shipped), shipped);
  });

  test('an environment that may not be read, as in Deno, names none', async () => {
    const preload = `
      const get = (env, name) => {
        if (name === 'SAFETENSORS_MMAP_ADDON') throw new Error(name);
        return env[name];
      };
      Object.defineProperty(process, 'env', { value: new Proxy(process.env, { get }) });`;
    const flags = ['--import', `data:text/javascript,${encodeURIComponent(preload)}`];
    expectMapped(await look({ flags }), shipped);
  });
});

describe('without one', () => {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-'));

  test('the path where it should be is named', async () => {
    const missing = join(folder, 'missing.node');
    const seen = await look(named(missing));
    const platform = `${process.platform}-${process.arch}`;
    expectRead(
      seen,
      `found no addon for ${platform} at ${missing}`,
      /^SAFETENSORS_MMAP_ADDON has this/,
    );
  });

  const here = `${process.platform}-${process.arch}`;

  test.each(SHIPPED_PLATFORMS.filter((platform) => platform !== here))(
    'on %s the file of that platform is looked for',
    async (platform) => {
      const [system, arch] = platform.split('-');
      const values = `{ platform: { value: "${system}" }, arch: { value: "${arch}" } }`;
      const preload = `Object.defineProperties(process, ${values})`;
      const seen = await look({ flags: ['--import', `data:text/javascript,${preload}`] });
      // A compiled file exists, and cannot be loaded here.
      expect(JSON.stringify(seen)).toContain(`prebuilds/${platform}/safetensors-mmap.node`);
    },
  );

  test('a platform that the package has none for is told how to make one', async () => {
    const preload = 'Object.defineProperty(process, "arch", { value: "riscv64" })';
    const seen = await look({ flags: ['--import', `data:text/javascript,${preload}`] });
    const missing = join(root, `prebuilds/${process.platform}-riscv64/safetensors-mmap.node`);
    const reason = `found no addon for ${process.platform}-riscv64 at ${missing}`;
    expectRead(seen, reason, /^The package has one for linux-x64, .*, win32-arm64\. .*compile/);
  });

  test('a file that is no addon is named, with what the system says of it', async () => {
    const broken = join(folder, 'broken.node');
    writeFileSync(broken, 'not an addon');
    const seen = await look(named(broken));
    const reason = `the addon at ${broken} cannot be loaded: file too short`;
    expectRead(seen, reason, /docs\/guarantees/);
  });

  test('what the system says of it in further lines, as in Deno, is left out', async () => {
    const preload = `process.dlopen = () => { throw new Error('no header\\n  path: there') };`;
    const flags = ['--import', `data:text/javascript,${encodeURIComponent(preload)}`];
    const reason = `the addon at ${shipped} cannot be loaded: no header`;
    expectRead(await look({ ...named(shipped), flags }), reason, /docs\/guarantees/);
  });

  test('a package without its file should be installed again', async () => {
    const preload = `
      import fs from 'node:fs';
      import { syncBuiltinESMExports } from 'node:module';
      fs.existsSync = () => false;
      syncBuiltinESMExports();
      process.dlopen = () => { throw new Error('no such file') };`;
    const flags = ['--import', `data:text/javascript,${encodeURIComponent(preload)}`];
    const reason = `found no addon for ${here} at ${shipped}`;
    expectRead(await look({ flags }), reason, /^Install .* again; if the program is bundled, /);
  });

  test.each([
    ['of another version', "exports.version = () => '0.0.1'"],
    ['of another package', ''],
  ])('an addon %s is not used', async (_, contents) => {
    const preload = `process.dlopen = ({ exports }) => { ${contents} };`;
    const seen = await look({
      ...named(shipped),
      flags: ['--import', `data:text/javascript,${encodeURIComponent(preload)}`],
    });
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const reason = `the addon at ${shipped} is not that of safetensors-mmap ${version}`;
    expectRead(seen, reason, /same package version/);
  });

  test.each([
    ['forbids foreign memory, as Electron does,', 'externalBuffersAllowed', /foreign memory/],
    [
      'keeps its descriptors, as Deno for Windows',
      'descriptorsWork',
      /file descriptors on Windows/,
    ],
  ])('a runtime that %s reads', async (_, question, reason) => {
    const preload = `
      const load = process.dlopen;
      process.dlopen = (module, path) => {
        load.call(process, module, path);
        const answer = { ${question}: { value: () => false } };
        module.exports = Object.create(module.exports, answer);
      };`;
    const flags = ['--import', `data:text/javascript,${encodeURIComponent(preload)}`];
    const seen = await look({ flags });
    const { reason: said } = seen.status as { reason: string };
    expect(said).toMatch(reason);
    expectRead(seen, said, /^Run the program in Node/);
  });

  test(`Node's ${permission} is named`, async () => {
    const seen = await look({ flags: [permission, '--allow-fs-read=*'] });
    const reason = 'Node was started with --permission, which forbids addons';
    const isOurs = ({ code }: { code: string }): boolean => code?.startsWith('SAFETENSORS_');
    expectRead({ ...seen, warnings: seen.warnings.filter(isOurs) }, reason, /--allow-addons/);
  });

  test(`${permission} with --allow-addons maps`, async () => {
    const seen = await look({ flags: [permission, '--allow-fs-read=*', '--allow-addons'] });
    expectMapped({ ...seen, warnings: [] }, shipped);
    expect(seen.warnings.filter(({ code }) => code?.startsWith('SAFETENSORS_'))).toEqual([]);
  });
});
