/** The callables of Python, torch and NumPy as Python lists them: none that is no type passes for a rebuilder of data. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { scanPickle } from '../../../src/foreign/scan/scan-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { pickle2, unicode } from '../pickle/pickle-bytes.js';

const seed = Number(process.env['SAFETENSORS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const folder = mkdtempSync(join(tmpdir(), 'safetensors-globals-'));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, 'file.pkl');

function kindOf(module: string, name: string): string | undefined {
  writeFileSync(path, pickle2(`${unicode(module)}${unicode(name)}\x93)R.`));
  return scanPickle(path).globals[0]?.kind;
}

const python = findPython('torch', 'numpy');

describe.skipIf(isSkipped(python))(titleWith(python, 'callables of Python'), () => {
  it('that are functions, methods or modules of the standard library, torch and NumPy are suspicious', () => {
    const script = `
import importlib, inspect, json, random, re, sys, types, warnings
warnings.simplefilter("ignore")
random.seed(${seed})
found = []
skipped = {"antigravity", "this", "idlelib", "turtledemo", "lib2to3", "tkinter", "turtle"}
names = [n for n in sorted(sys.stdlib_module_names) if n not in skipped]
names += ["numpy", "numpy.f2py.crackfortran", "numpy.lib.npyio", "torch", "torch.utils.collect_env", "torch.nn.modules.module",
          "torch.nn.modules.container", "torch.nn.functional", "torch.serialization", "torch.utils._config_module"]
for module in names:
    try:
        members = vars(importlib.import_module(module))
    except BaseException:
        continue
    for name, value in members.items():
        if callable(value) and not isinstance(value, type) or isinstance(value, types.ModuleType):
            found.append([module, name])
print(json.dumps(random.sample(found, 3000)))
`;
    const found = JSON.parse(runPython(python, ['-c', script])) as [string, string][];
    const data = new Set(
      (
        'builtins.Ellipsis builtins.NotImplemented array._array_reconstructor copyreg._reconstructor copyreg.__newobj__ ' +
        'copyreg.__newobj_ex__ re._compile logging.getLogger'
      ).split(' '),
    );
    const missed = found.filter(([module, name]) => {
      const isFunctional = module === 'torch.nn.functional' || module === 'typing';
      if (isFunctional || data.has(`${module}.${name}`)) return false;
      return kindOf(module, name) === 'unknown';
    });
    expect(missed).toEqual([]);
  });
});
