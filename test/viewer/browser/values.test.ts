/** What the page shows of values is what the library returns, which equals numpy. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import {
  compareTensors,
  type Dtype,
  dequantized,
  formatValues,
  histogram,
  safeOpen,
  statistics,
  type Tensor,
  tensorValues,
} from '../../support/api.js';
import { type Entry, fileBytes } from '../../support/make-file.js';
import { folderUntilEnd, savedText, serve, show, viewOf } from '../../support/viewer-page.js';

const BINS = 120;

/** Writes a file, and gives its path. */
function written(name: string, entries: readonly Entry[]): string {
  const path = join(folderUntilEnd(), name);
  writeFileSync(path, fileBytes(entries));
  return path;
}

/** Bytes of any kind: with NaN, infinities and subnormal numbers among them. */
function anyBytes(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => Math.imul(i + length, 0x9e3779b1) >>> 24);
}

/** The texts of single values, as the grid has them. */
function singleTexts(tensor: Tensor): string[] {
  if (tensor.shape.length === 0) return formatValues([tensor]).flat();
  return Array.from({ length: tensor.shape[0] as number }, (_, i) =>
    singleTexts(tensor.slice(i)),
  ).flat();
}

/** The texts of all cells in sight, once all are there. */
async function shownCells(page: Page): Promise<string[]> {
  const cells = page.getByRole('gridcell');
  await cells.first().waitFor();
  await expect.poll(() => cells.filter({ hasText: /^…$/ }).count()).toBe(0);
  return await cells.allTextContents();
}

const DTYPES: readonly Dtype[] = ['F64', 'F32', 'BF16', 'F16', 'F8_E4M3', 'I64', 'U8', 'BOOL'];
const BYTES: Partial<Record<Dtype, number>> = { F64: 8, I64: 8, F32: 4, BF16: 2, F16: 2 };

describe('values and statistics', () => {
  it('of every kind of dtype equal those of the library', async () => {
    const entries = DTYPES.map((dtype): Entry => {
      const bytes = anyBytes(12 * (BYTES[dtype] ?? 1));
      return {
        name: dtype,
        dtype,
        shape: [4, 3],
        bytes: dtype === 'BOOL' ? bytes.map((b) => b % 2) : bytes,
      };
    });
    const path = written('kinds.safetensors', entries);
    const server = await serve(path);
    const checkpoint = await safeOpen(path);
    const { page, faults } = await show(viewOf(server, 'open=kinds.safetensors'));
    await page.getByRole('treeitem').first().waitFor();
    for (const dtype of DTYPES) {
      await page.evaluate(`location.hash = 'open=kinds.safetensors&tensor=${dtype}'`);
      await page.getByRole('heading', { level: 1, name: dtype, exact: true }).waitFor();
      const tensor = await checkpoint.getTensor(dtype);
      const texts = singleTexts(tensor).map((text) => text.trim());
      await expect.poll(() => shownCells(page)).toEqual(texts);
      const expected = await statistics(tensorValues(tensor), dtype);
      const rows = JSON.parse(await savedText(page, `Save statistics of ${dtype} as JSON`));
      const shown = Object.fromEntries(
        rows.map(({ statistic, value }: { statistic: string; value: unknown }) => [
          statistic,
          // JSON has no infinities: the spread of F64 may be one.
          typeof value === 'string' ? Number(value) : value,
        ]),
      );
      expect([dtype, shown]).toEqual([dtype, expected]);
      const bins = await histogram(tensorValues(tensor), expected, BINS);
      if (bins === null) continue;
      const bars = JSON.parse(await savedText(page, `Save histogram of ${dtype} as JSON`));
      expect(bars.map(({ count }: { count: number }) => count)).toEqual(bins.counts);
    }
    checkpoint.close();
    expect(faults).toEqual([]);
  });

  it('of columns of packed dtypes are cut from whole rows', async () => {
    const bytes = anyBytes(8);
    const path = written('packed.safetensors', [{ name: 'w', dtype: 'F4', shape: [2, 8], bytes }]);
    const all = safeOpen(path).getTensor('w').toFloat32();
    const server = await serve(path);
    const { page, faults } = await show(
      viewOf(server, 'open=packed.safetensors&tensor=w&slice=:, 1:6:2'),
    );
    const expected = [1, 3, 5, 9, 11, 13].map((at) => all[at]);
    expect((await shownCells(page)).map(Number)).toEqual(expected);
    expect(faults).toEqual([]);
  });

  it('of nothing, of one value and of an empty selection are there without errors', async () => {
    const server = await serve(
      written('small.safetensors', [
        { name: 'none', dtype: 'F32', shape: [0, 3] },
        { name: 'one', dtype: 'U8', shape: [] },
        { name: 'row', dtype: 'U8', shape: [1, 3] },
      ]),
    );
    const { page, faults } = await show(viewOf(server, 'open=small.safetensors&tensor=none'));
    const sentence = page.getByText('There is no value in this selection.');
    await sentence.waitFor();
    await page.evaluate(`location.hash = 'open=small.safetensors&tensor=one'`);
    await expect.poll(() => shownCells(page)).toEqual(['1']);
    await page.evaluate(`location.hash = 'open=small.safetensors&tensor=row'`);
    await expect.poll(() => shownCells(page)).toEqual(['1', '2', '3']);
    for (const slice of ['0:0', ':, 3:', '5:2']) {
      await page.evaluate(
        `location.hash = 'open=small.safetensors&tensor=row&slice=' + encodeURIComponent('${slice}')`,
      );
      await sentence.waitFor();
    }
    await page.evaluate(`location.hash = 'open=small.safetensors&tensor=row&slice=0, ::-1'`);
    await expect.poll(() => shownCells(page)).toEqual(['3', '2', '1']);
    expect(faults).toEqual([]);
  });
});

