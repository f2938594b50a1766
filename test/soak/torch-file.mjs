/** Writes checkpoints as `torch.save` does: a stored zip archive of a pickle and its storages. */
import { crc32 } from 'node:zlib';

const STORAGES = {
  F32: 'FloatStorage',
  F16: 'HalfStorage',
  I32: 'IntStorage',
  U8: 'ByteStorage',
};

function text(value) {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(Buffer.byteLength(value));
  return `X${length.toString('latin1')}${value}`;
}

function integer(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return `J${bytes.toString('latin1')}`;
}

function tuple(values) {
  return `(${values.map(integer).join('')}t`;
}

/** Opcodes of protocol 2 for a contiguous tensor over a separate storage. */
function tensorOpcodes({ dtype, shape, data }, key) {
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((a, b) => a * b, 1));
  const storage = `(${text('storage')}ctorch\n${STORAGES[dtype]}\n${text(key)}${text('cpu')}${integer(data.length)}tQ`;
  return `ctorch._utils\n_rebuild_tensor_v2\n(${storage}${integer(0)}${tuple(shape)}${tuple(strides)}\x89ccollections\nOrderedDict\n)RtR`;
}

function entryHeader(name, data) {
  const header = Buffer.alloc(26);
  header.writeUInt16LE(20, 0);
  header.writeUInt16LE(33, 8);
  header.writeUInt32LE(crc32(data), 10);
  header.writeUInt32LE(data.length, 14);
  header.writeUInt32LE(data.length, 18);
  header.writeUInt16LE(Buffer.byteLength(name), 22);
  return header;
}

function writeArchive(entries) {
  const parts = [];
  const directory = [];
  let at = 0;
  for (const [name, data] of entries) {
    const header = entryHeader(name, data);
    const local = [Buffer.from('PK\x03\x04'), header, Buffer.from(name), data];
    const place = Buffer.alloc(14);
    place.writeUInt32LE(at, 10);
    directory.push(Buffer.from('PK\x01\x02\x14\0'), header, place, Buffer.from(name));
    parts.push(...local);
    at += local.reduce((sum, { length }) => sum + length, 0);
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(listed.length, 12);
  end.writeUInt32LE(at, 16);
  return Buffer.concat([...parts, listed, end]);
}

/** A checkpoint of these tensors. */
export function torchFile(tensors) {
  const pairs = Object.entries(tensors);
  const items = pairs.map(([name, tensor], i) => text(name) + tensorOpcodes(tensor, String(i)));
  const pickle = Buffer.from(`\x80\x02}(${items.join('')}u.`, 'latin1');
  const storages = pairs.map(([, { data }], i) => [
    `archive/data/${i}`,
    Buffer.from(data.buffer, data.byteOffset, data.byteLength),
  ]);
  return writeArchive([
    ['archive/data.pkl', pickle],
    ['archive/version', Buffer.from('3\n')],
    ...storages,
  ]);
}

/** A checkpoint that would call `os.system` where Python loads it. */
export function hostileTorchFile() {
  const pickle = Buffer.from(`\x80\x02cos\nsystem\n${text('true')}\x85R.`, 'latin1');
  return writeArchive([
    ['archive/data.pkl', pickle],
    ['archive/version', Buffer.from('3\n')],
  ]);
}
