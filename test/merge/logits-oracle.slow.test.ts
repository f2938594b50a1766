/** A merged GPT-2 gives the logits of PEFT, which computes the adapter next to the weights. */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { mergeAdapters, safeOpen, saveCheckpoint } from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';

const SCRIPT = fileURLToPath(new URL('peft_logits.py', import.meta.url));
const python = findPython('torch', 'transformers', 'peft');

describe.skipIf(isSkipped(python))(titleWith(python, 'a GPT-2 with an adapter'), () => {
  it('has the logits of PEFT within 1e-4', async () => {
    const folder = temporaryPath('gpt2');
    runPython(python, [SCRIPT, 'make', folder]);
    const base = safeOpen(join(folder, 'base'));
    const merged = await mergeAdapters(base, [join(folder, 'adapter')]);
    expect(merged.changes.length).toBe(48);
    await saveCheckpoint(join(folder, 'merged'), merged);
    copyFileSync(join(folder, 'base/config.json'), join(folder, 'merged/config.json'));
    const [difference, change] = runPython(python, [SCRIPT, 'compare', folder])
      .split(' ')
      .map(Number);
    expect(difference).toBeLessThan(1e-4);
    // Without the adapter they are others.
    expect(change).toBeGreaterThan(1);
  });
});
