/** Writes `.metadata` and `.distcp` files, honest and other ones, as pickles of protocol 2. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryPath } from '../../support/make-file.js';
import { pickle2, unicode } from '../pickle/pickle-bytes.js';
import { storedArchive } from '../stored-archive.js';
import type { Box } from './generated.js';

const METADATA = 'torch.distributed.checkpoint.metadata';
const FILESYSTEM = 'torch.distributed.checkpoint.filesystem';

/** Opcodes of a value. */
type Code = string;

/** BININT. */
export function integer(value: number): Code {
  return `J${String.fromCharCode(...[0, 8, 16, 24].map((bits) => (value >>> bits) & 255))}`;
}

const tuple = (...items: readonly Code[]): Code => `(${items.join('')}t`;
const list = (...items: readonly Code[]): Code => `](${items.join('')}e`;
const dict = (entries: readonly (readonly [Code, Code])[]): Code => `}(${entries.flat().join('')}u`;
const named = (module: string, name: string): Code => `c${module}\n${name}\n`;
const call = (callee: Code, ...args: readonly Code[]): Code => `${callee}${tuple(...args)}R`;
const state = (entries: Readonly<Record<string, Code>>): Code =>
  dict(Object.entries(entries).map(([key, value]) => [unicode(key), value]));
const instance = (module: string, name: string, its: Code): Code =>
  `${named(module, name)})\x81${its}b`;
const size = (sizes: readonly number[]): Code =>
  call(named('torch', 'Size'), tuple(...sizes.map(integer)));

/** A tensor of bytes; pieces name their file, or none is written for one without bytes. */
export interface ListedTensor {
  readonly name: string;
  readonly dtype?: string;
  readonly shape: readonly number[];
  readonly pieces: readonly (Box & {
    readonly file: string;
    readonly bytes?: Uint8Array;
    /** Those of C order by default. */
    readonly strides?: readonly number[];
  })[];
}

const storageClass: Readonly<Record<string, string>> = { uint8: 'ByteStorage' };

/** A piece as torch saves it. */
function pieceArchive(
  dtype: string,
  shape: readonly number[],
  bytes: Uint8Array,
  strides: readonly number[] = shape.map((_, axis) =>
    shape.slice(axis + 1).reduce((a, b) => a * b, 1),
  ),
): Buffer {
  const known = storageClass[dtype];
  const storage =
    known === undefined ? named('torch.storage', 'UntypedStorage') : named('torch', known);
  const id = tuple(
    ...[unicode('storage'), storage],
    ...[unicode('0'), unicode('cpu'), integer(bytes.length)],
  );
  const hooks = call(named('collections', 'OrderedDict'));
  const layout = [integer(0), tuple(...shape.map(integer)), tuple(...strides.map(integer))];
  const isOld = known !== undefined;
  const rebuild = named('torch._utils', isOld ? '_rebuild_tensor_v2' : '_rebuild_tensor_v3');
  const more = isOld ? [] : [named('torch', dtype)];
  const tensor = call(rebuild, `${id}Q`, ...layout, '\x89', hooks, ...more);
  return storedArchive({
    'archive/data.pkl': pickle2(tensor, '.'),
    'archive/byteorder': 'little',
    'archive/data/0': bytes,
    'archive/version': '3\n',
  });
}

const properties = (dtype: string): Code =>
  instance(
    METADATA,
    'TensorProperties',
    tuple(
      ...[named('torch', dtype), 'N', '\x89'],
      ...[call(named(METADATA, '_MEM_FORMAT_ENCODING'), integer(0)), '\x89'],
    ),
  );

/** Writes a checkpoint into a new folder. `objects` are names of Python objects. */
export function writeDistcp(
  tensors: readonly ListedTensor[],
  objects: readonly string[] = [],
): string {
  const folder = temporaryPath('distcp');
  mkdirSync(folder);
  const files = new Map<string, Buffer>();
  const places: [Code, Code][] = [];
  const listed = tensors.map(({ name, dtype = 'uint8', shape, pieces }): [Code, Code] => {
    const chunks = pieces.map(({ offsets, shape: sizes, file, bytes, strides }) => {
      const index = { fqn: unicode(name), offset: size(offsets), index: integer(0) };
      if (bytes !== undefined) {
        const before = files.get(file) ?? Buffer.alloc(0);
        const archive = pieceArchive(dtype, sizes, bytes, strides);
        files.set(file, Buffer.concat([before, archive]));
        const info = { relative_path: unicode(file), offset: integer(before.length) };
        places.push([
          instance(METADATA, 'MetadataIndex', state(index)),
          instance(FILESYSTEM, '_StorageInfo', state({ ...info, length: integer(archive.length) })),
        ]);
      }
      return instance(
        METADATA,
        'ChunkStorageMetadata',
        state({ offsets: size(offsets), sizes: size(sizes) }),
      );
    });
    const its = { properties: properties(dtype), size: size(shape), chunks: list(...chunks) };
    return [unicode(name), instance(METADATA, 'TensorStorageMetadata', state(its))];
  });
  const ofObjects = objects.map((name): [Code, Code] => [
    unicode(name),
    instance(METADATA, 'BytesStorageMetadata', dict([])),
  ]);
  const whole = {
    state_dict_metadata: dict([...listed, ...ofObjects]),
    storage_data: dict(places),
    version: unicode('1.0.0'),
  };
  const metadata = pickle2(instance(METADATA, 'Metadata', state(whole)), '.');
  writeFileSync(join(folder, '.metadata'), metadata);
  if (files.size === 0) writeFileSync(join(folder, '__0_0.distcp'), '');
  for (const [name, bytes] of files) writeFileSync(join(folder, name), bytes);
  return folder;
}
