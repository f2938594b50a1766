/** Nothing in the tree may tie it to one machine or to one package registry. */
import { describe, expect, it } from 'vitest';
import { filesBelow, textOf } from '../support/source-tree.js';

/** Text files, fixtures included; binary ones could contain any byte sequence. */
const files = filesBelow('.').filter(
  (path) =>
    /(?:^|\/)(?:LICENSE|run|full|\.[a-z-]+)$|\.(?:[cm]?[jt]s|py|cc|c|h|sh|json|md|txt|gypi?|ya?ml)$/.test(
      path,
    ) && !path.endsWith('.safetensors'),
);

const lockFiles = files.filter((path) => path.endsWith('package-lock.json'));

function matching(pattern: RegExp): string[] {
  return files.flatMap((path) =>
    textOf(path)
      .split('\n')
      .flatMap((line, i) =>
        pattern.test(line) ? [`${path}:${i + 1}: ${line.slice(0, 200)}`] : [],
      ),
  );
}

/** Lock files of few packages: they have more than this. */
const SMALL: Readonly<Record<string, number>> = { 'scripts/cross/package-lock.json': 1 };

interface LockedPackage {
  readonly resolved?: string;
  readonly integrity?: string;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Entries of a lock file by their path, without the one of its own package. */
function lockedPackages(lockFile: string): Record<string, LockedPackage> {
  const { packages } = JSON.parse(textOf(lockFile)) as {
    packages: Record<string, LockedPackage>;
  };
  return Object.fromEntries(Object.entries(packages).filter(([path]) => path !== ''));
}

interface Manifest {
  readonly homepage: string;
  readonly repository: { readonly url: string };
  readonly bugs: { readonly url: string };
}

describe('the address of the package', () => {
  const { homepage, repository, bugs } = JSON.parse(textOf('package.json')) as Manifest;

  it('is one for page, repository and bugs', () => {
    expect(repository.url).toBe(`git+${homepage}.git`);
    expect(bugs.url).toBe(`${homepage}/issues`);
  });

  it('is the only one that names the package', () => {
    const addresses = files.flatMap((path) =>
      Array.from(
        textOf(path).matchAll(/https?:\/\/[^\s)"'`<>]*\/safetensors-mmap\b/g),
        ([found]) => found,
      ),
    );
    expect(addresses.length).toBeGreaterThan(3);
    expect(addresses.filter((found) => found !== homepage)).toEqual([]);
  });
});

describe('npm scripts', () => {
  const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };

  it('exist where a file names one', () => {
    // Examples are packages with their own scripts.
    const named = files
      .filter((path) => !path.startsWith('examples/'))
      .flatMap((path) =>
        Array.from(
          textOf(path).matchAll(
            /\bnpm(?:'?, '| )run(?:'?, '| )(?:--silent(?:', '| ))?([a-z][\w:-]*)/g,
          ),
          ([, name = '']) => `${path}: ${name}`,
        ),
      );
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter((text) => !Object.hasOwn(scripts, text.split(': ')[1] ?? ''))).toEqual([]);
  });
});

describe('dependabot', () => {
  const text = textOf('.github/dependabot.yml');
  const directoriesOf = (ecosystem: string): readonly string[] => {
    const [, list = ''] =
      new RegExp(`ecosystem: ${ecosystem}\n +directories: \\[(.+)\\]`).exec(text) ?? [];
    return list.split(', ').map((path) => path.slice(1));
  };

  it('watches every lock file but the one of the cross compiler, which is updated by hand', () => {
    const directories = lockFiles.map((path) => path.replace(/\/?package-lock\.json$/, ''));
    const watched = directories.filter((path) => path !== 'scripts/cross');
    expect(directoriesOf('npm').toSorted()).toEqual(watched.toSorted());
  });

  it('watches every list of Python packages', () => {
    const lists = files.filter((path) =>
      /^[^=\s]+==/m.test(path.endsWith('.txt') ? textOf(path) : ''),
    );
    const directories = new Set(lists.map((path) => path.replace(/\/[^/]+$/, '')));
    expect(directories.size).toBeGreaterThan(1);
    expect(directoriesOf('pip').toSorted()).toEqual([...directories].toSorted());
  });
});

describe('the repository', () => {
  it('is seen by this test', () => {
    expect(files).toEqual(expect.arrayContaining(['package.json', '.ci/run', 'src/index.ts']));
    expect(lockFiles).toEqual(expect.arrayContaining(['package-lock.json']));
  });

  it('names no path of the machine it was made on', () => {
    // The character before tells an absolute path from a part of a relative one or of an address.
    expect(matching(/(?<![\w.)\]}*~-])\/(?:home|opt|root|work|Users)\/\w/)).toEqual([]);
  });

  it('names no package index', () => {
    expect(matching(/registry\.\w+\.\w+|--(?:extra-)?index-url|--find[-]links|pypi\.org/)).toEqual(
      [],
    );
  });
});

describe.each(lockFiles)('%s', (lockFile) => {
  it('has no addresses', () => {
    const packages = Object.entries(lockedPackages(lockFile));
    expect(packages.length).toBeGreaterThan(SMALL[lockFile] ?? 50);
    expect(packages.filter(([, entry]) => entry.resolved !== undefined)).toEqual([]);
    expect(textOf(lockFile)).not.toContain('://registry');
  });

  it('has a checksum for everything that this platform installs', () => {
    const foreign = (list: readonly string[] | undefined, here: string): boolean =>
      list !== undefined && !list.includes(here);
    const unchecked = Object.entries(lockedPackages(lockFile)).filter(
      ([, { integrity, os, cpu }]) =>
        integrity === undefined && !foreign(os, process.platform) && !foreign(cpu, process.arch),
    );
    // A package for musl has the platform and processor of its twin for glibc.
    expect(unchecked.filter(([, { libc }]) => !libc?.includes('musl'))).toEqual([]);
  });

  it('is complete on every platform, as `npm ci` asks', () => {
    const packages = lockedPackages(lockFile);
    const missing = Object.entries(packages).flatMap(([path, { optionalDependencies }]) =>
      Object.keys(optionalDependencies ?? {}).filter(
        (name) => !packages[`${path}/node_modules/${name}`] && !packages[`node_modules/${name}`],
      ),
    );
    expect(missing).toEqual([]);
  });
});
