/** Unreadable repositories. */
import { PLAIN, type RepositoryCase, rawFile, TWO_SHARDS, tensorFile } from './repositories.js';

/** Repositories that both functions must refuse; this package with a code. */
export const UNSUPPORTED: Readonly<Record<string, RepositoryCase & { readonly code: string }>> = {
  'test/no-weights': {
    files: { 'README.md': '', 'pytorch_model.bin': 'x' },
    calls: [{}, { library: 'diffusers' }, { path: 'model.safetensors' }],
    code: 'SAFETENSORS_REMOTE_NOT_FOUND',
  },
  'test/no-such-revision': {
    files: { 'model.safetensors': tensorFile(PLAIN) },
    calls: [{ revision: 'v2' }, { revision: 'v2', path: 'model.safetensors' }],
    code: 'SAFETENSORS_REVISION_NOT_FOUND',
  },
  'test/private-without-token': {
    files: { 'model.safetensors': tensorFile(PLAIN) },
    access: 'private',
    code: 'SAFETENSORS_REPOSITORY_NOT_FOUND',
  },
  'test/private-of-others': {
    files: { 'model.safetensors': tensorFile(PLAIN) },
    access: 'private',
    calls: [{ accessToken: 'hf_stranger' }],
    code: 'SAFETENSORS_REPOSITORY_NOT_FOUND',
  },
  'test/gated-without-access': {
    files: { 'model.safetensors': tensorFile(PLAIN) },
    access: 'gated',
    calls: [{}, { accessToken: 'hf_stranger' }],
    code: 'SAFETENSORS_GATED_REPOSITORY',
  },
  'test/path-of-another-kind': {
    files: { 'config.json': '{}' },
    calls: [{ path: 'config.json' }, { path: 'model.bin' }],
    code: 'ERR_OUT_OF_RANGE',
  },
  'test/empty-file': {
    files: { 'model.safetensors': '' },
    code: 'SAFETENSORS_HEADER_TOO_SMALL',
  },
  'test/header-too-large': {
    files: { 'model.safetensors': new Uint8Array(16).fill(0x7f) },
    code: 'SAFETENSORS_HEADER_TOO_LARGE',
  },
  'test/header-cut': {
    files: { 'model.safetensors': rawFile('{"a":{"dtype":"U8","shape":[1],"data_off') },
    code: 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION',
  },
  'test/negative-dimension': {
    files: {
      'model.safetensors': rawFile('{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}}'),
    },
    code: 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION',
  },
  'test/beyond-the-end': {
    files: {
      'model.safetensors': rawFile('{"a":{"dtype":"U8","shape":[999],"data_offsets":[0,999]}}', 4),
    },
    code: 'SAFETENSORS_METADATA_INCOMPLETE_BUFFER',
  },
  'test/index-is-cut': {
    files: { ...TWO_SHARDS, 'model.safetensors.index.json': '{"weight_map":{"a' },
    code: 'SAFETENSORS_INVALID_INDEX',
  },
  'test/index-is-a-list': {
    files: { 'model.safetensors.index.json': '[]' },
    code: 'SAFETENSORS_INVALID_INDEX',
  },
  'test/shard-outside': {
    files: {
      'model.safetensors.index.json': '{"weight_map":{"a":"../../other/main/m.safetensors"}}',
    },
    code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
  },
  'test/shard-is-missing': {
    files: {
      'model.safetensors.index.json': '{"weight_map":{"a":"a.safetensors","b":"b.safetensors"}}',
      'a.safetensors': tensorFile({ a: 'U8 1' }),
    },
    code: 'SAFETENSORS_REMOTE_NOT_FOUND',
  },
};

/** Repositories that are refused although `@huggingface/hub` reads them: the file or the index is invalid. */
export const REFUSED_HERE: Readonly<Record<string, RepositoryCase & { readonly code: string }>> = {
  'test/name-twice': {
    files: {
      'model.safetensors': rawFile(
        '{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        1,
      ),
    },
    code: 'SAFETENSORS_DUPLICATE_KEY',
  },
  'test/gap': {
    files: {
      'model.safetensors': rawFile('{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', 2),
    },
    code: 'SAFETENSORS_INVALID_OFFSET',
  },
  'test/wrong-size': {
    files: {
      'model.safetensors': rawFile('{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,4]}}', 4),
    },
    code: 'SAFETENSORS_TENSOR_INVALID_INFO',
  },
  'test/unknown-dtype': {
    files: {
      'model.safetensors': rawFile('{"a":{"dtype":"FP4","shape":[2],"data_offsets":[0,1]}}', 1),
    },
    code: 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION',
  },
  'test/shard-of-another-kind': {
    files: {
      'model.safetensors.index.json': '{"weight_map":{"a":"a.bin"}}',
      'a.bin': tensorFile({ a: 'U8 1' }),
    },
    code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
  },
};
