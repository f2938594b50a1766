/**
 * All tests, as projects. `npm test` runs `unit` and `mocked`, `npm run test:all` also `slow` and `measured`. The other
 * projects need more than a clone has, or run tests again in another way: they exist only under `--project`.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  configDefaults,
  defineConfig,
  type Plugin,
  type TestProjectInlineConfiguration,
} from 'vitest/config';

const root: string = fileURLToPath(new URL('.', import.meta.url));

/** A test above a second. */
const SLOW = 'test/**/*.slow.test.ts';
/** Reads processor time or memory of a process, which other tests on the same machine would change. */
const MEASURED = 'test/**/*.measured.test.ts';
/** Tests in these folders install tools or need browsers. */
const WITH_TOOLS = ['deploy', 'examples', 'site', 'viewer/browser'].map(
  (name) => `test/${name}/**`,
);
const exclude = [...configDefaults.exclude, ...WITH_TOOLS];

/** Tests and benchmarks import the package by its name. */
const alias = [
  ...['', '/hub', '/inspect'].map((entry) => ({
    find: new RegExp(`^safetensors-mmap${entry}$`),
    replacement: join(root, `src/${entry.slice(1) || 'index'}.ts`),
  })),
  { find: '#runtime', replacement: join(root, 'src/runtime.ts') },
];

type Options = NonNullable<TestProjectInlineConfiguration['test']>;

function project(
  name: string,
  options: Options,
  plugins: Plugin[] = [],
): TestProjectInlineConfiguration {
  return {
    resolve: { alias },
    plugins,
    test: {
      name,
      exclude: configDefaults.exclude,
      globalSetup: ['test/support/built-package.ts', 'test/support/python-server.ts'],
      setupFiles: ['test/support/equal-arrays.ts'],
      // Tests that crash their process or measure it run their subject in child processes.
      pool: 'forks',
      // Machines that run other work take many times as long: limits end what never ends.
      testTimeout: 180_000,
      hookTimeout: 180_000,
      expect: { poll: { timeout: 60_000 } },
      ...options,
    },
  };
}

const PUBLIC_ENTRY = /'(?:\.\.\/)+src\/(index|hub|inspect)\.js'/;
/** How tests import public names. */
const PUBLIC_NAMES = /'(?:\.\.\/)+support\/api\.js'/;
const INTERNALS = /'(?:\.\.\/)+src\/[\w-]+\/|vi\.mock\(/;

const textOf = (path: string): string => readFileSync(join(root, path), 'utf8');

function unitTests(): string[] {
  return readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .map((path) => `test/${path.replaceAll('\\', '/')}`)
    .filter((path) => /(?<!\.slow|\.measured)\.test\.ts$/.test(path))
    .filter((path) => !/^test\/(?:deploy|examples|site|viewer\/browser)\//.test(path));
}

/** Unit tests that only use public names: they also hold for the bundle in `lib`. */
function publicTests(): string[] {
  return unitTests()
    .filter((path) => !/^test\/(?:benchmarks|viewer)\//.test(path))
    .filter((path) => PUBLIC_NAMES.test(textOf(path)) && !INTERNALS.test(textOf(path)));
}

const bundleForSources: Plugin = {
  name: 'bundle-for-sources',
  enforce: 'pre',
  resolveId: (id: string) => {
    const [, entry] = PUBLIC_ENTRY.exec(`'${id}'`) ?? [];
    return entry === undefined ? undefined : join(root, `lib/${entry}.js`);
  },
};

/** Unit tests that replace modules, globals or clocks, which the modules of `src` would remember: a process each. */
const REPLACING =
  /vi\.(?:mock|doMock|resetModules|useFakeTimers|setSystemTime|stubGlobal)\(|spyOn\((?:globalThis|performance|Date|process)\b/;
const mocked = unitTests().filter((path) => REPLACING.test(textOf(path)));

/** `npx vitest test/tensor` runs these only. */
const projects = [
  project('unit', {
    include: ['test/**/*.test.ts'],
    exclude: [...exclude, SLOW, MEASURED, ...mocked],
    // A third less processor time than with a process and an import of all sources for each file.
    isolate: false,
    runner: 'test/support/shared-sources.mjs',
  }),
  project('mocked', { include: mocked }),
  project('slow', { include: [SLOW], exclude, sequence: { groupOrder: 1 } }),
  project('measured', {
    include: [MEASURED],
    exclude,
    maxWorkers: 1,
    // Child processes that are measured at the same time.
    maxConcurrency: 2,
    sequence: { groupOrder: 2 },
  }),
];
if (process.argv.some((argument) => argument.startsWith('--project'))) {
  projects.push(
    project('bundle', { include: publicTests() }, [bundleForSources]),
    project('sanitize', {
      include: ['test/**/*.test.ts'],
      // It is about the path of the addon, which is another one here.
      exclude: [...exclude, 'test/platform/storage/mapping-status.test.ts'],
      setupFiles: ['test/sanitize/check-leaks.ts'],
      testTimeout: 900_000,
      hookTimeout: 900_000,
    }),
    project('deploy', {
      include: ['test/deploy/*.test.ts'],
      globalSetup: ['test/deploy/setup.ts'],
      // Builds by Next.js take a minute where other things run.
      testTimeout: 600_000,
    }),
    project('examples', {
      include: ['test/examples/*.test.ts'],
      globalSetup: ['test/support/python-server.ts', 'test/examples/setup.ts'],
      testTimeout: 600_000,
    }),
    project('viewer', {
      include: ['test/viewer/page.test.ts', 'test/viewer/browser/*.test.ts'],
      globalSetup: [
        'test/viewer/browser/setup.ts',
        'test/support/built-package.ts',
        'test/support/python-server.ts',
      ],
      // One browser at a time: times and memory are measured.
      fileParallelism: false,
    }),
    project('site', {
      include: ['test/site/*.test.ts'],
      globalSetup: [],
      // The first run installs its tools.
      hookTimeout: 1_200_000,
    }),
  );
}

export default defineConfig({ test: { maxWorkers: 2, projects } });
