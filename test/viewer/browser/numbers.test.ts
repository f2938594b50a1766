/** The page and the command show the same numbers; tables and pictures that the page saves are what it shows. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import process from 'node:process';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { formatInteger } from '../../support/api.js';
import { type Entry, fileBytes } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import {
  folderUntilEnd,
  pressInMenu,
  savedText,
  serve,
  show,
  viewOf,
} from '../../support/viewer-page.js';

/** What a command prints with `--json`. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into it
function printed(...args: readonly string[]): any {
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [join(root, 'lib/cli.js'), ...args, '--json'],
    { encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

function packed(): string {
  const path = join(folderUntilEnd(), 'packed.safetensors');
  const bytes = Uint8Array.from({ length: 48 }, (_, i) => i * 11);
  const entries: Entry[] = [
    { name: 'four', dtype: 'F4', shape: [6, 16], bytes },
    { name: 'six', dtype: 'F6_E2M3', shape: [4, 16], bytes },
    { name: 'eight', dtype: 'F8_E5M2', shape: [6, 8], bytes },
  ];
  writeFileSync(path, fileBytes(entries));
  return path;
}

const fixture = (name: string) => join(root, 'test/fixtures', name);

/** Sources, and of each a tensor. */
const SOURCES: readonly (readonly [path: () => string, tensor: string])[] = [
  [() => fixture('models/bert-f32.safetensors'), 'embeddings.word_embeddings.weight'],
  [() => fixture('models/llama-bf16.safetensors'), 'model.embed_tokens.weight'],
  [packed, 'four'],
  [packed, 'six'],
  [packed, 'eight'],
  [() => fixture('quantized/gptq-4bit-sym-v1'), 'model.layers.0.self_attn.q_proj.weight'],
  [() => fixture('quantized/modelopt-nvfp4'), 'model.layers.0.self_attn.q_proj.weight'],
  [() => fixture('quantized/fp8-block-ragged'), 'model.layers.0.mlp.down_proj.weight'],
];

