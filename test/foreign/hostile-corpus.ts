/**
 * Hostile files, each with the reader of Python that runs its payload: `run_hostile.py` has these. The payload makes
 * a folder whose name begins with `safetensors-ran-` in the current one.
 */
import { readFileSync } from 'node:fs';
import { deflateSync, gzipSync } from 'node:zlib';
import { Random } from '../support/random.js';
import { type ArchiveFile, writeArchive } from './generated-archive.js';
import { npy } from './numpy/arrays.js';
import { text } from './pickle-mutations.js';
import { scanFixture } from './torch/fixtures.js';

/** One file. Without a reader it runs in a program that this machine need not have. */
export interface HostileFile {
  readonly kind: string;
  readonly name: string;
  readonly reader: string | undefined;
  readonly bytes: Buffer;
}

const FOLDER = 'safetensors-ran-here';
const ARGUMENTS = `(${text(FOLDER)}t`;

/** Opcodes that run the payload after any others and leave a value, by their technique. */
const PAYLOADS: Readonly<Record<string, string>> = {
  GLOBAL: `cposix\nmkdir\n${ARGUMENTS}R`,
  'GLOBAL of another name': `cos\nmkdir\n${ARGUMENTS}R`,
  STACK_GLOBAL: `${text('posix')}${text('mkdir')}\x93${ARGUMENTS}R`,
  'short texts': `\x8c\x05posix\x8c\x05mkdir\x93\x8c\x14${FOLDER}\x85R`,
  'long texts': `\x8d\x05\0\0\0\0\0\0\0posix${text('mkdir')}\x93${ARGUMENTS}R`,
  'texts of Python 2': `U\x05posixT\x05\0\0\0mkdir\x93${ARGUMENTS}R`,
  'texts in quotes': `S'posix'\nS"mkdir"\n\x93${ARGUMENTS}R`,
  'texts with escapes': `S'\\x70osix'\nS'mkdi\\162'\n\x93${ARGUMENTS}R`,
  'raw texts': `Vposix\nVmkdir\n\x93${ARGUMENTS}R`,
  'raw texts with escapes': `V\\u0070osix\nVmkdir\n\x93${ARGUMENTS}R`,
  'texts of the memo': `${text('mkdir')}q\x010${text('posix')}q\x020h\x02h\x01\x93${ARGUMENTS}R`,
  'the memo by MEMOIZE': `${text('mkdir')}\x940${text('posix')}\x940h\x01h\0\x93${ARGUMENTS}R`,
  'a memo of large numbers': `${text('mkdir')}r\0\0\0\x020${text('posix')}r\x01\0\0\x020j\x01\0\0\x02j\0\0\0\x02\x93${ARGUMENTS}R`,
  'a memo that is written again': `${text('x')}q\x010${text('posix')}q\x010h\x01${text('mkdir')}\x93${ARGUMENTS}R`,
  DUP: `${text('posix')}20${text('mkdir')}\x93${ARGUMENTS}R`,
  POP_MARK: `(NN1${text('posix')}(1${text('mkdir')}\x93${ARGUMENTS}R`,
  'POP of a mark': `(0${text('posix')}(0${text('mkdir')}\x93${ARGUMENTS}R`,
  INST: `(${text(FOLDER)}iposix\nmkdir\n`,
  OBJ: `(cposix\nmkdir\n${text(FOLDER)}o`,
  'a partial function': `cfunctools\npartial\n(cposix\nmkdir\n${text(FOLDER)}tR)R`,
  NEWOBJ: `cfunctools\npartial\n(cposix\nmkdir\n${text(FOLDER)}t\x81)R`,
  NEWOBJ_EX: `cfunctools\npartial\n(cposix\nmkdir\n${text(FOLDER)}t}\x92)R`,
  eval: `cbuiltins\neval\n(${text(`__import__('os').mkdir('${FOLDER}')`)}tR`,
  exec: `cbuiltins\nexec\n(${text(`import os; os.mkdir('${FOLDER}')`)}tR`,
  'a list of calls': `cbuiltins\nlist\n(cbuiltins\nmap\n(cposix\nmkdir\n(${text(FOLDER)}ltRtR`,
  attrgetter: `coperator\nattrgetter\n(${text('mkdir')}tR(cimportlib\nimport_module\n(${text('os')}tRtR${ARGUMENTS}R`,
  'a name with dots': `\x80\x04\x8c\x06shutil\x8c\x08os.mkdir\x93${ARGUMENTS}R`,
  'half a surrogate before it': `X\x03\0\0\0\xed\xb2\x800cposix\nmkdir\n${ARGUMENTS}R`,
  'a frame that lies': `\x95\x03\0\0\0\0\0\0\0N0cposix\nmkdir\n${ARGUMENTS}R`,
  'a call in a tuple': `(Ncposix\nmkdir\n${ARGUMENTS}Rt`,
  'a call as a key': `}cposix\nmkdir\n${ARGUMENTS}RK\x01s`,
};

