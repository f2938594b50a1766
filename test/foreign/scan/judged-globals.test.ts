/** Which globals run code, which rebuild data, and which belong to packages that were not examined. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { scanPickle } from '../../../src/foreign/scan/scan-file.js';
import type { ScanReport } from '../../../src/foreign/scan/scan-report.js';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { pickle2, unicode } from '../pickle/pickle-bytes.js';
import { dict, legacyFile } from '../torch/legacy-file.js';

const seed = Number(process.env['SAFETENSORS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const folder = mkdtempSync(join(tmpdir(), 'safetensors-globals-'));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, 'file.pkl');

/** Scans a pickle that calls each of the globals without arguments. */
function scanCallsOf(...globals: readonly (readonly [module: string, name: string])[]): ScanReport {
  const calls = globals.map(([module, name]) => `${unicode(module)}${unicode(name)}\x93)R0`);
  writeFileSync(path, pickle2(...calls, 'N.'));
  return scanPickle(path);
}

const GADGETS: readonly string[] = [
  ...[
    'cProfile.run',
    'profile.run',
    'pydoc.locate',
    'pydoc.pipepager',
    'shelve.open',
    'trace.Trace',
  ],
  ...['doctest.debug_script', 'venv.create', 'ensurepip._run_pip', 'site.execsitecustomize'],
  ...[
    'sqlite3.connect',
    'tempfile.mkdtemp',
    'zipfile.ZipFile',
    'tarfile.open',
    'gzip.open',
    'bz2.BZ2File',
  ],
  ...[
    'mailbox.Maildir',
    'uu.encode',
    'distutils.file_util.write_file',
    'lib2to3.pgen2.driver.load_grammar',
  ],
  ...[
    'idlelib.pyshell.ModifiedInterpreter',
    'asyncio.unix_events._UnixSubprocessTransport',
    'smtplib.SMTP',
  ],
  ...['itertools.starmap', 'builtins.map', 'builtins.type', 'types.CodeType', 'weakref.finalize'],
  ...[
    'copyreg.add_extension',
    'collections.namedtuple',
    'typing.get_type_hints',
    'contextlib.ExitStack',
  ],
  ...[
    'logging.FileHandler',
    'io.FileIO',
    'pathlib.Path.mkdir',
    'os.system',
    'nt.system',
    'commands.getoutput',
  ],
  ...[
    'numpy.f2py.crackfortran.getlincoef',
    'numpy.load',
    'numpy.memmap',
    'numpy.savetxt',
    'numpy.fromfile',
  ],
  ...[
    'numpy.core._ufunc_reconstruct',
    'numpy.vectorize',
    'numpy.lib.npyio.NpzFile',
    'numpy.testing.rundocs',
  ],
  ...[
    'torch.utils.collect_env.run',
    'torch.hub.load',
    'torch.jit.unsupported_tensor_ops.execWrapper',
  ],
  ...['torch._inductor.codecache.compile_file', 'torch.fx.graph_module._deserialize_graph_module'],
  ...[
    'torch.fx.graph_module.reduce_graph_module',
    'torch.package.PackageImporter',
    'torch.serialization.load',
  ],
  ...[
    'torch.multiprocessing.reductions.rebuild_tensor',
    'torch.utils.data.datapipes.utils.decoder.basichandlers',
  ],
  ...[
    'pandas.read_pickle',
    'pandas.io.pickle.read_pickle',
    'pandas.eval',
    'pandas.core.frame.DataFrame.eval',
  ],
  ...[
    'joblib.load',
    'joblib.parallel.Parallel',
    'joblib.numpy_pickle.load',
    'joblib.externals.cloudpickle.loads',
  ],
  ...[
    'cloudpickle.loads',
    'dill.loads',
    'pip.main',
    'setuptools.setup',
    'yaml.unsafe_load',
    '__builtin__.apply',
  ],
  ...[
    'models.common.os',
    'models.common.subprocess.Popen',
    'models.common.eval',
    'models.common.import_module',
  ],
  ...[
    'models.common.Conv.__init__',
    'models.common.conv.forward',
    'models.__builtins__',
    'models.F.system',
  ],
  ...[
    'torch.nn.modules.container.F',
    'torch.nn.modules.container.Sequential.__init__',
    'torch.nn.Linear.forward',
  ],
];

/** Module and name of a path whose names begin after the last part that can be a module. */
function namesOf(gadget: string): [module: string, name: string] {
  const at =
    /(\.[A-Z]\w*\.\w+|\.subprocess\.Popen|\.conv\.forward)$/.exec(gadget)?.index ??
    gadget.lastIndexOf('.');
  return [gadget.slice(0, at), gadget.slice(at + 1)];
}

const identifier = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{2,12}$/);

