/** What is read, as arguments of a reader: the position of a tensor or `all`, begin and length in the file, its name. */
import { safeOpen } from 'safetensors-mmap';

function withFile(path, use) {
  const file = safeOpen(path);
  try {
    return use(file, file.offsetKeys());
  } finally {
    file.close();
  }
}

/** All tensors of a safetensors file. */
export function selectAll(path) {
  return withFile(path, (file, names) => {
    const byteLength = names.length === 0 ? 0 : file.info(names.at(-1)).dataOffsets[1];
    return ['all', `${file.byteLength - byteLength}`, `${byteLength}`, 'all'];
  });
}

/** The largest tensor that lies over the middle of the data or behind it. */
export function selectMiddle(path) {
  const [, start, total] = selectAll(path).map(Number);
  return withFile(path, (file, names) => {
    const behind = names
      .map((name, index) => ({ name, index, offsets: file.info(name).dataOffsets }))
      .filter(({ offsets }) => offsets[1] > total / 2);
    const lengthOf = ({ offsets: [begin, end] }) => end - begin;
    const longest = Math.max(...behind.map(lengthOf));
    const found = behind.find((place) => lengthOf(place) === longest);
    const { index, name, offsets } = found;
    return [`${index}`, `${start + offsets[0]}`, `${longest}`, name];
  });
}