/** Numbers of the memo as Python reads them. */
const MEMO_NUMBERS: readonly (readonly [spelling: string, number: number])[] = [
  ['1_0', 10],
  ['+10', 10],
  [' 10', 10],
  ['10\t ', 10],
  ['0010', 10],
  ['0_1_0', 10],
  ['\x0c10\x0b', 10],
  ['+0', 0],
  ['10\0', 10],
  ['10\0 or so', 10],
  ['12', 12],
];

function memoPayload(spelling: string, number: number): string {
  const decoy = `${text('collections')}p99${number}\n0${text('OrderedDict')}p98${number}\n0`;
  const names = `${text('posix')}p${spelling}\n0${text('mkdir')}p${number + 7}\n0`;
  return `${decoy}${names}g${number}\ng${number + 7}\n\x93${ARGUMENTS}R`;
}

function pickleOf(opcodes: string): Buffer {
  return Buffer.from(`${opcodes}.`, 'latin1');
}

const PLAIN = pickleOf(`\x80\x02${PAYLOADS['GLOBAL']}`);
const PROTOCOL_0 = pickleOf(`cposix\nmkdir\n(V${FOLDER}\ntR`);

function archive(
  ...files: readonly (readonly [name: string, data: Buffer | string, deflated?: boolean])[]
): Buffer {
  const made: ArchiveFile[] = files.map(([name, data, isDeflated = false]) => ({
    name,
    data: Buffer.from(data),
    isDeflated,
  }));
  return writeArchive(made, new Random(1, files.length));
}

const EMPTY = pickleOf('\x80\x02}');
const STORED = pickleOf(
  `\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((${text('storage')}ctorch\nFloatStorage\n${text('0')}${text('cpu')}K\x01tQK\0K\x01\x85K\x01\x85\x89}tR`,
);

function checkpoint(pickle: Buffer, isDeflated = false): Buffer {
  return archive(
    ['m/data.pkl', pickle, isDeflated],
    ['m/version', '3\n'],
    ['m/byteorder', 'little'],
  );
}

/** A checkpoint without fault, and something next to it. */
function beside(name: string, data: Buffer | string, isDeflated = false): Buffer {
  const files = [
    ['m/data.pkl', STORED],
    ['m/version', '3\n'],
    ['m/data/0', Buffer.alloc(4)],
  ] as const;
  return archive(...files, [name, data, isDeflated]);
}

const LEGACY: readonly Buffer[] = [
  pickleOf('\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19'),
  pickleOf('\x80\x02M\xe9\x03'),
  EMPTY,
  EMPTY,
  pickleOf('\x80\x02]'),
];

/** Spellings of dtypes with objects, which NumPy unpickles. */
const DESCRS: readonly string[] = [
  ...[
    "'|O'",
    "'O'",
    "'<O'",
    "'=O'",
    "'>O'",
    "'O8'",
    "'object'",
    "'object_'",
    '"O"',
    "'''O'''",
    "r'O'",
    "u'O'",
    "R'O'",
  ],
  ...[
    "'obj'u'ect'",
    "'obj' 'ect'",
    "'' 'O'",
    "'\\x4f'",
    "'\\117'",
    "'\\N{LATIN CAPITAL LETTER O}'",
    "('O')",
    "'i4,O'",
    "'i4, O'",
  ],
  ...[
    "'(2,)O'",
    "[('a', 'O')]",
    "[('a', '<f4'), ('b', '|O')]",
    "[('a', [('b', 'O')])]",
    "[('a', 'O', (1,))]",
    "'T'",
    "[('a', 'ob' 'ject')]",
  ],
  ...["[(('title', 'a'), 'O')]", "'\\\nO'", "('O', (2,))"],
];