/** What a definition list of the page specifies, by its terms. */
async function factsOf(page: Page): Promise<Record<string, string>> {
  const storage = page.locator('section', { has: page.getByRole('heading', { name: 'Storage' }) });
  const groups = storage.locator('dl').first().locator('> div');
  const terms = await groups.locator('dt').allTextContents();
  const texts = await groups.locator('dd').allTextContents();
  return Object.fromEntries(terms.map((term, at) => [term, texts[at] as string]));
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into it
async function savedJson(page: Page, label: string | RegExp): Promise<any> {
  return JSON.parse(await savedText(page, label));
}

/** Cells of a CSV whose texts need no quotes. */
function csvRows(text: string): string[][] {
  const lines = text.trimEnd().split(/\r?\n/);
  return lines.map((line) => line.split(','));
}

describe.each(SOURCES.map(([path, tensor]) => ({ path: path(), tensor })))(
  '$tensor of $path',
  ({ path, tensor }) => {
    const name = basename(path);

    it('is on the page what the command prints', async () => {
      const told = printed('inspect', path);
      const server = await serve(path);
      const { page } = await show(viewOf(server, `open=${name}`));
      await page.getByRole('treeitem').first().waitFor();
      const facts = await factsOf(page);
      expect(facts['Bytes']).toContain(formatInteger(told.byteLength));
      const { tensors, parameters } = told.logical ?? {
        tensors: told.tensorCount,
        parameters: told.parameters,
      };
      expect(facts['Parameters']).toBe(formatInteger(parameters));
      const schemes = (told.logical?.quantized ?? []).map(
        ({ scheme }: { scheme: string }) => scheme,
      );
      const shownSchemes = facts['Quantization']?.split(', ') ?? [];
      const expectedSchemes = schemes.length === 0 ? ['none'] : [...new Set(schemes)].sort();
      expect(shownSchemes.sort()).toEqual(expectedSchemes);
      const kinds = await savedJson(page, 'Save dtypes as JSON');
      if (told.logical === null) {
        const expected = Object.entries(told.dtypes).map(([dtype, counts]) => {
          const {
            tensors: count,
            parameters: elements,
            byteLength,
          } = counts as Record<string, number>;
          return { dtype, tensors: count, elements, bytes: byteLength };
        });
        const byName = (a: { dtype: string }, b: { dtype: string }) => (a.dtype < b.dtype ? -1 : 1);
        expect(kinds.sort(byName)).toEqual(expected.sort(byName));
      } else {
        const counts = new Map<string, number>();
        for (const { scheme, weights } of told.logical.quantized) {
          counts.set(scheme, (counts.get(scheme) ?? 0) + weights);
        }
        for (const [scheme, weights] of counts) {
          expect(kinds).toContainEqual(
            expect.objectContaining({ dtype: scheme, tensors: weights }),
          );
        }
      }
      for (const warning of told.warnings) await page.getByText(warning).waitFor();
      // Next to the logical tensors there are those that no weight is made of, such as scales of activations.
      const list = await savedJson(page, 'Save tensors as JSON');
      const counted = formatInteger(list.length);
      const stored = formatInteger(told.tensorCount);
      const isStored = list.length === told.tensorCount;
      expect(facts['Tensors']).toBe(
        isStored ? counted : `${counted} weights (${stored} stored tensors)`,
      );
      await page
        .getByRole('status')
        .filter({ hasText: `${counted} ${isStored ? 'tensor' : 'weight'}` })
        .first()
        .waitFor({ state: 'attached' });
      const isOther = ({ name: one }: { name: string }) => one.endsWith('.input_scale');
      expect(list.filter((one: { name: string }) => !isOther(one)).length).toBe(tensors);
      const entries = new Map(told.tensors.map((one: { name: string }) => [one.name, one]));
      for (const { name: one, dtype, shape, bytes, offset } of list) {
        const expected = entries.get(one) as Record<string, unknown> | undefined;
        if (expected === undefined || expected['dtype'] !== dtype) continue;
        expect({ bytes, offset, shape }).toEqual({
          bytes: expected['byteLength'],
          offset: expected['offset'],
          shape: (expected['shape'] as number[]).join(' × ') || 'scalar',
        });
      }
    });

    it('has the statistics that the command prints', async () => {
      const { stats, shape } = printed('show', path, tensor, '--stats');
      const server = await serve(path);
      const { page } = await show(viewOf(server, `open=${name}&tensor=${tensor}`));
      const rows = await savedJson(page, `Save statistics of ${tensor} as JSON`);
      const shown = Object.fromEntries(
        rows.map(({ statistic, value }: { statistic: string; value: unknown }) => [
          statistic,
          value,
        ]),
      );
      expect(shown).toEqual(stats);
      const csv = csvRows(await savedText(page, `Save statistics of ${tensor} as CSV`));
      expect(csv[0]).toEqual(['statistic', 'value']);
      expect(Object.fromEntries(csv.slice(1).map(([key, value]) => [key, Number(value)]))).toEqual(
        stats,
      );
      // The values as CSV are as many as the shape says, and have the same ends.
      const values = csvRows(await savedText(page, 'Save values as CSV')).map((row) =>
        row.map(Number),
      );
      expect([values.length, values[0]?.length]).toEqual(shape);
      const finite = values.flat().filter(Number.isFinite);
      expect(finite.length).toBe(stats.elements - stats.nan - stats.infinite);
      expect(Math.fround(Math.max(...finite))).toBe(Math.fround(stats.max));
      expect(Math.fround(Math.min(...finite))).toBe(Math.fround(stats.min));
      // ‖row‖ and ‖column‖ of those.
      const norm = (of: readonly number[]) => Math.hypot(...of);
      const norms = async (title: string) =>
        (await savedJson(page, `Save norms of ${title} of ${tensor} as JSON`)).map(
          ({ norm: one }: { norm: number }) => one,
        );
      const columns = values[0]?.map((_, at) => values.map((row) => row[at] as number)) ?? [];
      for (const [title, lines] of [
        ['rows', values],
        ['columns', columns],
      ] as const) {
        const found = await norms(title);
        expect(found.length).toBe(lines.length);
        for (const [at, line] of lines.entries())
          if (line.every(Number.isFinite)) expect(found[at]).toBeCloseTo(norm(line), 4);
      }
    });
  },
);

describe('a picture that is saved', () => {
  it('is a PNG of what the canvas shows', async () => {
    const server = await serve(fixture('models/bert-f32.safetensors'));
    const tensor = 'embeddings.word_embeddings.weight';
    const { page } = await show(viewOf(server, `open=bert-f32.safetensors&tensor=${tensor}`));
    await page.getByText(/^Exact: every value/).waitFor();
    for (const label of [
      `Save heat map of ${tensor} as PNG`,
      `Save histogram of ${tensor} as PNG`,
    ]) {
      const saved = page.waitForEvent('download');
      await pressInMenu(page, label);
      const png = readFileSync(await (await saved).path());
      expect(png.subarray(0, 8).toString('latin1')).toBe('\x89PNG\r\n\x1a\n');
      const canvas = page
        .locator('section', { has: page.getByRole('button', { name: label, includeHidden: true }) })
        .locator('canvas');
      // Strips along its edges are separate pictures.
      const size = await canvas.evaluateAll((all) => {
        const sizes = all.map((one) => {
          const { width, height } = one as unknown as { width: number; height: number };
          return [width, height] as const;
        });
        return sizes.reduce((a, b) => (b[0] * b[1] > a[0] * a[1] ? b : a));
      });
      expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual(size);
      // More than a ground of one colour.
      expect(png.length).toBeGreaterThan(2000);
    }
  });
});
