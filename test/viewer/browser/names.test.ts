/** Names of tensors at the side, which differ in the middle. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type Entry, fileBytes } from '../../support/make-file.js';
import { folderUntilEnd, serve, show, viewOf } from '../../support/viewer-page.js';

const BLOCKS = [
  'down_blocks_1_attentions_0',
  'down_blocks_1_attentions_1',
  'mid_block_attentions_0',
];
const NAMES = BLOCKS.flatMap((block) =>
  ['attn1_to_q', 'attn2_to_q'].map(
    (part) => `lora_unet_${block}_transformer_blocks_0_${part}.lora_down.weight`,
  ),
);

it('are shown whole at every width of the side, with matches marked and common parts muted', async () => {
  const path = join(folderUntilEnd(), 'kohya.safetensors');
  writeFileSync(
    path,
    fileBytes(NAMES.map((name): Entry => ({ name, dtype: 'F16', shape: [4, 8] }))),
  );
  const server = await serve(path);
  for (const address of ['find=to_q&sort=name', '']) {
    const { page, faults } = await show(
      viewOf(server, `open=kohya.safetensors&view=tensors&${address}`),
    );
    const names = page.locator('.rows-row .name');
    await names.first().waitFor();
    const handle = page.getByRole('separator', { name: 'Width of the tensors' });
    for (const [key, width] of [
      ['Home', '240'],
      ['End', '640'],
      ['ArrowLeft', '620'],
    ] as const) {
      await handle.focus();
      await page.keyboard.press(key);
      expect(await handle.getAttribute('aria-valuenow')).toBe(width);
      await expect
        .poll(async () => (await page.locator('.side').boundingBox())?.width)
        .toBe(Number(width));
      const cut = () =>
        page.locator('.rows-row, .rows-row .name, .rows-row .name > span').evaluateAll((all) =>
          all.flatMap((one) => {
            const box = one as unknown as Record<string, number> & { textContent: string };
            const isCut =
              (box['scrollWidth'] as number) > (box['clientWidth'] as number) ||
              (box['scrollHeight'] as number) > (box['clientHeight'] as number);
            return isCut ? [box.textContent] : [];
          }),
        );
      await expect.poll(cut).toEqual([]);
    }
    if (address !== '') {
      expect(await names.allTextContents()).toEqual([...NAMES].sort());
      expect(await names.first().locator('mark').allTextContents()).toEqual(['to_q']);
      const [first] = await names.first().locator('> span').allTextContents();
      expect(first).toMatch(/^lora_unet_down_blocks_1_attentions_0_/);
      expect((await names.first().locator('b').first().textContent())?.slice(0, 4)).toBe('down');
    }
    expect(faults).toEqual([]);
  }
});
