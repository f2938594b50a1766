/** Recognises other formats by names: of a file, of the entries of an archive, of the files in a folder. */

import type { FoundFormat } from '../errors/found-format.js';

/** A recognised format; its description completes "looks like …". */
export interface ForeignFormat {
  readonly format: FoundFormat;
  readonly description: string;
}

/** What to do with a distributed checkpoint. */
const DCP: ForeignFormat = {
  format: 'torch-distributed',
  description:
    'a distributed checkpoint (torch.distributed.checkpoint): open() in Node reads its folder, which needs `.metadata`',
};

const DEEPSPEED: ForeignFormat = {
  format: 'deepspeed',
  description:
    'a DeepSpeed checkpoint, whose files are parts: merge them with the `zero_to_fp32.py` in its folder',
};

const SAVED_MODEL: ForeignFormat = {
  format: 'saved-model',
  description: 'a TensorFlow SavedModel: save its variables with safetensors.tensorflow in Python',
};

const TF_CHECKPOINT: ForeignFormat = {
  format: 'tensorflow-checkpoint',
  description: 'a TensorFlow checkpoint: save its variables with safetensors.tensorflow in Python',
};

const KERAS: ForeignFormat = {
  format: 'keras',
  description: 'a Keras model: save its weights with safetensors.numpy in Python',
};

const PT2: ForeignFormat = {
  format: 'torch-export',
  description:
    'an exported torch program (.pt2): load it with torch.export.load, and save its state_dict',
};

const FLAX: ForeignFormat = {
  format: 'msgpack',
  description:
    'a MessagePack file (as Flax saves): save its parameters with safetensors.flax in Python',
};

const ORBAX: ForeignFormat = {
  format: 'orbax',
  description:
    'an Orbax checkpoint of JAX: restore it, and save its parameters with safetensors.flax',
};

const ONNX: ForeignFormat = { format: 'onnx', description: 'an ONNX model' };
const GGUF: ForeignFormat = { format: 'gguf', description: 'a GGUF file (llama.cpp)' };
const ARROW: ForeignFormat = { format: 'arrow', description: 'an Arrow or Parquet file' };
const CAPNP: ForeignFormat = { format: 'capnproto', description: "a Cap'n Proto message" };
const HDF5: ForeignFormat = { format: 'hdf5', description: 'an HDF5 file (as Keras writes)' };
const TFLITE: ForeignFormat = { format: 'tflite', description: 'a TensorFlow Lite model' };
const OPENVINO: ForeignFormat = { format: 'openvino', description: 'an OpenVINO model' };
const COREML: ForeignFormat = { format: 'coreml', description: 'a Core ML model' };

/** Formats by content in `foreign-formats`, and by name here. */
export const BY_CONTENT: Readonly<
  Record<'ARROW' | 'DCP' | 'FLAX' | 'ONNX' | 'SAVED_MODEL' | 'TFLITE' | 'OPENVINO', ForeignFormat>
> = { ARROW, DCP, FLAX, ONNX, SAVED_MODEL, TFLITE, OPENVINO };

/** Patterns of file names; torch and NumPy files, whose content is always recognised, are missing. */
const FILE_NAMES: readonly (readonly [RegExp, ForeignFormat])[] = [
  [/\.distcp$|^(?:__\d+)?\.metadata$/, DCP],
  [/^zero_pp_rank_\d+_mp_rank_\d+_model_states\.pt$/, DEEPSPEED],
  [/\.pt2$/i, PT2],
  [/^saved_model\.pb(?:txt)?$/, SAVED_MODEL],
  [/\.data-\d{5}-of-\d{5}$|\.ckpt(?:-\d+)?\.(?:index|meta)$|^variables\.index$/, TF_CHECKPOINT],
  [/\.msgpack$/i, FLAX],
  [/\.keras$/i, KERAS],
  [/\.(?:h5|hdf5)$/i, HDF5],
  [/\.onnx$/i, ONNX],
  [/\.(?:arrows?|feather|parquet)$/i, ARROW],
  [/\.capnp$/i, CAPNP],
  [/\.gguf$/i, GGUF],
  [/\.tflite$/i, TFLITE],
  [/\.ml(?:model|package)$/i, COREML],
  [/^openvino_.*\.(?:xml|bin)$/, OPENVINO],
  [/^manifest\.ocdbt$|^_CHECKPOINT_METADATA$/, ORBAX],
];

