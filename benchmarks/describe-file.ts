import type { SafetensorsFile } from 'safetensors-mmap';
import { formatByteSize } from './byte-size.js';
import { alignedTable } from './table.js';

/** A checkpoint may have thousands of tensors and megabytes of metadata: this much is shown. */
const SHOWN_TENSORS = 6;
const SHOWN_METADATA = 8;
const SHOWN_CHARACTERS = 70;

/** Text from a file as it can be shown on a terminal: one line, no control characters, cut. */
export function printable(text: string): string {
  const cut = text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
  const escaped = (character: string): string =>
    `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
  return cut.replace(/[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu, escaped);
}

/** The first tensors and metadata of a file, with the numbers of all. */
export function describeFile(file: SafetensorsFile): string {
  const lines = ['Metadata'];
  const metadata = [...(file.metadata ?? [])];
  for (const [key, value] of metadata.slice(0, SHOWN_METADATA)) {
    lines.push(`  ${printable(key)} = ${printable(value)}`);
  }
  const moreMetadata = metadata.length - SHOWN_METADATA;
  if (moreMetadata > 0) lines.push(`  … and ${moreMetadata} more`);
  if (metadata.length === 0) lines.push('  none');
  const names = file.offsetKeys();
  lines.push(`Tensors: ${names.length}`);
  const rows = names.slice(0, SHOWN_TENSORS).map((name) => {
    const { dtype, shape, dataOffsets } = file.info(name);
    const size = formatByteSize(dataOffsets[1] - dataOffsets[0]);
    return [`  ${printable(name)}`, dtype, printable(`[${shape.join(', ')}]`), size];
  });
  if (rows.length > 0) lines.push(alignedTable(rows));
  const more = names.length - rows.length;
  if (more > 0) lines.push(`  … and ${more} more`);
  return lines.join('\n');
}