describe('an address', () => {
  it('restores what was shown: search, order, tensor and slice', async () => {
    const path = written('model.safetensors', [
      { name: 'layers.0.a', dtype: 'U8', shape: [4, 5] },
      { name: 'layers.1.a', dtype: 'U8', shape: [4, 6] },
    ]);
    const server = await serve(path);
    const first = await show(viewOf(server, 'open=model.safetensors'));
    await first.page.getByRole('searchbox').fill('1 a');
    await first.page.getByLabel('Order').selectOption('size');
    await first.page.getByRole('treeitem', { name: 'layers.1.a' }).click();
    await first.page.getByLabel('Slice').fill('1:3, ::2');
    await first.page.getByLabel('Slice').press('Enter');
    const cells = ['7', '9', '11', '13', '15', '17'];
    await expect.poll(() => shownCells(first.page)).toEqual(cells);
    const second = await show(viewOf(server, new URL(first.page.url()).hash.slice(1)));
    await expect.poll(() => shownCells(second.page)).toEqual(cells);
    expect(await second.page.getByRole('searchbox').inputValue()).toBe('1 a');
    expect(await second.page.getByLabel('Order').inputValue()).toBe('size');
    expect(await second.page.getByLabel('Slice').inputValue()).toBe('1:3, ::2');
  });
});

describe('a search over 100 000 tensors', () => {
  it('counts its matches, and shows the last of a list', async () => {
    const entries = Array.from(
      { length: 100_000 },
      (_, i): Entry => ({
        name: `model.layers.${i >> 6}.experts.${i & 63}.weight`,
        dtype: 'U8',
        shape: [1],
      }),
    );
    const server = await serve(written('many.safetensors', entries));
    const { page, faults } = await show(viewOf(server, 'open=many.safetensors&view=tensors'));
    // It is said at the side, and in the fold of the tree.
    await page.getByRole('status').filter({ hasText: '100,000 tensors' }).waitFor();
    const wanted = entries.filter(({ name }) => name.includes('12') && name.includes('experts.7'));
    await page.getByRole('searchbox').fill('12 EXPERTS.7');
    await page.getByText(`${wanted.length} found`).waitFor();
    await page.getByRole('searchbox').fill('experts.63.');
    await page.getByText('1,562 found').waitFor();
    await page.getByRole('tree').focus();
    await page.keyboard.press('End');
    await page.getByRole('treeitem', { name: 'model.layers.1561.experts.63.weight' }).waitFor();
    // What is out of sight is not in the page.
    expect(await page.getByRole('treeitem').count()).toBeLessThan(100);
    expect(faults).toEqual([]);
  });
});

