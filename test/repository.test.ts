/** Nothing in the tree may tie it to one machine or to one package registry. */
import { describe, expect, it } from 'vitest';
import { filesBelow, textOf } from './source-tree.js';

/** Text files, fixtures included; binary ones could contain any byte sequence. */
const files = filesBelow('.').filter(
  (path) =>
    /(?:^|\/)(?:LICENSE|run|\.[a-z-]+)$|\.(?:[cm]?[jt]s|py|cc|c|h|sh|json|md|txt|gypi?|ya?ml)$/.test(
      path,
    ) && !path.endsWith('.safetensors'),
);

function matching(pattern: RegExp): string[] {
  return files.flatMap((path) =>
    textOf(path)
      .split('\n')
      .flatMap((line, i) =>
        pattern.test(line) ? [`${path}:${i + 1}: ${line.slice(0, 200)}`] : [],
      ),
  );
}

describe('the repository', () => {
  it('is seen by this test', () => {
    expect(files).toEqual(expect.arrayContaining(['package.json', '.ci/run', 'src/index.ts']));
  });

  it('has a lock file without addresses', () => {
    const { packages } = JSON.parse(textOf('package-lock.json')) as {
      packages: Record<string, { resolved?: string; integrity?: string; link?: boolean }>;
    };
    const dependencies = Object.entries(packages).filter(([path]) => path !== '');
    expect(dependencies.length).toBeGreaterThan(50);
    expect(dependencies.filter(([, entry]) => entry.resolved !== undefined)).toEqual([]);
    expect(dependencies.filter(([, entry]) => entry.integrity === undefined)).toEqual([]);
    expect(textOf('package-lock.json')).not.toContain('://registry');
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
