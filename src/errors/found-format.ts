/** Formats that a file has which is not of the one that was expected. */

/**
 * What a file is by its first bytes: `html` is a page of HTML or XML, as servers answer with instead of a file;
 * `json` any document of JSON, `checkpoint-index` the index of a checkpoint, and `json-header` the header of a
 * safetensors file without its length; `zeros` begins with zeros, as an interrupted download does.
 */
export type FoundFormat =
  | '7z'
  | 'arrow'
  | 'bzip2'
  | 'checkpoint-index'
  | 'ggml'
  | 'gguf'
  | 'git-lfs-pointer'
  | 'gzip'
  | 'hdf5'
  | 'html'
  | 'json'
  | 'json-header'
  | 'numpy'
  | 'onnx'
  | 'pickle'
  | 'rar'
  | 'safetensors'
  | 'tar'
  | 'xz'
  | 'zeros'
  | 'zip'
  | 'zstd';
