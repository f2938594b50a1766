/** The recorded headers of `header-cases.json`, and their expected verdicts. */
import { readFileSync } from 'node:fs';
import { concatenate, dataBytes, fileOf } from './header-files.js';

type ExpectedTensor = [dtype: string, shape: number[], byteLength: number, sha256Prefix: string];

/** A case, as the fixture says in its `about`. */
export interface HeaderCase {
  name: string;
  header_text?: string;
  buffer_len?: number;
  bytes_hex?: string;
  parts?: ([kind: 'hex' | 'text', content: string, times: number] | [kind: 'buffer', n: number])[];
  accept: boolean;
  code?: string;
  expect?: {
    data_start: number;
    keys?: string[];
    /** Null where the reference gives tensors of equal offsets in any order. */
    offset_keys?: string[] | null;
    metadata?: Record<string, string> | null;
    tensors?: Record<string, ExpectedTensor>;
    tensor_count?: number;
    max_name_len?: number;
  };
}

/** All cases. */
export const { cases } = JSON.parse(
  readFileSync(new URL('../fixtures/header-cases.json', import.meta.url), 'utf8'),
) as { cases: HeaderCase[] };

/** The whole file of a case. */
export function bytesOf(headerCase: HeaderCase): Uint8Array {
  if (headerCase.header_text !== undefined) {
    return fileOf(headerCase.header_text, dataBytes(headerCase.buffer_len ?? 0));
  }
  if (headerCase.bytes_hex !== undefined) return Buffer.from(headerCase.bytes_hex, 'hex');
  return concatenate(
    (headerCase.parts ?? []).map((part) => {
      if (part[0] === 'buffer') return dataBytes(part[1]);
      const unit = Buffer.from(part[1], part[0] === 'hex' ? 'hex' : 'utf8');
      return unit.length === 1
        ? Buffer.alloc(part[2], unit)
        : Buffer.concat(Array(part[2]).fill(unit));
    }),
  );
}
