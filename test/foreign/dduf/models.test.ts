import { expect, it } from 'vitest';
import { readModels } from '../../../src/foreign/dduf/models.js';
import { archiveOf, FILES } from './pipeline-files.js';

it('keeps no bytes of indexes with the archive, which stays as long as the handle', () => {
  const { archive, indexes } = readModels(archiveOf(FILES), undefined);
  expect([...indexes.keys()]).toEqual(['text_encoder/model.safetensors.index.json']);
  const kept = Object.values(archive).flatMap((value) =>
    value instanceof Map ? [...value.values()] : [value],
  );
  expect(kept.filter((value) => value instanceof Uint8Array)).toEqual([archive.start]);
});