/** Other headers of an array of objects, which Python evaluates to the same. */
const HEADERS: readonly string[] = [
  "{'descr': '|O', 'fortran_order': False, 'shape': (0x1,), }",
  "{'descr': '|O', 'fortran_order': False, 'shape': (0b1,), }",
  "{'descr': '|O', 'fortran_order': False, 'shape': (+1,), }",
  "{'descr': '|O', 'fortran_order': False, 'shape': (True,), }",
  "{'descr': '|O', 'fortran_order': False, 'shape': (1_0,), }",
  "{'descr': '<f4', 'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
  "{u'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
  "{'desc' 'r': '|O', 'fortran_order': False, 'shape': (1,), }",
  "{'descr': '|O', # \n 'fortran_order': False, 'shape': (1,), }",
  "({'descr': '|O', 'fortran_order': False, 'shape': (1,), })",
  "{'descr': '|O', 'fortran_order': True, 'shape': (1,)} ",
];

function objects(header: string, version: readonly [number, number] = [1, 0]): Buffer {
  return npy(`${header}\n`, PLAIN, version);
}

function headerOf(descr: string): string {
  return `{'descr': ${descr}, 'fortran_order': False, 'shape': (1,), }`;
}

const NUMBERS = npy(`${headerOf("'<f4'")}\n`, Buffer.alloc(4));
const SAFETENSORS = Buffer.from('\x02\0\0\0\0\0\0\0{}', 'latin1');

/** Calls of functions that run code, write files or load other pickles, as opcodes of their arguments. */
const GADGETS: readonly (readonly [global: string, args: string, reader?: string | undefined])[] = [
  ['cProfile.run', text(`import os; os.mkdir('${FOLDER}')`)],
  ['profile.run', text(`import os; os.mkdir('${FOLDER}')`)],
  ['trace.Trace', 'N', undefined],
  ['shelve.open', text(FOLDER)],
  ['sqlite3.connect', text(FOLDER)],
  ['venv.create', text(FOLDER)],
  ['mailbox.Maildir', text(FOLDER)],
  ['tempfile.mkdtemp', `${text('')}${text('safetensors-ran-')}${text('.')}`],
  ['zipfile.ZipFile', `${text(FOLDER)}${text('w')}`],
  ['gzip.open', `${text(FOLDER)}${text('wb')}`],
  ['bz2.BZ2File', `${text(FOLDER)}${text('wb')}`],
  ['codecs.open', `${text(FOLDER)}${text('w')}`],
  ['_pyio.open', `${text(FOLDER)}${text('w')}`],
  ['logging.FileHandler', text(FOLDER)],
  ['distutils.file_util.write_file', `${text(FOLDER)}]`],
  ['distutils.dir_util.mkpath', text(FOLDER)],
  ['dbm.dumb.open', `${text(FOLDER)}${text('n')}`],
  ['numpy.memmap', `${text(FOLDER)}${text('uint8')}${text('w+')}K\0K\x01`],
  ['numpy.savetxt', `${text(FOLDER)}]`],
  ['numpy.save', `${text(FOLDER)}]`],
  [
    'numpy.f2py.crackfortran.getlincoef',
    `${text(`__import__('os').mkdir('${FOLDER}')`)}}`,
    'torch',
  ],
  ['torch.save', `N${text(FOLDER)}`, 'torch'],
  ['torch.utils.collect_env.run', text(`mkdir ${FOLDER}`), 'torch'],
  ['torch.storage._load_from_bytes', `B${latin1Length(PLAIN)}${PLAIN.toString('latin1')}`, 'torch'],
  [
    'torch.storage._load_from_bytes',
    `B${latin1Length(checkpoint(PLAIN))}${checkpoint(PLAIN).toString('latin1')}`,
    'torch',
  ],
  ['pandas.read_pickle', text('x.pkl'), undefined],
  ['joblib.load', text('x.pkl'), undefined],
];

