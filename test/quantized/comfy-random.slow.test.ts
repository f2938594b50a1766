/** Random weights of ComfyUI's formats, whose values are those of the rules in `comfy-rules.ts`. */
import { expect, it } from 'vitest';
import {
  type Checkpoint,
  dequantized,
  fromFloat32,
  openRemote,
  parse,
  select,
} from '../support/api.js';
import { nightly } from '../support/nightly.js';
import { Random } from '../support/random.js';
import { comfyValues } from './comfy-rules.js';
import { COMFY_MAKERS, comfyFile } from './generated-comfy.js';
import { storedTensors, WEIGHT } from './generated-tensors.js';
import { rowCountOf } from './opened-tensors.js';
import { patternsOf } from './rules.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261129);
const COUNT = nightly(1000, 200);

it.each(Object.entries(COMFY_MAKERS))(
  '%s: values, rows and slices of the rule',
  async (kind, make) => {
    let values = 0;
    for (let number = 0; number < COUNT; number++) {
      const random = new Random(SEED, number);
      const made = make(random);
      const stored = storedTensors(made, number);
      const about = `seed ${SEED}, number ${number}: ${JSON.stringify(made)}`;
      const file = comfyFile(made, stored);
      const model = await dequantized(parse(file));
      expect(model.problems, about).toEqual([]);
      expect(model.keys(), about).toEqual([WEIGHT]);
      const { shape, scheme } = made;
      expect(model.info(WEIGHT), about).toMatchObject({
        dtype: 'F32',
        shape,
        quantization: { scheme },
      });
      const expected = comfyValues(made, stored);
      const patterns = patternsOf(expected);
      const tensor = model.getTensor(WEIGHT);
      expect(patternsOf(tensor.toFloat32()), about).toEqual(patterns);
      values += expected.length;
      const columns = shape.at(-1) as number;
      const first = random.below(rowCountOf(tensor));
      const rows = [first, random.from(first, rowCountOf(tensor))] as const;
      const part = patterns.subarray(rows[0] * columns, rows[1] * columns);
      expect(patternsOf(await tensor.toFloat32Async({ rows })), about).toEqual(part);
      const from = random.below(columns);
      const to = random.from(from, columns) + 1;
      const slice = await (random.chance(0.2) ? await far(file) : model).getSlice(
        WEIGHT,
        `..., ${from}:${to}`,
      );
      const own = expected.filter((_, i) => i % columns >= from && i % columns < to);
      expect(patternsOf(slice.toFloat32()), about).toEqual(patternsOf(own));
      const dtype = random.pick(['BF16', 'F16'] as const);
      const cast = select(model, { dtype }).getTensor(WEIGHT);
      expect(cast.data, about).toEqual(fromFloat32(tensor.toFloat32(), dtype));
    }
    console.log(`${kind}: ${COUNT} checkpoints, ${values} values`);
  },
);

async function far(file: Uint8Array<ArrayBuffer>): Promise<Checkpoint> {
  return (await dequantized(await openRemote(new Blob([file])))) as unknown as Checkpoint;
}