describe('globals of a pickle', () => {
  it.each(GADGETS)('%s is suspicious', (gadget) => {
    const [module, name] = namesOf(gadget);
    const { verdict, globals, advice } = scanCallsOf([module, name]);
    expect([verdict, globals[0]?.kind, advice]).toEqual(['suspicious', 'hostile', undefined]);
    const error = catching(() => {
      const file = legacyFile(dict([unicode('f'), `c${module}\n${name}\n`]), {});
      openTorchCheckpoint(file, { unknownGlobals: 'placeholder' });
    });
    expect(error).toMatchObject({ code: 'SAFETENSORS_FORBIDDEN_GLOBAL' });
    expect(`${error}`).toMatch(/; nothing was run$/);
  });

  it.each([
    ...[
      'builtins.Ellipsis',
      'builtins.NotImplemented',
      'builtins.bytes',
      'builtins.KeyError',
      '__builtin__.unicode',
    ],
    ...[
      'argparse.Namespace',
      'collections.defaultdict',
      'datetime.datetime',
      'pathlib.PosixPath',
      'typing.Any',
    ],
    ...[
      'copyreg._reconstructor',
      'copy_reg._reconstructor',
      're._compile',
      'uuid.UUID',
      'decimal.Decimal',
    ],
    ...[
      'numpy.core.multiarray._reconstruct',
      'numpy._core.multiarray.scalar',
      'numpy.dtypes.Float32DType',
    ],
    ...['numpy.random._pickle.__randomstate_ctor', 'numpy.ma.core._mareconstruct', 'numpy.float64'],
    ...[
      'torch.nn.modules.conv.Conv2d',
      'torch.nn.modules.conv._ConvNd',
      'torch.nn.modules.rnn.LSTM',
      'torch.nn.modules.activation.GELU',
      'torch.optim.sgd.SGD',
      'torch.optim.adam.Adam',
    ],
    ...[
      'torch.nn.functional.relu',
      'torch.torch_version.TorchVersion',
      'torch.optim.lr_scheduler.StepLR',
    ],
    ...[
      'torch.ao.nn.quantized.modules.linear.LinearPackedParams',
      'torch.nn.parallel.data_parallel.DataParallel',
    ],
    ...[
      'pandas.core.frame.DataFrame',
      'pandas.core.indexes.base._new_Index',
      'pandas._libs.internals._unpickle_block',
    ],
  ])('%s rebuilds data', (global) => {
    const { verdict, globals, advice } = scanCallsOf(namesOf(global));
    expect([verdict, globals[0]?.kind]).toEqual(['needs-code', 'unknown']);
    expect(advice).not.toContain('was not examined');
  });

  it('of other packages need code that was not examined', () => {
    const { verdict, advice } = scanCallsOf(
      ['ultralytics.nn.tasks', 'DetectionModel'],
      ['models.common', 'Conv'],
      ['__main__', 'Outer.Inner'],
      ['torch.nn.modules.conv', 'Conv2d'],
    );
    expect(verdict).toBe('needs-code');
    const packages = 'ultralytics, models and __main__';
    expect(advice).toContain(`loading runs the code of ${packages}, which was not examined`);
    expect(advice).not.toMatch(/load it|loaded there/);
  });

  it('of data only are loaded by those who trust the file', () => {
    const array = scanCallsOf(['numpy.core.multiarray', '_reconstruct']).advice;
    expect(array).toContain('can be loaded there, only if you trust it');
    const other = scanCallsOf(['numpy', 'dtype'], ['sklearn.svm', 'SVC']).advice;
    expect(other).toContain('loading runs the code of sklearn, which was not examined');
    expect(other).not.toContain('loaded there');
  });

  it('of any standard module are suspicious unless they are known to hold data', () => {
    const known = new Set([
      'Any',
      'array',
      'Path',
      'date',
      'time',
      'count',
      'scalar',
      'dtype',
      'Generator',
    ]);
    const modules = [
      'os',
      'cProfile',
      'shelve',
      'asyncio.runners',
      'distutils.core',
      'xml.sax',
      'wsgiref.util',
    ];
    const packages = [
      'torch._dynamo.utils',
      'numpy.lib.format',
      'pandas.io.sql',
      'joblib.memory',
      'torch.ops',
    ];
    fc.assert(
      fc.property(
        fc.constantFrom(...modules, ...packages),
        fc.array(identifier, { maxLength: 2 }),
        fc.array(identifier, { minLength: 1, maxLength: 3 }),
        (module, inner, names) => {
          fc.pre(!names.some((name) => known.has(name)));
          const report = scanCallsOf([[module, ...inner].join('.'), names.join('.')]);
          expect(report.verdict).toBe('suspicious');
        },
      ),
      { seed, numRuns: 60 },
    );
  });

  it('by a path through a module or internals are suspicious in any package', () => {
    const hop = fc.constantFrom(
      'os',
      'sys',
      'subprocess',
      'importlib',
      'builtins',
      '__class__',
      '__globals__',
    );
    fc.assert(
      fc.property(identifier, hop, identifier, (top, through, name) => {
        expect(scanCallsOf([`${top}_package.sub`, `${through}.${name}`]).verdict).toBe(
          'suspicious',
        );
        expect(scanCallsOf([`${top}_package.sub`, through]).verdict).toBe('suspicious');
      }),
      { seed, numRuns: 40 },
    );
  });
});

function catching(call: () => void): unknown {
  try {
    call();
    return undefined;
  } catch (error) {
    return error;
  }
}
