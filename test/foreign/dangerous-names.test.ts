/**
 * Files with names that got past scanners are not safe. The scanners `picklescan` and `fickling` know what is
 * dangerous by lists and rules; a name on none of them is not called safe here either. The fuzzer,
 * `test/fuzz/targets/scan.ts`, checks that Python finds no names besides the report's.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { scanPickle } from '../../src/foreign/scan/scan-file.js';
import { text } from './pickle-mutations.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-scan-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Names that got past scanners, or that scanners list. */
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
