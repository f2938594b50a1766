import { writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type FilePatterns, filesTest } from '../../../src/file/hub/file-patterns.js';
import { temporaryPath } from '../../support/make-file.js';
import { nightly } from '../../support/nightly.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';

const python = findPython('huggingface_hub');

/** One question: these names by these patterns. */
interface Case extends FilePatterns {
  readonly names: readonly string[];
}

function chosen({ names, ...patterns }: Case): string[] {
  return names.filter(filesTest(patterns));
}

/** The answers of the Hub's Python library. */
function chosenByPython(cases: readonly Case[]): string[][] {
  const program = `
import json, sys, warnings
warnings.simplefilter('ignore')
from huggingface_hub.utils import filter_repo_objects
for line in open(sys.argv[1], encoding='utf-8'):
    case = json.loads(line)
    print(json.dumps(list(filter_repo_objects(
        case['names'], allow_patterns=case.get('files'), ignore_patterns=case.get('ignore')))))
`;
  const path = temporaryPath('cases.jsonl');
  writeFileSync(path, cases.map((each) => `${JSON.stringify(each)}\n`).join(''));
  const lines = runPython(python, ['-c', program, path]).trim().split('\n');
  return lines.map((line) => JSON.parse(line) as string[]);
}

const NAMES = [
  'model.safetensors',
  'model.fp16.safetensors',
  'config.json',
  'onnx/model.onnx',
  'onnx/model.onnx_data',
  'text_encoder/config.json',
  'text_encoder/model.safetensors',
  'a/b/c/deep.json',
  'README.md',
  '.gitattributes',
  'a[1].json',
  'A.JSON',
  'naïve.txt',
  '模型/文件.json',
  '😀.json',
  'back\\slash.json',
  'new\nline.json',
  '-.json',
  '!.json',
  '].json',
];

const PATTERNS = [
  '*',
  '**',
  '',
  '*.json',
  'text_encoder/**',
  'text_encoder/',
  'text_encoder\\*.json',
  'onnx',
  'onnx/*',
  '*/*.json',
  '?.json',
  '*/??????.json',
  'model*.safetensors',
  'model.*.safetensors',
  '[ab]*',
  '[!ab]*',
  '[a-c]*',
  '[c-a]*',
  '[!c-a]*',
  '[]-a]*',
  '[]]*',
  '[!]]*',
  '[!]*',
  '[!!]*',
  '[^a]*',
  '[[]*',
  '[-]*',
  '[a-]*',
  '[a-c-e]*',
  '[!-]*',
  '[--/]*',
  '[b-a!]*',
  '[b-a!x]*',
  '[b-a!-z]*',
  '[a&&b]*',
  '[a||b~~c]*',
  'a[[]1[]]*',
  'a[1]*',
  'a[1',
  '[模-文]*',
  '😀*',
  '[😀]*',
  '[!😀].json',
  '.*',
  'README.md',
  'readme.md',
  '*a*a*a*a*b',
];

describe('chooses as the library of Python', () => {
  it('all files, none, those of a folder', () => {
    const names = ['a.json', 'text_encoder/model.safetensors', 'text_encoder/deep/x.json'];
    expect(chosen({ names })).toEqual(names);
    expect(chosen({ names, files: [] })).toEqual([]);
    expect(chosen({ names, files: 'text_encoder/' })).toEqual(names.slice(1));
    expect(chosen({ names, files: '*.json', ignore: '*/*' })).toEqual(['a.json']);
  });

  it('takes a time that grows with the product of both lengths only', () => {
    const names = [`${'a'.repeat(20_000)}b`];
    const files = `${'*a'.repeat(500)}*c`;
    expect(chosen({ names, files })).toEqual([]);
  });

  it.skipIf(isSkipped(python))(titleWith(python, 'each pattern alone and beside others'), () => {
    const alone = PATTERNS.flatMap((pattern): Case[] => [
      { names: NAMES, files: pattern },
      { names: NAMES, ignore: [pattern] },
    ]);
    const pairs = PATTERNS.flatMap((pattern, i): Case[] => [
      { names: NAMES, files: [pattern, PATTERNS.at(-1 - i) as string] },
      { names: NAMES, files: [pattern], ignore: [PATTERNS.at(-1 - i) as string, '*.md'] },
    ]);
    const cases = [...alone, ...pairs, { names: NAMES, files: [] }, { names: NAMES, ignore: [] }];
    for (const [i, expected] of chosenByPython(cases).entries()) {
      expect(chosen(cases[i] as Case), JSON.stringify(cases[i])).toEqual(expected);
    }
  });

  it.skipIf(isSkipped(python))(titleWith(python, 'many lists by chance'), () => {
    const letters = [...'aabc/.-!]^[*?😀é\\~&|\n'];
    const text = (maxLength: number): fc.Arbitrary<string> =>
      fc.array(fc.constantFrom(...letters), { maxLength }).map((found) => found.join(''));
    const set = fc
      .array(fc.constantFrom(...'aabcz--!!]^[&~|/😀'), { minLength: 1, maxLength: 8 })
      .map((found) => `[${found.join('')}]`);
    const pattern = fc
      .array(fc.oneof(text(3), set, fc.constant('*')), { maxLength: 5 })
      .map((found) => found.join(''));
    const patterns = fc.option(fc.oneof(pattern, fc.array(pattern, { maxLength: 3 })), {
      nil: undefined,
    });
    const cases = fc.sample(
      fc.record({
        names: fc.array(text(6), { minLength: 20, maxLength: 20 }),
        files: patterns,
        ignore: patterns,
      }),
      { numRuns: nightly(5000, 1500), seed: 7 },
    );
    const answers = chosenByPython(cases);
    expect(answers).toHaveLength(cases.length);
    for (const [i, expected] of answers.entries()) {
      expect(chosen(cases[i] as Case), JSON.stringify(cases[i])).toEqual(expected);
    }
  });
});
