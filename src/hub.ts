/**
 * A drop-in for `parseSafetensorsMetadata` of `@huggingface/hub`, with its types and constants.
 *
 * @packageDocumentation
 */

export { parseSafetensorsMetadata } from '#runtime';
export type { Advice } from './errors/advice.js';
export {
  type ErrorCode,
  FormatError,
  FormatError as SafetensorParseError,
  RemoteError,
  SafetensorsError,
} from './errors/errors.js';
export type { Dtype } from './header/dtype.js';
export type { ByteSource } from './remote/byte-source.js';
export { computeNumOfParamsByDtypeSingleFile } from './remote/metadata/count-header.js';
export {
  assertSafeShardFilename,
  DIFFUSERS_SAFETENSORS_FILE,
  DIFFUSERS_SAFETENSORS_INDEX_FILE,
  DIFFUSERS_WEIGHTS_SUBFOLDERS,
  encodeShardFilename,
  parseSafetensorsShardFilename,
  RE_SAFETENSORS_FILE,
  RE_SAFETENSORS_INDEX_FILE,
  RE_SAFETENSORS_SHARD_FILE,
  SAFETENSORS_FILE,
  SAFETENSORS_INDEX_FILE,
  type SafetensorsShardFileInfo,
} from './remote/metadata/file-names.js';
export type {
  ParseSafetensorsMetadataParams,
  RepoCredentials,
  RepoDesignation,
  RepoId,
  RepositoryParams,
  SharedParams,
  SourceParams,
} from './remote/metadata/params.js';
export type {
  CountedParseFromRepo,
  Counts,
  DeclaredParameters,
  SafetensorsFileHeader,
  SafetensorsIndexJson,
  SafetensorsMetadata,
  SafetensorsParseFromRepo,
  SafetensorsShardedHeaders,
  SafetensorsShards,
  SafetensorsSingleFile,
  SafetensorsTensorInfo,
} from './remote/metadata/result.js';