function latin1Length(bytes: Buffer): string {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return length.toString('latin1');
}

/** A pickle that calls a gadget. */
function gadgetPickle(global: string, args: string): Buffer {
  const at = global.lastIndexOf('.');
  return pickleOf(`\x80\x04c${global.slice(0, at)}\n${global.slice(at + 1)}\n(${args}tR`);
}

/** Entries whose names may mislead a scanner, and how Python reaches them. */
const ENTRIES: readonly (readonly [name: string, data: Buffer, reader: string])[] = [
  ...[
    'm/data/1',
    'm/data/model.pth',
    'm/data/weights',
    'm/model.bin',
    'm/x',
    'x',
    'm/data.pkl.bak',
    'm/.data/x',
  ].flatMap((name) => [[name, PLAIN, 'entries'] as const, [name, PROTOCOL_0, 'entries'] as const]),
  ...[
    'm/version2',
    'm/notes.txt',
    'm/config.json',
    'm/MAR-INF/MANIFEST.json',
    'm/serialization_id',
  ].map((name) => [name, PROTOCOL_0, 'entries'] as const),
  ['m/model.pt', checkpoint(PLAIN), 'nested'],
  ['m/data/model.pt', checkpoint(PLAIN), 'nested'],
  ['m/data/1', Buffer.concat([...LEGACY.slice(0, 3), PLAIN]), 'nested'],
  ['handler.py', Buffer.from(`import os; os.mkdir('${FOLDER}')`), 'import'],
  ['handler/__init__.py', Buffer.from(`import os; os.mkdir('${FOLDER}')`), 'import'],
];

