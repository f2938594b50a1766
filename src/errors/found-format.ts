/** The formats found in files of an unexpected format. */

/**
 * The format of a file by its first bytes: `html` is a page of HTML or XML, as servers send instead of a file;
 * `json` any document of JSON, `checkpoint-index` the index of a checkpoint, and `json-header` the header of a
 * safetensors file without its length; `link` is a symbolic link as a text file, or a shortcut; `zeros` begins with
 * zeros, as an interrupted download does.
 */
export type FoundFormat =
  | '7z'
  | 'arrow'
  | 'bzip2'
  | 'capnproto'
  | 'checkpoint-index'
  | 'coreml'
  | 'deepspeed'
  | 'delta'
  | 'distributed-part'
  | 'dvc-pointer'
  | 'ggml'
  | 'gguf'
  | 'git-annex-pointer'
  | 'git-lfs-pointer'
  | 'gzip'
  | 'hdf5'
  | 'html'
  | 'json'
  | 'json-header'
  | 'keras'
  | 'link'
  | 'msgpack'
  | 'numpy'
  | 'onnx'
  | 'openvino'
  | 'orbax'
  | 'pickle'
  | 'rar'
  | 'safetensors'
  | 'saved-model'
  | 'tar'
  | 'tensorflow-checkpoint'
  | 'tflite'
  | 'torch-distributed'
  | 'torch-export'
  | 'xet-pointer'
  | 'xz'
  | 'zeros'
  | 'zip'
  | 'zipped-safetensors'
  | 'zstd';
