/** States, keys and storage names in all forms that torch reads: read alike here, or refused with a clear error. */
import { createHash } from 'node:crypto';
import { afterAll, describe, expect, it } from 'vitest';
import { FormatError } from '../../../src/errors/errors.js';
import {
  isDictAttribute,
  isTensorAttribute,
} from '../../../src/foreign/torch/state-dict/tensor-attributes.js';
import type { Tensor } from '../../../src/tensor/tensor.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { text } from '../pickle-mutations.js';
import { PythonReader, type TensorFact } from '../python-reader.js';
import { readAll } from '../readings.js';
import { dict, legacyFile, tensor } from './legacy-file.js';

const python = findPython('torch', 'numpy');
const reader = new PythonReader(python);
afterAll(async () => await reader.close());

const plain = tensor('0', [2]);
const other = tensor('1', [2]);
const hooks = 'ccollections\nOrderedDict\n)R';
const encode = (value: string): string => `c_codecs\nencode\n${text(value)}${text('latin1')}\x86R`;
const device = (value: string): string => `ctorch\ndevice\n${text(value)}\x85R`;
const layout = `ctorch.serialization\n_get_layout\n${text('torch.strided')}\x85R`;
const nan = 'G\x7f\xf8\0\0\0\0\0\0';

/** The tensor with a state, in both ways in which torch gives it one. */
function withState(state: string): string[] {
  const call = plain.slice('ctorch._utils\n_rebuild_tensor_v2\n'.length, -1);
  const tensorType = 'ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n';
  return [
    `ctorch._utils\n_rebuild_parameter_with_state\n(${plain}\x89${hooks}${state}tR`,
    `ctorch._tensor\n_rebuild_from_type_v2\n(${tensorType}${call}${state}tR`,
    `ctorch._tensor\n_rebuild_from_type_v2\n(ctorch.nn.parameter\nParameter\nctorch.nn.parameter\nParameter\n${plain}\x85${state}tR`,
  ];
}

const NAMES = ['data', 'real', 'imag', 'grad', 'shape', 'dtype', 'requires_grad', '__class__', 'T'];
const VALUES = [other, 'K\x01', 'ccollections\nOrderedDict\n', ']'];
const STATES: readonly string[] = [
  ...[...NAMES, 'mine', '', 'weird name', 'quant_state'].flatMap((name) =>
    VALUES.flatMap((value) => {
      const one = dict([text(name), value]);
      return [one, `${one}N\x86`, `N${one}\x86`, `${hooks}${one.slice(1)}`];
    }),
  ),
  ...['N', '}', ')', ']', 'K\0', '\x89', text(''), 'NN\x86', '}}\x86', '}}}\x87', ']]\x86'],
  ...[nan, 'K\x01', encode('data'), 'N', ')'].map((key) => dict([key, other])),
  // Deeper, and in a dict of a dict.
  dict([text('mine'), `](${other}e`]),
  dict([text('mine'), dict([text('m'), `${other}\x85`])]),
  `${dict([text('mine'), 'K\x01'])}${dict([text('data'), other])}\x86`,
];

const KEYS: readonly string[] = [
  nan,
  'G\x3f\xf0\0\0\0\0\0\0',
  'K\x01',
  '\x88',
  'N',
  text('1'),
  text('1.0'),
  text('True'),
  text('None'),
  text('nan'),
  text('cpu'),
  device('cpu'),
  device('cuda:1'),
  `ctorch\ndevice\n${text('cuda')}K\x01\x86R`,
  device('cpu:00'),
  device('cpu:128'),
  layout,
  text('torch.strided'),
  text('torch.float32'),
  'ctorch\nfloat32\n',
  text("device(type='cpu')"),
  encode('a'),
  text("b'a'"),
  encode(`a'"\\\n\u00e9\u007f`),
  encode("a'b"),
  `c__builtin__\nbytearray\n${encode('a')}\x85R`,
  'ctorch\nSize\nK\x01K\x02\x86\x85R',
  'K\x01K\x02\x86',
  text('(1, 2)'),
  ...[
    'k',
    "k'",
    'k"',
    `'"`,
    '\\',
    '\n\t\r\u0000\u007f\u0080',
    '\u00a0\u00ad\u00e9\u2028\u3000\ue000\ufeff',
    '\u{1f600}\u{e0001}\u{10ffff}',
  ].flatMap((key) => [text(key), `${text(key)}\x85`, `K\x01${text(key)}\x86\x85`]),
  `${device('cpu')}\x85`,
  `${device('cuda:1')}ctorch\nfloat32\n\x86`,
  `${layout}${nan}\x86`,
  `${encode("a'")}N\x88\x87`,
  'ctorch\nSize\nK\x01\x85\x85R\x85',
];