/** All files. */
export function hostileFiles(): HostileFile[] {
  const files: HostileFile[] = [];
  const add = (kind: string, name: string, reader: string | undefined, bytes: Buffer): void => {
    files.push({ kind, name, reader, bytes });
  };
  for (const [how, opcodes] of Object.entries(PAYLOADS)) {
    for (const head of ['', '\x80\x02', '\x80\x04'])
      add('pickle', how, 'pickle', pickleOf(head + opcodes));
    add('pickle', `${how}, in Python's own`, 'python', pickleOf(`\x80\x04${opcodes}`));
    add('checkpoint', how, 'torch', checkpoint(pickleOf(`\x80\x02${opcodes}0}`)));
    add(
      'checkpoint',
      `${how}, deflated`,
      'torch',
      checkpoint(pickleOf(`\x80\x02${opcodes}0}`), true),
    );
  }
  for (const [global, args, ...readers] of GADGETS) {
    const reader = readers.length === 0 ? 'pickle' : readers[0];
    add('gadget', global, reader, gadgetPickle(global, args));
  }
  const located = `cpydoc\nlocate\n(${text('os.mkdir')}tR${ARGUMENTS}R`;
  add('gadget', 'pydoc.locate', 'pickle', pickleOf(located));
  const path = `${text('pathlib')}${text('Path.mkdir')}\x93(cpathlib\nPath\n${ARGUMENTS}RtR`;
  add('gadget', 'pathlib.Path.mkdir', 'pickle', pickleOf(`\x80\x04${path}`));
  for (const [spelling, number] of MEMO_NUMBERS) {
    const opcodes = memoPayload(spelling, number);
    // A zero byte ends the number for the reader in C alone.
    add('number', JSON.stringify(spelling), 'pickle', pickleOf(opcodes));
    add(
      'number',
      `${JSON.stringify(spelling)} in a checkpoint`,
      'torch',
      checkpoint(pickleOf(`\x80\x02${opcodes}`)),
    );
  }
  for (const descr of DESCRS) {
    add('header', descr, 'numpy', objects(headerOf(descr)));
    add(
      'header',
      `${descr} in an archive`,
      'numpy',
      archive(['a.npy', NUMBERS], ['b.npy', objects(headerOf(descr)), true]),
    );
  }
  for (const header of HEADERS) add('header', header, 'numpy', objects(header));
  add('header', 'version 2', 'numpy', objects(headerOf("'|O'"), [2, 0]));
  add('header', 'version 3', 'numpy', objects(headerOf("'|O'"), [3, 0]));
  add('header', 'a pickle that is no array', 'numpy', PLAIN);
  for (const [index] of LEGACY.entries()) {
    const changed = LEGACY.with(index, PLAIN);
    add('stream', `pickle ${index + 1} of five`, 'torch', Buffer.concat(changed));
    const inner = LEGACY.with(index, pickleOf(`\x80\x02${PAYLOADS['STACK_GLOBAL']}`));
    add('stream', `pickle ${index + 1} of five, by texts`, 'torch', Buffer.concat(inner));
  }
  for (const sixth of [PLAIN, PROTOCOL_0, pickleOf(`\x80\x04${PAYLOADS['short texts']}`)]) {
    add('stream', 'a sixth pickle', 'pickles', Buffer.concat([...LEGACY, sixth]));
    add('stream', 'a second pickle', 'pickles', Buffer.concat([EMPTY, sixth]));
    const magic = Buffer.from('\x80\x03C\x0c\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.', 'latin1');
    add(
      'stream',
      'the magic number in a text',
      'pickles',
      Buffer.concat([magic, ...LEGACY.slice(1), sixth]),
    );
  }
  const polyglot = readFileSync(scanFixture('scan-legacy-tar-polyglot.pt'));
  add('stream', 'a tar archive', 'torch', polyglot);
  for (const sum of [
    '0o13063 ',
    ' 013063\0',
    '13_063\0 ',
    '+13063\0 ',
    '\x80\0\0\0\0\0\x16\x33',
    '0013063 ',
  ]) {
    const changed = Buffer.from(polyglot);
    changed.write(sum, 148, 'latin1');
    add('stream', `a tar archive with the sum ${JSON.stringify(sum)}`, 'torch', changed);
  }
  for (const [name, data, reader] of ENTRIES) {
    for (const isDeflated of [false, true])
      add('entry', name, reader, beside(name, data, isDeflated));
  }
  for (const data of [PLAIN, PROTOCOL_0]) {
    add('entry', 'alone', 'entries', archive(['model', data]));
    add('entry', 'beside arrays', 'entries', archive(['a.npy', NUMBERS], ['b', data]));
    add('entry', 'in place of a storage', 'entries', beside('m/data/2', data));
  }
  for (const [name, front] of Object.entries({
    text: Buffer.from('readme\n'),
    safetensors: SAFETENSORS,
    npy: NUMBERS,
    pickle: EMPTY,
    gguf: Buffer.from('GGUF\x03\0\0\0'),
    zeros: Buffer.alloc(64),
  })) {
    // Positions in the archive stay those of its own start: Python adds what stands before it.
    add('archive', `behind ${name}`, 'entries', Buffer.concat([front, checkpoint(PLAIN)]));
    add(
      'archive',
      `with code, behind ${name}`,
      'import',
      Buffer.concat([front, archive(...ENTRIES.slice(-2, -1).map(([a, b]) => [a, b] as const))]),
    );
  }
  add('archive', 'gzip', 'gzip', gzipSync(PLAIN));
  add('archive', 'zlib', 'zlib', deflateSync(PLAIN));
  const packed = readFileSync(scanFixture('scan-torch-package.pt'));
  add('code', 'torch.package', 'package', packed);
  add('code', 'MAR', 'import', readFileSync(scanFixture('scan-nested-zip.mar')));
  add('code', 'Keras', undefined, readFileSync(scanFixture('scan-keras-lambda.keras')));
  for (const config of [
    '{"class_name":"Lambda","config":{}}',
    '{"config":{"layers":[{"class_name":"L\\u0061mbda"}]}}',
    '{"class_name":"__lambda__"}',
    '{"class_name":"function","module":"os","config":"mkdir"}',
    '{"class_name":"Popen","module":"subprocess"}',
  ]) {
    add(
      'code',
      `Keras: ${config}`,
      undefined,
      archive(['config.json', config], ['metadata.json', '{}']),
    );
    add('code', `Keras: ${config}, alone`, undefined, Buffer.from(config));
  }
  return files;
}