/** Recognises a format by the name of a file, or by its path; null if it knows none. */
export function formatOfName(path: string): ForeignFormat | null {
  const name = path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1);
  return FILE_NAMES.find(([pattern]) => pattern.test(name))?.[1] ?? null;
}

/** Patterns of names in an archive. */
const ENTRY_NAMES: readonly (readonly [RegExp, ForeignFormat])[] = [
  [/(?:^|\/)(?:archive_format|serialized_exported_program\.json)$|^[^/]+\/data\/weights\//, PT2],
  [/(?:^|\/)(?:\w+\.)?weights\.h5$/, KERAS],
  [/(?:^|\/)saved_model\.pb$/, SAVED_MODEL],
];

/** Names of the records of a torch file, and of the arrays of a NumPy file. */
const RECORD =
  /^(?:[^/]+\/)?(?:data\.pkl|\.format_version|\.storage_alignment|byteorder|version|data\/\d+)$|\.npy$/;

/**
 * Recognises a zip archive by the names of its entries, and then by its own; null for one that may be of torch or
 * NumPy.
 */
export function formatOfArchive(
  entries: readonly string[],
  path: string | undefined,
): ForeignFormat | null {
  for (const [pattern, found] of ENTRY_NAMES) {
    if (entries.some((name) => pattern.test(name))) return found;
  }
  const inner = entries.find((name) => /\.safetensors$/i.test(name));
  if (inner !== undefined) {
    const shown = JSON.stringify(inner.slice(0, 120));
    return {
      format: 'zipped-safetensors',
      description: `a zip archive around ${shown}: unpack it first`,
    };
  }
  const named = path === undefined ? null : formatOfName(path);
  // The content of such files is that of torch files.
  if (named === null || named === DCP || named === DEEPSPEED) return named;
  return entries.some((name) => RECORD.test(name)) ? null : named;
}

/** Names in the folder of a checkpoint of many files, none of which is a model. */
const FOLDER_NAMES: readonly (readonly [RegExp, ForeignFormat])[] = [
  [/\.distcp$|^(?:__\d+)?\.metadata$/, DCP],
  [
    /^zero_pp_rank_\d+_|^mp_rank_\d+_model_states\.pt$|^global_step\d+$|^zero_to_fp32\.py$/,
    DEEPSPEED,
  ],
  [/^manifest\.ocdbt$|^ocdbt\.process_\d+$|^_CHECKPOINT_METADATA$/, ORBAX],
];

/** Usual names of a complete model and of its index, which programs save next to the parts they resume from. */
const MODEL_NAME =
  /^(?:diffusion_pytorch_|pytorch_|adapter_)?model(?:\.[^.]+)?\.(?:bin|safetensors)(?:\.index(?:\.[^.]+)?\.json)?$/;

/** Recognises a folder whose files are parts of a checkpoint; null for others, and for those with a complete model. */
export function formatOfParts(names: readonly string[]): ForeignFormat | null {
  if (names.some((name) => MODEL_NAME.test(name))) return null;
  for (const [pattern, found] of FOLDER_NAMES) {
    if (names.some((name) => pattern.test(name))) return found;
  }
  return null;
}

/** Recognises a folder by the names of its files; null if it knows none. */
export function formatOfFolder(names: readonly string[]): ForeignFormat | null {
  for (const [pattern, found] of FILE_NAMES) {
    if (names.some((name) => pattern.test(name))) return found;
  }
  return null;
}
