/** Random weights of every scheme, whose values are those of the rules, written once more in `rules.ts`. */
import { expect, it } from 'vitest';
import { dequantized, fromFloat32, parse, select, serialize } from '../support/api.js';
import { nightly } from '../support/nightly.js';
import { Random } from '../support/random.js';
import { storedTensors } from './generated-tensors.js';
import { MAKERS } from './generated-weights.js';
import { rowCountOf } from './opened-tensors.js';
import { patternsOf, ruleValues } from './rules.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261126);
const COUNT = nightly(60, 20);

it.each(Object.entries(MAKERS))('%s: the values of the rule, and of its rows', async (_, make) => {
  for (let number = 0; number < COUNT; number++) {
    const random = new Random(SEED, number);
    const made = make(random);
    const stored = storedTensors(made, number);
    const about = `seed ${SEED}, number ${number}: ${JSON.stringify(made)}`;
    const tensors = Array.from(stored, ([name, { dtype, shape, bytes }]) => {
      return [name, { dtype, shape, data: bytes }] as const;
    });
    const file = parse(serialize(new Map(tensors)));
    const model = await dequantized(file, { config: made.config });
    expect(model.problems, about).toEqual([]);
    expect(model.keys(), about).toEqual([made.name]);
    const tensor = model.getTensor(made.name);
    const { shape, scheme, bits, block } = made.facts;
    const { quantization, ...info } = model.info(made.name);
    expect([tensor.dtype, tensor.shape], about).toEqual(['F32', shape]);
    expect(info, about).toMatchObject({ dtype: 'F32', shape });
    expect(quantization, about).toMatchObject({ scheme, bits });
    expect(quantization?.storedAs, about).toEqual(made.storedAs);
    expect([block, null], about).toContainEqual(quantization?.block);
    const parts = Object.fromEntries(
      Object.entries(made.storedAs).map(([role, name]) => [role, stored.get(name) as never]),
    );
    const expected = patternsOf(ruleValues({ ...made.facts, parts }));
    const values = tensor.toFloat32();
    expect(patternsOf(values), about).toEqual(expected);
    const first = random.below(rowCountOf(tensor));
    const rows = [first, random.from(first, rowCountOf(tensor))] as const;
    const columns = shape.at(-1) as number;
    const part = expected.subarray(rows[0] * columns, rows[1] * columns);
    expect(patternsOf(await tensor.toFloat32Async({ rows })), about).toEqual(part);
    const dtype = random.pick(['BF16', 'F16'] as const);
    const cast = select(model, { dtype }).getTensor(made.name);
    expect(cast.data, about).toEqual(fromFloat32(values, dtype));
    expect(Buffer.compare(Buffer.from(tensor.bytes), Buffer.from(values.buffer)), about).toBe(0);
    let next = 0;
    for await (const { row, values } of tensor.rowBlocks({ maxByteLength: 4 * columns * 3 })) {
      expect(row).toBe(next);
      const own = expected.subarray(row * columns, row * columns + values.length);
      expect(patternsOf(values), about).toEqual(own);
      next += values.length / columns;
    }
    expect(next).toBe(rowCountOf(tensor));
  }
});
