import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.js';
import { oneLine } from '../../src/cli/run.js';
import { writeCheckpoint } from '../support/make-checkpoint.js';
import { temporaryPath, writeTemporary } from '../support/make-file.js';
import { root } from '../support/source-tree.js';
import { call, printed } from './call.js';
import { LAYERED } from './models.js';

it('several problems are one line', () => {
  expect(oneLine('2 problems:\n- of a\n- of b')).toBe('2 problems: of a; of b');
});

describe('help', () => {
  it('lists every command', async () => {
    const text = await printed(['--help']);
    for (const [name, { summary }] of Object.entries(COMMANDS)) {
      expect(text).toContain(`${name.padEnd(8)}`);
      expect(text).toContain(summary);
    }
    expect(await printed(['help'])).toBe(text);
    expect(await printed(['help', 'show'])).toBe(await printed(['show', '--help']));
  });

  it.each(Object.keys(COMMANDS))('of %s names its options, and fits the terminal', async (name) => {
    const text = await printed([name, '--help'], { columns: 80 });
    expect(text).toMatch(new RegExp(`^Usage: safetensors-mmap ${name}\\s`));
    for (const option of Object.keys(COMMANDS[name]?.options ?? {})) {
      expect(text).toContain(`--${option}`);
    }
    for (const option of ['--json', '--verbose', '--no-color', '-h, --help']) {
      expect(text).toContain(option);
    }
    expect(text.split('\n').filter(({ length }) => length > 80)).toEqual([]);
  });

  it('is an error when no command is given', async () => {
    const { code, stdout, stderr } = await call([]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toBe(await printed(['--help']));
  });
});

describe('wrong use', () => {
  it.each([
    [['inspct', 'x'], 'unknown command: "inspct"; did you mean inspect?'],
    [['__proto__'], 'unknown command: "__proto__" (safetensors-mmap --help for details)'],
    [['--jsn'], 'the command comes first: "--jsn"; did you mean --json?'],
    [['inspect', 'x', '--filer=*'], 'unknown option "--filer"; did you mean --filter?'],
    [
      ['split', 'x', 'y', '--max_shard_size=1MB'],
      '"--max_shard_size"; it is --max-shard-size here',
    ],
    [['download', 'x', 'y', '--include', '*'], '"--include"; it is --files here'],
    [['download', 'x', 'y', '--allow-patterns', '*'], '"--allow-patterns"; it is --files here'],
    [['download', 'x', '--local-dir', 'y'], '"--local-dir"; the folder is the second argument'],
    [['convert', 'x', 'y', '--include', '*'], '"--include"; it is --filter here'],
    [['split', 'x', 'y', '--names', '*'], '"--names"; it is --filter here'],
    [['inspect', 'x', '--constructor'], 'unknown option "--constructor"'],
    [['split', 'x', 'y', '--dtype', 'F16', '--dtype=F32'], '--dtype is given twice ('],
    [['inspect', 'x', '--tree', '--tree'], '--tree is given twice ('],
    [['inspect', 'x', '-q'], 'unknown option "-q"'],
    [['inspect', 'x', '--tree=yes'], '--tree takes no value'],
    [['inspect', 'x', '--filter'], '--filter takes a value: --filter GLOB'],
    [['inspect', 'x', '--filter', '--tree'], '--filter takes a value: --filter GLOB'],
    [['help', 'inspct'], 'unknown command: "inspct"; did you mean inspect?'],
    [['metadata', 'modelspec', 'show', 'x', 'y'], 'unexpected argument "y"'],
    [['inspect'], 'SOURCE is missing (safetensors-mmap inspect --help for details)'],
    [['inspect', 'x', 'y'], 'unexpected argument "y"'],
    [['convert', 'x'], 'TARGET is missing; expected SOURCE TARGET'],
    [['convert', 'x', 'y', 'z'], 'unexpected argument "z"; expected SOURCE TARGET'],
    [['diff', 'x'], 'B is missing; expected A B'],
    [['show', 'x'], 'NAME is missing; expected SOURCE NAME'],
    [['split'], 'SOURCE is missing; expected SOURCE FOLDER'],
    [['doctor', 'x'], 'unexpected argument "x"'],
    [
      ['metadata'],
      'metadata takes get, set, rm, clear, export, import, strip, modelspec: say which (',
    ],
    [['metadata', 'set'], ': FILE is missing ('],
    [['metadata', 'get'], ': SOURCE is missing ('],
    [
      ['metadata', 'set', root, 'a=b'],
      ': expected a file, found a folder: name one of its files (',
    ],
    [['metadata', 'remove'], 'metadata has no "remove"; did you mean rm?'],
    [['metadata', 'remove', 'x', 'key'], 'metadata has no "remove"; did you mean rm?'],
    [['metadata', 'DELETE', 'x'], 'did you mean rm?'],
    [['metadata', 'list', 'x'], 'did you mean get?'],
    [['metadata', 'stripp', 'x'], 'did you mean strip?'],
    [
      ['metadata', 'constructor', 'x'],
      'it takes get, set, rm, clear, export, import, strip, model',
    ],
    [['metadata', 'modelspec'], 'show|check|set|thumbnail is missing'],
    [['metadata', 'modelspec', 'get', 'x'], 'metadata modelspec has no "get"; did you mean show?'],
    [['inspect', 'hf://no'], 'ERR_OUT_OF_RANGE: '],
  ])('%j is said in one line, exit code 2', async (args, message) => {
    const { code, stdout, stderr } = await call(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^safetensors-mmap: .*\n$/);
    expect(stderr).toContain(message);
  });
});

describe('errors', () => {
  it('have their code, on one line, and the exit code 1', async () => {
    const path = temporaryPath('bad\x1b[2J.safetensors');
    writeFileSync(path, 'x');
    const { code, stdout, stderr } = await call(['inspect', path]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(
      /^safetensors-mmap: SAFETENSORS_HEADER_TOO_SMALL: .*bad\\x1b\[2J\.safetensors: .*\n$/,
    );
    const missing = await call(['inspect', `${root}missing/model.safetensors`]);
    expect(missing.code).toBe(1);
    expect(missing.stderr).toMatch(/^safetensors-mmap: ENOENT: no such file/);
    const changed = await call(['metadata', 'set', 'org/one', 'a=b']);
    expect([changed.code, changed.stderr]).toEqual([
      1,
      expect.stringMatching(
        /^safetensors-mmap: ENOENT: no such file or directory, \w+ 'org\/one'\n$/,
      ),
    ]);
  });

  it('have no colours with --no-color, and are not longer than anybody reads', async () => {
    const terminal = { columns: 80, hasColors: true };
    expect((await call(['inspect', 'a/b/c'], terminal)).stderr).toContain('\x1b[31m');
    expect((await call(['inspect', 'a/b/c', '--no-color'], terminal)).stderr).not.toContain('\x1b');
    const folder = writeCheckpoint({
      shards: {},
      weightMap: { w: `${'n'.repeat(2 ** 20)}.safetensors` },
    });
    const { code, stderr } = await call(['inspect', folder]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^safetensors-mmap: ENAMETOOLONG: .*characters\)\n$/);
    expect(stderr.length).toBeLessThan(5000);
  });

  it.each([
    [['inspct', '--json'], 2, 'USAGE_ERROR', 'unknown command: "inspct"; did you mean inspect?'],
    [['--json'], 2, 'USAGE_ERROR', 'the command comes first: "--json"'],
    [['inspect', '--json'], 2, 'USAGE_ERROR', 'SOURCE is missing'],
    [['inspect', 'x', '--filer=*', '--json'], 2, 'USAGE_ERROR', 'unknown option "--filer"; did'],
    [['inspect', 'hf://no', '--json'], 2, 'ERR_OUT_OF_RANGE', 'hf://no'],
    [['inspect', `${root}missing.pt`, '--json'], 1, 'ENOENT', 'ENOENT: no such file'],
  ])('are JSON with --json: %j', async (args, exitCode, code, message) => {
    const { stdout, stderr, ...called } = await call(args, { columns: 80, hasColors: true });
    expect([called.code, stdout]).toEqual([exitCode, '']);
    expect(stderr).toMatch(/^\{.*\}\n$/);
    const { path, ...error } = JSON.parse(stderr);
    expect(error).toEqual({ code, message: expect.stringContaining(message) });
    expect(path).toBe(code === 'ENOENT' ? `${root}missing.pt` : undefined);
  });

  it.each(Object.keys(COMMANDS))('of a wrong use of %s are JSON', async (name) => {
    const { code, stdout, stderr } = await call([name, '--lost', '--json']);
    expect([code, stdout]).toEqual([2, '']);
    expect(JSON.parse(stderr)).toEqual({
      code: 'USAGE_ERROR',
      message: expect.stringContaining('unknown option "--lost"'),
    });
  });

  it('have the path and the tensor in JSON, and a stack with --verbose', async () => {
    const path = writeTemporary(LAYERED);
    const args = ['show', path, 'lost\x1b', '--json'];
    const { code, stderr } = await call(args);
    expect(code).toBe(1);
    expect(stderr).not.toContain('\x1b');
    const expected = {
      code: 'SAFETENSORS_TENSOR_NOT_FOUND',
      message: expect.stringContaining('no such tensor'),
      ...{ path, tensor: 'lost\x1b' },
    };
    expect(JSON.parse(stderr)).toEqual(expected);
    const verbose = JSON.parse((await call([...args, '--verbose'])).stderr);
    const stack = expect.arrayContaining([expect.stringMatching(/^ {4}at /)]);
    expect(verbose).toEqual({ ...expected, stack });
  });

  it('name in JSON that nothing is left to write', async () => {
    const args = ['convert', writeTemporary(LAYERED), temporaryPath('x.safetensors'), '--json'];
    const none = await call([...args, '--filter', 'lost']);
    expect([none.code, JSON.parse(none.stderr)]).toEqual([
      1,
      { code: 'NO_TENSOR_CHOSEN', message: 'no name matches --filter lost' },
    ]);
  });

  it('have a stack with --verbose', async () => {
    const path = temporaryPath('bad.safetensors');
    writeFileSync(path, 'x');
    const { stderr } = await call(['inspect', path, '--verbose']);
    expect(stderr.split('\n').length).toBeGreaterThan(4);
    expect(stderr).toMatch(/\n {4}at /);
  });

  it('of a call that is ended by a signal are not said', async () => {
    const path = writeTemporary(LAYERED);
    const signal = AbortSignal.abort();
    const { code, stderr } = await call(['inspect', `${path}.missing`], undefined, signal);
    expect([code, stderr]).toEqual([1, '']);
  });
});
