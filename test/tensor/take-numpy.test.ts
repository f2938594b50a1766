/** `take` against `numpy.take`. One difference is wanted: to numpy a scalar is an array of one row. */
import { writeFileSync } from 'node:fs';
import process from 'node:process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parse, SafetensorsError, serialize } from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';

const python = findPython('numpy');
if (isSkipped(python)) process.stderr.write(`tensor/take-numpy: skipped: ${python.missing}\n`);

describe.skipIf(isSkipped(python))(titleWith(python, 'numpy.take'), () => {
  test('gives the same rows and the same errors', () => {
    const cases = fc.sample(
      fc
        .tuple(fc.array(fc.nat(5), { minLength: 1, maxLength: 3 }), fc.nat(7))
        .chain(([shape, extra]) =>
          fc.record({
            shape: fc.constant(shape),
            indices: fc.array(
              fc.integer({ min: -(shape[0] ?? 0) - (extra % 2), max: shape[0] ?? 0 }),
              {
                maxLength: 8,
              },
            ),
          }),
        ),
      400,
    );
    const script = `
import json, sys
import numpy
answers = []
for case in json.load(open(sys.argv[1])):
    shape = case['shape']
    table = numpy.arange(int(numpy.prod(shape, dtype=int)), dtype=numpy.uint32).reshape(shape)
    try:
        rows = numpy.take(table, numpy.array(case['indices'], dtype=numpy.int64), axis=0)
        answers.append({'shape': rows.shape, 'values': rows.ravel().tolist()})
    except (IndexError, ValueError) as error:
        answers.append({'error': type(error).__name__})
print(json.dumps(answers))
`;
    const path = temporaryPath('cases.json');
    writeFileSync(path, JSON.stringify(cases));
    const answers = JSON.parse(runPython(python, ['-c', script, path])) as readonly unknown[];
    const ours = cases.map(({ shape, indices }) => {
      const count = shape.reduce((a, b) => a * b, 1);
      const data = Uint32Array.from({ length: count }, (_, i) => i);
      const file = parse(serialize({ t: { dtype: 'U32', shape, data } }));
      try {
        const rows = file.getTensor('t').take(indices).expectDtype('U32');
        return { shape: rows.shape, values: [...rows.data] };
      } catch (error) {
        return { error: error instanceof SafetensorsError };
      }
    });
    const expected = answers.map((answer) =>
      'error' in (answer as object) ? { error: true } : answer,
    );
    expect(ours).toEqual(expected);
    expect(expected.filter((answer) => 'error' in (answer as object)).length).toBeGreaterThan(20);
    expect(expected.filter((answer) => 'shape' in (answer as object)).length).toBeGreaterThan(100);
  });
});
