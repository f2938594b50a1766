/** The formats found in files of an unexpected format. */

/**
 * The format of a file by its first bytes: `html` is a page of HTML or XML, as servers send instead of a file;
 * `json` any document of JSON, `checkpoint-index` the index of a checkpoint, and `json-header` the header of a
 * safetensors file without its length; `zeros` begins with zeros, as an interrupted download does.
 */
export type FoundFormat =
  | '7z'
  | 'arrow'
  | 'bzip2'
  | 'checkpoint-index'
  | 'delta'
  | 'distributed-part'
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