/** Pickles by what is in them, each with storages 0 and 1. */
const VARIANTS: readonly string[] = [
  ...STATES.flatMap(withState).map((value) => dict([text('w'), value], [text('v'), other])),
  ...KEYS.map((key) => dict([key, plain], [text('v'), other])),
  ...KEYS.flatMap((key, i) => KEYS.slice(i).map((next) => dict([key, plain], [next, other]))),
  ...KEYS.map((key) => dict([text('d'), dict([key, dict([key, plain])])], [text('v'), other])),
  // The storage's own name.
  ...['K\0', encode('0'), 'N', '\x89', `${text('0')}\x85`, 'G\0\0\0\0\0\0\0\0'].map((key) =>
    dict([text('w'), plain.replace(text('0'), key)], [text('v'), other]),
  ),
  // States of dicts and of tensors by BUILD.
  ...['items', 'keys', 'values', '_metadata', '__len__', 'mine'].flatMap((name) =>
    [`ccollections\nOrderedDict\n`, 'ccollections\nCounter\n'].map(
      (type) => `${type})R(${text('w')}${plain}${text('v')}${other}u${dict([text(name), type])}b`,
    ),
  ),
  ...[`(${other}t`, 'N\x89}\x87', `(${other}N\x89}}t`, '}', dict([text('data'), other])].flatMap(
    (state) => [
      dict([text('w'), `${plain}${state}b`], [text('v'), other]),
      dict([text('w'), `${withState('}')[0]}${state}b`], [text('v'), other]),
    ],
  ),
];

/** The tensors that are read here, and the names of those left out; undefined when the file is refused. */
interface Reading {
  readonly facts: readonly TensorFact[];
  readonly leftOut: readonly string[];
}

async function readHere(path: string): Promise<Reading | undefined> {
  const facts: TensorFact[] = [];
  const leftOut: string[] = [];
  const use = (name: string, { dtype, shape, bytes }: Tensor): void => {
    facts.push([name, dtype, [...shape], createHash('sha256').update(bytes).digest('hex')]);
  };
  const error = await readAll('torch', path, use, (name) => leftOut.push(name));
  if (error === undefined) return { facts, leftOut };
  expect(error).toBeInstanceOf(FormatError);
  return undefined;
}

function shown(facts: readonly TensorFact[], leftOut: readonly string[]): string {
  const shownFacts = facts.map((fact) => (leftOut.includes(fact[0]) ? [fact[0]] : fact));
  return JSON.stringify(shownFacts.toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)));
}

describe.skipIf(isSkipped(python))(titleWith(python, 'what is accepted'), () => {
  it(`of ${VARIANTS.length} variants is read alike by torch`, async () => {
    const read: {
      object: (typeof VARIANTS)[number];
      path: string;
      reading: Reading | undefined;
    }[] = [];
    for (const object of VARIANTS) {
      const path = legacyFile(object, { 0: 2, 1: 2 });
      read.push({ object, path, reading: await readHere(path) });
    }
    const accepted = read.filter(({ reading }) => reading !== undefined);
    const questions = accepted.map(({ path }) => ({ reader: 'torch' as const, path }));
    const answers = await reader.answer<TensorFact[]>(questions);
    const differences = accepted.filter(({ reading }, i) => {
      const { facts, leftOut } = reading as Reading;
      const found = answers[i]?.found;
      // torch has the tensors that are left out here.
      const here = [...facts, ...leftOut.map((name): TensorFact => [name, '', [], null])];
      return found !== undefined && shown(here, leftOut) !== shown(found, leftOut);
    });
    expect(differences.map(({ object }) => object)).toEqual([]);
    const refusedThere = answers.filter(({ found }) => found === undefined).length;
    expect(accepted.length - refusedThere).toBeGreaterThan(VARIANTS.length / 3);
  });

  it('tensors and dicts have the attributes that are listed', () => {
    const source =
      'import torch, collections as c\n' +
      'print(*dir(torch.nn.Parameter), *dir(torch.Tensor))\nprint(*dir(c.OrderedDict), *dir(c.Counter))';
    const [tensors = '', dicts = ''] = runPython(python, ['-c', source]).split('\n');
    expect(tensors.split(' ').filter((name) => !isTensorAttribute(name))).toEqual([]);
    expect(dicts.split(' ').filter((name) => !isDictAttribute(name))).toEqual([]);
  });
});
