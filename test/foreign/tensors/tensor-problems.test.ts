/** A file may have more unreadable tensors than a message should list. */
import { expect, it } from 'vitest';
import type { FormatError } from '../../../src/errors/errors.js';
import { unicode } from '../pickle/pickle-bytes.js';
import { dict, legacyFile, tensor } from '../torch/legacy-file.js';
import { refusal } from '../torch/rejection.js';

it('stops at a hundred problems, and says how many tensors it did not look at', () => {
  /** Tensors with as many dimensions as there may be, all of one size, and with the same strides. */
  const open = (size: string, count: number): FormatError => {
    const plain = tensor('0', [2]);
    const given = '(K\x02t(K\x01t';
    const first = plain.replace(given, `(${size.repeat(64)}tq\x09h\x09`);
    const entries = Array.from({ length: count }, (_, i) => {
      return [unicode(`${i}`), i === 0 ? first : plain.replace(given, 'h\x09h\x09')] as const;
    });
    return refusal(legacyFile(dict(...entries), { 0: 2 }));
  };
  const huge = `\x8a\xff${'\x7f'.repeat(255)}`;
  const { code, message } = open(huge, 1000);
  expect(code).toBe('SAFETENSORS_INVALID_TORCH_CHECKPOINT');
  expect(message).toContain('100 tensors cannot be read; 900 more were not looked at:\n');
  expect(message).toMatch(/found one of more than 64 bits\n- and 90 more$/);
  expect(message.length).toBeLessThan(8000);
  expect(open(huge, 100).message).toContain('100 tensors cannot be read:\n');
  expect(open(huge, 101).message).toContain('; 1 more were not looked at:\n');
  const longest = `\x8a\x08${'\xff'.repeat(7)}\x7f`;
  expect(open(longest, 1000).message.length).toBeLessThan(8000);
});
