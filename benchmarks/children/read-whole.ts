/** Reads as programs do without this package: fs.readFile and views. Arguments: of `measureReader` */
import { readFile } from 'node:fs/promises';
import { measureReader } from './measure-reader.js';
import { tensorPlacesOf } from './plain-header.js';

await measureReader(async (path) => {
  const file = await readFile(path);
  return tensorPlacesOf(file).map(
    ({ begin, end }) =>
      () =>
        file.subarray(begin, end),
  );
});
