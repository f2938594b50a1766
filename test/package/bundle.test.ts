/** The bundle in `lib/`, which the package ships: the cost of importing it. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { safeOpen } from '../../src/index.js';
import { publicNames } from '../support/examples.js';
import { temporaryPath } from '../support/make-file.js';
import { measureInChild, runChild } from '../support/run-child.js';
import { root, textOf } from '../support/source-tree.js';

/** Code that entries share, or load late. */
const SHARED = [
  'core.js',
  'verification.js',
  'writing.js',
  'shared.js',
  'yaml.js',
  'verify-values.js',
  'program.js',
  'listing.js',
  'show.js',
  'commands.js',
  'foreign.js',
  'torch.js',
  'conversion.js',
  'convert-remote.js',
  'remote-core.js',
  'distributed.js',
  'download.js',
  'dequantizing.js',
  'merging.js',
  'merged-files.js',
  'inspection.js',
];

test('the package has a file for each entry, one for its program, and some of shared code', () => {
  const scripts = readdirSync(join(root, 'lib'), { recursive: true, encoding: 'utf8' }).filter(
    // Which chunks the entries for browsers share is up to the bundler.
    (path) => path.endsWith('.js') && !path.startsWith('browser'),
  );
  const { exports, bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  type Target = { default?: string };
  const entries = Object.values<Target>(exports).flatMap(({ default: path }) =>
    path === undefined ? [] : [path.replace('./lib/', '')],
  );
  const programs = new Set(Object.values<string>(bin).map((path) => path.replace('./lib/', '')));
  expect(scripts.toSorted()).toEqual([...entries, ...programs, ...SHARED].toSorted());
});

test('the map, which a clone has, names the sources without their texts, and finds the lines of a stack', () => {
  const map: SourceMapPayload = JSON.parse(readFileSync(join(root, 'lib/core.js.map'), 'utf8'));
  expect(map.sources.length).toBeGreaterThan(100);
  for (const source of map.sources) expect(textOf(source.replace('../', ''))).not.toBe('');
  expect(map).not.toHaveProperty('sourcesContent');
  const program =
    "import('safetensors-mmap').then(({ splitStateDictIntoShards }) => " +
    "splitStateDictIntoShards([], { maxShardSize: 'x' }))";
  const { stderr } = spawnSync(process.execPath, ['-e', program], { cwd: root, encoding: 'utf8' });
  const frames = [...stderr.matchAll(/ at (?:new )?(\w+) \(\S*lib\/core\.js:(\d+):(\d+)\)/g)];
  const positions = new SourceMap(map);
  const calls = frames.map(([, name = '', line, column]) => {
    const entry = positions.findEntry(Number(line) - 1, Number(column) - 1);
    if (!('originalSource' in entry)) throw new Error(`the map has no entry for line ${line}`);
    const lines = textOf(entry.originalSource.replace('../', '')).split('\n');
    const text = lines[entry.originalLine] ?? '';
    return { name, called: /^(?:new )?(\w+)/.exec(text.slice(entry.originalColumn))?.[1] };
  });
  expect(calls.length).toBeGreaterThan(2);
  for (const [i, { called }] of calls.slice(1).entries()) expect(called).toBe(calls[i]?.name);
});

test('classes have their names, which people see in stacks and when they print', async () => {
  const path = '../../lib/index.js';
  const bundle = (await import(path)) as typeof import('../../src/index.js');
  const isPublic = ([name]: [string, unknown]): boolean => publicNames().has(name);
  const own = Object.entries(bundle)
    .filter(isPublic)
    .filter(([, value]) => typeof value === 'function');
  expect(own.length).toBeGreaterThan(15);
  expect(own.map(([, value]) => (value as { name: string }).name)).toEqual(
    own.map(([name]) => name),
  );
  const file = bundle.parse(
    bundle.serialize({ t: { dtype: 'U8', shape: [1], data: new Uint8Array(1) } }),
  );
  expect(file.constructor.name).toBe('Checkpoint');
  expect(file.getTensor('t').constructor.name).toBe('TensorOf');
});

/** What is imported statically, over all files that these import. */
function loadedBy(name: string, loaded = new Set<string>()): Set<string> {
  if (loaded.has(name)) return loaded;
  loaded.add(name);
  const text = readFileSync(join(root, 'lib', name), 'utf8');
  for (const [, other = ''] of text.matchAll(
    /(?<=^|;)(?:import|export)\b[^;()]*?["']\.\/([^"']+)["']/gm,
  )) {
    loadedBy(other, loaded);
  }
  return loaded;
}

test('an entry loads what reads, and leaves the rest to its first call', () => {
  expect([...loadedBy('index.js')]).toEqual(['index.js', 'core.js']);
  expect([...loadedBy('cli.js')]).toEqual(['cli.js']);
  expect([...loadedBy('program.js')]).toEqual(['program.js', 'core.js']);
  expect([...loadedBy('inspect.js')]).toEqual(['inspect.js', 'core.js', 'inspection.js']);
  const { sources } = JSON.parse(readFileSync(join(root, 'lib/core.js.map'), 'utf8')) as {
    sources: readonly string[];
  };
  // The public functions themselves are there, and import their code on the first call.
  const late = /src\/(?:remote|foreign|write\/(?:checkpoint|convert)|file\/verification)\//;
  const functions = /(?:save-checkpoint|scan-pickle|download\/download)\.ts$/;
  expect(sources.filter((path) => late.test(path) && !functions.test(path))).toEqual([]);
  // A failed load of a file lasts on Node 20: a save without a free descriptor would make all later ones fail.
  expect(sources).toContain('../src/write/save/save.ts');
});

test('a program that reads loads no file that writes; what writes comes with the first call', async () => {
  const { read, wrote, converted } = await measureInChild<Record<string, readonly string[]>>(
    'package/children/loaded-files.mjs',
  );
  expect(read).toEqual(['core.js', 'index.js']);
  expect(wrote).toEqual(['core.js', 'dequantizing.js', 'index.js', 'shared.js', 'writing.js']);
  const files = [
    'conversion.js',
    'core.js',
    'dequantizing.js',
    'foreign.js',
    'index.js',
    'shared.js',
    'torch.js',
    'writing.js',
  ];
  expect(converted).toEqual(files);
});

// `verify` takes the formats of files from a copy: the readers of the other formats are long.
test.each<readonly [command: string, more: readonly string[]]>([
  ['header', []],
  ['inspect', ['listing.js', 'shared.js']],
  ['verify', ['shared.js', 'verification.js']],
  ['show', ['inspection.js', 'listing.js', 'show.js']],
])('`%s` of a safetensors file loads no other command, format or writer', async (command, more) => {
  const path = join(root, 'test/fixtures/gguf/iq4_xs/expected.safetensors');
  const [name = ''] = safeOpen(path).keys();
  const args = command === 'show' ? [command, path, name] : [command, path];
  const { stdout } = await runChild('package/children/loaded-by-command.mjs', args);
  const files: readonly string[] = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
  expect(files).toEqual(['cli.js', 'core.js', 'program.js', ...more].sort());
});

test('opening an address, and the entry `hub`, loads nothing that writes or reads other formats', () => {
  expect([...loadedBy('remote-core.js')].sort()).toEqual([
    'core.js',
    'remote-core.js',
    'shared.js',
  ]);
  expect([...loadedBy('hub.js')].sort()).toEqual([
    'core.js',
    'hub.js',
    'remote-core.js',
    'shared.js',
  ]);
});

test('opening a PyTorch checkpoint loads one more file', () => {
  expect([...loadedBy('torch.js')].sort()).toEqual(['core.js', 'torch.js']);
});

test.each(['--version', '-v', '-V'])('%s prints the version, and loads nothing', async (option) => {
  const { version } = JSON.parse(textOf('package.json'));
  const { stdout } = await runChild('package/children/loaded-by-command.mjs', [option]);
  expect(stdout).toBe(`${version}\n["cli.js"]\n`);
});

const hasCompileCache = Reflect.has(nodeModule, 'enableCompileCache');

test.skipIf(!hasCompileCache)(
  'compiled code of commands is cached in the folder of the user',
  async () => {
    const folder = temporaryPath('caches');
    const paths = async (variables: NodeJS.ProcessEnv): Promise<string[]> => {
      const env = {
        NODE_COMPILE_CACHE: undefined,
        NODE_DISABLE_COMPILE_CACHE: undefined,
        ...variables,
      };
      const { code } = await runChild('package/children/loaded-by-command.mjs', ['--help'], {
        env,
      });
      expect(code).toBe(0);
      return existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : [];
    };
    const home = { XDG_CACHE_HOME: '', HOME: folder };
    expect(await paths({ ...home, NODE_DISABLE_COMPILE_CACHE: '1' })).toEqual([]);
    expect(await paths({ XDG_CACHE_HOME: '', HOME: '' })).toEqual([]);
    expect(await paths(home)).toContain(join('.cache', 'safetensors-mmap', 'compiled'));
    expect(await paths({ XDG_CACHE_HOME: folder })).toContain(join('safetensors-mmap', 'compiled'));
  },
);

test.each(['hub', 'inspect', 'browser/hub', 'browser/inspect'])(
  'entries share their classes: %s and the core',
  async (name) => {
    const index = join(dirname(name), 'index');
    const [core, other] = await Promise.all(
      [`../../lib/${index}.js`, `../../lib/${name}.js`].map(
        async (path) => new Map<string, unknown>(Object.entries((await import(path)) as object)),
      ),
    );
    const shared = [...(core?.keys() ?? [])].filter((key) => other?.has(key));
    expect(shared.filter((key) => key.endsWith('Error')).length).toBeGreaterThan(
      name.endsWith('hub') ? 2 : 0,
    );
    for (const key of shared) expect(other?.get(key), key).toBe(core?.get(key));
  },
);

test.each(['index', 'hub', 'inspect'])(
  'the bundle of %s for browsers has nothing of Node',
  (name) => {
    const [, ...chunks] = modulesOf(join(root, `lib/browser/${name}.js`)).map((path) => {
      const text = readFileSync(path, 'utf8');
      expect(text.match(/["']node:|\bprocess\.|\brequire\s*\(/g), path).toBeNull();
      return path;
    });
    expect(chunks.map((path) => dirname(path))).toEqual(
      chunks.map(() => join(root, 'lib/browser')),
    );
  },
);

test('the command line has no copy of what opens remote checkpoints, or writes them', () => {
  const sources = ['program', 'commands'].flatMap((name) => {
    const map: SourceMapPayload = JSON.parse(
      readFileSync(join(root, `lib/${name}.js.map`), 'utf8'),
    );
    return map.sources;
  });
  expect(sources.length).toBeGreaterThan(80);
  const large = /remote\/(?:session|checkpoint)|write\/checkpoint\/plan|foreign\/torch\/open/;
  expect(sources.filter((source) => large.test(source))).toEqual([]);
});

test('no builtin is imported statically', () => {
  const text = readFileSync(join(root, 'lib/core.js'), 'utf8');
  expect(text.match(/^(?:import|export)\b.*\bfrom\s*["'](?!\.).*$/gm)).toBeNull();
  expect(text).toContain('process.getBuiltinModule');
});

test('importing loads no builtin that only writing needs', async () => {
  const loaded = await measureInChild<string[]>('package/children/import-builtins.mjs');
  expect(loaded.length).toBeLessThan(10);
  const needless = /crypto|fs\/promises|child_process|net$|http|stream/;
  expect(loaded.filter((name) => needless.test(name))).toEqual([]);
});

test.each(['torch/zip-all-dtypes.pt', 'gguf/iq4_xs/expected.safetensors'])(
  '`open` of %s loads neither zlib nor performance hooks',
  async (name) => {
    const path = join(root, 'test/fixtures', name);
    const loaded = await measureInChild<string[]>('package/children/opening-builtins.mjs', [path]);
    expect(loaded.filter((module) => / (?:zlib|perf_hooks)$/.test(module))).toEqual([]);
  },
);

test('entries for browsers share their classes, and read quantized weights together', async () => {
  const { dequantize, open, RemoteError, select } = await import('../../lib/browser/index.js');
  const hub = await import('../../lib/browser/hub.js');
  expect(RemoteError).toBe(hub.RemoteError);
  const { serialize } = await import('../../lib/index.js');
  const bytes = serialize({
    'm.weight': { dtype: 'F8_E4M3', shape: [2, 2], data: Uint8Array.of(56, 64, 68, 72) },
    'm.weight_scale': { dtype: 'F32', shape: [], data: Float32Array.of(0.5) },
    norm: { dtype: 'BF16', shape: [1], data: Uint16Array.of(0x3f80) },
  });
  const model = await dequantize(await open(new Blob([bytes])));
  expect([...(await model.getTensor('m.weight')).toFloat32()]).toEqual([0.5, 1, 1.5, 2]);
  const halves = select(model, { dtype: 'F16' });
  expect((await halves.getTensor('norm')).data).toEqual(Uint16Array.of(0x3c00));
});

/** A module of lib/ and those that it imports, once each. */
function modulesOf(path: string, found: string[] = []): string[] {
  if (found.includes(path)) return found;
  found.push(path);
  for (const [, id = ''] of readFileSync(path, 'utf8').matchAll(/\bfrom\s*["'](.+?)["']/g)) {
    expect(id).toMatch(/^\.{1,2}\//);
    modulesOf(join(dirname(path), id), found);
  }
  return found;
}
