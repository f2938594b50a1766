/**
 * Writes a copy of a file. Arguments: METHOD SOURCE TARGET HOLDER, as those of `write_limit`. The
 * methods `memory-…` hold the tensors before the clock starts, `file-…` open the source within it.
 */
import { readSync, writeFile } from 'node:fs';
import { open } from 'node:fs/promises';
import { promisify } from 'node:util';
import { type SaveOptions, safeOpen, saveFile, saveFileSync } from 'safetensors-mmap';
import { measureWriter } from './measure-writer.js';

const [method = '', source = '', target = '', holder = ''] = process.argv.slice(2);

type Work = () => void | Promise<void>;

async function fromMemory(save: typeof saveFileSync | typeof saveFile, durable: boolean) {
  using file = safeOpen(source);
  const { metadata } = file;
  const tensors = await file.load();
  return () => save(target, tensors, { metadata, durable });
}

function fromFile(save: typeof saveFileSync | typeof saveFile, durable: boolean): Work {
  return () => {
    const file = safeOpen(source);
    const options: SaveOptions = { metadata: file.metadata, durable };
    return save(target, file.getTensors(), options);
  };
}

async function byWriteFile(): Promise<Work> {
  await using file = await open(source);
  const bytes = Buffer.alloc((await file.stat()).size);
  for (let done = 0; done < bytes.length; ) {
    done += readSync(file.fd, bytes, done, Math.min(2 ** 30, bytes.length - done), done);
  }
  return () => promisify(writeFile)(target, bytes);
}

const METHODS: Readonly<Record<string, () => Work | Promise<Work>>> = {
  'memory-plain': () => fromMemory(saveFile, false),
  'memory-durable': () => fromMemory(saveFile, true),
  'memory-sync-plain': () => fromMemory(saveFileSync, false),
  'memory-sync-durable': () => fromMemory(saveFileSync, true),
  'write-file': byWriteFile,
  'file-plain': () => fromFile(saveFile, false),
  'file-durable': () => fromFile(saveFile, true),
  'file-sync-plain': () => fromFile(saveFileSync, false),
};

const work = await METHODS[method]?.();
if (work === undefined) throw new RangeError(`no method ${method}`);
await measureWriter(holder, work);
