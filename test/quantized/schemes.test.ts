/** Random weights of every scheme, whose values are those of the rules, written once more in `rules.ts`. */
import { expect, it } from 'vitest';
import { dequantized, fromFloat32, parse, serialize } from '../support/api.js';
import { nightly } from '../support/nightly.js';
import { Random } from '../support/random.js';
import { storedTensors } from './made-tensors.js';
import { MAKERS } from './made-weights.js';
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
    expect(tensor.info, about).toMatchObject({ shape, scheme, bits });
    expect(tensor.info.storedAs, about).toEqual(made.storedAs);
    expect([block, null], about).toContainEqual(tensor.info.block);
    const parts = Object.fromEntries(
      Object.entries(made.storedAs).map(([role, name]) => [role, stored.get(name) as never]),
    );
    const expected = patternsOf(ruleValues({ ...made.facts, parts }));
    const values = tensor.toFloat32();
    expect(patternsOf(values), about).toEqual(expected);
    const first = random.below(tensor.rowCount);
    const rows = [first, random.from(first, tensor.rowCount)] as const;
    const columns = shape.at(-1) as number;
    const part = expected.subarray(rows[0] * columns, rows[1] * columns);
    expect(patternsOf(await tensor.toFloat32Async({ rows })), about).toEqual(part);
    const dtype = random.pick(['BF16', 'F16'] as const);
    expect(await tensor.cast(dtype), about).toEqual(fromFloat32(values, dtype));
    let next = 0;
    for await (const { row, values } of tensor.rowBlocks({ maxByteLength: 4 * columns * 3 })) {
      expect(row).toBe(next);
      const own = expected.subarray(row * columns, row * columns + values.length);
      expect(patternsOf(values as Float32Array), about).toEqual(own);
      next += values.length / columns;
    }
    expect(next).toBe(tensor.rowCount);
  }
});
