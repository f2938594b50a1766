/**
 * No file that is called `safe` names what torch's restricted loader forbids. The judge is Python's own
 * unpickler, which tells what it would import; the scanners `picklescan` and `fickling` know what is dangerous of
 * that by lists and rules, and a name on none of them is not called safe here either.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scanPickle } from '../../src/foreign/torch/scan-file.js';
import type { ScanReport } from '../../src/foreign/torch/scan-report.js';
import { findPython, isSkipped, titleWith } from '../support/python.js';
import { makeInput } from './fuzz-inputs.js';
import { text } from './pickle-mutations.js';
import { PythonReader, type Question } from './python-reader.js';
import { FIXTURES, pathOf } from './torch-fixtures.js';

const python = findPython('torch', 'numpy');
const seed = Number(process.env['SAFETENSORS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const count = Number(process.env['SAFETENSORS_FUZZ_INPUTS'] ?? 3000);

/** Files that Python is asked about together. */
const BATCH_LENGTH = 500;

let folder: string;
const reader = new PythonReader(python.executable ?? '');
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-scan-'));
  process.stderr.write(`foreign/scan-oracle: SAFETENSORS_SEED=${seed}\n`);
});
afterAll(async () => {
  await reader.close();
  rmSync(folder, { recursive: true });
});

/** What stands in text, but in no name of a module: a page that begins with the letter of an opcode is no pickle. */
const NO_MODULE = /[^\p{L}\p{N}_.<>-]/u;

/** Of names that Python would import and torch forbids; those that the report lacks or calls allowed. */
function missed(names: readonly string[], report: ScanReport): string[] {
  const known = report.globals.filter(({ kind }) => kind !== 'allowed');
  const listed = new Set(known.map(({ module, name }) => `${module}.${name}`));
  return names.filter((name) => !listed.has(name));
}

/** The files whose report does not have what Python finds. */
async function misjudged(
  files: readonly (readonly [path: string, about: string])[],
): Promise<string[]> {
  const questions: Question[] = files.map(([path]) => ({ reader: 'globals', path }));
  const answers = await reader.answer<string[]>(questions);
  return files.flatMap(([path, about], i) => {
    const names = answers[i]?.found;
    if (names === undefined) return [`${about}: ${answers[i]?.error}`];
    if (names.length === 0) return [];
    const report = scanPickle(path);
    // A damaged file is walked up to the damage, which others may not see.
    const unsafe = report.verdict === 'no-pickle' ? names.filter((n) => !NO_MODULE.test(n)) : names;
    const left = report.verdict === 'safe' ? names : missed(unsafe, report);
    const isExcused = report.verdict === 'malformed' || report.verdict === 'suspicious';
    return left.length === 0 || isExcused ? [] : [`${about}: ${report.verdict}, ${left.join()}`];
  });
}

describe.skipIf(isSkipped(python))(titleWith(python, 'what Python would import'), () => {
  it('is in the reports of all recorded files', async () => {
    const files = FIXTURES.map((fixture) => [pathOf(fixture), fixture.id] as const);
    expect(await misjudged(files)).toEqual([]);
  });

  it(`is in the reports of ${count} damaged and hostile files`, {
    timeout: 120_000 + 50 * count,
  }, async () => {
    const found: string[] = [];
    for (let begin = 0; begin < count; begin += BATCH_LENGTH) {
      const files = Array.from({ length: Math.min(BATCH_LENGTH, count - begin) }, (_, i) => {
        const { about, bytes } = makeInput(seed, begin + i);
        const path = join(folder, `${i}`);
        writeFileSync(path, bytes);
        return [path, `seed ${seed}, input ${begin + i} (${about})`] as const;
      });
      found.push(...(await misjudged(files)));
    }
    expect(found.slice(0, 20)).toEqual([]);
  });
});

/** Names with which scanners have been passed by, or that they list. */
const DANGEROUS: readonly (readonly [module: string, name: string])[] = [
  ['os', 'system'],
  ['posix', 'popen'],
  ['nt', 'system'],
  ['builtins', 'eval'],
  ['builtins', 'exec'],
  ['builtins', 'getattr'],
  ['builtins', '__import__'],
  ['__builtin__', 'compile'],
  ['subprocess', 'Popen'],
  ['pip', 'main'],
  ['pip._internal', 'main'],
  ['runpy', '_run_code'],
  ['operator', 'attrgetter'],
  ['functools', 'partial'],
  ['importlib', 'import_module'],
  ['pkgutil', 'resolve_name'],
  ['logging', 'FileHandler'],
  ['timeit', 'timeit'],
  ['cProfile', 'run'],
  ['profile', 'Profile.run'],
  ['pdb', 'run'],
  ['bdb', 'Bdb.run'],
  ['idlelib.pyshell', 'ModifiedInterpreter.runcode'],
  ['lib2to3.pgen2.pgen', 'ParserGenerator.make_label'],
  ['trace', 'Trace.run'],
  ['doctest', 'debug_script'],
  ['code', 'InteractiveInterpreter.runcode'],
  ['types', 'CodeType'],
  ['marshal', 'loads'],
  ['ctypes', 'CDLL'],
  ['asyncio.unix_events', '_UnixSubprocessTransport._start'],
  ['uuid', '_get_command_stdout'],
  ['ensurepip', '_run_pip'],
  ['urllib.request', 'urlopen'],
  ['webbrowser', 'open'],
  ['socket', 'socket'],
  ['shutil', 'rmtree'],
  ['numpy.testing._private.utils', 'runstring'],
  ['numpy.f2py.crackfortran', 'getlincoef'],
  ['torch', 'load'],
  ['torch.hub', 'load'],
  ['torch.utils._config_module', 'ConfigModule.load_config'],
  ['torch.utils.bottleneck.__main__', 'run_cprofile'],
  ['torch.utils.collect_env', 'run'],
  ['torch.jit.unsupported_tensor_ops', 'execWrapper'],
  ['torch.serialization', 'load'],
  ['torch._dynamo.guards', 'GuardBuilder.get'],
  ['torch.fx.experimental.symbolic_shapes', 'ShapeEnv.evaluate_guards_expression'],
  ['_codecs', 'decode'],
  ['collections', 'namedtuple'],
  ['collections', 'OrderedDict.pop'],
];

/** Ways to name a global, and to call it. */
const PICKLES: Readonly<Record<string, (module: string, name: string) => string>> = {
  GLOBAL: (module, name) => `\x80\x02c${module}\n${name}\n${text('x')}\x85R.`,
  STACK_GLOBAL: (module, name) => `\x80\x04${text(module)}${text(name)}\x93${text('x')}\x85R.`,
  'STACK_GLOBAL of memoized names': (module, name) =>
    `\x80\x04${text(name)}q\x01${text(module)}q\x020h\x02h\x01\x93)R.`,
  INST: (module, name) => `\x80\x02(${text('x')}i${module}\n${name}\n.`,
  'the first protocol': (module, name) => `c${module}\n${name}\n(S'x'\ntR.`,
  'the second of two pickles': (module, name) => `\x80\x02N.\x80\x02c${module}\n${name}\n)R.`,
};

describe.each(Object.entries(PICKLES))('named by %s', (_, pickleOf) => {
  it.each(DANGEROUS)('%s.%s is not safe', (module, name) => {
    const path = join(folder, 'named');
    writeFileSync(path, Buffer.from(pickleOf(module, name), 'latin1'));
    const report = scanPickle(path);
    expect(report.verdict).not.toBe('safe');
    const globals = report.globals.map((found) => [found.module, found.name]);
    expect(globals).toContainEqual([module, name]);
  });
});