describe('two models', () => {
  it('differ as the library says', async () => {
    const floats = (scale: number) =>
      new Uint8Array(Float32Array.from({ length: 64 }, (_, i) => Math.cos(i) + scale * i).buffer);
    const entries = (scale: number): Entry[] => [
      { name: 'layers.0.w', dtype: 'F32', shape: [8, 8], bytes: floats(0) },
      { name: 'layers.1.w', dtype: 'F32', shape: [8, 8], bytes: floats(scale) },
    ];
    const [a, b] = [
      written('a.safetensors', [...entries(0), { name: 'old', dtype: 'U8', shape: [1] }]),
      written('b.safetensors', [...entries(0.01), { name: 'new', dtype: 'U8', shape: [1] }]),
    ];
    const [one, other] = [await safeOpen(a), await safeOpen(b)];
    const { relative, maxError } = await compareTensors(
      await one.getTensor('layers.1.w'),
      await other.getTensor('layers.1.w'),
    );
    one.close();
    other.close();
    const server = await serve(a, b);
    const { page, faults } = await show(
      viewOf(server, 'open=a.safetensors&with=b.safetensors&view=compare'),
    );
    await page.getByRole('heading', { name: '1 tensor with other values' }).waitFor();
    await page.getByText('All values have been compared.').first().waitFor();
    const rows = JSON.parse(await savedText(page, 'Save differences of values as JSON'));
    expect(rows).toEqual([
      { name: 'layers.1.w', relative, differing: 63 / 64, max_error: maxError },
    ]);
    const names = JSON.parse(await savedText(page, 'Save differences of tensors as JSON'));
    expect(names).toEqual([
      { difference: 'added', name: 'new', before: '', after: 'U8 1' },
      { difference: 'removed', name: 'old', before: 'U8 1', after: '' },
    ]);
    expect(await page.getByRole('row', { name: /^added/ }).textContent()).toContain('U8 1');
    expect(faults).toEqual([]);
  });

  it('one of which is quantized are compared by their logical weights, layer by layer', async () => {
    const folder = folderUntilEnd();
    const config = { quantization_config: { quant_method: 'fp8', weight_block_size: [2, 4] } };
    writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
    const scales = (layer: number) => new Uint8Array(Float32Array.of(1, 2, 3, 4 + layer).buffer);
    const layers = [0, 1].flatMap((layer): Entry[] => [
      { name: `layers.${layer}.m.weight`, dtype: 'F8_E4M3', shape: [4, 8] },
      {
        name: `layers.${layer}.m.weight_scale_inv`,
        dtype: 'F32',
        shape: [2, 2],
        bytes: scales(layer),
      },
    ]);
    const path = join(folder, 'model.safetensors');
    writeFileSync(path, fileBytes(layers));
    const checkpoint = await safeOpen(folder);
    const model = await dequantized(checkpoint);
    const plain = await Promise.all(
      [0, 1].map(async (layer): Promise<Entry> => {
        const name = `layers.${layer}.m.weight`;
        const values = await model.getTensor(name).toFloat32();
        // The original, of which quantization lost a hundredth.
        const bytes = new Uint8Array(
          values.map((value) => value * (layer === 0 ? 1 : 1.01)).buffer,
        );
        return { name, dtype: 'F32', shape: [4, 8], bytes };
      }),
    );
    const texts = await model.getTensor('layers.1.m.weight').toFloat32();
    checkpoint.close();
    const server = await serve(written('plain.safetensors', plain), folder);
    const label = folder.split('/').at(-1);
    const { page, faults } = await show(
      viewOf(server, `open=plain.safetensors&with=${label}&view=compare`),
    );
    await page.getByText('All values have been compared.').first().waitFor();
    const errors = JSON.parse(await savedText(page, /^Save relative difference of .* as JSON$/));
    expect(errors).toEqual([
      { role: 'layers.*.m.weight', layer: 0, value: 0 },
      { role: 'layers.*.m.weight', layer: 1, value: expect.closeTo(0.01 / 1.01, 6) },
    ]);
    // By itself the quantized model shows numbers under the names of its weights, not codes and scales.
    for (const begin of [0, 4]) {
      const slice = `:, ${begin}:${begin + 4}`;
      const address = `open=${label}&tensor=layers.1.m.weight&slice=${slice}`;
      const alone = await show(viewOf(server, address));
      const cells = (await shownCells(alone.page)).map(Number);
      const half = [...texts].filter((_, at) => at % 8 >= begin && at % 8 < begin + 4);
      expect(cells).toEqual(half.map((value) => expect.closeTo(value, 5)));
      expect(await alone.page.getByRole('treeitem', { name: /scale_inv/ }).count()).toBe(0);
      expect(alone.faults).toEqual([]);
    }
    expect(faults).toEqual([]);
  });
});
